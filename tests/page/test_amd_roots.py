"""AMD's root keys are held: a chain whose root nobody shows is verified as in Python; only then are they fetched."""

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509

from tests.page.browser import Verifier
from tests.page.reference import answer, differences
from tests.page.test_conformance import Cases

pytestmark = [pytest.mark.loopback, pytest.mark.filterwarnings("ignore:Parsed a serial number")]
_FETCHED = "performance.getEntriesByType('resource').filter((one) => /roots-/.test(one.name)).length"


def _without_roots(data: bytes) -> bytes:
    """Leave certificates that name themselves as their issuer out of a file; a file of anything else stays as it is."""
    begin, end = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----\n"
    if begin in data:
        parts = [begin + part.partition(end)[0] + end for part in data.split(begin)[1:]]
        return b"".join(part for part in parts if not _names_itself(x509.load_pem_x509_certificate(part)))
    try:
        return b"" if _names_itself(x509.load_der_x509_certificate(data)) else data
    except ValueError:
        return data


def _names_itself(certificate: x509.Certificate) -> bool:
    return certificate.issuer == certificate.subject


def test_a_root_that_nobody_shows_is_the_one_that_is_held(
    in_browser: Verifier, vectors_dir: Path, tmp_path: Path
) -> None:
    in_browser.reload()
    cases = Cases(vectors_dir, tmp_path, "sev-snp")
    bare = {f"{name} without roots": _without_roots(data) for name, data in cases.files.items()}
    genuine = [
        (id_, question) for id_, question in cases.questions if answer(question, cases.files)["outcome"] == "verified"
    ]
    in_browser.hold(cases.files | bare)
    products = set[str]()
    in_browser.ask_all([question for _, question in genuine])
    before = in_browser.page.evaluate(_FETCHED)
    for id_, question in genuine:
        asked = replace(question, endorsements=[f"{name} without roots" for name in question.endorsements])
        expected, got = answer(asked, bare | cases.files), in_browser.ask(asked)
        assert differences(expected, got) == [], id_
        if expected["outcome"] == "verified":
            products.add(expected["items"][0]["claims"]["product"])
    assert products >= {"Milan", "Genoa"}
    assert (before, in_browser.page.evaluate(_FETCHED)) == (0, 1)
