"""Every byte of a quote that something vouches for: changed means refused."""

from datetime import datetime
from pathlib import Path

import pytest

from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import NO_ENDORSEMENTS
from attest.errors import AttestError
from attest.evidence.intel.authenticity import AuthenticQuote
from attest.evidence.intel.quote import ParsedQuote, parse_quote
from attest.evidence.intel.verify import authenticate_quote, procedure_of
from tests.evidence.intel.made_quotes import ANCHORS, AT, FORMS
from tests.evidence.intel.recorded import RECORDED, Recorded


def flipped(data: bytes, bit: int) -> bytes:
    """Data with one bit changed."""
    altered = bytearray(data)
    altered[bit // 8] ^= 1 << bit % 8
    return bytes(altered)


def vouched(data: bytes) -> int:
    """Length of what comes before the certification data's content: header, body, signatures, keys, lengths."""
    quote = parse_quote(data)
    return len(data) - len(quote.padding) - len(quote.certification_data)


def authentic(quote: ParsedQuote, *, anchors: TrustAnchors, at: datetime) -> AuthenticQuote:
    return authenticate_quote(procedure_of(quote.tee), quote, endorsements=NO_ENDORSEMENTS, anchors=anchors, at=at)


def is_refused(data: bytes, *, anchors: TrustAnchors, at: datetime) -> bool:
    try:
        authentic(parse_quote(data), anchors=anchors, at=at)
    except AttestError as exc:
        return exc.exit_code in {3, 4, 5}
    return False


@pytest.mark.parametrize("name", FORMS)
def test_a_quote_with_any_byte_changed_is_refused(name: str) -> None:
    data = FORMS[name].to_bytes()
    for offset in range(vouched(data)):
        altered = flipped(data, 8 * offset + offset % 8)
        assert is_refused(altered, anchors=ANCHORS, at=AT), hex(offset)


@pytest.mark.parametrize("vector", RECORDED, ids=lambda v: v.id)
def test_a_recorded_quote_with_any_byte_changed_is_refused(vector: Recorded, vectors_dir: Path) -> None:
    data, at = vector.read(vectors_dir), vector.times[0]
    for offset in range(vouched(data)):
        altered = flipped(data, 8 * offset + offset % 8)
        assert is_refused(altered, anchors=TrustAnchors.vendors(), at=at), hex(offset)


@pytest.mark.slow
@pytest.mark.parametrize("vector", RECORDED, ids=lambda v: v.id)
def test_a_recorded_quote_with_any_bit_changed_is_refused(vector: Recorded, vectors_dir: Path) -> None:
    data, at = vector.read(vectors_dir), vector.times[0]
    for bit in range(8 * vouched(data)):
        assert is_refused(flipped(data, bit), anchors=TrustAnchors.vendors(), at=at), hex(bit // 8)


@pytest.mark.parametrize("vector", RECORDED, ids=lambda v: v.id)
def test_a_recorded_chain_with_any_byte_changed_leads_nowhere_or_to_the_same(
    vector: Recorded, vectors_dir: Path
) -> None:
    """Only what is not needed may change: the embedded root, line breaks, what stands between the blocks."""
    data, at = vector.read(vectors_dir), vector.times[0]
    honest = authentic(parse_quote(data), anchors=TrustAnchors.vendors(), at=at).chain
    start = vouched(data)
    for offset in range(start, start + len(parse_quote(data).certification_data), 7):
        quote = parse_quote(flipped(data, 8 * offset + offset % 8))
        try:
            found = authentic(quote, anchors=TrustAnchors.vendors(), at=at).chain
        except AttestError:
            continue
        assert [c.der for c in found.certificates] == [c.der for c in honest.certificates], hex(offset)
