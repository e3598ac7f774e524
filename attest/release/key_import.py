"""Transport of a key to a service, sealed to the service's import key.

::

    note     "attest-import-key/v1" newline JSON newline, signed by the service as a C2SP note: its import key
    wrapped  JSON: schema, to (SHA-256 of the import key), key, version, algorithm, policy_sha256, sealed
    sealed   HPKE enc ‖ ciphertext; info is the CBOR of a map of context, audience, tenant, key_id, version, algorithm
             and policy_digest (32 bytes)
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
from attest.release.sealed_key import WorkloadKey, seal
from attest.release.wire import digest_of, read_signed_text, texts_of, wire_invalid

CONTEXT = "attest-import/v2"
SCHEMA = "attest.wrapped-key/2"
_HEAD = "attest-import-key/v1"
_WRAPPED = "wrapped key"
_TEXTS = ("schema", "to", "key", "algorithm", "policy_sha256", "sealed")
MAX_VERSION = 999_999_999


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportTerms:
    """Identity and guard of an imported key, fixed when it is sealed.

    Attributes:
        version: from 1.
        policy_digest: SHA-256 of the policy that will guard it, 32 bytes.
    """

    name: KeyName
    version: int
    algorithm: str
    policy_digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedKey:
    """A sealed key in transit to a service.

    Attributes:
        to: SHA-256 of the recipient's import key, 32 bytes.
        sealed: HPKE ``enc ‖ ciphertext``.
    """

    to: bytes
    terms: ImportTerms
    sealed: bytes

    def to_json(self) -> bytes:
        """Return the content of the file."""
        document: dict[str, JsonValue] = {
            "schema": SCHEMA,
            "to": self.to.hex(),
            "key": str(self.terms.name),
            "version": self.terms.version,
            "algorithm": self.terms.algorithm,
            "policy_sha256": self.terms.policy_digest.hex(),
            "sealed": base64url_text(self.sealed),
        }
        return json.dumps(document, indent=2, sort_keys=True).encode() + b"\n"

    @staticmethod
    def from_json(data: bytes) -> WrappedKey:
        """Parse the content of the file.

        Raises:
            EvidenceError: ``wire-invalid``, ``json-invalid`` or ``base64-invalid``.
        """
        document = json_value(data, what="wrapped key")
        members = dict(document) if isinstance(document, dict) else {}
        version = members.pop("version", None)
        texts = texts_of(members, _TEXTS, what=_WRAPPED)
        if texts["schema"] != SCHEMA:
            raise _invalid(f"expected schema {SCHEMA}")
        if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= MAX_VERSION:
            raise _invalid(f"version: expected an integer from 1 to {MAX_VERSION}")
        try:
            name = KeyName.parse(texts["key"])
        except ConfigurationError as exc:
            raise _invalid(str(exc)) from exc
        policy = digest_of(texts["policy_sha256"], "policy_sha256", what=_WRAPPED)
        return WrappedKey(
            to=digest_of(texts["to"], "to", what=_WRAPPED),
            terms=ImportTerms(name=name, version=version, algorithm=texts["algorithm"], policy_digest=policy),
            sealed=base64url_bytes(texts["sealed"], what="sealed"),
        )


def import_key_text(public_key: bytes) -> str:
    """Return the text that a service signs to name its import key."""
    return f"{_HEAD}\n{json.dumps({'public_key': base64url_text(public_key)})}\n"


def read_import_key(note: str, *, service: VerifierKey) -> bytes:
    """Return the import key that a service signed.

    Raises:
        SignatureError: ``note-signature-invalid``.
        EvidenceError: ``wire-invalid``, ``json-invalid`` or ``base64-invalid``.
    """
    document = read_signed_text(service.verify(note), _HEAD, what="import key")
    return base64url_bytes(texts_of(document, ("public_key",), what="import key")["public_key"], what="public_key")


def wrap_key(
    material: bytes | memoryview, *, import_key: bytes, service: VerifierKey, terms: ImportTerms
) -> WrappedKey:
    """Seal a key to a service as this version of this key under this policy.

    Raises:
        VerificationError: ``recipient-key-invalid``.
    """
    sealed = seal(material, recipient=import_key, info=_info(service, terms))
    return WrappedKey(to=sha256(import_key).digest(), terms=terms, sealed=sealed)


def open_wrapped(wrapped: WrappedKey, *, key: WorkloadKey, service: VerifierKey, terms: ImportTerms) -> bytes:
    """Open a key sealed to this import key, under the terms of its storage.

    Raises:
        BindingError: ``wrapped-key-mismatch``: for another service, key, version, algorithm or policy;
            ``release-not-for-this-exchange``: altered, or sealed under other terms.
    """
    if not hmac.compare_digest(wrapped.to, sha256(key.public).digest()):
        raise _mismatch("to", sha256(key.public).hexdigest(), wrapped.to.hex())
    for field, expected, got in (
        ("key", str(terms.name), str(wrapped.terms.name)),
        ("version", str(terms.version), str(wrapped.terms.version)),
        ("algorithm", terms.algorithm, wrapped.terms.algorithm),
        ("policy_sha256", terms.policy_digest.hex(), wrapped.terms.policy_digest.hex()),
    ):
        if expected != got:
            raise _mismatch(field, expected, got)
    return key.open(wrapped.sealed, info=_info(service, terms))


def _info(service: VerifierKey, terms: ImportTerms) -> bytes:
    return cbor_bytes(
        {
            "context": CONTEXT,
            "audience": service.text,
            "tenant": terms.name.tenant,
            "key_id": terms.name.key_id,
            "version": terms.version,
            "algorithm": terms.algorithm,
            "policy_digest": terms.policy_digest,
        }
    )


def _mismatch(field: str, expected: str, got: str) -> BindingError:
    return BindingError(
        f"the wrapped key is for something else: {field}",
        code="wrapped-key-mismatch",
        field=field,
        expected=expected,
        got=got[:200],
        hint="wrap the key again: for this service, and as the key, version and policy of this import",
    )


def _invalid(problem: str) -> EvidenceError:
    return wire_invalid(_WRAPPED, problem)
