"""What a CryptoTensors file says of itself, verified: whose signature, under which policy, how tensors are encrypted.

A CryptoTensors file is a safetensors file with four texts among its metadata, each JSON::

    __crypto_keys__   {"version": "1" | "2", "chunk_size"?, "enc": {"alg", "kid"?, …}, "sign": {"alg": "ed25519", …}}
    __encryption__    {tensor: {"wrapped_key", "key_iv", "key_tag", "iv", "tag"}}              version 1
                      {tensor: {"wrapped_key", "key_iv", "key_tag", "base_iv", "tags"}}        version 2
    __policy__        {"local": Rego, "remote": Rego}
    __signature__     base64 of Ed25519 over the header without this member, in compact JSON

The header is signed, and the tags of all ciphertext are in it: so nothing can be exchanged that the signer did not see.
What the format leaves open is decided here: the signer is one that the caller names, never one that the header names
or tells to fetch (``jku``); the header has to be spelled exactly as it is signed; a tensor that is not encrypted is
covered by nothing and is refused.

Spec: CryptoTensors, FORMAT.md; its package in version 0.2.3.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, NoReturn, cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from attest.encoding import JsonValue, base64_bytes, json_value
from attest.errors import AppraisalError, EvidenceError, SealedFileError, SignatureError
from attest.sealed.tensor_header import METADATA, TensorHeader, TensorInfo

__all__ = [
    "ALGORITHMS",
    "ALWAYS_ALLOW",
    "LocalPolicy",
    "TensorEncryption",
    "VerifiedCryptoTensors",
    "verify_cryptotensors",
]

ALWAYS_ALLOW: Final = "package model\nallow = true"
"""The policy of a file whose owner gave none; the only one that needs no engine."""
ALGORITHMS: Final[Mapping[str, int]] = MappingProxyType({"aes128gcm": 16, "aes256gcm": 32, "chacha20poly1305": 32})
"""Names of ciphers, and the bytes of their keys."""
TAG_BYTES: Final = 16
IV_BYTES: Final = 12
MAX_CHUNK_BYTES: Final = 1 << 30
COUNTER_LIMIT: Final = 1 << 32
"""The last four bytes of a nonce count chunks."""

_RESERVED: Final = ("__crypto_keys__", "__encryption__", "__policy__", "__signature__")
_COMMON: Final = frozenset({"wrapped_key", "key_iv", "key_tag"})
_MEMBERS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {"1": _COMMON | {"iv", "tag"}, "2": _COMMON | {"base_iv", "tags"}}
)

LocalPolicy = Callable[[str], bool]
"""Gets the text of the local policy, and says whether ``data.model.allow`` is true. The format gives it no input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorEncryption:
    """How one tensor is encrypted.

    Attributes:
        wrapped_key: its key, encrypted under the master key, tag behind it.
        key_iv: nonce of that, 12 bytes.
        iv: nonce of the data, 12 bytes; of version 2 the first chunk's. Empty for an empty tensor of version 1.
        tags: 16 bytes for each chunk, one behind the other; version 1 has one chunk.
    """

    wrapped_key: bytes = field(repr=False)
    key_iv: bytes
    iv: bytes
    tags: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedCryptoTensors:
    """A header that a trusted key signed and whose policy allows. Only ``verify_cryptotensors`` makes it.

    Attributes:
        version: of the format.
        algorithm: one of ``ALGORITHMS``, for keys and data alike.
        key_id: which master key, in the writer's words; None where it says nothing.
        chunk_size: bytes of a chunk; None in version 1, where a tensor is one.
        encryption: by tensor; those that are missing are not encrypted.
        remote_policy: under which the owner wants a service to release the key; not evaluated here.
        metadata: the writer's own.
    """

    version: Literal["1", "2"]
    algorithm: str
    key_id: str | None
    chunk_size: int | None
    encryption: Mapping[str, TensorEncryption]
    remote_policy: str
    metadata: Mapping[str, str]


def verify_cryptotensors(
    raw: bytes,
    header: TensorHeader,
    *,
    trusted: Collection[Ed25519PublicKey],
    policy: LocalPolicy | None = None,
) -> VerifiedCryptoTensors:
    """Verify a header: the signature first, then everything that it says.

    Args:
        raw: the header as it stands in the file, spaces behind it included.
        header: the same, parsed.
        trusted: keys whose signatures count; none accepts nothing.
        policy: evaluates a policy that is not the one that always allows.

    Raises:
        SealedFileError: ``cryptotensors-malformed`` or ``cryptotensors-unsupported``.
        SignatureError: ``cryptotensors-signature-invalid``.
        AppraisalError: ``cryptotensors-policy-denied`` or ``cryptotensors-policy-not-evaluated``.
    """
    texts = header.metadata
    if "__encryption__" not in texts:
        raise malformed(
            "__encryption__", "to be there", "nothing: this is a safetensors file, but no CryptoTensors file"
        )
    for name in _RESERVED:
        if name not in texts:
            _refuse(name, "to be there", "nothing")
    # (1) One of the trusted keys signed this header, byte for byte.
    _require_signature(_signed_bytes(raw), _base64(texts["__signature__"], "__signature__"), trusted)
    # (2) Its policy allows loading.
    local, remote = _policies(texts["__policy__"])
    _require_allowed(local, policy)
    # (3) What it says of keys and tensors is whole.
    keys = _object(_json(texts["__crypto_keys__"], "__crypto_keys__"), "__crypto_keys__")
    version = _version(keys)
    enc = _object(keys.get("enc"), "__crypto_keys__.enc")
    algorithm, key_id = enc.get("alg"), enc.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise _unsupported("__crypto_keys__.enc.alg", ", ".join(ALGORITHMS), repr(algorithm))
    chunk_size = _chunk_size(keys) if version == "2" else None
    sizes = _Sizes(version=version, chunk=chunk_size, key=ALGORITHMS[algorithm])
    entries = _object(_json(texts["__encryption__"], "__encryption__"), "__encryption__")
    return VerifiedCryptoTensors(
        version=version,
        algorithm=algorithm,
        key_id=key_id if isinstance(key_id, str) else None,
        chunk_size=chunk_size,
        encryption=MappingProxyType(
            {name: _encryption(name, entry, header.tensors.get(name), sizes) for name, entry in entries.items()}
        ),
        remote_policy=remote,
        metadata=MappingProxyType({name: text for name, text in texts.items() if name not in _RESERVED}),
    )


def chunk_count(size: int, chunk_size: int | None) -> int:
    """Return how many chunks a tensor of so many bytes has; one where there are none in the format."""
    return 1 if chunk_size is None else max(1, -(-size // chunk_size))


def _signed_bytes(raw: bytes) -> bytes:
    """Return what is signed: the header without its signature. It has to be spelled as the writer spells it.

    Raises:
        SealedFileError: ``cryptotensors-malformed``: spelled in another way, so that two readers could differ.
    """
    document = cast("dict[str, Any]", json_value(raw.rstrip(b" "), what="header"))  # Any: JSON, an object by now
    if _compact(document) != raw.rstrip(b" "):
        _refuse("header", "compact JSON, as it is signed", "another spelling")
    document[METADATA] = {name: text for name, text in document[METADATA].items() if name != "__signature__"}
    return _compact(document)


def _compact(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _require_signature(signed: bytes, signature: bytes, trusted: Collection[Ed25519PublicKey]) -> None:
    for key in trusted:
        try:
            key.verify(signature, signed)
        except InvalidSignature:
            continue
        return
    raise SignatureError(
        f"none of the {len(trusted)} trusted keys signed this header",
        code="cryptotensors-signature-invalid",
        field="__signature__",
        expected="Ed25519 of a trusted key over the header",
        clause="CryptoTensors, section __signature__",
        hint="name the public key of whoever made the file; the header's own words about it prove nothing",
    )


def _policies(text: str) -> tuple[str, str]:
    policies = _object(_json(text, "__policy__"), "__policy__")
    local, remote = policies.get("local"), policies.get("remote")
    if policies.keys() != {"local", "remote"} or not isinstance(local, str) or not isinstance(remote, str):
        _refuse("__policy__", "two texts, local and remote", "something else")
    return local, remote


def _require_allowed(local: str, policy: LocalPolicy | None) -> None:
    if local == ALWAYS_ALLOW:
        return
    if policy is None:
        raise AppraisalError(
            "the file has a policy of its own, and nothing here evaluates it",
            code="cryptotensors-policy-not-evaluated",
            field="__policy__.local",
            hint="give a function that evaluates data.model.allow of the policy's text",
        )
    if policy(local) is not True:
        raise AppraisalError(
            "the file's own policy does not allow loading it",
            code="cryptotensors-policy-denied",
            field="__policy__.local",
        )


def _version(keys: Mapping[str, JsonValue]) -> Literal["1", "2"]:
    match keys.get("version"):
        case "1":
            return "1"
        case "2":
            return "2"
        case other:
            raise _unsupported("__crypto_keys__.version", "1 or 2", repr(other)[:80])


def _chunk_size(keys: Mapping[str, JsonValue]) -> int:
    size = keys.get("chunk_size")
    if type(size) is not int or not 1 <= size <= MAX_CHUNK_BYTES:
        _refuse("__crypto_keys__.chunk_size", f"1 to {MAX_CHUNK_BYTES}", repr(size)[:80])
    return size


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    """What decides how long everything is: version, bytes of a chunk, bytes of a key."""

    version: str
    chunk: int | None
    key: int


def _encryption(name: str, entry: JsonValue, info: TensorInfo | None, sizes: _Sizes) -> TensorEncryption:
    where = f"__encryption__.{name[:200]}"
    if info is None:
        _refuse(where, "a tensor of the file", "another name")
    members = _object(entry, where)
    if members.keys() != _MEMBERS[sizes.version]:
        _refuse(where, ", ".join(sorted(_MEMBERS[sizes.version])), ", ".join(sorted(members))[:200])
    texts = {one: _base64(text, f"{where}.{one}") for one, text in members.items()}
    iv, tags = (texts["iv"], texts["tag"]) if sizes.version == "1" else (texts["base_iv"], texts["tags"])
    count = chunk_count(info.nbytes, sizes.chunk)
    # Version 1 encrypts nothing where there is nothing: no nonce, no tag.
    nothing = sizes.version == "1" and info.nbytes == 0
    expected = {
        "wrapped_key": (texts["wrapped_key"], sizes.key),
        "key_iv": (texts["key_iv"], IV_BYTES),
        "key_tag": (texts["key_tag"], TAG_BYTES),
        "iv": (iv, 0 if nothing else IV_BYTES),
        "tags": (tags, 0 if nothing else count * TAG_BYTES),
    }
    for one, (value, length) in expected.items():
        if len(value) != length:
            _refuse(f"{where}.{one}", f"{length} bytes", str(len(value)))
    if int.from_bytes(iv[8:], "big") + count > COUNTER_LIMIT:
        _refuse(where, "a nonce whose counter does not run over", f"{count} chunks from {iv[8:].hex()}")
    return TensorEncryption(
        wrapped_key=texts["wrapped_key"] + texts["key_tag"], key_iv=texts["key_iv"], iv=iv, tags=tags
    )


def _json(text: str, where: str) -> JsonValue:
    try:
        return json_value(text.encode(), what=where)
    except EvidenceError as exc:
        raise malformed(where, "one strict JSON document", exc.message) from exc


def _object(value: JsonValue, where: str) -> Mapping[str, JsonValue]:
    if not isinstance(value, dict):
        _refuse(where, "an object", "nothing" if value is None else type(value).__name__)
    return value


def _base64(text: JsonValue, where: str) -> bytes:
    if not isinstance(text, str):
        _refuse(where, "base64", type(text).__name__)
    try:
        return base64_bytes(text, what=where) if text else b""
    except EvidenceError as exc:
        raise malformed(where, "base64", exc.message) from exc


def _refuse(where: str, expected: str, got: str) -> NoReturn:
    raise malformed(where, expected, got)


def malformed(where: str, expected: str, got: str) -> SealedFileError:
    """Return the error for what is no CryptoTensors file."""
    return SealedFileError(
        f"CryptoTensors: {where}: expected {expected}, got {got[:200]}",
        code="cryptotensors-malformed",
        field=where,
        expected=expected,
        got=got[:200],
        clause="CryptoTensors, FORMAT.md",
    )


def _unsupported(where: str, expected: str, got: str) -> SealedFileError:
    return SealedFileError(
        f"CryptoTensors: {where}: this version knows {expected}, not {got}",
        code="cryptotensors-unsupported",
        field=where,
        expected=expected,
        got=got,
    )
