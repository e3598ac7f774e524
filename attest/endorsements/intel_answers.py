"""An answer of Intel's service with its issuer chain, in the form of caches and bundles.

Intel sends a document or list in the body and its certificates in a header; verification needs both.
They are kept as received, in canonical CBOR::

    {"answer": bytes of the body, "issuer_chain": bytes, PEM, signer first}

The list of the root has no chain: its issuer is an anchor.
"""

from __future__ import annotations

from collections.abc import Mapping

from attest.encoding import cbor_bytes, cbor_value
from attest.endorsements.intel import (
    MAX_DOCUMENT_BYTES,
    IntelDocument,
    IntelDocumentKind,
    malformed_collateral,
    parse_pcs_answer,
)
from attest.endorsements.x509 import MAX_CRL_BYTES, Certificate, Crl, parse_certificate, parse_crl, pem_blocks

MAX_CHAIN_BYTES = 64 * 1024
"""Intel's chains have 2 KiB."""
MAX_CHAIN_CERTIFICATES = 8
"""Intel's have two."""
_OVERHEAD_BYTES = 64
MAX_DOCUMENT_ANSWER_BYTES = MAX_DOCUMENT_BYTES + MAX_CHAIN_BYTES + _OVERHEAD_BYTES
MAX_CRL_ANSWER_BYTES = MAX_CRL_BYTES + MAX_CHAIN_BYTES + _OVERHEAD_BYTES


def intel_answer_bytes(body: bytes, *, issuer_chain: bytes) -> bytes:
    """Encode a body and its issuer chain, without parsing."""
    return cbor_bytes({"answer": body, "issuer_chain": issuer_chain})


def parse_intel_document(data: bytes, *, kind: IntelDocumentKind) -> tuple[IntelDocument, tuple[Certificate, ...]]:
    """Parse a TCB info or QE identity with its issuer chain, without verification.

    Args:
        data: at most ``MAX_DOCUMENT_ANSWER_BYTES``.
        kind: the required one.

    Raises:
        EvidenceError: ``collateral-malformed``, or as the parsers of CBOR, JSON, hex and certificates.
    """
    body, chain = _parts(data, limit=MAX_DOCUMENT_ANSWER_BYTES)
    if not chain:
        raise malformed_collateral("issuer chain", "the certificates behind a document", "none")
    document = parse_pcs_answer(body)
    if document.kind != kind:
        raise malformed_collateral("answer", kind, document.kind)
    return document, chain


def parse_intel_crl(data: bytes) -> tuple[Crl, tuple[Certificate, ...]]:
    """Parse a revocation list in DER with its issuer chain, which may be empty.

    Args:
        data: at most ``MAX_CRL_ANSWER_BYTES``.

    Raises:
        EvidenceError: as ``parse_intel_document``, and ``crl-malformed``.
    """
    body, chain = _parts(data, limit=MAX_CRL_ANSWER_BYTES)
    return parse_crl(body), chain


def _parts(data: bytes, *, limit: int) -> tuple[bytes, tuple[Certificate, ...]]:
    if len(data) > limit:
        raise malformed_collateral("answer", f"at most {limit} bytes", f"{len(data)} bytes")
    body, chain = body_and_chain(data)
    return body, _chain(chain) if chain else ()


def body_and_chain(data: bytes) -> tuple[bytes, bytes]:
    """Return the two parts as Intel's service sent them, without parsing them.

    Raises:
        EvidenceError: ``collateral-malformed``, or as the parser of CBOR.
    """
    members = cbor_value(data, what="answer of Intel's service")
    if not isinstance(members, Mapping) or set(members) != {"answer", "issuer_chain"}:
        raise malformed_collateral("answer", "a map of answer, issuer_chain", "something else")
    body, chain = members["answer"], members["issuer_chain"]
    if not isinstance(body, bytes) or not isinstance(chain, bytes):
        raise malformed_collateral("answer", "two byte strings", "something else")
    return body, chain


def _chain(pem: bytes) -> tuple[Certificate, ...]:
    blocks = pem_blocks(pem)
    if not 0 < len(blocks) <= MAX_CHAIN_CERTIFICATES or {label for label, _ in blocks} != {"CERTIFICATE"}:
        expected = f"1 to {MAX_CHAIN_CERTIFICATES} PEM certificates"
        raise malformed_collateral("issuer chain", expected, f"{len(blocks)} PEM blocks")
    return tuple(parse_certificate(der) for _, der in blocks)
