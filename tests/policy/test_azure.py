"""Policies over Azure confidential VMs: what they booted, what the paravisor says, and the CPU's report within."""

from dataclasses import replace
from typing import Any

import pytest

from attest.appraisal import appraise
from attest.checks import Outcome
from attest.errors import InvalidValueError
from attest.evidence.azure.structure import HclReportType
from attest.policy.authoring.lint import lint_policy
from attest.policy.authoring.policy_diff import diff_policies
from attest.policy.model import decode_policy
from tests.evidence.azure.made import PCRS, AzureVm, judged, quote
from tests.policy.documents import policy_of
from tests.policy.mixed import HEAD, azure, azure_td, gpu, hopper, mixed, policy_with, snp, snp_cpu
from tests.policy.random_pairs import few_registers
from tests.samples import AT

SNP, TDX = (AzureVm(kind=kind) for kind in HclReportType)
VM = {"console-enabled": False, "secure-boot": True, "tpm-enabled": True, "vmUniqueId": "X"}
WAIVER = {"unchecked": "a test"}


def document(**changes: object) -> dict[str, Any]:
    return policy_with(azure=azure(**changes), snp=snp())


def failed(policy: dict[str, Any], vm: AzureVm = SNP) -> set[str]:
    return {check.id for check in appraise(judged(vm), policy=policy_of(policy), at=AT).failed}


def of_vm(**changes: object) -> AzureVm:
    return AzureVm(claims={"vm-configuration": VM | changes})


def test_a_vm_is_accepted_by_what_it_booted_and_by_its_cpus_report() -> None:
    assert failed(document()) == set()
    assert failed(policy_with(azure=azure(), tdx=azure_td()), TDX) == set()
    result = appraise(judged(SNP), policy=policy_of(document()), at=AT)
    asked = {check.id: check for check in result.policy_checks}
    assert asked["policy.azure.pcr4"].got == PCRS[4].hex()
    assert asked["policy.snp.measurement"].outcome is Outcome.PASS
    assert result.trustworthiness["executables"] == "affirming"


@pytest.mark.parametrize(
    ("demands", "vm", "check"),
    [
        ({"pcr4": ["pcr7"]}, SNP, "pcr4"),
        ({"pcr7": ["pcr4"]}, SNP, "pcr7"),
        ({}, of_vm(**{"secure-boot": False}), "vm_configuration.secure_boot"),
        ({}, of_vm(**{"console-enabled": True}), "vm_configuration.console_enabled"),
        ({}, of_vm(**{"tpm-enabled": False}), "vm_configuration.tpm_enabled"),
        ({"vm_configuration": {"tpm_persisted": True}}, SNP, "vm_configuration.tpm_persisted"),
        ({"vm_unique_ids": ["Y"]}, SNP, "vm_unique_ids"),
        ({"root_cert_thumbprints": ["aa"]}, SNP, "root_cert_thumbprints"),
        ({"user_data": ["01" * 64]}, SNP, "user_data"),
        ({"tpm_clock_safe": True}, AzureVm(tpm=quote(safe=False)), "tpm_clock_safe"),
        ({"maximum_restart_count": 0}, SNP, "maximum_restart_count"),
    ],
)
def test_each_demand_refuses_what_does_not_meet_it(demands: dict[str, Any], vm: AzureVm, check: str) -> None:
    assert failed(document(**demands), vm) == {f"policy.azure.{check}"}
    relaxed: dict[str, Any] = {"maximum_restart_count": 1} if check == "maximum_restart_count" else {}
    if check.startswith("vm_configuration."):
        relaxed = {"vm_configuration": {check.rpartition(".")[2]: WAIVER}}
    assert failed(document(**{**dict.fromkeys(demands, WAIVER), **relaxed}), vm) == set()


def test_a_register_that_the_quote_does_not_select_is_absent_and_fails() -> None:
    result = appraise(mixed(few_registers()), policy=policy_of(document(pcr7=["pcr7"])), at=AT)
    (check,) = result.failed
    assert (check.id, check.got) == ("policy.azure.pcr7", "absent")


def test_a_vm_id_is_one_in_either_case() -> None:
    assert failed(document(vm_unique_ids=["x"])) == set()
    assert failed(document(vm_unique_ids=["Y", "X"])) == set()


def test_the_sections_of_the_cpu_judge_the_report_within() -> None:
    assert failed(policy_with(azure=azure(), snp=snp(measurement=["other"]))) == {"policy.snp.measurement"}
    debug = AzureVm(cpu={"policy": 0xB0000})
    assert failed(document(), debug) == {"policy.snp.guest_policy.debug"}
    assert failed(policy_with(azure=azure(), tdx=azure_td(mr_td=["other"])), TDX) == {"policy.tdx.mr_td"}


def test_a_policy_for_azure_accepts_no_machine_of_another_cloud_and_the_other_way_round() -> None:
    bare, within = policy_of(policy_with(snp=snp())), policy_of(document())
    assert within.kinds == ("azure-snp",)
    assert {check.id for check in appraise(mixed(snp_cpu()), policy=within, at=AT).failed} == {"policy.kind"}
    assert {check.id for check in appraise(judged(SNP), policy=bare, at=AT).failed} == {"policy.kind"}
    assert failed(document(), TDX) == {"policy.kind"}
    either = policy_with(any_of=[{"snp": snp()}, {"azure": azure(), "snp": snp()}])
    assert failed(either) == set()
    assert appraise(mixed(snp_cpu()), policy=policy_of(either), at=AT).affirmed


def test_gpus_are_judged_beside_the_vm_and_have_to_be_bound_to_it() -> None:
    policy = policy_of(policy_with(azure=azure(), snp=snp(), gpu=gpu()))
    cpu = judged(SNP).items[0]
    assert appraise(mixed(cpu, hopper()), policy=policy, at=AT).affirmed
    unbound = appraise(mixed(cpu, hopper(), bound=False), policy=policy, at=AT)
    assert {check.id for check in unbound.failed} == {"policy.devices.bound"}
    assert not appraise(mixed(cpu), policy=policy, at=AT).affirmed
    assert not appraise(mixed(snp_cpu(), hopper()), policy=policy, at=AT).affirmed


# -- what does not load


@pytest.mark.parametrize(
    ("sections", "path", "expected"),
    [
        ({"azure": azure()}, "azure", "snp or tdx"),
        ({"azure": {}, "snp": snp()}, "azure", "pcr0 to pcr23"),
        ({"azure": {"vm_configuration": {"secure_boot": True}}, "snp": snp()}, "azure", "pcr0 to pcr23"),
        ({"azure": azure(pcr4=[]), "snp": snp()}, "azure.pcr4", "at least one member"),
        ({"azure": azure(pcr4=["image"]), "snp": snp()}, "azure.pcr4[0]", "one of"),
        ({"azure": azure(pcr24=["pcr4"]), "snp": snp()}, "azure.pcr24", "a known key"),
        (
            {"azure": azure(vm_configuration={"secure_boot": False}), "snp": snp()},
            "azure.vm_configuration.secure_boot",
            "true",
        ),
        (
            {"azure": azure(vm_configuration={"console": True}), "snp": snp()},
            "azure.vm_configuration.console",
            "one of",
        ),
        ({"azure": azure(tpm_clock_safe=False), "snp": snp()}, "azure.tpm_clock_safe", "true"),
        ({"azure": azure(maximum_restart_count=-1), "snp": snp()}, "azure.maximum_restart_count", "from 0"),
        ({"azure": azure(user_data=["00"]), "snp": snp()}, "azure.user_data[0]", "64 bytes"),
        ({"azure": azure(), "tdx": azure_td(event_log={})}, "tdx.event_log", "RTMRs of an Azure VM are zeros"),
        ({"any_of": [{"azure": azure()}], "snp": snp()}, "any_of[0].azure", "snp or tdx"),
    ],
)
def test_what_would_demand_nothing_or_the_impossible_does_not_load(
    sections: dict[str, Any], path: str, expected: str
) -> None:
    with pytest.raises(InvalidValueError) as refused:
        decode_policy(HEAD | sections)
    assert refused.value.field == path
    assert expected in (refused.value.expected or "")


# -- what people are told


def test_lint_finds_registers_that_measure_no_system_and_those_that_the_guest_sets_back() -> None:
    def found(**demands: object) -> set[tuple[str, str]]:
        policy = decode_policy(policy_with(azure=demands, snp=snp()) | {"simulated": "refuse"})
        return {(finding.rule, finding.path) for finding in lint_policy(policy, at=AT)}

    assert ("boot-not-demanded", "azure") in found(pcr7=["pcr7"])
    assert ("boot-not-demanded", "azure") not in found(pcr4=["pcr4"])
    assert ("self-chosen-claim", "azure.pcr23") in found(pcr4=["pcr4"], pcr23=["pcr7"])
    assert ("identity-not-demanded", "azure") in found(pcr4=WAIVER)
    assert ("identity-not-demanded", "azure") not in found(pcr4=["pcr4"])
    assert ("self-chosen-claim", "azure") in found(pcr4=WAIVER, user_data=["01" * 64])
    tds = decode_policy(policy_with(azure=azure(), tdx=azure_td()) | {"simulated": "refuse"})
    assert "boot-not-demanded" not in {finding.rule for finding in lint_policy(tds, at=AT)}


@pytest.mark.parametrize("index", range(16))
def test_lint_knows_each_register_of_the_boot_loader_and_the_kernel(index: int) -> None:
    policy = decode_policy(policy_with(azure={f"pcr{index}": ["pcr7"]}, snp=snp()) | {"simulated": "refuse"})
    rules = {finding.rule for finding in lint_policy(policy, at=AT)}
    assert ("boot-not-demanded" in rules) is (index not in {4, 8, 9, 11})


def test_a_register_that_nothing_extended_may_be_zero_and_that_of_the_firmware_may_not() -> None:
    zeros = {"zeros": {"values": ["00" * 32], "origin": "a build"}}
    for key, expected in (("pcr8", False), ("pcr0", True)):
        references = HEAD["reference_values"] | zeros
        policy = decode_policy(
            policy_with(azure=azure(**{key: ["zeros"]}), snp=snp()) | {"reference_values": references}
        )
        rules = {finding.rule for finding in lint_policy(policy, at=AT)}
        assert ("value-of-zeros" in rules) is expected


def test_differences_are_told_with_their_direction() -> None:
    old = decode_policy(document(pcr7=["pcr7"], maximum_restart_count=1, vm_unique_ids=["x"]))
    for changes, effects in (
        ({"pcr7": ["pcr7", "pcr4"]}, {"azure.pcr7": "looser"}),
        ({"pcr9": ["pcr4"]}, {"azure.pcr9": "stricter"}),
        ({"maximum_restart_count": 2}, {"azure.maximum_restart_count": "looser"}),
        ({"maximum_restart_count": 0}, {"azure.maximum_restart_count": "stricter"}),
        ({"vm_configuration": {"secure_boot": WAIVER}}, {"azure.vm_configuration.secure_boot": "looser"}),
        ({"vm_unique_ids": ["y"]}, {"azure.vm_unique_ids": "changed"}),
    ):
        new = decode_policy(
            document(**{"pcr7": ["pcr7"], "maximum_restart_count": 1, "vm_unique_ids": ["x"]} | changes)
        )
        found: dict[str, set[str]] = {}
        for change in diff_policies(old, new).changes:
            if change.path.startswith("azure"):
                found.setdefault(change.path, set()).add(str(change.effect))
        told = {path: "changed" if len(of) > 1 else next(iter(of)) for path, of in found.items()}
        assert told == effects


def test_a_section_for_azure_changes_which_evidence_is_judged() -> None:
    bare, within = decode_policy(policy_with(snp=snp())), decode_policy(document())
    for old, new in ((bare, within), (within, bare)):
        assert diff_policies(old, new).effect == "changed"
    assert replace(within, azure=None) == bare
