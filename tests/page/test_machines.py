"""Whole machines of the simulator: what the binding ties together holds in the page, and comes apart where it must."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from attest.encoding import rfc3339_text
from attest.endorsements.bundle import build_bundle
from attest.endorsements.bundle_records import BundleEntry
from attest.evidence.binding import Binding
from attest.evidence.envelope import MEDIA_BINDING, MEDIA_ENDORSEMENTS, Evidence, EvidenceItem
from attest_simulator.machines import MachineKind, SimulatedMachine
from tests.page.browser import Question, Verifier
from tests.page.reference import answer, differences

pytestmark = pytest.mark.loopback
AT = datetime(2026, 6, 10, tzinfo=UTC)
NONCE = bytes(range(32))
BINDING = Binding(context="channel/v1", role="service", audience="somebody's page", nonce=NONCE, key=b"k" * 32)
EXPECTED = {"context": "channel/v1", "role": "service", "audience": "somebody's page", "nonce": NONCE.hex()}
KINDS: tuple[MachineKind, ...] = ("snp", "tdx", "azure-snp", "azure-tdx")


class _Asked:
    """A machine's evidence, in the page and in Python."""

    def __init__(self, in_browser: Verifier, kind: MachineKind, *, gpus: int = 0) -> None:
        machine = SimulatedMachine.of(kind, gpus=gpus)
        self.evidence = machine(BINDING)
        self.endorsements: Mapping[str, bytes] = {
            f"{kind}-{gpus}/{name}": data for name, data in machine.endorsement_files(at=AT).items()
        }
        self._in_browser = in_browser
        self._kind = f"{kind}-{gpus}"

    def ask(self, evidence: Evidence | bytes, *, endorsements: bool = True, **given: Any) -> dict[str, Any]:  # noqa: ANN401  fields of a question
        name = f"machine {self._kind}"
        value = evidence if isinstance(evidence, bytes) else evidence.to_json()
        files = {name: value, **(self.endorsements if endorsements else {})}
        question = Question(
            **{
                "input": [name],
                "at": rfc3339_text(AT),
                "endorsements": [other for other in files if other != name],
                "anchors": "simulation",
                "binding": EXPECTED,
                **given,
            }
        )
        self._in_browser.hold(files)
        got = self._in_browser.ask(question)
        assert differences(answer(question, files), got) == []
        return got


def _without(evidence: Evidence, name: str) -> Evidence:
    return replace(evidence, items=tuple(item for item in evidence.items if item.name != name))


def _code(result: dict[str, Any]) -> str | None:
    return None if result["error"] is None else result["error"]["code"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_machine_with_a_gpu_is_verified_with_everything_that_it_is_bound_to(
    kind: MachineKind, in_browser: Verifier
) -> None:
    asked = _Asked(in_browser, kind, gpus=1)
    for evidence in (asked.evidence, asked.evidence.to_cbor()):
        got = asked.ask(evidence)
        assert (got["outcome"], got["freshness"], got["simulated"]) == ("verified", "matched", True)
        assert [item["name"] for item in got["items"]] == ["cpu", "gpu0"]
        passed = {check["id"] for check in got["checks"] if check["outcome"] == "pass"}
        assert passed >= {"binding.report_data", "binding.devices", "binding.device_nonce", "freshness"}


def test_a_machine_is_fresh_by_the_nonce_of_its_binding_too(in_browser: Verifier) -> None:
    asked = _Asked(in_browser, "snp", gpus=1)
    assert asked.ask(asked.evidence, binding=None, nonce=NONCE.hex())["freshness"] == "matched"
    assert _code(asked.ask(asked.evidence, binding=None, nonce="00" * 32)) == "nonce-mismatch"
    assert asked.ask(asked.evidence, binding=None)["freshness"] == "not evaluated"


@pytest.mark.parametrize("field", ["context", "role", "audience", "nonce"])
def test_a_proof_for_something_else_is_refused(field: str, in_browser: Verifier) -> None:
    asked = _Asked(in_browser, "snp")
    other = EXPECTED | {field: "11" * 32}
    code = "nonce-mismatch" if field == "nonce" else f"binding-{field}-mismatch"
    got = asked.ask(asked.evidence, binding=other)
    assert (_code(got), got["freshness"]) == (code, "mismatched")


@pytest.mark.parametrize("field", ["context", "role", "audience"])
def test_a_demand_that_a_caller_forgot_is_not_met(field: str, in_browser: Verifier) -> None:
    machine = SimulatedMachine.of("snp")
    files = {f"forgotten {field}": machine(BINDING).to_json(), **machine.endorsement_files(at=AT)}
    stated = {name: value for name, value in EXPECTED.items() if name != field}
    in_browser.hold(files)
    evidence, *endorsements = files
    asked = Question(
        input=[evidence], at=rfc3339_text(AT), endorsements=endorsements, anchors="simulation", binding=stated
    )
    assert _code(in_browser.ask(asked)) == f"binding-{field}-mismatch"


def test_what_is_not_bound_is_refused(in_browser: Verifier) -> None:
    asked = _Asked(in_browser, "snp", gpus=1)
    unknown = EvidenceItem(name="dpu0", media_type="application/vnd.example.dpu", value=b"?")
    assert _code(asked.ask(_without(asked.evidence, "gpu0"))) == "binding-devices-mismatch"
    assert _code(asked.ask(_without(asked.evidence, "binding"))) == "binding-missing"
    assert _code(asked.ask(_without(asked.evidence, "cpu"))) == "binding-uncommitted"
    added = replace(asked.evidence, items=(*asked.evidence.items, unknown))
    assert _code(asked.ask(added)) == "binding-devices-mismatch"
    renamed = tuple(replace(item, name="gpu1") if item.name == "gpu0" else item for item in asked.evidence.items)
    assert _code(asked.ask(replace(asked.evidence, items=renamed))) == "binding-devices-mismatch"


def test_a_binding_of_another_key_is_not_the_one_that_the_report_commits_to(in_browser: Verifier) -> None:
    asked = _Asked(in_browser, "azure-snp", gpus=1)
    bound = asked.evidence.item("binding")
    assert bound is not None
    (digest,) = (item.digest for item in asked.evidence.items if item.name == "gpu0")
    other = replace(BINDING, key=b"K" * 32, devices=(digest,)).to_bytes()
    items = tuple(
        replace(item, value=other) if item.media_type == MEDIA_BINDING else item for item in asked.evidence.items
    )
    got = asked.ask(replace(asked.evidence, items=items))
    assert (_code(got), got["freshness"]) == ("binding-report-data-mismatch", "mismatched")
    failed = {check["id"] for check in got["checks"] if check["outcome"] == "fail"}
    assert failed == {"binding.report_data", "binding.extra_data"}


def _bundle(machine: SimulatedMachine, *, expires: datetime) -> bytes:
    files = machine.endorsement_files(at=AT)
    return build_bundle(
        [BundleEntry(kind="amd-crl", source="https://kds.example/crl", data=files["amd.crl"])],
        created=AT - timedelta(days=2),
        expires=expires,
    ).to_bytes()


def test_endorsements_come_in_a_bundle_within_the_envelope_until_it_ends(in_browser: Verifier) -> None:
    asked, machine = _Asked(in_browser, "snp"), SimulatedMachine.of("snp")
    for expires, code in ((AT + timedelta(days=1), None), (AT - timedelta(days=1), "crl-expired")):
        item = EvidenceItem(
            name="endorsements", media_type=MEDIA_ENDORSEMENTS, value=_bundle(machine, expires=expires), indicator=2
        )
        evidence = replace(asked.evidence, items=(*asked.evidence.items, item))
        assert _code(asked.ask(evidence, endorsements=False)) == code
        # A list that is at hand on its own counts, whatever the bundle that also has it says of itself.
        assert _code(asked.ask(evidence)) is None
    assert _code(asked.ask(asked.evidence, endorsements=False)) == "crl-missing"


def test_the_vendors_roots_take_none_of_it(in_browser: Verifier) -> None:
    asked = _Asked(in_browser, "snp", gpus=1)
    got = asked.ask(asked.evidence, anchors="vendors")
    assert (_code(got), got["simulated"], got["items"]) == ("simulated-root-refused", True, [])
