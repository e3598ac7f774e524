"""A byte of SEV-SNP or Azure evidence that is another one is refused in the page, wherever it stands."""

import base64
import json
from dataclasses import dataclass
from typing import Any

import pytest

from tests.page.browser import REPOSITORY, Question, Verifier

pytestmark = pytest.mark.loopback
FIXTURES = REPOSITORY / "fixtures"
AT = "2026-06-01T00:00:00Z"
REPORT_BYTES = 0x4A0

# One call for all bytes: the page changes one, asks, and puts it back. What is told is the code of each refusal.
_FLIP = """
async ([name, places, rest]) => {
    const bytes = attest.bytesOf(name);
    const codes = [];
    for (const [at, mask] of places) {
        bytes[at] ^= mask;
        const { outcome, error, items } = await attest.ask({ ...rest, inline: bytes });
        codes.push(outcome === "refused" && items.length === 0 ? error.code : outcome);
        bytes[at] ^= mask;
    }
    return codes;
}
"""


@dataclass(frozen=True, kw_only=True)
class _Report:
    """A report of the simulator with what vouches for it."""

    name: str
    product: str
    leaf: str = "vcek.der"
    issuer: str = "ask"

    def files(self) -> dict[str, bytes]:
        paths = (
            f"sev-snp/{self.name}/{self.leaf}",
            f"sev-snp/chains/{self.product}/{self.issuer}.der",
            f"sev-snp/chains/{self.product}/ark.der",
            f"sev-snp/crls/{self.product}.der",
        )
        return {path: (FIXTURES / path).read_bytes() for path in paths}

    def report(self) -> bytes:
        return (FIXTURES / "sev-snp" / self.name / "report.bin").read_bytes()


GENOA = _Report(name="genoa-v5-vcek", product="genoa")
MILAN = _Report(name="milan-v2-vcek", product="milan")


def _codes(in_browser: Verifier, data: bytes, places: list[tuple[int, int]], files: dict[str, bytes]) -> list[str]:
    in_browser.hold(files)
    rest = Question(input=[], at=AT, endorsements=list(files), anchors="simulation").document()
    found: list[str] = in_browser.page.evaluate(_FLIP, [base64.b64encode(data).decode(), places, rest])
    return found


@pytest.mark.parametrize("made", [GENOA, MILAN], ids=lambda made: made.name)
def test_every_byte_of_a_report_counts(made: _Report, in_browser: Verifier) -> None:
    data = made.report()
    # The lowest bit changes levels and numbers by one, the highest turns the sign of what is signed.
    step = 1 if made is GENOA else 7
    places = [(at, 0x01 if at % 2 else 0x80) for at in range(0, len(data), step)]
    codes = _codes(in_browser, data, places, made.files())
    assert len(codes) == len(places)
    assert [at for (at, _), code in zip(places, codes, strict=True) if code == "verified"] == []
    known = {"snp-signature-invalid", "snp-tcb-mismatch", "snp-chip-id-mismatch", "reserved-not-zero"}
    assert set(codes) >= known
    assert in_browser.ask(_whole(made, data, in_browser))["outcome"] == "verified"


def _whole(made: _Report, data: bytes, in_browser: Verifier) -> Question:
    in_browser.hold({f"{made.name} whole": data})
    return Question(input=[f"{made.name} whole"], at=AT, endorsements=list(made.files()), anchors="simulation")


def test_a_report_of_any_other_length_is_none(in_browser: Verifier) -> None:
    data = GENOA.report()
    lengths = [*range(0, 64, 7), 0x2A0, REPORT_BYTES - 1, REPORT_BYTES + 1, REPORT_BYTES + 24]
    files = {f"length {length}": (data + b"\x01" * 64)[:length] for length in lengths}
    in_browser.hold(files | GENOA.files())
    questions = [
        Question(input=[name], at=AT, endorsements=list(GENOA.files()), anchors="simulation") for name in files
    ]
    assert {got["outcome"] for got in in_browser.ask_all(questions)} == {"refused"}


@pytest.mark.parametrize("part", ["vcek.der", "ask", "ark", "crl"])
def test_every_byte_of_what_vouches_for_it_counts(part: str, in_browser: Verifier) -> None:
    files = GENOA.files()
    (name,) = (path for path in files if part.removesuffix(".der") in path.rsplit("/", 1)[-1] or part in path)
    whole = files[name]
    changed = {f"{name} {at}": bytes([*whole[:at], whole[at] ^ 1, *whole[at + 1 :]]) for at in range(0, len(whole), 23)}
    in_browser.hold(files | changed | {"genoa report": GENOA.report()})
    questions = [
        Question(
            input=["genoa report"],
            at=AT,
            endorsements=[other if path == name else path for path in files],
            anchors="simulation",
        )
        for other in changed
    ]
    verified = [other for other, got in zip(changed, in_browser.ask_all(questions), strict=True) if not got["error"]]
    assert verified == []


def _azure() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((FIXTURES / "azure" / "snp-v1" / "evidence.json").read_bytes())
    return document


def _spoiled(part: str, at: int) -> bytes:
    """Return the evidence with one byte of a part changed."""
    document = _azure()
    holder = document if part == "hcl_report" else document["tpm_quote"]
    text: str = holder[part]
    hexadecimal = part != "hcl_report"
    data = bytearray(bytes.fromhex(text) if hexadecimal else base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    data[at % len(data)] ^= 1
    holder[part] = data.hex() if hexadecimal else base64.urlsafe_b64encode(data).rstrip(b"=").decode()
    return json.dumps(document).encode()


def test_every_part_of_azures_evidence_counts(in_browser: Verifier) -> None:
    case = next(
        case
        for case in json.loads((FIXTURES / "MANIFEST.json").read_text())["cases"]
        if "azure/snp-v1" in case["evidence"]
    )
    endorsements = {path: (FIXTURES / path).read_bytes() for path in case["endorsements"]}
    sizes = {"hcl_report": (2600, 11), "message": (200, 3), "signature": (256, 17)}
    changed = {
        f"azure {part} {at}": _spoiled(part, at) for part, (size, step) in sizes.items() for at in range(0, size, step)
    }
    whole = {"azure whole": (FIXTURES / "azure" / "snp-v1" / "evidence.json").read_bytes()}
    in_browser.hold(endorsements | changed | whole)
    questions = [
        Question(input=[name], at=case["at"], endorsements=list(endorsements), anchors="simulation")
        for name in (*whole, *changed)
    ]
    first, *rest = in_browser.ask_all(questions)
    assert first["outcome"] == "verified"
    assert [name for name, got in zip(changed, rest, strict=True) if got["outcome"] != "refused"] == []
    codes = {got["error"]["code"] for got in rest}
    assert codes >= {
        "azure-runtime-data-mismatch",
        "tpm-signature-invalid",
        "snp-signature-invalid",
        "reserved-not-zero",
    }
