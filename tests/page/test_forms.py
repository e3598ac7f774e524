"""Evidence in the forms of other projects: the page answers what Python answers, for sound and for spoiled evidence."""

import re
from collections.abc import Iterator, Mapping

import pytest

from attest_simulator.azure.containers import azure_container, did_of, uvm_chain, uvm_endorsement, uvm_key
from tests.evidence.attachment.spoiled import spoiled
from tests.evidence.attachment.test_uvm_endorsement import MEASUREMENT, Header, made
from tests.evidence.attachment.wild import FORMS, INTEL, SNP, ZEROS
from tests.page.browser import Question, Verifier
from tests.page.reference import answer, differences
from tests.samples import AT

pytestmark = pytest.mark.loopback
SIGNER, ISSUER, ROOT = uvm_chain()
ENDORSEMENTS = {
    "tdx.json": INTEL.platform.collateral("tdx", at=AT).to_json(),
    "sgx.json": INTEL.platform.collateral("sgx", at=AT).to_json(),
    **{f"{number}.der": der for number, der in enumerate(SNP.guest.chip.certificates())},
}
_BATCH = 60
UNREAD = re.compile(r"attestation-rs, TDX: platform|named [0-5]$")
"""Forms that the page does not read: reports in attestation-rs's JSON, event logs and tokens."""


def asked(names: list[str]) -> list[Question]:
    at, unchecked = AT.isoformat().replace("+00:00", "Z"), {"revocation": "a test"}
    given = list(ENDORSEMENTS)
    return [
        Question(input=[name], at=at, endorsements=given, unchecked=unchecked, anchors="simulation") for name in names
    ]


def compared(in_browser: Verifier, files: Mapping[str, bytes]) -> Iterator[str]:
    names = list(files)
    for begin in range(0, len(names), _BATCH):
        batch = asked(names[begin : begin + _BATCH])
        held = {**ENDORSEMENTS, **{question.input[0]: files[question.input[0]] for question in batch}}
        in_browser.hold(held)
        for question, got in zip(batch, in_browser.ask_all(batch), strict=True):
            yield from (f"{question.input[0]}: {text}" for text in differences(answer(question, held), got))


def test_every_form_is_verified_in_the_page_as_in_python(in_browser: Verifier) -> None:
    files = {name: wild.data for name, wild in FORMS.items()}
    assert list(compared(in_browser, files)) == []
    answers = in_browser.ask_all(asked(list(files)))
    assert [name for name, got in zip(files, answers, strict=True) if got["outcome"] != "verified"] == []


def test_spoiled_evidence_is_refused_in_the_page_as_in_python(in_browser: Verifier) -> None:
    files = {name: data for name, data in spoiled() if not UNREAD.match(name)}
    assert len(files) > 600
    assert list(compared(in_browser, files)) == []


HEADERS: list[Header] = [
    {1: -7},
    {1: True},
    {2: ("x",)},
    {3: "text/plain"},
    {33: (SIGNER, ROOT)},
    {33: (SIGNER,)},
    {33: (SIGNER, SIGNER, ISSUER, ROOT)},
    {33: (SIGNER, "x")},
    {"iss": did_of(ISSUER)},
    {"iss": did_of(ROOT, "1.2.3")},
    {"iss": "did:web:example.com"},
    {"iss": ""},
    {"feed": "x\ny"},
    {"more": 7},
]


def test_endorsements_of_utility_vms_are_judged_in_the_page_as_in_python(in_browser: Verifier) -> None:
    endorsements = [
        *map(made, HEADERS),
        uvm_endorsement(bytes(48)),
        uvm_endorsement(MEASUREMENT, key=uvm_key("issuer")),
        made(payload=b"[]"),
        made(payload=b"{"),
        made()[1:],
        made()[:-1],
        made().replace(b"\xa0", b"\xbf\xff", 1),
        made() + b"\0",
        b"",
    ]
    files = {
        f"endorsement {number}": azure_container(SNP.guest, ZEROS, uvm=endorsement)
        for number, endorsement in enumerate(endorsements)
    }
    assert list(compared(in_browser, files)) == []
