"""Long runs of one character: an answer takes time in proportion to the input, and never its square."""

import json
from collections.abc import Mapping
from time import monotonic

import pytest

from attest_simulator import der
from attest_simulator.intel.certificates import simulated_name
from attest_simulator.intel.keys import IntelAuthority
from tests.page.browser import Verifier
from tests.page.intel_cases import FILES, PERIOD, TD, case
from tests.page.reference import answer, differences
from tests.samples_intel import ZEROS

pytestmark = pytest.mark.loopback
LONG = 1_000_000
BOUND_SECONDS = 20
"""Some thirty times what the longest takes; the square of it would be a minute, and many for most."""


def _endless_identifier() -> bytes:
    """A list with an extension whose identifier does not end; who issued and signed it does not matter."""
    start, end = (der.time(moment) for moment in PERIOD)
    algorithm = der.sequence(der.object_identifier("1.2.840.10045.4.3.2"))
    endless = b"\x06" + der.octet_string(b"\x81" * (LONG // 2))[1:]
    extensions = der.context(0, der.sequence(der.sequence(endless, der.octet_string(b"x"))))
    tbs = der.sequence(der.integer(1), algorithm, simulated_name(IntelAuthority.ROOT), start, end, extensions)
    return der.sequence(tbs, algorithm, der.bit_string(b"x"))


def _inputs() -> Mapping[str, Mapping[str, bytes]]:
    info = FILES["tcb_info.json"]
    return {
        "hex and blanks": {"file": b"30" + b" " * LONG + b"x"},
        "blanks in a document": {"tcb_info.json": info.replace(b'"version":', b'"version":' + b" " * 250_000)},
        "NULs in a bundle": {"bundle": json.dumps({"pck_crl": "\0" * (LONG // 5) + "x"}).encode()},
        "an identifier": {"list": _endless_identifier()},
        "braces": {"file": b"{" * LONG},
        "quotes": {"file": b'{"tcb_info":' + b'"' * LONG},
        "PEM that does not end": {"file": b"-----BEGIN CERTIFICATE-----\n" + b"A" * LONG},
        "PEM that begins": {"file": b"-----BEGIN CERTIFICATE-----\n" * (LONG // 28)},
        "percent signs": {"file": b"-----BEGIN%20CERTIFICATE-----" + b"%2" * LONG},
    }


INPUTS = _inputs()


@pytest.mark.parametrize("name", INPUTS)
def test_a_long_run_takes_no_longer_than_its_length(name: str, in_browser: Verifier) -> None:
    asked = case(f"long: {name}", TD.quote(ZEROS), {**FILES, **INPUTS[name]})
    in_browser.hold(asked.held)
    begins = monotonic()
    found = in_browser.ask(asked.question)
    assert monotonic() - begins < BOUND_SECONDS
    assert differences(answer(asked.question, asked.held), found) == []
