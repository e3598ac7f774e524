"""Signed documents, verified under the known keys: reference values, and tables of firmware floors."""

from __future__ import annotations

from collections.abc import Iterable

from attest.errors import ConfigurationError, InvalidValueError, SignatureError
from attest.policy.document import placed, read_document
from attest.policy.firmware_table import FirmwareTable, decode_firmware_table
from attest.policy.reference_values.reference_documents import ReferenceDocument, decode_reference_document
from attest.policy.signatures import DocumentIdentity, DocumentSignature, require_newer, verify_signatures
from attest.policy.signing_keys import PolicyPublicKey


def read_signed_document(
    data: bytes, *, signatures: Iterable[DocumentSignature], keys: Iterable[PolicyPublicKey], name: str
) -> ReferenceDocument:
    """Read a document, and verify its signatures under these keys.

    Signatures that name other documents are ignored. Each policy decides which of the keys it requires.

    Raises:
        ConfigurationError: ``policy-unreadable`` or ``policy-invalid``; ``references-not-accepted``, a signature that
            claims one of the keys does not hold.
    """
    parsed = read_document(data, name=name)
    try:
        document = decode_reference_document(parsed)
    except InvalidValueError as exc:
        raise placed(exc, data, name=name) from exc
    own = [one for one in signatures if one.document == identity_in(document)]
    trusted = tuple(keys)
    if not own or not trusted:
        return document
    try:
        found = verify_signatures(parsed, signatures=own, keys=trusted, threshold=1)
    except SignatureError as exc:
        if exc.code == "policy-signatures-missing":
            return document  # signed by strangers only, which is as good as not signed
        raise ConfigurationError(f"{name}: {exc.message}", code="references-not-accepted", hint=exc.hint) from exc
    return document.signed_by(found.signers)


def read_signed_table(
    data: bytes,
    *,
    signatures: Iterable[DocumentSignature],
    keys: Iterable[PolicyPublicKey],
    name: str,
    built_in: FirmwareTable,
) -> FirmwareTable:
    """Read a table of firmware floors that takes the place of the built-in one.

    One of the keys has to have signed it, and its version has to be above the built-in one's: an old table, too, has
    valid signatures.

    Raises:
        ConfigurationError: ``policy-unreadable``, ``policy-invalid``, or ``policy-threshold-invalid``: no key.
        SignatureError: ``policy-signatures-missing``, ``policy-signature-invalid``, ``policy-signature-mismatch``, or
            ``policy-rolled-back``.
    """
    parsed = read_document(data, name=name)
    try:
        table = decode_firmware_table(parsed)
    except InvalidValueError as exc:
        raise placed(exc, data, name=name) from exc
    found = verify_signatures(parsed, signatures=signatures, keys=keys, threshold=1)
    require_newer(found.document, than=built_in.version)
    return table


def identity_in(document: ReferenceDocument) -> DocumentIdentity:
    """Return the identity that a signature over this document has to name."""
    return DocumentIdentity(name=document.name, version=document.version, digest=document.digest)
