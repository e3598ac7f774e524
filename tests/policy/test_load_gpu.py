"""The sections `gpu`, `nvswitch` and `devices` are closed too, and strict where nothing is said."""

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import ConfigurationError
from attest.evidence.tolerances import NO_TOLERANCES, DeviceTolerances, GpuTolerances, WaivedMeasurement
from attest.policy import Policy
from attest.policy.loader import BASELINE_RULES
from attest.policy.rules import Rule
from tests.policy.documents import STRICT, policy_of
from tests.policy.gpu_documents import STRICT_GPU, devices_document, gpu_document, switch_document
from tests.policy.intel_documents import STRICT_SGX, STRICT_TDX
from tests.policy.test_load import JSON, refused

EQUAL = "every measurement equal to a reference value that NVIDIA signed"
IDENTITY = "41" + "00" * 8


def texts(rules: tuple[Rule, ...]) -> dict[str, str]:
    """What each rule demands."""
    return {
        rule.id.split(".", 2)[2]: rule.expected if rule.relaxed is None else f"unchecked: {rule.relaxed}"
        for rule in rules
    }


def rules_of(document: dict[str, Any], kind: str = "nvidia-gpu") -> dict[str, str]:
    """What each rule of a kind of device demands."""
    return texts(policy_of(document).rules[kind])


def set_rules_of(document: dict[str, Any]) -> dict[str, str]:
    """What each rule over all devices demands."""
    return texts(policy_of(document).set_rules)


def without(document: dict[str, Any], *names: str) -> dict[str, Any]:
    """A document without some keys."""
    return {name: value for name, value in document.items() if name not in names}


def test_what_is_left_out_of_gpu_is_demanded_strictly() -> None:
    assert rules_of(STRICT_GPU) == {
        "architectures": "one of hopper",
        "driver_versions": "at least 570.86",
        "vbios_versions": "at least 96.00.5E.00.01",
        "rim": EQUAL,
        "fwid_required": "true",
        "environment": "production",
        "cc_mode": "true",
        "dev_tools_mode": "false",
    }


def test_what_is_left_out_of_nvswitch_is_demanded_strictly() -> None:
    assert rules_of(STRICT_GPU, "nvidia-switch") == {
        "vbios_versions": "at least 96.10.55.00.01",
        "rim": EQUAL,
        "locked": "true",
    }


def test_of_all_devices_together_the_strict_is_demanded_with_and_without_the_key() -> None:
    strict = {
        "gpus": "at least 1",
        "switches": "at least 1",
        "bound": "true",
        "same_architecture": "one for all GPUs",
        "same_driver_version": "one for all GPUs",
    }
    assert set_rules_of(STRICT_GPU) == set_rules_of(devices_document()) == strict
    assert set_rules_of(without(STRICT_GPU, "nvswitch")) == without(strict, "switches")
    assert set_rules_of(without(STRICT_GPU, "gpu")) == {name: strict[name] for name in ("switches", "bound")}


def test_a_policy_without_devices_demands_nothing_of_them() -> None:
    policy = policy_of(STRICT)
    assert policy.set_rules == ()
    assert policy.gpu_tolerances == policy.switch_tolerances == NO_TOLERANCES
    assert not {"nvidia-gpu", "nvidia-switch"} & set(policy.rules)


def test_a_policy_that_speaks_of_a_cpu_demands_that_one_comes_along() -> None:
    assert "cpu" not in set_rules_of(STRICT_GPU)
    both = {**STRICT, "gpu": STRICT_GPU["gpu"]}
    assert set_rules_of(both)["cpu"] == "one of sev-snp"
    references = STRICT["reference_values"] | STRICT_TDX["reference_values"]
    every = {**both, "tdx": STRICT_TDX["tdx"], "sgx": STRICT_SGX["sgx"], "reference_values": references}
    assert set_rules_of(every)["cpu"] == "one of sev-snp, tdx, sgx"


def test_what_is_stated_is_demanded() -> None:
    stated = {
        "modes": ["spt", "protected-pcie"],
        "fwids": ["aa" * 48],
        "device_identities": [IDENTITY],
        "denied_device_identities": [IDENTITY],
        "projects": ["1010"],
        "project_skus": ["0200"],
        "chip_skus": ["882"],
    }
    rules = rules_of(gpu_document(**stated))
    assert {name: rules[name] for name in stated} == {
        "modes": "one of spt, protected-pcie",
        "fwids": "one of " + "aa" * 48,
        "device_identities": f"one of {IDENTITY}",
        "denied_device_identities": f"none of {IDENTITY}",
        "projects": "one of 1010",
        "project_skus": "one of 0200",
        "chip_skus": "one of 882",
    }
    rules = rules_of(switch_document(device_identities=[IDENTITY]), "nvidia-switch")
    assert rules["device_identities"] == f"one of {IDENTITY}"
    rules = set_rules_of(devices_document(gpus=8, switches={"at_least": 2, "at_most": 4}))
    assert (rules["gpus"], rules["switches"]) == ("exactly 8", "at least 2 and at most 4")


@pytest.mark.parametrize(
    "name", ["rim", "fwid_required", "environment", "cc_mode", "dev_tools_mode", "driver_versions", "architectures"]
)
def test_relaxing_a_demand_needs_a_reason_that_shows(name: str) -> None:
    assert rules_of(gpu_document(**{name: {"unchecked": "because"}}))[name] == "unchecked: because"
    assert refused(gpu_document(**{name: {"unchecked": " "}})).field == f"gpu.{name}.unchecked"


@pytest.mark.parametrize("name", ["gpus", "switches", "bound", "same_architecture", "same_driver_version"])
def test_a_demand_on_all_devices_is_relaxed_in_the_same_way(name: str) -> None:
    assert set_rules_of(devices_document(**{name: {"unchecked": "because"}}))[name] == "unchecked: because"


def test_what_verification_is_to_let_pass_stands_in_every_result() -> None:
    document = gpu_document(waived_measurements={"7": "tools", "35": "video"}, held_rim_signers={"unchecked": "old"})
    policy = policy_of(document)
    assert policy.gpu_tolerances == GpuTolerances(
        waived_measurements=(
            WaivedMeasurement(index=7, reason="tools"),
            WaivedMeasurement(index=35, reason="video"),
        ),
        held_rim_signers="old",
    )
    assert policy.switch_tolerances == NO_TOLERANCES
    assert policy.tolerances == DeviceTolerances(gpus=policy.gpu_tolerances, switches=NO_TOLERANCES)
    rules = rules_of(document)
    assert rules["waived_measurements.7"] == "unchecked: tools"
    assert rules["waived_measurements.35"] == "unchecked: video"
    assert rules["held_rim_signers"] == "unchecked: old"


def test_what_is_waived_for_a_switch_is_not_waived_for_a_gpu() -> None:
    policy = policy_of(switch_document(waived_measurements={"9": "x"}))
    assert policy.gpu_tolerances == NO_TOLERANCES
    assert policy.switch_tolerances == GpuTolerances(
        waived_measurements=(WaivedMeasurement(index=9, reason="x"),), held_rim_signers=None
    )


def test_rims_are_demanded_where_the_author_says_nothing_of_them() -> None:
    silent = {name: value for name, value in STRICT_GPU["gpu"].items() if name != "rim"}
    demanded = rules_of({**STRICT_GPU, "gpu": {**silent, "rim": True}})["rim"]
    assert rules_of({**STRICT_GPU, "gpu": silent})["rim"] == demanded


def test_rims_that_the_author_leaves_unchecked_are_not_demanded_by_the_same_author() -> None:
    document = {**STRICT_GPU, "unchecked": {"revocation": "no network", "rim": "no RIM for this board"}}
    assert rules_of(document)["rim"] == "unchecked: no RIM for this board"
    assert rules_of(document, "nvidia-switch")["rim"] == "unchecked: no RIM for this board"
    stated = {**gpu_document(rim=True), "unchecked": {"rim": "no RIM for this board"}}
    assert rules_of(stated)["rim"] == EQUAL


@pytest.mark.parametrize(
    "path",
    ["gpu.architectures", "gpu.driver_versions", "gpu.vbios_versions", "nvswitch.vbios_versions"],
)
def test_a_missing_key_is_named(path: str) -> None:
    changed = copy.deepcopy(STRICT_GPU)
    section, name = path.split(".")
    del changed[section][name]
    assert refused(changed).field == path


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"architectures": []}, "gpu.architectures"),
        ({"architectures": ["ls10"]}, "gpu.architectures[0]"),
        ({"architectures": ["Hopper"]}, "gpu.architectures[0]"),
        ({"driver_versions": []}, "gpu.driver_versions"),
        ({"driver_versions": "570"}, "gpu.driver_versions"),
        ({"driver_versions": {"at_least": 570}}, "gpu.driver_versions.at_least"),
        ({"driver_versions": {"at_least": "96.00.A5.00.01"}}, "gpu.driver_versions.at_least"),
        ({"vbios_versions": {"at_least": "570.86"}}, "gpu.vbios_versions.at_least"),
        ({"rim": False}, "gpu.rim"),
        ({"fwid_required": False}, "gpu.fwid_required"),
        ({"cc_mode": False}, "gpu.cc_mode"),
        ({"dev_tools_mode": True}, "gpu.dev_tools_mode"),
        ({"environment": "simulation"}, "gpu.environment"),
        ({"modes": []}, "gpu.modes"),
        ({"modes": ["ppcie"]}, "gpu.modes[0]"),
        ({"fwids": []}, "gpu.fwids"),
        ({"fwids": ["aa" * 32]}, "gpu.fwids[0]"),
        ({"device_identities": []}, "gpu.device_identities"),
        ({"device_identities": ["00" * 8]}, "gpu.device_identities[0]"),
        ({"denied_device_identities": []}, "gpu.denied_device_identities"),
        ({"projects": []}, "gpu.projects"),
        ({"waived_measurements": {}}, "gpu.waived_measurements"),
        ({"waived_measurements": ["7"]}, "gpu.waived_measurements"),
        ({"waived_measurements": {"64": "x"}}, "gpu.waived_measurements.64"),
        ({"waived_measurements": {"07": "x"}}, "gpu.waived_measurements.07"),
        ({"waived_measurements": {"7": ""}}, "gpu.waived_measurements.7"),
        ({"held_rim_signers": True}, "gpu.held_rim_signers"),
        ({"locked": True}, "gpu.locked"),
    ],
)
def test_a_wrong_value_is_refused_with_its_path(change: dict[str, Any], path: str) -> None:
    assert refused(gpu_document(**change)).field == path


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"locked": False}, "nvswitch.locked"),
        ({"waived_measurements": {"31": "x"}}, "nvswitch.waived_measurements.31"),
        ({"driver_versions": {"at_least": "570"}}, "nvswitch.driver_versions"),
        ({"cc_mode": True}, "nvswitch.cc_mode"),
    ],
)
def test_a_wrong_value_about_switches_is_refused_with_its_path(change: dict[str, Any], path: str) -> None:
    assert refused(switch_document(**change)).field == path


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"gpus": -1}, "devices.gpus"),
        ({"gpus": 65}, "devices.gpus"),
        ({"gpus": True}, "devices.gpus"),
        ({"gpus": "8"}, "devices.gpus"),
        ({"gpus": {}}, "devices.gpus.at_least"),
        ({"gpus": {"at_most": 8}}, "devices.gpus.at_least"),
        ({"gpus": {"at_least": 4, "at_most": 3}}, "devices.gpus.at_most"),
        ({"bound": False}, "devices.bound"),
        ({"same_driver_version": False}, "devices.same_driver_version"),
        ({"cpu": "sev-snp"}, "devices.cpu"),
    ],
)
def test_a_wrong_value_about_all_devices_is_refused_with_its_path(change: dict[str, Any], path: str) -> None:
    assert refused(devices_document(**change)).field == path


def test_devices_that_the_policy_does_not_speak_of_cannot_be_counted() -> None:
    assert refused({**STRICT, "devices": {"gpus": 1}}).field == "devices"
    assert refused(without(devices_document(switches=4), "nvswitch")).field == "devices.switches"
    assert refused(without(devices_document(gpus=8), "gpu")).field == "devices.gpus"


def test_the_baseline_judges_gpus_and_switches() -> None:
    gpu, switch = (texts(BASELINE_RULES[kind]) for kind in ("nvidia-gpu", "nvidia-switch"))
    assert gpu == {"dev_tools_mode": "one of off, not stated", "rim": EQUAL}
    assert switch == {"rim": EQUAL}
    assert Policy.baseline().set_rules == ()
    assert Policy.baseline().gpu_tolerances == NO_TOLERANCES


NAMES = [
    *("architectures", "driver_versions", "vbios_versions", "rim", "fwids", "modes", "environment", "cc_mode"),
    *("waived_measurements", "held_rim_signers", "device_identities", "projects"),
]


@given(st.sampled_from(NAMES), JSON)
def test_any_value_in_any_place_gives_a_policy_or_a_configuration_error(name: str, value: object) -> None:
    with contextlib.suppress(ConfigurationError):
        policy_of(gpu_document(**{name: value}))
    with contextlib.suppress(ConfigurationError):
        policy_of(switch_document(**{name: value}))


@given(st.sampled_from(["gpus", "switches", "bound", "same_architecture"]), JSON)
def test_any_value_about_all_devices_gives_a_policy_or_a_configuration_error(name: str, value: object) -> None:
    with contextlib.suppress(ConfigurationError):
        policy_of(devices_document(**{name: value}))
