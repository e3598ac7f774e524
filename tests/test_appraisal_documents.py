"""Appraisal of services' documents: a policy holds for every machine, and its devices are judged machine by machine."""

from pathlib import Path

from attest.appraisal import AttestationResult, appraise, device_sets
from attest.policy import load_policy
from attest.results.document import appraised_document, verified_document
from attest_simulator.intel import SimulatedTd
from tests.evidence.providers import made
from tests.samples import AT

POLICY = load_policy((Path(__file__).parents[1] / "policies" / "tdx-hgx-h100-lab-simulated.yaml").read_bytes())
SECOND = made.machine(td=SimulatedTd(platform=made.PLATFORM, mr_td=b"\7" * 48), gpus=("second gpu",))


def appraised(document: object) -> AttestationResult:
    return appraise(made.verified(document), policy=POLICY, at=AT)


def test_each_machine_has_a_set_of_devices_and_a_gateway_none() -> None:
    sets = device_sets(made.verified(made.gateway(made.machine(), SECOND)))
    assert [(name, len(devices.gpus), devices.cpu_kind, devices.bound) for name, devices in sets] == [
        ("1", 1, "tdx", False),
        ("2", 1, "tdx", False),
    ]


def test_a_document_without_a_model_machine_is_judged_by_the_set_that_there_is() -> None:
    sets = device_sets(made.verified(made.tinfoil_bytes(made.tinfoil(gpus=False))))
    assert [(name, len(devices.gpus)) for name, devices in sets] == [("0", 0)]


def test_only_a_hash_of_their_evidence_binds_devices() -> None:
    ((_, devices),) = device_sets(made.verified(made.tinfoil_bytes(made.tinfoil())))
    assert devices.bound


def test_the_demands_on_devices_are_judged_for_each_machine() -> None:
    result = appraised(made.gateway(made.machine(), SECOND))
    judged = [(check.id, check.item) for check in result.policy_checks if check.id.startswith("policy.devices.")]
    names = {name for name, _ in judged}
    assert names
    assert set(judged) == {(name, machine) for name in names for machine in ("1", "2")}
    assert not result.affirmed


def test_every_report_is_judged_by_the_policy() -> None:
    result = appraised(made.gateway(made.machine(), SECOND))
    assert {check.item for check in result.policy_checks if check.id.startswith("policy.tdx.")} == {
        "0/cpu",
        "1/cpu",
        "2/cpu",
    }


def test_results_name_machine_role_and_what_is_not_proven() -> None:
    result = appraised(made.gateway(made.machine()))
    for document in (appraised_document(result), verified_document(result.verified)):
        items, warnings = document["items"], document["warnings"]
        assert isinstance(items, list)
        assert isinstance(warnings, list)
        placed = [(item["name"], item["machine"], item["role"]) for item in items if isinstance(item, dict)]
        assert placed == [("0/cpu", "0", "gateway"), ("1/cpu", "1", "model"), ("1/gpu0", "1", "model")]
        codes = [caution["code"] for caution in warnings if isinstance(caution, dict)]
        assert "never-proven" in codes
        assert "gpus-by-nonce" in codes
