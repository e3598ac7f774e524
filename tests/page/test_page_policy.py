"""Policies that the page writes from evidence, of every kind of machine: Python's engine reads them, and agrees."""

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from attest import Evidence, ExpectedBinding, TrustAnchors, VerifiedEvidence, appraise, load_policy, verify
from attest.encoding import rfc3339_text
from attest.evidence.binding import Binding
from attest.evidence.dstack.facts import dstack_facts_of
from attest.evidence.endorsement_files import read_endorsements
from attest.evidence.envelope import MEDIA_DSTACK_LOG, MEDIA_EVENT_LOG, MEDIA_INTEL_QUOTE, EvidenceItem
from attest.policy.authoring.draft_sections import dstack_sections
from attest_simulator.intel import SimulatedEnclave, SimulatedPlatform, SimulatedTd
from attest_simulator.machines import MachineKind, SimulatedMachine
from attest_simulator.nvidia import bound_evidence
from tests.evidence.dstack.made import GUEST, Guest, event
from tests.page.browser import REPOSITORY, Question, Verifier
from tests.page.test_dstack import td

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


@dataclass(frozen=True, kw_only=True)
class _LoggedTd:
    """A TD that shows the log of its boot."""

    td: SimulatedTd

    def __call__(self, binding: Binding) -> Evidence:
        def items(report_data: bytes) -> tuple[EvidenceItem, ...]:
            quote = EvidenceItem(name="cpu", media_type=MEDIA_INTEL_QUOTE, value=self.td.quote(report_data))
            return (quote, EvidenceItem(name="eventlog", media_type=MEDIA_EVENT_LOG, value=self.td.event_log()))

        return bound_evidence(binding, (), items)

    def endorsement_files(self, *, at: datetime) -> Mapping[str, bytes]:
        return {"intel.json": self.td.platform.collateral("tdx", at=at).to_json()}


@dataclass(frozen=True, kw_only=True)
class _DstackTd:
    """A TD that shows the events of dstack."""

    guest: Guest

    def __call__(self, binding: Binding) -> Evidence:
        def items(report_data: bytes) -> tuple[EvidenceItem, ...]:
            log = json.dumps(self.guest.entries).encode()
            quote = EvidenceItem(name="cpu", media_type=MEDIA_INTEL_QUOTE, value=td(self.guest).quote(report_data))
            return (quote, EvidenceItem(name="eventlog", media_type=MEDIA_DSTACK_LOG, value=log))

        return bound_evidence(binding, (), items)

    def endorsement_files(self, *, at: datetime) -> Mapping[str, bytes]:
        return {"intel.json": td(self.guest).platform.collateral("tdx", at=at).to_json()}


@dataclass(frozen=True, kw_only=True)
class _Enclave:
    """An SGX enclave that answers for itself, as a simulated machine does."""

    enclave: SimulatedEnclave

    def __call__(self, binding: Binding) -> Evidence:
        def quoted(report_data: bytes) -> tuple[EvidenceItem, ...]:
            return (EvidenceItem(name="cpu", media_type=MEDIA_INTEL_QUOTE, value=self.enclave.quote(report_data)),)

        return bound_evidence(binding, (), quoted)

    def endorsement_files(self, *, at: datetime) -> Mapping[str, bytes]:
        return {"intel.json": self.enclave.platform.collateral("sgx", at=at).to_json()}

    def of(self, **changes: Any) -> "_Enclave":  # noqa: ANN401  fields of the enclave
        return _Enclave(enclave=replace(self.enclave, **changes))


class _Seen:
    """A machine's evidence, verified in the page and in Python."""

    def __init__(self, in_browser: Verifier, machine: SimulatedMachine | _Enclave | _LoggedTd | _DstackTd) -> None:
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


@pytest.mark.parametrize("choice", ["exact", "newer"])
def test_an_enclave_is_accepted_by_its_measurement_or_by_its_signer(choice: str, in_browser: Verifier) -> None:
    ours = _Enclave(enclave=SimulatedEnclave(platform=SimulatedPlatform.of()))
    found = _Seen(in_browser, ours).proposed(choice)
    document = json.loads(found["text"])
    assert _Seen(in_browser, ours).failed(found["text"]) == []
    assert document["sgx"]["mr_signer"] == [ours.enclave.mr_signer.hex()]
    assert {row["id"]: row["outcome"] for row in found["after"] if row["id"].startswith("sgx")} == {
        "sgx.mr_enclave": "pass" if choice == "exact" else "not evaluated",
        "sgx.signer": "pass",
    }
    newer = _Seen(in_browser, ours.of(mr_enclave=b"n" * 32, isv_svn=2))
    assert newer.failed(found["text"]) == (["policy.sgx.mr_enclave"] if choice == "exact" else [])
    for changes, refused in (
        ({"mr_signer": b"s" * 32}, "policy.sgx.mr_signer"),
        ({"isv_prod_id": 2}, "policy.sgx.isv_prod_id"),
        ({"isv_svn": 0}, "policy.sgx.minimum_isv_svn"),
    ):
        other = _Seen(in_browser, ours.of(**changes))
        assert other.failed(found["text"]) == [refused]
        again = other.proposed(choice, found["text"])
        assert [row["id"] for row in again["rows"] if row["outcome"] == "fail"] == ["sgx.signer"]
        assert other.failed(again["text"]) == []


def test_what_a_machine_does_not_meet_is_relaxed_where_the_policy_demands_it(in_browser: Verifier) -> None:
    td = SimulatedTd(platform=SimulatedPlatform.of())
    seen = _Seen(in_browser, SimulatedMachine(cpu=replace(td, td_attributes=td.td_attributes | 1)))
    found = seen.proposed("newer")
    open_rows = [row["id"] for row in found["rows"] if row["id"].startswith("policy.")]
    # Two checks hang on one demand, which is one row.
    assert open_rows == ["policy.tdx.td_attributes.debug"]
    assert "accepted in the page" in json.loads(found["text"])["tdx"]["td_attributes"]["debug"]["unchecked"]
    assert seen.failed(found["text"]) == []


def test_what_a_log_tells_is_accepted_as_it_is(in_browser: Verifier) -> None:
    seen = _Seen(in_browser, _LoggedTd(td=SimulatedTd(platform=SimulatedPlatform.of())))
    before = json.loads(seen.proposed("exact")["text"])
    before["tdx"]["event_log"] = {"kernel_command_lines": ["quiet"], "grub_commands": ["boot"], "secure_boot": True}
    found = seen.proposed("exact", json.dumps(before))
    failed = [row["id"] for row in found["rows"] if row["outcome"] == "fail"]
    assert failed == [f"policy.tdx.event_log.{name}" for name in ("kernel_command_lines", "grub_commands")]
    log = json.loads(found["text"])["tdx"]["event_log"]
    assert log["kernel_command_lines"] == ["/vmlinuz root=/dev/vda1 ro console=ttyS0"]
    assert log["secure_boot"] is True
    assert seen.failed(found["text"]) == []
    assert "unchecked" not in json.dumps(log)


def test_what_dstack_measured_has_rows_and_is_demanded_as_policy_init_writes_it(in_browser: Verifier) -> None:
    seen = _Seen(in_browser, _DstackTd(guest=GUEST))
    found = seen.proposed("exact")
    keys = ["compose_hashes", "os_images", "app_ids", "key_providers"]
    assert [row["id"] for row in found["rows"] if row["id"].startswith("dstack.")] == [f"dstack.{key}" for key in keys]
    assert seen.failed(found["text"]) == []
    (item,) = seen.verified.items
    facts = dstack_facts_of(item.eventlog)  # type: ignore[arg-type]  # the log came along
    (section,) = dstack_sections(facts)
    drafted: Any = section.demands
    written = json.loads(found["text"])["dstack"]
    assert written == {key: drafted[key] for key in keys}
    for key in keys:
        changed = json.loads(found["text"])
        other = [{"name": "another"}] if key == "key_providers" else ["00" * len(bytes.fromhex(written[key][0]))]
        changed["dstack"][key] = other
        assert seen.failed(json.dumps(changed)) == [f"policy.dstack.{key}"]
        again = seen.proposed("exact", json.dumps(changed))
        assert [row["id"] for row in again["rows"] if row["outcome"] == "fail"] == [f"dstack.{key}"]
        assert json.loads(again["text"])["dstack"] == written


def test_a_provider_without_an_id_is_accepted_by_its_name(in_browser: Verifier) -> None:
    provider = event("key-provider", b'{"name":"none","id":""}')
    guest = replace(
        GUEST, runtime=tuple(provider if one["event"] == provider["event"] else one for one in GUEST.runtime)
    )
    seen = _Seen(in_browser, _DstackTd(guest=guest))
    found = seen.proposed("exact")
    assert json.loads(found["text"])["dstack"]["key_providers"] == [{"name": "none"}]
    assert seen.failed(found["text"]) == []


@pytest.mark.parametrize(("kind", "gpus"), MACHINES)
def test_every_check_of_a_machine_has_a_sentence(kind: MachineKind, gpus: int, in_browser: Verifier) -> None:
    seen = _Seen(in_browser, SimulatedMachine.of(kind, gpus=gpus))
    words = (REPOSITORY / "page" / "src" / "ui" / "strings" / "en" / "checks.ts").read_text()
    for check in seen.result["checks"]:
        last = check["id"].rpartition(".")[2]
        rim = re.fullmatch(r"(?:driver|vbios)_rim(_\w+)?", last)
        name = last if rim is None else rim[1] or '""'
        assert last == "freshness" or re.search(rf"^ +{name}: \"", words, re.MULTILINE), check["id"]
