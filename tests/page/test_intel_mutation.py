"""Every byte that Intel's hardware or Intel signed: changed means refused, in the browser as in Python."""

from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from attest.evidence.intel.quote import parse_quote
from tests.page.browser import Verifier
from tests.page.intel_cases import FILES, TD
from tests.samples import AT
from tests.samples_intel import ZEROS

pytestmark = pytest.mark.loopback

_FLIP = """
async ({ files, changed, offsets, ...options }) => {
    const held = files.map(([name, text]) => ({ name, bytes: attest.bytesOf(text) }));
    const target = held.find(({ name }) => name === changed);
    const codes = [];
    // The first round changes nothing: without it a page that refuses everything would pass.
    for (const offset of [null, ...offsets]) {
        const honest = target.bytes;
        target.bytes = honest.slice();
        if (offset !== null) target.bytes[offset] ^= 1 << offset % 8;
        const [quote, ...endorsements] = held;
        const result = await attest.verifyEvidence(quote.bytes, { ...options, endorsements });
        target.bytes = honest;
        codes.push(result.outcome === "verified" ? "verified" : result.error.code);
    }
    return codes;
}
"""
"""Flip a bit of some bytes of one file, one after the other and another bit in each, and return what became of it."""


def flipped(in_browser: Verifier, changed: str, quote: bytes, offsets: Sequence[int]) -> Counter[str]:
    """What became of each byte; that the unchanged whole verifies is required here."""
    held = {"quote": quote, **FILES}
    told: dict[str, Any] = {
        "files": [[name, b64encode(data).decode()] for name, data in held.items()],
        "changed": changed,
        "offsets": list(offsets),
        "at": round(AT.timestamp() * 1000),
        "anchors": "simulation",
    }
    unchanged, *codes = in_browser.page.evaluate(_FLIP, told)
    assert unchanged == "verified"
    assert len(codes) == len(offsets)
    return Counter(codes)


def test_a_quote_with_any_signed_byte_changed_is_refused(in_browser: Verifier) -> None:
    """Header, descriptor and body, every byte; of the signatures, keys and lengths behind them every third."""
    quote = TD.quote(ZEROS, version=5)
    parsed = parse_quote(quote)
    signed, end = len(parsed.signed_bytes), len(quote) - len(parsed.certification_data)
    codes = flipped(in_browser, "quote", quote, [*range(signed), *range(signed, end, 3)])
    assert "verified" not in codes
    # Only the fields that name formats and lengths are refused as another kind of thing.
    assert codes["quote-signature-invalid"] >= 648 + 64 // 3
    assert codes["qe-report-signature-invalid"] >= (384 + 64) // 3
    assert codes["attestation-key-invalid"] + codes["attestation-key-mismatch"] >= (64 + 32) // 3


@pytest.mark.parametrize(("name", "step"), [("tcb_info.json", 9), ("qe_identity.json", 4)])
def test_a_document_with_a_signed_byte_changed_is_refused(name: str, step: int, in_browser: Verifier) -> None:
    document = FILES[name]
    begin, end = document.index(b":") + 1, document.index(b',"signature"')
    codes = flipped(in_browser, name, TD.quote(ZEROS), range(begin, end, step))
    piece = "tcb-info" if name.startswith("tcb") else "qe-identity"
    # What is no such document any more, or not of this platform, is nobody's; all else is not what was signed.
    assert set(codes) == {"collateral-signature-invalid", f"{piece}-missing"}
    assert codes["collateral-signature-invalid"] >= 10


@pytest.mark.parametrize("name", ["pck_crl.der", "root_ca_crl.der"])
def test_a_list_with_a_byte_changed_is_refused(name: str, in_browser: Verifier) -> None:
    codes = flipped(in_browser, name, TD.quote(ZEROS), range(0, len(FILES[name]), 2))
    assert set(codes) == {"crl-missing", "crl-signature-invalid"}
