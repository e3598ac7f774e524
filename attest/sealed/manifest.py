"""``sealed.json``: metadata beside the signature over ciphertext. JSON in its canonical form (RFC 8785).

::

    {"schema": "attest.sealed/1", "cipher": "AES256_GCM_HKDF_1MB",
     "model": 32 hex digits,                                  random; part of every file's associated data
     "key": {"tenant", "key_id", "version", "wrapped"},       reference of the released key, and the encrypted data key
     "kms": {"origin", "vkey", "url"?} | absent, "policy_sha256"?, "creator"?, "created_at"?,
     "files": [{"path", "size", "sealed", "sealed_size", "header", "sha256"?}…]}             in the order of their paths

    header          = base64url of the first 40 bytes of the sealed file

    wrapped         = base64url of nonce (12) ‖ AES-256-GCM(k, nonce, data key (32), no associated data)
    k               = HKDF-SHA256(ikm = released key, salt = model identity, info = context, 32 bytes)
    context         = CBOR map: context "attest-sealed-key/v1", tenant, key_id, version, kms (the vkey or null)
    associated data = "attest sealed v1" NUL ‖ model identity (16) ‖ NUL ‖ path in UTF-8

Every file is encrypted under the data key, which is unique to this directory. Another released key means another
``wrapped`` and another signature, and no new ciphertext.

A header is unique to one encryption, and determines the key of its file: with the header the owner signs the content.
Without it, remains of an interrupted sealing could replace the signed file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, cast

import rfc8785

from attest.encoding import (
    JsonValue,
    base64url_bytes,
    base64url_text,
    hex_bytes,
    json_value,
    rfc3339,
    rfc3339_text,
)
from attest.errors import AttestError, SealedFileError
from attest.release.names import KeyName, KeyReference
from attest.release.notes import VerifierKey
from attest.sealed.cipher import KEY_BYTES
from attest.sealed.layout import HEADER_BYTES, ciphertext_size
from attest.sealed.names import MAX_FILES, names_problem

MANIFEST_NAME: Final = "sealed.json"
MAX_MANIFEST_BYTES: Final = 64 * 1024 * 1024
SEALED_SUFFIX: Final = ".sealed"
MODEL_ID_BYTES: Final = 16
MAX_CREATOR_CHARACTERS: Final = 200
MAX_URL_CHARACTERS: Final = 2000

_SCHEMA = "attest.sealed/1"
_CIPHER = "AES256_GCM_HKDF_1MB"
_WRAPPED_BYTES = 12 + KEY_BYTES + 16  # nonce, ciphertext and tag; see data_key.py
_Members = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedEntry:
    """One file of a sealed model.

    Attributes:
        size: of its plaintext, bytes.
        sealed: name in the sealed directory.
        sealed_size: of its ciphertext, bytes; determined by ``size``.
        header: first 40 bytes of the sealed file, which identify this encryption.
        sha256: of its plaintext; None if the owner omits fingerprints.
    """

    path: str
    size: int
    sealed: str
    sealed_size: int
    header: bytes
    sha256: bytes | None = None

    @staticmethod
    def of(path: str, *, size: int, header: bytes, sha256: bytes | None = None) -> SealedEntry:
        """Return an entry with the name and size that sealing produces."""
        return SealedEntry(
            path=path,
            size=size,
            sealed=path + SEALED_SUFFIX,
            sealed_size=ciphertext_size(size),
            header=header,
            sha256=sha256,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedManifest:
    """A sealed directory's description of itself, untrusted until its signature is verified.

    Attributes:
        model: 16 random bytes that identify this sealing of the model.
        key: reference of the released key, with its version.
        wrapped_key: the data key, encrypted under the released key.
        files: in the order of their paths.
        service: verifier key of the key-release service; None without one.
        service_url: address of the service, which is no reason for trust.
        policy_digest: SHA-256 of the owner's policy for the release of the key.
    """

    model: bytes
    key: KeyReference
    wrapped_key: bytes = field(repr=False)
    files: tuple[SealedEntry, ...]
    service: VerifierKey | None = None
    service_url: str | None = None
    policy_digest: bytes | None = None
    creator: str | None = None
    created_at: datetime | None = None

    def __post_init__(self) -> None:
        """Refuse invalid members (``SealedFileError``: ``sealed-manifest-malformed``)."""
        _require(len(self.model) == MODEL_ID_BYTES, "model", f"{MODEL_ID_BYTES} bytes")
        _require(self.key.version is not None, "key.version", "a version")
        _require(len(self.wrapped_key) == _WRAPPED_BYTES, "key.wrapped", f"{_WRAPPED_BYTES} bytes")
        _require(self.policy_digest is None or len(self.policy_digest) == 32, "policy_sha256", "32 bytes")
        _require(self.service_url is None or self.service is not None, "kms.url", "a vkey beside it")
        _require(_is_line(self.creator, MAX_CREATOR_CHARACTERS), "creator", "one line of text")
        _require(_is_line(self.service_url, MAX_URL_CHARACTERS), "kms.url", "one line of text")
        _require_files(self.files)

    def entry(self, path: str) -> SealedEntry | None:
        """Return the file with this path, or None."""
        return next((one for one in self.files if one.path == path), None)

    def to_bytes(self) -> bytes:
        """Return the canonical form."""
        name = self.key.name
        document: dict[str, JsonValue] = {
            "schema": _SCHEMA,
            "cipher": _CIPHER,
            "model": self.model.hex(),
            "key": {
                "tenant": name.tenant,
                "key_id": name.key_id,
                "version": self.key.version,
                "wrapped": base64url_text(self.wrapped_key),
            },
            "files": [_entry_document(one) for one in self.files],
        }
        if self.service is not None:
            kms: dict[str, JsonValue] = {"origin": self.service.name, "vkey": self.service.text}
            document["kms"] = kms if self.service_url is None else {**kms, "url": self.service_url}
        if self.policy_digest is not None:
            document["policy_sha256"] = self.policy_digest.hex()
        if self.creator is not None:
            document["creator"] = self.creator
        if self.created_at is not None:
            document["created_at"] = rfc3339_text(self.created_at)
        return rfc8785.dumps(cast("dict[str, Any]", document))  # Any: JSON

    @staticmethod
    def parse(raw: bytes) -> SealedManifest:
        """Parse a manifest, in its canonical form only.

        Raises:
            SealedFileError: ``sealed-manifest-malformed``, or ``sealed-manifest-unsupported``: another version.
        """
        _require(len(raw) <= MAX_MANIFEST_BYTES, MANIFEST_NAME, f"at most {MAX_MANIFEST_BYTES} bytes")
        try:
            manifest = _read_manifest(json_value(raw, what=MANIFEST_NAME))
        except SealedFileError:
            raise
        except AttestError as exc:  # from names, keys, hex, base64 and times
            raise _malformed(exc.field or MANIFEST_NAME, exc.message) from exc
        _require(manifest.to_bytes() == raw, MANIFEST_NAME, "its canonical form")
        return manifest


def associated_data(model: bytes, path: str) -> bytes:
    """Return a file's associated data: this path in this model."""
    return b"attest sealed v1\0" + model + b"\0" + path.encode()


def _read_manifest(value: JsonValue) -> SealedManifest:
    if isinstance(value, dict) and value.get("schema", _SCHEMA) != _SCHEMA:
        raise SealedFileError(
            f"{MANIFEST_NAME} is of another version than {_SCHEMA}",
            code="sealed-manifest-unsupported",
            field="schema",
            expected=_SCHEMA,
            got=str(value["schema"])[:80],
            hint="use the version of attest that sealed it, or a newer one",
        )
    optional = {"kms", "policy_sha256", "creator", "created_at"}
    top = _object(value, MANIFEST_NAME, {"schema", "cipher", "model", "key", "files"}, optional=optional)
    _require(top["cipher"] == _CIPHER, "cipher", _CIPHER)
    key = _object(top["key"], "key", {"tenant", "key_id", "version", "wrapped"})
    name = KeyName(tenant=_text(key["tenant"], "key.tenant"), key_id=_text(key["key_id"], "key.key_id"))
    version = _number(key["version"], "key.version", least=1, most=999_999_999)
    service, url = _read_service(top)
    policy, created = _optional_text(top, "policy_sha256"), _optional_text(top, "created_at")
    return SealedManifest(
        model=hex_bytes(_text(top["model"], "model"), what="model", length=MODEL_ID_BYTES),
        key=KeyReference(name=name, version=version),
        wrapped_key=base64url_bytes(_text(key["wrapped"], "key.wrapped"), what="key.wrapped"),
        files=_read_files(top["files"]),
        service=service,
        service_url=url,
        policy_digest=None if policy is None else hex_bytes(policy, what="policy_sha256", length=32),
        creator=_optional_text(top, "creator"),
        created_at=None if created is None else rfc3339(created, what="created_at"),
    )


def _read_service(top: _Members) -> tuple[VerifierKey | None, str | None]:
    if "kms" not in top:
        return None, None
    kms = _object(top["kms"], "kms", {"origin", "vkey"}, optional={"url"})
    service = VerifierKey.parse(_text(kms["vkey"], "kms.vkey"))
    _require(kms["origin"] == service.name, "kms.origin", "the name in its vkey")
    return service, _optional_text(kms, "url")


def _read_files(value: JsonValue) -> tuple[SealedEntry, ...]:
    if not isinstance(value, list) or len(value) >= MAX_FILES:
        raise _malformed("files", f"expected a list of fewer than {MAX_FILES} files")
    return tuple(_read_entry(one, f"files[{at}]") for at, one in enumerate(value))


def _read_entry(value: JsonValue, where: str) -> SealedEntry:
    one = _object(value, where, {"path", "size", "sealed", "sealed_size", "header"}, optional={"sha256"})
    digest = _optional_text(one, "sha256")
    return SealedEntry(
        path=_text(one["path"], f"{where}.path"),
        size=_number(one["size"], f"{where}.size"),
        sealed=_text(one["sealed"], f"{where}.sealed"),
        sealed_size=_number(one["sealed_size"], f"{where}.sealed_size"),
        header=base64url_bytes(_text(one["header"], f"{where}.header"), what=f"{where}.header"),
        sha256=None if digest is None else hex_bytes(digest, what=f"{where}.sha256", length=32),
    )


def _entry_document(entry: SealedEntry) -> dict[str, JsonValue]:
    document: dict[str, JsonValue] = {
        "path": entry.path,
        "size": entry.size,
        "sealed": entry.sealed,
        "sealed_size": entry.sealed_size,
        "header": base64url_text(entry.header),
    }
    return document if entry.sha256 is None else {**document, "sha256": entry.sha256.hex()}


def _require_files(files: tuple[SealedEntry, ...]) -> None:
    for which in ("path", "sealed"):
        problem = names_problem(getattr(one, which) for one in files)
        if problem is not None:
            raise SealedFileError(
                f"{MANIFEST_NAME} names a file that is refused: {problem}",
                code="sealed-name-unsafe",
                field=f"files[].{which}",
                expected="safe relative names, each once",
                got=problem,
            )
    _require([one.path for one in files] == sorted(one.path for one in files), "files", "the order of their paths")
    for one in files:
        # A sealed name cannot equal the manifest's or the signature's, which have other suffixes.
        _require(one.sealed.endswith(SEALED_SUFFIX), one.path[:200], f"a sealed name that ends in {SEALED_SUFFIX}")
        _require(one.size >= 0 and one.sealed_size == ciphertext_size(one.size), one.path[:200], "sizes that agree")
        _require(len(one.header) == HEADER_BYTES and one.header[0] == HEADER_BYTES, one.path[:200], "a file's header")


def _is_line(text: str | None, longest: int) -> bool:
    return text is None or (0 < len(text) <= longest and text.isprintable())


def _object(value: JsonValue, where: str, names: set[str], *, optional: Collection[str] = ()) -> _Members:
    if not isinstance(value, dict) or not names <= value.keys() <= names | set(optional):
        raise _malformed(where, f"expected an object with {', '.join(sorted(names))}")
    return value


def _text(value: JsonValue, where: str) -> str:
    if not isinstance(value, str):
        raise _malformed(where, "expected text")
    return value


def _optional_text(members: _Members, name: str) -> str | None:
    return _text(members[name], name) if name in members else None


def _number(value: JsonValue, where: str, *, least: int = 0, most: int = (1 << 53) - 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _malformed(where, f"expected an integer from {least} to {most}")
    return value


def _require(holds: bool, field_name: str, expected: str) -> None:  # noqa: FBT001  its only condition
    if not holds:
        raise _malformed(field_name, f"expected {expected}")


def _malformed(field_name: str, problem: str) -> SealedFileError:
    return SealedFileError(
        f"{MANIFEST_NAME}: {field_name}: {problem}",
        code="sealed-manifest-malformed",
        field=field_name,
        expected=problem.removeprefix("expected "),
    )
