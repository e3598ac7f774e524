"""What in a policy is probably not meant: each rule fires, and leaves good policies alone."""

import copy
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from attest.encoding import rfc3339_text
from attest.policy.authoring.lint import lint_policy
from attest.policy.authoring.lint_findings import SOON, LintFinding, Severity
from attest.policy.document import read_document
from attest.policy.model import decode_policy
from tests.policy.documents import MEASUREMENT, STRICT, document
from tests.policy.gpu_documents import STRICT_GPU, devices_document, gpu_document, switch_document
from tests.policy.intel_documents import sgx_document, tdx_document

Json = dict[str, Any]
AT = datetime(2026, 12, 1, tzinfo=UTC)
FOLDER = Path(__file__).resolve().parents[2] / "policies"
POLICIES = sorted(path for path in FOLDER.glob("*.yaml") if not path.name.endswith(".tests.yaml"))
ZERO, DIGEST = "00" * 48, "02" * 48
FIRMWARE = {"boot_variables": ["00"], "other_firmware_events": [DIGEST]}
GENOA = {"bootloader": 10, "tee": 0, "snp": 27, "microcode": 84}
TURIN = {"fmc": 1, "bootloader": 1, "tee": 1, "snp": 4, "microcode": 72}
OLD, OLDER = GENOA | {"snp": 26}, GENOA | {"snp": 25}
LATER = "2027-12-31T00:00:00Z"


def linted(policy: Json, at: datetime = AT) -> tuple[LintFinding, ...]:
    return lint_policy(decode_policy(read_document(json.dumps(policy).encode())), at=at)


def found(policy: Json, at: datetime = AT) -> set[tuple[str, str, str]]:
    return {(one.rule, str(one.severity), one.path) for one in linted(policy, at)}


def production(policy: Json, **top: Any) -> Json:  # noqa: ANN401
    """The policy without the simulator, without unused values, each value with an end."""
    made = {name: value for name, value in copy.deepcopy(policy).items() if name != "simulated"} | top
    text = json.dumps({name: value for name, value in made.items() if name != "reference_values"})
    if "reference_values" in made and "reference_values" not in top:
        used = {n: v for n, v in made["reference_values"].items() if f'"{n}"' in text}
        made["reference_values"] = {name: value | {"expires": LATER} for name, value in used.items()}
    return {name: value for name, value in made.items() if value}


def snp(**change: Any) -> Json:  # noqa: ANN401
    return production(document(**change))


def tdx(**change: Any) -> Json:  # noqa: ANN401
    return production(tdx_document(rtmr0=["other"], rtmr1=["other"], **change))


def gpu(**change: Any) -> Json:  # noqa: ANN401
    made = gpu_document(**change)
    del made["nvswitch"]
    return production(STRICT | {"gpu": made["gpu"]})


GOOD: dict[str, Json] = {
    "snp": snp(),
    "tdx": tdx(),
    "sgx": production(sgx_document()),
    "sgx by its signer": production(
        sgx_document(mr_enclave={"unchecked": "x"}, mr_signer=["ab" * 32], isv_prod_id=[1], minimum_isv_svn=2)
    ),
    "gpu": gpu(),
    "switch": production(STRICT | {"gpu": gpu()["gpu"], "nvswitch": switch_document()["nvswitch"]}),
    "two vmpls": snp(vmpl=[0, 1]),
    "lists": snp(chip_ids=["ab" * 64], denied_chip_ids=["cd" * 64], id_key_digests=["ab" * 48], host_data=["00" * 32]),
    "vlek": snp(signing_key=["vlek"], csp_ids=["a"], minimum_launch_tcb={"Genoa": GENOA}),
    "exact": snp(exact_tcb={"Genoa": [GENOA, GENOA | {"snp": 28}]}, exact_committed_tcb={"Genoa": [GENOA]}),
    "exact alone": snp(minimum_tcb=None, exact_tcb={"Genoa": [GENOA]}),
    "statuses": tdx(tcb_status=["UpToDate", "SWHardeningNeeded"], minimum_tcb_evaluation_data_number=18),
    "date": tdx(minimum_tcb_date="2025-01-01T00:00:00Z"),
    "advisory": tdx(accepted_advisories={"INTEL-SA-00837": {"reason": "x", "expires": LATER}}),
    "service td": tdx(mr_service_td=["ab" * 48]),
    "no service td": tdx(mr_service_td=[ZERO], service_td=False),
    "ranges": gpu(driver_versions=[{"at_least": "570", "below": "571"}, {"at_least": "580"}]),
    "count": gpu() | {"devices": {"gpus": 8}},
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_policy_has_no_findings(name: str) -> None:
    findings = [one for one in linted(GOOD[name]) if one.severity is not Severity.NOTE]
    assert findings == []


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.stem)
def test_shipped_policies_have_nothing_but_placeholders(path: Path) -> None:
    policy = decode_policy(read_document(path.read_bytes()))
    findings = lint_policy(policy, at=AT)
    assert {one.rule for one in findings if one.severity is not Severity.NOTE} <= {"placeholder"}
    assert any(one.rule == "placeholder" for one in findings) is ("simulated" not in path.name)


REFERENCE: Json = {"origin": "x", "values": [MEASUREMENT], "expires": LATER}
CHIP = "ab" * 64


def values(**references: Json) -> Json:
    return production(STRICT, reference_values={"image": REFERENCE} | references)


RULES: list[tuple[Json, tuple[str, str, str]]] = [
    (STRICT, ("simulated-tolerated", "warning", "simulated")),
    (STRICT | {"name": "simulated-test"}, ("simulated-tolerated", "note", "simulated")),
    (snp() | {"unchecked": {"freshness": "x"}}, ("unchecked", "error", "unchecked.freshness")),
    (snp() | {"unchecked": {"revocation": "x"}}, ("unchecked", "error", "unchecked.revocation")),
    (snp() | {"unchecked": {"rim": "x"}}, ("unchecked", "warning", "unchecked.rim")),
    (STRICT | {"unchecked": {"freshness": "x"}}, ("unchecked", "note", "unchecked.freshness")),
    (values(more=REFERENCE), ("reference-unused", "warning", "reference_values.more")),
    (values(image=REFERENCE | {"values": [ZERO]}), ("value-of-zeros", "error", "reference_values.image.values[0]")),
    (
        values(image=REFERENCE | {"values": [ZERO], "origin": "placeholder; x"}),
        ("placeholder", "warning", "reference_values.image.values[0]"),
    ),
    (STRICT, ("reference-without-end", "note", "reference_values.image")),
    (
        values(image=REFERENCE | {"values": [MEASUREMENT, MEASUREMENT]}),
        ("value-repeated", "warning", "reference_values.image.values[1]"),
    ),
    (values(more=REFERENCE), ("value-repeated", "warning", "reference_values.more.values[0]")),
    (snp(vmpl=[0, 0]), ("value-repeated", "warning", "snp.vmpl[1]")),
    (snp(guest_policy={"debug": {"unchecked": "x"}}), ("relaxed", "error", "snp.guest_policy.debug")),
    (snp(vmpl={"unchecked": "x"}), ("relaxed", "warning", "snp.vmpl")),
    (snp(csp_ids={"unchecked": "x"}), ("relaxed", "note", "snp.csp_ids")),
    (document(guest_policy={"debug": {"unchecked": "x"}}), ("relaxed", "note", "snp.guest_policy.debug")),
    (gpu() | {"unchecked": {"rim": "x"}}, ("relaxed", "note", "gpu.rim")),
    (gpu(rim={"unchecked": "x"}), ("relaxed", "warning", "gpu.rim")),
    (gpu() | {"devices": {"bound": {"unchecked": "x"}}}, ("relaxed", "error", "devices.bound")),
    # SEV-SNP
    (
        snp(products=["Milan"], minimum_tcb={"Milan": GENOA}),
        ("product-known-broken", "error", "snp.products"),
    ),
    (
        snp(products=["Milan"], minimum_tcb={"Milan": GENOA}) | {"description": "Milan until it is gone"},
        ("product-known-broken", "warning", "snp.products"),
    ),
    (
        snp(products=["Milan", "Genoa", "Turin"], minimum_tcb={"Milan": GENOA, "Genoa": GENOA, "Turin": TURIN}),
        ("over-broad", "warning", "snp.products"),
    ),
    (snp(products=["Genoa", "Turin"]), ("never-matches", "error", "snp.minimum_tcb")),
    (snp(minimum_launch_tcb={"Turin": TURIN}), ("never-matches", "error", "snp.minimum_launch_tcb")),
    (snp(minimum_launch_tcb={"Turin": TURIN}), ("unreachable", "warning", "snp.minimum_launch_tcb.Turin")),
    (snp(exact_tcb={"Turin": [TURIN]}), ("never-matches", "error", "snp.exact_tcb")),
    (snp(exact_tcb={"Turin": [TURIN], "Genoa": [GENOA]}), ("unreachable", "warning", "snp.exact_tcb.Turin")),
    (snp(exact_tcb={"Genoa": [OLD, OLDER]}), ("never-matches", "error", "snp.exact_tcb.Genoa[1]")),
    (snp(exact_tcb={"Genoa": [GENOA, OLD]}), ("unreachable", "warning", "snp.exact_tcb.Genoa[1]")),
    (
        snp(exact_tcb={"Genoa": [GENOA | {"snp": 27 + more} for more in range(5)]}),
        ("over-broad", "warning", "snp.exact_tcb.Genoa"),
    ),
    (
        snp(exact_tcb={"Genoa": [GENOA]}, exact_committed_tcb={"Genoa": [OLD]}),
        ("contradictory", "error", "snp.exact_committed_tcb.Genoa"),
    ),
    (snp(exact_tcb={"unchecked": "x"}), ("relaxed", "warning", "snp.exact_tcb")),
    (snp(vmpl=[0, 1, 2, 3]), ("over-broad", "warning", "snp.vmpl")),
    (snp(signing_key=["vcek"], csp_ids=["a"]), ("contradictory", "error", "snp.csp_ids")),
    (snp(chip_ids=["00" * 64]), ("value-of-zeros", "error", "snp.chip_ids[0]")),
    (snp(chip_ids=[CHIP], denied_chip_ids=[CHIP]), ("allowed-and-denied", "error", "snp.chip_ids[0]")),
    (snp(chip_ids=[CHIP, "cd" * 64], denied_chip_ids=[CHIP]), ("allowed-and-denied", "warning", "snp.chip_ids[0]")),
    (snp(id_key_digests=[ZERO]), ("over-broad", "warning", "snp.id_key_digests[0]")),
    (snp(measurement={"unchecked": "x"}), ("identity-not-demanded", "error", "snp")),
    (document(measurement={"unchecked": "x"}), ("identity-not-demanded", "note", "snp")),
    # Intel
    (tdx(tcb_status=["UpToDate", "OutOfDate"]), ("over-broad", "warning", "tdx.tcb_status")),
    (
        tdx(
            tcb_status=[
                "UpToDate",
                "SWHardeningNeeded",
                "ConfigurationNeeded",
                "ConfigurationAndSWHardeningNeeded",
                "OutOfDate",
                "OutOfDateConfigurationNeeded",
                "TDRelaunchAdvised",
                "TDRelaunchAdvisedConfigurationNeeded",
            ]
        ),
        ("over-broad", "error", "tdx.tcb_status"),
    ),
    (
        tdx(accepted_advisories={"INTEL-SA-00837": {"reason": "x", "expires": "2026-11-30T23:59:59Z"}}),
        ("advisory-expired", "error", "tdx.accepted_advisories.INTEL-SA-00837.expires"),
    ),
    (tdx(accepted_advisories={"unchecked": "x"}), ("relaxed", "warning", "tdx.accepted_advisories")),
    (
        tdx(minimum_tcb_evaluation_data_number=20260101),
        ("never-matches", "error", "tdx.minimum_tcb_evaluation_data_number"),
    ),
    (tdx(minimum_tcb_date="2027-01-01T00:00:00Z"), ("never-matches", "error", "tdx.minimum_tcb_date")),
    (tdx(ppids=["00" * 16]), ("value-of-zeros", "error", "tdx.ppids[0]")),
    (tdx(ppids=["ab" * 16], denied_ppids=["ab" * 16]), ("allowed-and-denied", "error", "tdx.ppids[0]")),
    (tdx(mr_service_td=["ab" * 48], service_td=False), ("contradictory", "error", "tdx.mr_service_td")),
    (production(tdx_document()), ("boot-not-demanded", "warning", "tdx")),
    (production(tdx_document(event_log={"secure_boot": True})), ("boot-not-demanded", "warning", "tdx")),
    (tdx_document(), ("boot-not-demanded", "note", "tdx")),
    (production(tdx_document(rtmr1=["other"])), ("acpi-tables-not-demanded", "warning", "tdx")),
    (
        production(tdx_document(event_log={"boot_variables": {"unchecked": "x"}, "other_firmware_events": [DIGEST]})),
        ("acpi-tables-not-demanded", "warning", "tdx"),
    ),
    (
        production(tdx_document(event_log=FIRMWARE), unchecked={"eventlog": "x"}),
        ("acpi-tables-not-demanded", "warning", "tdx"),
    ),
    (tdx_document(rtmr1=["other"]), ("acpi-tables-not-demanded", "note", "tdx")),
    (
        production(sgx_document(mr_enclave={"unchecked": "x"}, mr_signer=["ab" * 32], minimum_isv_svn=1)),
        ("over-broad", "warning", "sgx.mr_signer"),
    ),
    (production(sgx_document(mr_enclave={"unchecked": "x"})), ("identity-not-demanded", "error", "sgx")),
    # NVIDIA
    (
        gpu(architectures=["blackwell"], vbios_versions={"below": "97"}),
        ("never-matches", "error", "gpu.vbios_versions"),
    ),
    (gpu(vbios_versions={"unchecked": "x"}), ("relaxed", "warning", "gpu.vbios_versions")),
    (
        gpu(driver_versions=[{"at_least": "570"}, {"at_least": "580", "below": "581"}]),
        ("unreachable", "warning", "gpu.driver_versions[1]"),
    ),
    (
        gpu(driver_versions=[{"at_least": "580", "below": "581"}, {"at_least": "570"}]),
        ("unreachable", "warning", "gpu.driver_versions[0]"),
    ),
    (gpu(fwids=[ZERO]), ("value-of-zeros", "error", "gpu.fwids[0]")),
    (gpu() | {"devices": {"gpus": 0}}, ("unreachable", "warning", "devices.gpus")),
    (production(STRICT_GPU), ("no-cpu", "note", "devices")),
]


@pytest.mark.parametrize(
    ("policy", "expected"), RULES, ids=lambda value: "/".join(value) if isinstance(value, tuple) else ""
)
def test_a_rule_fires(policy: Json, expected: tuple[str, str, str]) -> None:
    assert expected in found(policy)


def test_every_finding_says_why_and_what_to_do_and_the_worst_come_first() -> None:
    findings = [one for policy, _ in RULES for one in linted(policy)]
    assert all(one.why and one.remedy and one.path for one in findings)
    for policy, _ in RULES:
        ranks = [one.severity.rank for one in linted(policy)]
        assert ranks == sorted(ranks)


@pytest.mark.parametrize(
    ("end", "rule"),
    [
        (AT - timedelta(seconds=1), "reference-expired"),
        (AT, "reference-expires-soon"),
        (AT + SOON, "reference-expires-soon"),
        (AT + SOON + timedelta(seconds=1), None),
    ],
    ids=str,
)
def test_the_last_moment_of_a_reference_value_counts(end: datetime, rule: str | None) -> None:
    policy = values(image=REFERENCE | {"expires": rfc3339_text(end)})
    assert {one.rule for one in linted(policy)} == (set() if rule is None else {rule})


def test_zeros_in_rtmr3_are_what_a_guest_has_that_extended_nothing() -> None:
    digits = (("image", "1"), ("other", "2"), ("third", "0"))
    references = {name: REFERENCE | {"values": [digit * 96]} for name, digit in digits}
    policy = production(tdx_document(rtmr0=["other"], rtmr1=["other"]), reference_values=references)
    policy["tdx"]["rtmr3"] = ["third"]
    assert linted(policy) == ()
    policy["tdx"]["rtmr3"] = {"unchecked": "x"}
    policy["tdx"]["rtmr2"] = ["third"]
    assert ("value-of-zeros", "error", "reference_values.third.values[0]") in found(policy)


@pytest.mark.parametrize(
    ("policy", "path", "claim"),
    [
        (snp(measurement={"unchecked": "x"}, host_data=["ab" * 32]), "snp", "host_data"),
        (snp(measurement={"unchecked": "x"}, family_ids=["ab" * 16], image_ids=["ab" * 16]), "snp", "image_id"),
        (tdx(mr_td={"unchecked": "x"}, mr_config_id=["ab" * 48]), "tdx", "mr_config_id"),
        (tdx(mr_td={"unchecked": "x"}, rtmr3=["other"]), "tdx", "rtmr3"),
        (production(sgx_document(mr_enclave={"unchecked": "x"}, config_id=["ab" * 64])), "sgx", "config_id"),
    ],
    ids=["host data", "ids", "mr_config_id", "rtmr3", "config id"],
)
def test_mc_40_what_the_guest_or_its_host_chooses_authorises_nothing(policy: Json, path: str, claim: str) -> None:
    findings = [one for one in linted(policy) if one.rule == "self-chosen-claim"]
    assert [(one.severity, one.path) for one in findings] == [(Severity.ERROR, path)]
    assert claim in findings[0].why


def test_mc_40_beside_a_measurement_they_narrow() -> None:
    for policy in (snp(host_data=["ab" * 32]), snp(measurement={"unchecked": "x"}, id_key_digests=["ab" * 48])):
        assert "self-chosen-claim" not in {one.rule for one in linted(policy)}
        assert "identity-not-demanded" not in {one.rule for one in linted(policy)}


# -- branches


def branches(*branch: Json, key: str = "any_of", **top: Any) -> Json:  # noqa: ANN401
    base = {name: value for name, value in snp().items() if name != "snp"}
    return base | {key: list(branch)} | top


def branch(**change: Any) -> Json:  # noqa: ANN401
    return {"snp": document(**change)["snp"]}


VMPL_1 = branch(vmpl=[1])
SMT = branch(guest_policy={"smt": False})


def rules(policy: Json) -> set[tuple[str, str]]:
    return {(one.rule, one.path) for one in linted(policy)}


def test_alternatives_that_differ_are_no_finding() -> None:
    assert rules(branches(branch(), VMPL_1)) == set()
    assert rules(branches(branch(chip_ids=[CHIP]), SMT)) == set()


def test_a_branch_that_an_other_one_implies_is_unreachable() -> None:
    assert rules(branches(branch(), SMT)) == {("branch-implied", "any_of[1]")}
    assert rules(branches(SMT, branch())) == {("branch-implied", "any_of[0]")}
    assert rules(branches(branch(), branch())) == {("branch-implied", "any_of[1]")}
    assert rules(branches(branch(), SMT, SMT)) == {("branch-implied", "any_of[1]"), ("branch-implied", "any_of[2]")}


def test_the_branch_that_implies_an_other_one_is_named() -> None:
    for order, outer in (((branch(), SMT), "any_of[0]"), ((SMT, branch()), "any_of[1]")):
        (finding,) = (one for one in linted(branches(*order)) if one.rule == "branch-implied")
        assert f"{outer} accepts the same and more" in finding.why


@pytest.mark.parametrize(("number", "plausible"), [(255, True), (256, False)])
def test_evaluations_of_intel_have_plausible_numbers(number: int, plausible: bool) -> None:
    rules = {rule for rule, _, _ in found(tdx(minimum_tcb_evaluation_data_number=number))}
    assert ("never-matches" not in rules) is plausible


@pytest.mark.parametrize(("seconds", "reached"), [(0, True), (1, False)])
def test_a_tcb_of_the_present_moment_is_reached(seconds: int, reached: bool) -> None:
    first = rfc3339_text(AT + timedelta(seconds=seconds))
    rules = {rule for rule, _, _ in found(tdx(minimum_tcb_date=first))}
    assert ("never-matches" not in rules) is reached


def test_four_levels_at_once_are_not_too_many() -> None:
    policy = snp(exact_tcb={"Genoa": [GENOA | {"snp": 27 + more} for more in range(4)]})
    assert "over-broad" not in {rule for rule, _, _ in found(policy)}


def test_choices_of_one() -> None:
    assert rules(branches(branch())) == {("choice-of-one", "any_of")}
    assert ("choice-of-one", "at_least.count") in rules(some(1, branch(), VMPL_1))
    assert ("choice-of-one", "at_least.count") in rules(some(2, branch(), SMT))
    three = (branch(chip_ids=[CHIP]), branch(signing_key=["vcek"]), SMT)
    assert rules(some(2, *three)) == set()


def some(count: int, *of: Json) -> Json:
    return {name: value for name, value in snp().items() if name != "snp"} | {
        "at_least": {"count": count, "of": list(of)}
    }


def test_one_fact_must_not_count_twice() -> None:
    assert ("branch-repeated", "at_least.of[2]") in rules(some(2, branch(), SMT, branch()))


def test_sections_of_branches_are_looked_at() -> None:
    assert ("over-broad", "any_of[1].snp.vmpl") in rules(branches(SMT, branch(vmpl=[0, 1, 2, 3])))
    assert ("value-repeated", "all_of[0].snp.vmpl[1]") in rules(branches(branch(vmpl=[0, 0]), key="all_of"))
    bare = branch(measurement={"unchecked": "the policy says it"}, vmpl=[1])
    inner = branch(measurement={"unchecked": "the policy says it"}, guest_policy={"smt": False})
    assert ("identity-not-demanded", "any_of[0].snp") in rules(branches(bare, branch()))
    assert not {rule for rule, _ in rules(snp() | {"any_of": [inner, branch(chip_ids=[CHIP])]})} & {
        "identity-not-demanded"
    }


def test_demands_that_nothing_meets_together() -> None:
    def path_of(policy: Json) -> set[str]:
        return {one.path for one in linted(policy) if one.rule == "contradictory"}

    assert path_of(branches(branch(), VMPL_1, key="all_of")) == {"all_of[1].snp.vmpl"}
    assert path_of(branches(branch(), SMT, key="all_of")) == set()
    assert path_of(snp() | {"any_of": [VMPL_1, SMT]}) == {"any_of[0].snp.vmpl"}
    assert path_of(snp() | {"at_least": {"count": 1, "of": [VMPL_1, SMT]}}) == {"at_least.of[0].snp.vmpl"}
    smt = branch(guest_policy={"smt": True})
    assert path_of(branches(SMT, smt, key="all_of")) == {"all_of[1].snp.guest_policy.smt"}
    turin = branch(products=["Turin"], minimum_tcb={"Turin": TURIN})
    assert path_of(branches(branch(), turin, key="all_of")) == {"all_of[1].snp.products", "all_of[1].snp.minimum_tcb"}
    old, new, other = (branch(minimum_tcb=None, exact_tcb={"Genoa": tcbs}) for tcbs in ([OLD], [GENOA], [GENOA, OLD]))
    assert path_of(branches(branch(), old, key="all_of")) == {"all_of[1].snp.exact_tcb"}
    assert path_of(branches(old, branch(), key="all_of")) == {"all_of[1].snp.minimum_tcb"}
    assert path_of(branches(branch(), new, key="all_of")) == path_of(branches(other, new, key="all_of")) == set()
    assert path_of(branches(old, new, key="all_of")) == {"all_of[1].snp.exact_tcb"}
    unasked = branch(minimum_tcb=None, exact_tcb={"unchecked": "x"})
    assert path_of(branches(unasked, old, key="all_of")) == set()
    inner = {"all_of": [branch(), {"any_of": [VMPL_1, SMT]}]}
    assert path_of(branches(inner, SMT)) == {"any_of[0].all_of[1].any_of[0].snp.vmpl"}
    relaxed = branch(vmpl={"unchecked": "x"})
    assert path_of(branches(VMPL_1, relaxed, key="all_of")) == set()
    lower = branch(minimum_guest_svn=1)
    assert path_of(branches(lower, branch(minimum_guest_svn=2), key="all_of")) == set()
    denied = [branch(denied_chip_ids=[chip]) for chip in (CHIP, "cd" * 64)]
    assert path_of(branches(*denied, key="all_of")) == set()


def test_other_measurements_and_devices_contradict_too() -> None:
    def path_of(*all_of: Json, **references: Json) -> set[str]:
        policy = production(STRICT, reference_values={"image": REFERENCE} | references)
        policy = {name: value for name, value in policy.items() if name != "snp"} | {"all_of": list(all_of)}
        return {one.path for one in linted(policy) if one.rule == "contradictory"}

    other = branch(measurement=["other"])
    assert path_of(branch(), other, other=REFERENCE | {"values": ["ab" * 48]}) == {"all_of[1].snp.measurement"}
    assert path_of(branch(), other, other=REFERENCE | {"values": ["ab" * 48, MEASUREMENT]}) == set()
    device = gpu()["gpu"]
    newer = device | {"driver_versions": {"at_least": "600"}}
    older = device | {"driver_versions": {"below": "580"}}
    assert path_of({"gpu": newer}, {"gpu": older}) == {"all_of[1].gpu.driver_versions"}
    few, many = {"gpu": device, "devices": {"gpus": 1}}, {"gpu": device, "devices": {"gpus": {"at_least": 2}}}
    assert path_of(few, many) == path_of(many, few) == {"all_of[1].devices.gpus"}
    waived = [{"gpu": device | {"waived_measurements": {"7": reason}}} for reason in "xy"]
    assert path_of(*waived) == set()


def test_lists_of_an_event_log_are_no_contradiction_here() -> None:
    policy = production(tdx_document(rtmr1=["other"], event_log={"boot_variables": ["00"]}))
    policy["all_of"] = [{"tdx": policy["tdx"] | {"event_log": {"boot_variables": ["01"]}}}]
    assert "contradictory" not in {one.rule for one in linted(policy)}


def test_devices_without_cpu_below_a_policy_with_one() -> None:
    policy = snp() | {"any_of": [{"gpu": devices_document()["gpu"]}, SMT]}
    assert "no-cpu" not in {one.rule for one in linted(policy)}
