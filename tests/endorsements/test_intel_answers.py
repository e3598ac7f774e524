"""An answer of Intel's service with its issuer chain: read whole, or refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.encoding import CborValue, cbor_bytes
from attest.endorsements.intel import IntelDocumentKind
from attest.endorsements.intel_answers import (
    MAX_CHAIN_CERTIFICATES,
    MAX_CRL_ANSWER_BYTES,
    MAX_DOCUMENT_ANSWER_BYTES,
    intel_answer_bytes,
    parse_intel_crl,
    parse_intel_document,
)
from attest.errors import EvidenceError
from tests.endorsements import made

CHAIN = made.pem("CERTIFICATE", made.certificate(serial=1)) + made.pem("CERTIFICATE", made.certificate(serial=2))
INFO = b'{"tcbInfo": {"id":"TDX"}, "signature": "' + b"ab" * 64 + b'"}'
IDENTITY = b'{"enclaveIdentity":{},"signature":"' + b"cd" * 64 + b'"}'
CRL = made.crl(revoked=(9,))


@pytest.mark.parametrize(
    ("body", "kind", "inner"), [(INFO, "tcb-info", b'{"id":"TDX"}'), (IDENTITY, "qe-identity", b"{}")]
)
def test_a_document_keeps_its_signed_bytes_and_its_chain(body: bytes, kind: IntelDocumentKind, inner: bytes) -> None:
    document, chain = parse_intel_document(intel_answer_bytes(body, issuer_chain=CHAIN), kind=kind)
    assert (document.kind, document.body) == (kind, inner)
    assert [certificate.serial for certificate in chain] == [1, 2]


@pytest.mark.parametrize(("issuer_chain", "serials"), [(CHAIN, [1, 2]), (b"", [])])
def test_a_list_may_come_without_a_chain(issuer_chain: bytes, serials: list[int]) -> None:
    crl, chain = parse_intel_crl(intel_answer_bytes(CRL, issuer_chain=issuer_chain))
    assert crl.revoked == {9}
    assert [certificate.serial for certificate in chain] == serials


@pytest.mark.parametrize(
    "data",
    [
        b"",
        INFO,
        cbor_bytes([INFO, CHAIN]),
        cbor_bytes({"answer": INFO}),
        cbor_bytes({"answer": INFO, "issuer_chain": CHAIN, "more": b""}),
        cbor_bytes({"answer": INFO.decode(), "issuer_chain": CHAIN}),
        cbor_bytes({"answer": INFO, "issuer_chain": CHAIN.decode()}),
        intel_answer_bytes(INFO, issuer_chain=CHAIN) + b"\0",
        intel_answer_bytes(INFO, issuer_chain=b""),
        intel_answer_bytes(INFO, issuer_chain=b"no certificates"),
        intel_answer_bytes(INFO, issuer_chain=made.pem("X509 CRL", CRL)),
        intel_answer_bytes(INFO, issuer_chain=made.pem("CERTIFICATE", b"garbage")),
        intel_answer_bytes(INFO, issuer_chain=CHAIN * (MAX_CHAIN_CERTIFICATES // 2) + CHAIN),
        intel_answer_bytes(IDENTITY, issuer_chain=CHAIN),
        intel_answer_bytes(b"<html>", issuer_chain=CHAIN),
        bytes(MAX_DOCUMENT_ANSWER_BYTES + 1),
    ],
    ids=made.label,
)
def test_what_is_no_tcb_info_with_its_chain_is_refused(data: bytes) -> None:
    with pytest.raises(EvidenceError):
        parse_intel_document(data, kind="tcb-info")


@pytest.mark.parametrize(
    "data", [CRL, intel_answer_bytes(CRL + b"\0", issuer_chain=CHAIN), bytes(MAX_CRL_ANSWER_BYTES + 1)], ids=made.label
)
def test_what_is_no_list_is_refused(data: bytes) -> None:
    with pytest.raises(EvidenceError):
        parse_intel_crl(data)


def test_as_many_certificates_as_allowed_are_read() -> None:
    whole = CHAIN * (MAX_CHAIN_CERTIFICATES // 2)
    assert len(parse_intel_crl(intel_answer_bytes(CRL, issuer_chain=whole))[1]) == MAX_CHAIN_CERTIFICATES


_BYTES = st.binary(max_size=80)
_VALUES: st.SearchStrategy[CborValue] = st.fixed_dictionaries({"answer": _BYTES, "issuer_chain": _BYTES})


@given(_BYTES | _VALUES.map(cbor_bytes))
def test_any_bytes_are_an_answer_or_a_documented_refusal(data: bytes) -> None:
    for read in (parse_intel_crl, lambda data: parse_intel_document(data, kind="qe-identity")):
        with pytest.raises(EvidenceError):
            read(data)
