"""Policies that the page writes from evidence, of every kind of machine: Python's engine reads them, and agrees."""

import itertools
import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from attest import Evidence, ExpectedBinding, TrustAnchors, VerifiedEvidence, appraise, load_policy, verify
from attest.encoding import rfc3339_text
from attest.evidence.binding import Binding
from attest.evidence.endorsement_files import read_endorsements
from attest.simulator.machines import MachineKind, SimulatedMachine
from tests.page.browser import REPOSITORY, Question, Verifier

pytestmark = pytest.mark.loopback
AT = datetime(2026, 6, 10, tzinfo=UTC)
NONCE = bytes(range(32))
BINDING = Binding(context="channel/v1", role="service", audience="a page", nonce=NONCE, key=b"k" * 32)
EXPECTED = {"context": "channel/v1", "role": "service", "audience": "a page", "nonce": NONCE.hex()}
MACHINES: tuple[tuple[MachineKind, int], ...] = (("snp", 2), ("tdx", 0), ("azure-snp", 0), ("azure-tdx", 1))
_NUMBERS = itertools.count()
_PROPOSED = """
async ([result, choice, before, at]) => {
    const { loadPolicy, propose, rows } = await import("/policy.js");
    const policy = before === null ? undefined : await loadPolicy(before);
    const found = (await rows(result, policy, at)).rows;
    const open = found.filter((row) => row.kinds.length && (!policy || row.outcome === "fail"));
    const kindOf = ({ kinds }) => (kinds.includes(choice) ? choice : kinds[0]);
    const text = await propose(result, Object.fromEntries(open.map((row) => [row.id, kindOf(row)])), policy, at);
    const after = (await rows(result, await loadPolicy(text), at)).rows;
    return { rows: found, text, after };
}
"""


class _Seen:
    """A machine's evidence, verified in the page and in Python."""

    def __init__(self, in_browser: Verifier, machine: SimulatedMachine) -> None:
        self._page = in_browser.page
        evidence, files = machine(BINDING), machine.endorsement_files(at=AT)
        name = f"page policy {next(_NUMBERS)}"
        held = {name: evidence.to_json()} | {f"{name} {said}": data for said, data in files.items()}
        in_browser.hold(held)
        rest = tuple(held)[1:]
        question = Question(
            input=(name,), at=rfc3339_text(AT), endorsements=rest, anchors="simulation", binding=EXPECTED
        )
        self.result = in_browser.ask(question)
        assert self.result["outcome"] == "verified", self.result["error"]
        self.verified = _verified(evidence, held | {name: b""})

    def proposed(self, choice: str, before: str | None = None) -> dict[str, Any]:
        asked = [self.result, choice, before, AT.timestamp() * 1000]
        found: dict[str, Any] = self._page.evaluate(_PROPOSED, asked)
        return found

    def failed(self, policy: str) -> list[str]:
        found = appraise(self.verified, policy=load_policy(policy.encode(), name="policy"), at=AT)
        return [check.id for check in found.failed]


def _verified(evidence: Evidence, files: dict[str, bytes]) -> VerifiedEvidence:
    said = [(name, data) for name, data in files.items() if data]
    pool = read_endorsements(said, at=AT).endorsements
    expected = ExpectedBinding(context="channel/v1", role="service", audience="a page", nonce=NONCE)
    return verify(evidence, endorsements=pool, anchors=TrustAnchors.simulation(), at=AT, expected=expected)


@pytest.mark.parametrize("choice", ["exact", "newer"])
@pytest.mark.parametrize(("kind", "gpus"), MACHINES)
def test_what_the_page_accepts_python_affirms(kind: MachineKind, gpus: int, choice: str, in_browser: Verifier) -> None:
    seen = _Seen(in_browser, SimulatedMachine.of(kind, gpus=gpus))
    found = seen.proposed(choice)
    assert seen.failed(found["text"]) == []
    assert {row["outcome"] for row in found["after"]} <= {"pass", "not evaluated"}
    document = json.loads(found["text"])
    assert document["simulated"]["unchecked"].startswith("accepted in the page")


@pytest.mark.parametrize(("kind", "gpus"), MACHINES)
def test_another_image_is_refused_by_it_until_its_rows_are_accepted(
    kind: MachineKind, gpus: int, in_browser: Verifier
) -> None:
    machine = SimulatedMachine.of(kind, gpus=gpus)
    first = _Seen(in_browser, machine).proposed("newer")["text"]
    other = _Seen(in_browser, machine.with_other_image())
    assert other.failed(first) != []
    found = other.proposed("newer", first)
    changed = [row["id"] for row in found["rows"] if row["outcome"] == "fail"]
    assert len(changed) == 1
    assert json.loads(found["text"])["version"] == 2
    assert other.failed(found["text"]) == []
    # What was accepted before is not accepted any more.
    assert _Seen(in_browser, machine).failed(found["text"]) != []


@pytest.mark.parametrize(("kind", "gpus"), MACHINES)
def test_every_check_of_a_machine_has_a_sentence(kind: MachineKind, gpus: int, in_browser: Verifier) -> None:
    seen = _Seen(in_browser, SimulatedMachine.of(kind, gpus=gpus))
    words = (REPOSITORY / "page" / "src" / "ui" / "words.ts").read_text()
    for check in seen.result["checks"]:
        last = check["id"].rpartition(".")[2]
        rim = re.fullmatch(r"(?:driver|vbios)_rim(_\w+)?", last)
        name = last if rim is None else rim[1] or '""'
        assert last == "freshness" or re.search(rf"^  {name}: \"", words, re.MULTILINE), check["id"]
