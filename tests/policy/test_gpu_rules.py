"""Rules about GPUs, NVSwitches and all of them together, on simulated devices."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.checks import Outcome
from attest.evidence.gpu.evidence import GpuSettings
from attest.evidence.gpu.measurements import compare
from attest.evidence.gpu.verify import VerifiedGpu
from attest.evidence.snp.structure import GUEST_POLICY_BITS
from attest.evidence.tolerances import GpuTolerances, WaivedMeasurement
from attest.policy import Policy, load_policy
from attest.policy.loader import BASELINE_RULES
from attest_simulator.nvidia import Reason, SimulatedGpu, SimulatedOcsp
from tests.policy.documents import STRICT, policy_of
from tests.policy.gpu_documents import (
    AT,
    BLACKWELL,
    HOPPER,
    STRICT_GPU,
    SWITCH,
    devices_document,
    failed,
    gpu_document,
    set_failed,
    set_of,
    switch_document,
    verified,
    without_rims,
    without_settings,
)

POLICIES = Path(__file__).resolve().parents[2] / "policies"
STRICT_POLICY = policy_of(STRICT_GPU)
GPU_IDENTITY = verified().chain.identity.text
SETTINGS = {"environment", "cc_mode", "dev_tools_mode"}


def got(policy: Policy, device: VerifiedGpu, name: str, **reasons: str) -> tuple[Outcome, str, str]:
    """How one rule came out, what it demanded and what it found."""
    (rule,) = [rule for rule in policy.rules[device.kind] if rule.id.split(".", 2)[2] == name]
    check = rule.judge(device, at=AT, item="gpu0", reasons=reasons)
    return check.outcome, check.expected, check.got


def baseline_failed(device: VerifiedGpu) -> set[str]:
    """Names of the rules of the baseline that a device fails."""
    checks = [rule.judge(device, at=AT, item="gpu0") for rule in BASELINE_RULES[device.kind]]
    return {check.id.split(".", 2)[2] for check in checks if check.outcome is Outcome.FAIL}


def with_settings(**changes: Any) -> VerifiedGpu:  # noqa: ANN401  members of the settings
    """An honest GPU of which NVML says something else."""
    device = verified()
    settings = device.evidence.settings
    assert isinstance(settings, GpuSettings)
    return replace(device, evidence=replace(device.evidence, settings=replace(settings, **changes)))


def test_honest_devices_meet_what_is_demanded_strictly() -> None:
    assert failed(STRICT_POLICY, verified()) == set()
    assert failed(STRICT_POLICY, verified(SWITCH)) == set()
    assert set_failed(STRICT_POLICY, set_of([verified(), verified(SWITCH)])) == set()


# -- one GPU


@pytest.mark.parametrize(
    ("demand", "name"),
    [
        ({"architectures": ["blackwell"]}, "architectures"),
        ({"driver_versions": {"at_least": "580.95.06"}}, "driver_versions"),
        ({"driver_versions": [{"below": "580.95.05"}, {"exactly": "580.95.5.1"}]}, "driver_versions"),
        ({"vbios_versions": {"at_least": "96.00.A0"}}, "vbios_versions"),
        ({"vbios_versions": {"below": "96.00.9F.00.01"}}, "vbios_versions"),
        ({"modes": ["mpt", "protected-pcie"]}, "modes"),
        ({"fwids": ["00" * 48]}, "fwids"),
        ({"device_identities": ["41" + "00" * 8]}, "device_identities"),
        ({"denied_device_identities": [GPU_IDENTITY]}, "denied_device_identities"),
        ({"projects": ["G520"]}, "projects"),
        ({"project_skus": ["0201"]}, "project_skus"),
        ({"chip_skus": ["885"]}, "chip_skus"),
    ],
)
def test_a_demand_that_is_not_met_fails_and_nothing_else_does(demand: dict[str, Any], name: str) -> None:
    assert failed(policy_of(gpu_document(**demand)), verified()) == {name}


def test_what_is_demanded_and_there_passes() -> None:
    policy = policy_of(
        gpu_document(
            driver_versions={"exactly": "580.95.05"},
            vbios_versions={"exactly": "96.00.9f.00.01"},
            modes=["spt"],
            fwids=[verified().chain.leaf.fwid.hex()],
            device_identities=[GPU_IDENTITY.upper()],
            denied_device_identities=["41" + "00" * 8],
            projects=["1010"],
            project_skus=["0200"],
            chip_skus=["882", "885"],
        )
    )
    assert failed(policy, verified()) == set()


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"environment": "simulation"}, "environment"),
        ({"environment": "unavailable"}, "environment"),
        ({"cc_mode": False}, "cc_mode"),
        ({"dev_tools_mode": True}, "dev_tools_mode"),
    ],
)
def test_a_machine_in_the_wrong_mode_is_refused(changes: dict[str, Any], name: str) -> None:
    device = with_settings(**changes)
    assert failed(STRICT_POLICY, device) == {name}
    assert failed(policy_of(gpu_document(**{name: {"unchecked": "a laboratory"}})), device) == set()


def test_what_nobody_says_of_the_mode_is_refused_unless_it_is_unchecked() -> None:
    silent = without_settings(verified())
    assert failed(STRICT_POLICY, silent) == SETTINGS
    relaxed = policy_of(gpu_document(**{name: {"unchecked": "a single report"} for name in SETTINGS}))
    assert failed(relaxed, silent) == set()
    assert got(relaxed, silent, "cc_mode") == (Outcome.NOT_EVALUATED, "unchecked: a single report", "absent")


def test_an_old_driver_that_states_no_firmware_id_is_refused_unless_it_is_unchecked() -> None:
    old = verified(SimulatedGpu.of("old", driver="535.86.09"))
    wanted: dict[str, Any] = {"driver_versions": {"at_least": "535"}, "modes": ["spt"]}
    assert failed(policy_of(gpu_document(**wanted)), old) == {"fwid_required", "modes"}
    relaxed = {"fwid_required": {"unchecked": "old"}, "modes": {"unchecked": "old"}}
    assert failed(policy_of(gpu_document(**(wanted | relaxed))), old) == set()


def test_a_version_that_is_not_there_or_none_is_refused() -> None:
    everything = policy_of(gpu_document(driver_versions={"at_least": "0"}, vbios_versions={"at_least": "0"}))
    for version in (None, "", "580.95.05-beta", "570,124"):
        device = replace(verified(), driver_version=version, vbios_version=version)
        assert failed(everything, device) == {"driver_versions", "vbios_versions"}


# -- measurements


def test_without_rims_no_measurement_was_shown_equal_to_anything() -> None:
    """Whoever calls can leave RIMs unchecked in verification, and does not thereby speak for the policy."""
    for device in (without_rims(), without_rims(SWITCH)):
        assert failed(STRICT_POLICY, device) == {"rim"}
        assert got(STRICT_POLICY, device, "rim", rim="the caller's reason")[0] is Outcome.FAIL
    relaxed = policy_of({**STRICT_GPU, "unchecked": {"rim": "none for this board"}})
    assert failed(relaxed, without_rims()) == failed(relaxed, without_rims(SWITCH)) == set()


def test_half_of_the_firmware_is_not_all_of_it() -> None:
    whole = verified()
    assert whole.driver_rim is not None
    assert whole.vbios_rim is not None
    measured = whole.evidence.report.measurements
    driver = compare(measured, driver=whole.driver_rim.parsed, vbios=None, nvdec0=None)
    vbios = compare(measured, driver=None, vbios=whole.vbios_rim.parsed, nvdec0=None)
    for half, missing in (
        (replace(whole, driver_rim=None, measurements=vbios), "driver_rim"),
        (replace(whole, vbios_rim=None, measurements=driver), "vbios_rim"),
    ):
        assert failed(STRICT_POLICY, half) == {"rim"}
        assert baseline_failed(half) == {"rim"}
        assert got(STRICT_POLICY, half, "rim")[2].endswith(f"missing {missing} held none")


def test_a_mismatch_and_an_empty_comparison_fail_whoever_let_them_through() -> None:
    device = verified()
    assert device.driver_rim is not None
    assert device.vbios_rim is not None
    driver, vbios = device.driver_rim.parsed, device.vbios_rim.parsed
    other = compare((bytes(48),) * 64, driver=driver, vbios=vbios, nvdec0=None)
    empty = compare(
        (),
        driver=replace(driver, reference_values={}),
        vbios=replace(vbios, reference_values={}),
        nvdec0=None,
    )
    for comparison in (other, empty):
        changed = replace(device, measurements=comparison)
        assert failed(STRICT_POLICY, changed) == baseline_failed(changed) == {"rim"}


def test_a_waived_measurement_shows_in_the_result_and_the_rest_is_demanded() -> None:
    policy = policy_of(gpu_document(waived_measurements={"7": "tools", "8": "never used", "63": "not judged"}))
    changed = SimulatedGpu.of("changed", changed={7: b"\x07" * 48})
    device = verified(changed, tolerances=policy.gpu_tolerances)
    assert failed(policy, device) == set()
    assert got(policy, device, "waived_measurements.7") == (Outcome.NOT_EVALUATED, "unchecked: tools", "differs")
    assert got(policy, device, "waived_measurements.8")[2] == "matched"
    assert got(policy, device, "waived_measurements.63")[2] == "absent"
    assert got(policy, without_rims(), "waived_measurements.7")[2] == "absent"
    assert got(policy, device, "rim")[1:] == (
        "every measurement equal to a reference value that NVIDIA signed, but for 7, 8, 63",
        "compared 33 matched 32 mismatches 0 waived 7 waived_by_nvidia none missing none held none",
    )


def test_what_one_policy_waives_is_not_waived_for_another_nor_for_the_other_kind_of_device() -> None:
    """Evidence may have been verified with the tolerances of somebody else."""
    waiver = WaivedMeasurement(index=7, reason="somebody else's")
    changed = SimulatedGpu.of("changed", changed={7: b"\x07" * 48})
    device = verified(changed, tolerances=GpuTolerances(waived_measurements=(waiver,)))
    assert failed(STRICT_POLICY, device) == baseline_failed(device) == {"rim"}
    assert failed(policy_of(switch_document(waived_measurements={"7": "x"})), device) == {"rim"}
    assert failed(policy_of(gpu_document(waived_measurements={"8": "x"})), device) == {"rim"}
    assert failed(policy_of(gpu_document(waived_measurements={"7": "x"})), device) == set()


def test_what_nvidia_itself_waives_passes_and_shows() -> None:
    """Index 35 while the video decoder is off (nvidia-gpu.md 10)."""
    device = verified(SimulatedGpu.of("no decoder", changed={35: b"\x35" * 48}))
    assert failed(STRICT_POLICY, device) == baseline_failed(device) == set()
    assert "matched 32 mismatches 0 waived none waived_by_nvidia 35" in got(STRICT_POLICY, device, "rim")[2]


def test_rim_signers_on_hold_show_in_the_result() -> None:
    policy = policy_of(gpu_document(held_rim_signers={"unchecked": "an old driver"}))
    honest = verified()
    assert honest.driver_rim is not None
    held = SimulatedOcsp.of(AT, revoked={honest.driver_rim.signers[0].serial: Reason.HOLD})
    pool = HOPPER.endorsements(at=AT, ocsp=held)
    device = verified(endorsements=pool, tolerances=policy.gpu_tolerances)
    outcome, expected, found = got(policy, device, "held_rim_signers")
    assert (outcome, expected) == (Outcome.NOT_EVALUATED, "unchecked: an old driver")
    assert "driver_rim certificateHold" in found
    assert got(policy, without_rims(), "held_rim_signers")[2] == "absent"
    assert failed(policy, device) == set()
    assert failed(STRICT_POLICY, device) == baseline_failed(device) == {"rim"}
    assert got(STRICT_POLICY, device, "rim")[2].endswith("held driver_rim, vbios_rim")  # one signer for both


# -- one switch


def test_a_switch_that_is_not_locked_is_refused() -> None:
    device = verified(SWITCH)
    report = device.evidence.report
    entries = tuple(replace(e, value=b"\0\0") if e.type == 25 else e for e in report.opaque.entries)
    opaque = replace(report.opaque, entries=entries)
    unlocked = replace(device, evidence=replace(device.evidence, report=replace(report, opaque=opaque)))
    assert failed(STRICT_POLICY, unlocked) == {"locked"}
    assert failed(policy_of(switch_document(locked={"unchecked": "a test bench"})), unlocked) == set()


def test_demands_on_switches() -> None:
    device = verified(SWITCH)
    identity = device.chain.identity.text
    demands: dict[str, Any] = {
        "vbios_versions": {"below": "96.10.73.00.01"},
        "denied_device_identities": [identity],
        "fwids": ["00" * 48],
    }
    assert failed(policy_of(switch_document(**demands)), device) == set(demands)
    assert failed(policy_of(switch_document(device_identities=[identity])), device) == set()


# -- all devices together


def test_a_policy_that_speaks_of_devices_refuses_evidence_without_any() -> None:
    nothing = set_of([])
    assert set_failed(STRICT_POLICY, nothing) == {"gpus", "switches"}
    assert set_failed(STRICT_POLICY, set_of([verified()])) == {"switches"}
    none_needed = policy_of(devices_document(gpus={"at_least": 0}, switches={"at_least": 0}))
    assert set_failed(none_needed, nothing) == set()


@pytest.mark.parametrize(
    ("count", "good"),
    [(2, {2}), ({"at_least": 2}, {2, 3}), ({"at_least": 1, "at_most": 2}, {1, 2}), ({"unchecked": "x"}, {0, 1, 2, 3})],
)
def test_both_bounds_of_a_count_are_included(count: object, good: set[int]) -> None:
    policy = policy_of(devices_document(gpus=count, switches=count))
    for number in range(4):
        found = set_failed(policy, set_of([verified()] * number + [verified(SWITCH)] * number))
        assert found == (set() if number in good else {"gpus", "switches"})


def test_devices_that_the_cpu_does_not_commit_to_are_refused() -> None:
    devices = [verified(), verified(SWITCH)]
    assert set_failed(STRICT_POLICY, set_of(devices, bound=False)) == {"bound"}
    relaxed = policy_of(devices_document(bound={"unchecked": "a report by itself"}))
    assert set_failed(relaxed, set_of(devices, cpu_kind=None, bound=False)) == set()


def test_the_demands_on_the_cpu_are_not_met_by_leaving_it_out() -> None:
    policy = policy_of({**STRICT, "gpu": STRICT_GPU["gpu"], "devices": {"bound": {"unchecked": "x"}}})
    for kind, wanted in ((None, {"cpu"}), ("tdx", {"cpu"}), ("sev-snp", set())):
        assert set_failed(policy, set_of([verified()], cpu_kind=kind, bound=False)) == wanted


def test_gpus_of_two_architectures_or_drivers_are_refused() -> None:
    other_driver = verified(SimulatedGpu.of("gpu 1", driver="570.133.20"))
    mixed = set_of([verified(), verified(BLACKWELL), verified(SWITCH)])
    drivers = set_of([verified(), other_driver, verified(SWITCH)])
    silent = set_of([verified(), replace(verified(), driver_version=None), verified(SWITCH)])
    assert set_failed(STRICT_POLICY, mixed) == {"same_architecture"}
    assert set_failed(STRICT_POLICY, drivers) == {"same_driver_version"}
    assert set_failed(STRICT_POLICY, silent) == {"same_driver_version"}


def test_a_rule_over_all_devices_names_no_item() -> None:
    (check,) = [
        rule.judge(set_of([verified()]), at=AT, item=None)
        for rule in STRICT_POLICY.set_rules
        if rule.id.endswith("gpus")
    ]
    assert (check.item, check.got, check.outcome) == (None, "1", Outcome.PASS)


# -- the baseline


def test_the_baseline_refuses_developer_tools_when_they_are_stated() -> None:
    assert baseline_failed(verified()) == set()
    assert baseline_failed(verified(SWITCH)) == set()
    assert baseline_failed(without_settings(verified())) == set()
    assert baseline_failed(with_settings(dev_tools_mode=True)) == {"dev_tools_mode"}


def test_the_baseline_refuses_devices_whose_measurements_nobody_compared() -> None:
    assert baseline_failed(without_rims()) == {"rim"}
    assert baseline_failed(without_rims(SWITCH)) == {"rim"}


# -- shipped policies


LEFT_TO_THE_HOST = {
    "policy.snp.minimum_abi",
    *(f"policy.snp.guest_policy.{bit}" for bit in ("ciphertext_hiding_dram", "page_swap_disable", "rapl_dis")),
    "policy.snp.guest_policy.single_socket",
}


@pytest.mark.parametrize("name", ["snp-h100", "snp-production"])
def test_a_shipped_policy_leaves_nothing_of_the_launch_unsaid(name: str) -> None:
    policy = load_policy((POLICIES / f"{name}.yaml").read_bytes())
    rules = {rule.id: rule for rule in policy.rules["sev-snp"]}
    bits = {bit for bit, _ in GUEST_POLICY_BITS} - {"mem_aes_256_xts"}
    assert {f"policy.snp.guest_policy.{bit}" for bit in bits} <= set(rules)
    assert {rule_id for rule_id, rule in rules.items() if rule.relaxed is not None} == LEFT_TO_THE_HOST


def test_the_shipped_policy_for_an_h100_relaxes_nothing_but_what_the_launch_may_demand() -> None:
    policy = load_policy((POLICIES / "snp-h100.yaml").read_bytes())
    assert policy.simulated is None
    assert policy.unchecked == ()
    rules = [rule for of_kind in (*policy.rules.values(), policy.set_rules) for rule in of_kind]
    assert {rule.id for rule in rules if rule.relaxed is not None} == LEFT_TO_THE_HOST
    assert failed(policy, verified()) == set()
    assert failed(policy, verified(SimulatedGpu.of("old", driver="570.86.10"))) == {"driver_versions"}
    assert failed(policy, verified(BLACKWELL)) == {"architectures", "vbios_versions"}
    assert set_failed(policy, set_of([verified()])) == set()
    assert set_failed(policy, set_of([verified()] * 2)) == {"gpus"}


def test_the_laboratory_policy_affirms_simulated_gpus_that_a_cpu_vouches_for() -> None:
    policy = load_policy((POLICIES / "snp-h100-lab-simulated.yaml").read_bytes())
    for device in (verified(), verified(BLACKWELL)):
        assert failed(policy, device) == set()
        assert set_failed(policy, set_of([device])) == set()
    assert set_failed(policy, set_of([verified()], cpu_kind="tdx", bound=False)) == {"cpu", "bound"}


# -- laws

DEVICES = [
    verified(),
    verified(BLACKWELL),
    verified(SimulatedGpu.of("old", driver="535.86.09")),
    verified(SimulatedGpu.of("m", mode="mpt", dev_tools_mode=True)),
    without_rims(),
    without_settings(verified()),
]
GPUS = st.sampled_from(DEVICES)
REQUIREMENTS: dict[str, st.SearchStrategy[Any]] = {
    "architectures": st.sampled_from([["hopper"], ["blackwell"], ["hopper", "blackwell"]]),
    "driver_versions": st.sampled_from([{"at_least": "570.86"}, {"below": "570"}, [{"exactly": "580.95.05"}]]),
    "vbios_versions": st.sampled_from([{"at_least": "97"}, {"below": "97"}]),
    "modes": st.sampled_from([["spt"], ["mpt"], ["spt", "mpt"]]),
    "projects": st.sampled_from([["1010"], ["G525"]]),
    "device_identities": st.sampled_from([[GPU_IDENTITY], ["41" + "00" * 8]]),
    "denied_device_identities": st.sampled_from([[GPU_IDENTITY], ["41" + "00" * 8]]),
    "rim": st.just(True),
    "fwid_required": st.just(True),
    "cc_mode": st.just(True),
    "dev_tools_mode": st.just(False),
    "environment": st.just("production"),
}
RELAXABLE = [name for name in REQUIREMENTS if name != "denied_device_identities"]
NOTHING = {name: {"unchecked": "nothing is demanded"} for name in RELAXABLE}


@given(GPUS, st.data())
def test_adding_a_requirement_never_turns_no_into_yes(device: VerifiedGpu, data: st.DataObject) -> None:
    fewer = {
        name: data.draw(REQUIREMENTS[name])
        for name in data.draw(st.lists(st.sampled_from(list(REQUIREMENTS)), unique=True, max_size=6))
    }
    added = data.draw(st.sampled_from([name for name in REQUIREMENTS if name not in fewer]))
    more = {**fewer, added: data.draw(REQUIREMENTS[added])}
    lenient, strict = (policy_of(gpu_document(**(NOTHING | wanted))) for wanted in (fewer, more))
    assert failed(lenient, device) <= failed(strict, device)
    assert failed(policy_of(gpu_document(**NOTHING)), device) == set()


@given(st.lists(st.integers(0, 999), min_size=3, max_size=3), st.lists(st.integers(0, 999), min_size=3, max_size=3))
def test_a_higher_driver_never_fails_a_minimum_that_a_lower_one_meets(one: list[int], other: list[int]) -> None:
    lower, higher = (".".join(map(str, version)) for version in sorted([one, other]))
    policy = policy_of(gpu_document(driver_versions={"at_least": lower}))
    assert failed(policy, replace(verified(), driver_version=higher)) == set()


@given(st.lists(GPUS, min_size=1, max_size=4), st.booleans())
def test_one_bad_device_fails_the_set_wherever_it_stands(devices: list[VerifiedGpu], bound: bool) -> None:
    """A set is good only if each device is good alone; an order of devices means nothing."""
    policy = policy_of(devices_document(switches={"at_least": 0}))
    alone = [failed(policy, device) for device in devices]
    together = set_failed(policy, set_of(devices, bound=bound))
    assert together == set_failed(policy, set_of(reversed(devices), bound=bound))
    worse = [*devices, without_settings(without_rims())]
    assert set().union(*alone) <= set().union(*(failed(policy, device) for device in worse))
    assert any(failed(policy, device) for device in worse)
    assert ("bound" in together) is not bound


@given(st.lists(GPUS, min_size=1, max_size=4), GPUS)
def test_another_device_never_makes_a_mixed_set_uniform(devices: list[VerifiedGpu], another: VerifiedGpu) -> None:
    policy = policy_of(devices_document(switches={"at_least": 0}))
    assert set_failed(policy, set_of(devices)) <= set_failed(policy, set_of([*devices, another]))
