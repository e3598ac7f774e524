"""Bringing a key to a service without anybody on the way seeing it: sealed to the service's import key.

::

    note     "attest-import-key/v1" newline JSON newline, signed by the service as a C2SP note: its import key
    wrapped  JSON: schema, to (SHA-256 of the import key), key, algorithm, sealed
    sealed   HPKE enc ‖ ciphertext; info is the CBOR of a map of context, audience, tenant, key_id and algorithm
"""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass
from hashlib import sha256

from attest.encoding import JsonValue, base64url_bytes, base64url_text, cbor_bytes, json_value
from attest.errors import BindingError, ConfigurationError, EvidenceError
from attest.release.names import KeyName
from attest.release.notes import VerifierKey
from attest.release.sealing import WorkloadKey, seal

__all__ = ["WrappedKey", "import_key_text", "open_wrapped", "read_import_key", "wrap_key"]

CONTEXT = "attest-import/v1"
SCHEMA = "attest.wrapped-key/1"
_HEAD = "attest-import-key/v1"
_MEMBERS = ("schema", "to", "key", "algorithm", "sealed")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedKey:
    """A key on its way to a service.

    Attributes:
        to: SHA-256 of the import key that it is sealed to, 32 bytes.
        name: what the key is to be called.
        algorithm: what it is.
        sealed: HPKE ``enc ‖ ciphertext``.
    """

    to: bytes
    name: KeyName
    algorithm: str
    sealed: bytes

    def to_json(self) -> bytes:
        """Return the file."""
        document: dict[str, JsonValue] = {
            "schema": SCHEMA,
            "to": self.to.hex(),
            "key": str(self.name),
            "algorithm": self.algorithm,
            "sealed": base64url_text(self.sealed),
        }
        return json.dumps(document, indent=2, sort_keys=True).encode() + b"\n"

    @staticmethod
    def from_json(data: bytes) -> WrappedKey:
        """Read the file.

        Raises:
            EvidenceError: ``wire-invalid``, ``json-invalid`` or ``base64-invalid``.
        """
        document = json_value(data, what="wrapped key")
        members = document if isinstance(document, dict) else {}
        texts = {name: value for name, value in members.items() if isinstance(value, str)}
        if set(members) != set(_MEMBERS) or len(texts) != len(members) or texts["schema"] != SCHEMA:
            raise _invalid(f"expected schema {SCHEMA} with exactly the texts {', '.join(_MEMBERS)}")
        try:
            to, name = bytes.fromhex(texts["to"]), KeyName.parse(texts["key"])
        except (ValueError, ConfigurationError) as exc:
            raise _invalid(str(exc)) from exc
        sealed = base64url_bytes(texts["sealed"], what="sealed")
        return WrappedKey(to=to, name=name, algorithm=texts["algorithm"], sealed=sealed)


def import_key_text(public_key: bytes) -> str:
    """Return the text by which a service names its import key; it signs it."""
    return f"{_HEAD}\n{json.dumps({'public_key': base64url_text(public_key)})}\n"


def read_import_key(note: str, *, service: VerifierKey) -> bytes:
    """Return the import key that a service signed.

    Raises:
        SignatureError: ``note-signature-invalid``.
        EvidenceError: ``wire-invalid``, ``json-invalid`` or ``base64-invalid``.
    """
    head, _, body = service.verify(note).partition("\n")
    document = json_value(body.encode(), what="import key") if head == _HEAD else None
    text = document.get("public_key") if isinstance(document, dict) and len(document) == 1 else None
    if not isinstance(text, str):
        raise _invalid(f"expected {_HEAD} with a public_key")
    return base64url_bytes(text, what="public_key")


def wrap_key(
    material: bytes | memoryview, *, import_key: bytes, service: VerifierKey, name: KeyName, algorithm: str
) -> WrappedKey:
    """Seal a key to a service, as this key and for nothing else.

    Raises:
        VerificationError: ``recipient-key-invalid``.
    """
    sealed = seal(material, recipient=import_key, info=_info(service, name, algorithm))
    return WrappedKey(to=sha256(import_key).digest(), name=name, algorithm=algorithm, sealed=sealed)


def open_wrapped(
    wrapped: WrappedKey, *, key: WorkloadKey, service: VerifierKey, name: KeyName, algorithm: str
) -> bytes:
    """Open what was sealed to this import key, as this key.

    Raises:
        BindingError: ``wrapped-key-mismatch``: it is for another service, another key or another algorithm;
            ``release-not-for-this-exchange``: it was altered, or is not what it says.
    """
    if not hmac.compare_digest(wrapped.to, sha256(key.public).digest()):
        raise _mismatch("to", sha256(key.public).hexdigest(), wrapped.to.hex())
    if wrapped.name != name:
        raise _mismatch("key", str(name), str(wrapped.name))
    if wrapped.algorithm != algorithm:
        raise _mismatch("algorithm", algorithm, wrapped.algorithm)
    return key.open(wrapped.sealed, info=_info(service, name, algorithm))


def _info(service: VerifierKey, name: KeyName, algorithm: str) -> bytes:
    return cbor_bytes(
        {
            "context": CONTEXT,
            "audience": service.text,
            "tenant": name.tenant,
            "key_id": name.key_id,
            "algorithm": algorithm,
        }
    )


def _mismatch(field: str, expected: str, got: str) -> BindingError:
    return BindingError(
        f"the wrapped key is for something else: {field}",
        code="wrapped-key-mismatch",
        field=field,
        expected=expected,
        got=got[:200],
        hint="wrap the key again: for this service, under the name that it is imported as",
    )


def _invalid(problem: str) -> EvidenceError:
    return EvidenceError(f"wrapped key: {problem}", code="wire-invalid", field="wrapped key")
