"""Detached signatures over policies, reference values and firmware tables, and how many of them must be there.

What is signed is the purpose (``attest policy v1``, say), a zero byte, and the document's canonical JSON
(RFC 8785). So YAML and JSON of one content have one signature, and no signature made for one purpose serves another.

A signature file names its document (name, version, digest) and its key. These must agree with the document, and only
the signature itself is proof. ``signed_at`` is the signer's note and is not signed.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Final

from attest.encoding import JsonValue, base64_bytes, json_value, rfc3339_text
from attest.errors import ConfigurationError, EvidenceError, SignatureError
from attest.policy.decoder import Section, choice, hex_of, integer, key, moment, refuse, text
from attest.policy.document import canonical_json
from attest.policy.firmware_table import FIRMWARE_SCHEMA, FirmwareTable, decode_firmware_table
from attest.policy.model import SCHEMA, PolicyDocument, decode_policy
from attest.policy.reference_values.reference_documents import (
    REFERENCES_SCHEMA,
    ReferenceDocument,
    decode_reference_document,
)
from attest.policy.signing_keys import (
    ALGORITHMS,
    KINDS,
    PolicyPrivateKey,
    PolicyPublicKey,
    algorithm_of,
    is_signed,
    key_id,
    raw_signature,
)

SIGNATURE_SCHEMA: Final = "attest.policy-signature/1"
MAX_SIGNATURE_BYTES: Final = 16 * 1024
"""Maximum size of a signature file; a real one has about 500 bytes."""
MAX_SIGNATURES: Final = 64
MAX_KEYS: Final = 64
_DOMAINS: Mapping[str, bytes] = {
    SCHEMA: b"attest policy v1\0",
    REFERENCES_SCHEMA: b"attest references v1\0",
    FIRMWARE_SCHEMA: b"attest firmware table v1\0",
}
_HIGHEST_VERSION = (1 << 53) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentIdentity:
    """The identity of a document: its name, its version, and SHA-256 of its canonical JSON."""

    name: str = field(metadata=key(text))
    version: int = field(metadata=key(integer(1, _HIGHEST_VERSION)))
    digest: bytes = field(metadata=key(hex_of(32)))

    def __str__(self) -> str:
        return f"{self.name} version {self.version} ({self.digest.hex()})"


def _base64(value: JsonValue, path: str) -> bytes:
    return base64_bytes(text(value, path), what=path)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSignature:
    """One signature as in its file; nothing of it is trusted yet.

    Attributes:
        key_id: SHA-256 of the key's SubjectPublicKeyInfo, 32 bytes.
        algorithm: one of ``ALGORITHMS``.
        signature: 64 bytes for Ed25519, DER for ECDSA.
        signed_at: when, by the signer's clock; not covered by the signature.
    """

    document: DocumentIdentity
    key_id: bytes = field(metadata=key(hex_of(32)))
    algorithm: str = field(metadata=key(choice(ALGORITHMS)))
    signature: bytes = field(metadata=key(_base64))
    signed_at: datetime = field(metadata=key(moment))


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedSignatures:
    """The signatures that ``verify_signatures`` accepted: enough keys signed.

    Attributes:
        signers: ids of the keys, each once, in the order of the keys that were given.
        ignored: ids of untrusted keys, whose signatures do not count.
    """

    document: DocumentIdentity
    signers: tuple[bytes, ...]
    threshold: int
    ignored: tuple[bytes, ...]


# -- signed bytes


def identity_of(document: JsonValue) -> DocumentIdentity:
    """Return the identity of a document; one that cannot be signed is refused.

    Raises:
        ConfigurationError: ``policy-invalid``.
    """
    signed: ReferenceDocument | FirmwareTable | PolicyDocument
    match _schema(document):
        case schema if schema == REFERENCES_SCHEMA:
            signed = decode_reference_document(document)
        case schema if schema == FIRMWARE_SCHEMA:
            signed = decode_firmware_table(document)
        case _:
            signed = decode_policy(document, incomplete=True)  # a signer need not have the policy's documents
    name, version = signed.name, signed.version
    return DocumentIdentity(name=name, version=version, digest=sha256(canonical_json(document)).digest())


def signed_bytes(document: JsonValue) -> bytes:
    """Return the bytes that a signature covers: the purpose, a zero byte, canonical JSON.

    Raises:
        ConfigurationError: ``policy-invalid``, a document of another schema.
    """
    schema = _schema(document)
    domain = _DOMAINS.get(schema)
    if domain is None:
        raise refuse("schema", " or ".join(map(repr, _DOMAINS)), schema)
    return domain + canonical_json(document)


def _schema(document: JsonValue) -> str:
    schema = document.get("schema") if isinstance(document, dict) else None
    return schema if isinstance(schema, str) else ""


# -- signing


def sign_policy(document: JsonValue, *, key: PolicyPrivateKey, at: datetime) -> DocumentSignature:
    """Sign a policy, a document of reference values or a firmware table.

    A document that does not load is not signed. The signature does not cover ``at``, which is noted beside it; ECDSA is
    deterministic (RFC 6979).

    Raises:
        ConfigurationError: ``policy-invalid``.
        ValueError: another kind of key.
    """
    public = key.public_key()
    algorithm = algorithm_of(public)
    if algorithm is None:
        raise ValueError(f"a policy is signed with {KINDS}")
    identity = identity_of(document)
    return DocumentSignature(
        document=identity,
        key_id=key_id(public),
        algorithm=algorithm,
        signature=raw_signature(key, signed_bytes(document)),
        signed_at=at,
    )


def signature_json(signature: DocumentSignature) -> dict[str, JsonValue]:
    """Write a signature as its file has it."""
    return {
        "schema": SIGNATURE_SCHEMA,
        "name": signature.document.name,
        "version": signature.document.version,
        "digest": signature.document.digest.hex(),
        "key_id": signature.key_id.hex(),
        "algorithm": signature.algorithm,
        "signature": base64.b64encode(signature.signature).decode(),
        "signed_at": rfc3339_text(signature.signed_at),
    }


def read_signature(data: bytes) -> DocumentSignature:
    """Read a signature file.

    Raises:
        ConfigurationError: ``policy-signature-unreadable``.
    """
    if len(data) > MAX_SIGNATURE_BYTES:
        raise _unreadable(f"{len(data)} bytes, more than {MAX_SIGNATURE_BYTES}")
    try:
        return _decode_signature(json_value(data, what="signature"))
    except (EvidenceError, ConfigurationError) as exc:
        raise _unreadable(exc.message) from exc


def _decode_signature(document: JsonValue) -> DocumentSignature:
    section = Section(document, "")
    section.required("schema", choice([SIGNATURE_SCHEMA]))
    found = section.record(DocumentSignature, document=section.record(DocumentIdentity))
    section.finish()
    return found


def _unreadable(problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"signature cannot be read: {problem}",
        code="policy-signature-unreadable",
        hint="'attest policy sign' writes signature files",
    )


# -- verifying


def verify_signatures(
    document: JsonValue,
    *,
    signatures: Iterable[DocumentSignature],
    keys: Iterable[PolicyPublicKey],
    threshold: int,
) -> VerifiedSignatures:
    """Require that enough of these keys signed this document.

    A key counts once, however many signatures of it there are. Signatures of other keys do not count. A signature that
    claims one of these keys and does not verify, or that is over another document, refuses.

    ``threshold`` is the required number of signers: 1 to the number of different keys.

    Raises:
        ConfigurationError: ``policy-invalid``, or ``policy-threshold-invalid``.
        SignatureError: ``policy-signature-mismatch``, ``policy-signature-invalid`` or ``policy-signatures-missing``.
    """
    trusted = {key_id(key): key for key in keys}
    _require_threshold(threshold, len(trusted))
    identity, message = identity_of(document), signed_bytes(document)
    signed: set[bytes] = set()
    ignored: dict[bytes, None] = {}
    for signature in _bounded(signatures):
        _require_same(signature, identity)
        key = trusted.get(signature.key_id)
        if key is None:
            ignored[signature.key_id] = None
            continue
        _require_valid(signature, key, message)
        signed.add(signature.key_id)
    if len(signed) < threshold:
        raise _missing(len(signed), threshold, len(trusted), ignored)
    signers = tuple(one for one in trusted if one in signed)
    return VerifiedSignatures(document=identity, signers=signers, threshold=threshold, ignored=tuple(ignored))


def _require_threshold(threshold: int, keys: int) -> None:
    if not 1 <= threshold <= keys <= MAX_KEYS:
        expected = f"1 to the number of different keys ({keys}), which is at most {MAX_KEYS}"
        raise ConfigurationError(
            f"threshold: expected {expected}, got {threshold}",
            code="policy-threshold-invalid",
            expected=expected,
            got=str(threshold),
            hint="a key that is given twice counts once",
        )


def _bounded(signatures: Iterable[DocumentSignature]) -> tuple[DocumentSignature, ...]:
    """Bound the work: each signature costs a check."""
    found = tuple(signatures)
    if len(found) > MAX_SIGNATURES:
        raise ConfigurationError(
            f"{len(found)} signatures, more than {MAX_SIGNATURES}",
            code="policy-signature-unreadable",
            hint="give only the signatures of your keys",
        )
    return found


def _require_same(signature: DocumentSignature, identity: DocumentIdentity) -> None:
    if signature.document != identity:
        raise SignatureError(
            f"a signature is over another document: expected {identity}, got {signature.document}",
            code="policy-signature-mismatch",
            expected=str(identity),
            got=str(signature.document),
            hint="have this version of the document signed",
        )


def _require_valid(signature: DocumentSignature, key: PolicyPublicKey, message: bytes) -> None:
    """Check one signature. Any ECDSA signature that verifies will do: it counts for its key, and once."""
    name = signature.key_id.hex()
    if signature.algorithm != algorithm_of(key):
        raise _invalid(f"key {name} does not sign with {signature.algorithm}")
    if not is_signed(key, signature.signature, message):
        raise _invalid(f"the signature of key {name} does not verify")


def _invalid(problem: str) -> SignatureError:
    return SignatureError(problem, code="policy-signature-invalid", hint="do not use this document or this signature")


def _missing(signed: int, threshold: int, keys: int, ignored: Iterable[bytes]) -> SignatureError:
    others = ", ".join(one.hex() for one in ignored)
    return SignatureError(
        f"expected signatures of {threshold} of {keys} keys, got {signed}"
        + (f"; not among the keys: {others}" if others else ""),
        code="policy-signatures-missing",
        expected=f"{threshold} of {keys}",
        got=str(signed),
        hint="have the document signed by the others too",
    )


def require_newer(document: DocumentIdentity, *, than: int | DocumentIdentity) -> None:
    """Require a newer version: an old document has valid signatures too.

    ``than`` is the version in use, or the document in use, which must have the same name.

    Raises:
        ConfigurationError: ``policy-name-differs``.
        SignatureError: ``policy-rolled-back``.
    """
    version = than.version if isinstance(than, DocumentIdentity) else than
    if isinstance(than, DocumentIdentity) and than.name != document.name:
        raise ConfigurationError(
            f"expected a version of {than.name!r}, got {document.name!r}",
            code="policy-name-differs",
            expected=than.name,
            got=document.name,
            hint="versions of different documents are not compared",
        )
    if document.version <= version:
        raise SignatureError(
            f"{document.name}: expected a version above {version}, got {document.version}",
            code="policy-rolled-back",
            expected=f"above {version}",
            got=str(document.version),
            clause="docs/policy.md",
            hint="raise the version with every change; an older policy is signed again under a new version",
        )
