"""Values without a known meaning: a policy accepts exactly those that it names, and every result shows them."""

import json
from typing import Any

import pytest

from attest.appraisal import AttestationResult, appraise
from attest.checks import Check, Outcome
from attest.errors import AttestError, ConfigurationError
from attest.evidence.tolerances import DeviceTolerances
from attest.policy import Policy, load_policy
from attest.policy.accepted_values import accepted_of
from attest.policy.authoring.explanation import explanation_text
from attest.policy.authoring.lint import lint_policy
from attest.policy.document import read_document
from attest.policy.model import decode_policy
from attest.results.document import appraised_document
from tests.evidence.azure.made import CHIP as AZURE_CHIP
from tests.evidence.azure.made import AzureVm
from tests.evidence.azure.made import judged as judged_vm
from tests.policy.accepted_documents import AT, OPAQUE, gpus, verified
from tests.policy.documents import document, policy_of
from tests.policy.gpu_documents import gpu_document, switch_document
from tests.unknown_values import extended_chip, opaque_neighbours, spl_neighbours


def judged(policy: Policy) -> AttestationResult:
    return appraise(verified(policy.tolerances), policy=policy, at=AT)


def found(result: AttestationResult, check_id: str) -> list[Check]:
    return [check for check in result.checks if check.id == check_id]


def test_evidence_whose_unknown_values_the_policy_names_is_affirmed_and_each_shows() -> None:
    result = judged(policy_of(gpus(accepted_opaque=OPAQUE)))
    assert result.failed == ()
    (opaque,) = found(result, "policy.gpu.accepted_opaque.36:0300")
    assert (opaque.outcome, opaque.expected, opaque.got) == (
        Outcome.NOT_EVALUATED,
        "unchecked: the mode of driver 600",
        "accepted",
    )
    (level,) = found(result, "policy.snp.accepted_spls.spl4:3")
    assert (level.outcome, level.expected, level.got) == (Outcome.NOT_EVALUATED, "unchecked: AMD told us", "accepted")
    shown: Any = appraised_document(result)
    assert shown["warnings"] == [
        {
            "code": "value-not-understood",
            "message": "values without a known meaning were accepted, because the policy names them: "
            "cpu: spl4:3; gpu0: 36:0300",
        }
    ]
    assert [item["claims"]["not_understood"] for item in shown["items"]] == [["spl4:3"], ["36:0300"]]
    assert "mode" not in shown["items"][1]["claims"]


def test_a_named_value_that_the_evidence_does_not_have_shows_as_absent() -> None:
    result = judged(policy_of(gpus(accepted_opaque={**OPAQUE, "11:00": "not there"})))
    (absent,) = found(result, "policy.gpu.accepted_opaque.11:00")
    assert (result.failed, absent.got) == ((), "absent")


def test_a_policy_that_names_a_neighbour_of_an_opaque_value_refuses_it() -> None:
    loaded = 0
    for name in sorted(opaque_neighbours(36, b"\3\0")):
        try:
            policy = policy_of(gpus(accepted_opaque={name: "x"}))
        except ConfigurationError:
            continue  # no name of a value that can be accepted
        loaded += 1
        with pytest.raises(AttestError) as refusal:
            verified(policy.tolerances)
        assert (refusal.value.code, refusal.value.exit_code) == ("gpu-opaque-unsupported", 3)
    assert loaded > 16


def test_a_policy_that_names_every_neighbour_of_a_level_refuses_it() -> None:
    names = spl_neighbours("spl4", 3) - {"spl4:0", "spl4", "spl4:03", "spl3:3", "spl8:3"}
    policy = policy_of(
        {**gpus(accepted_opaque=OPAQUE), "snp": document(accepted_spls=dict.fromkeys(names, "x"))["snp"]}
    )
    with pytest.raises(AttestError) as refusal:
        verified(policy.tolerances)
    assert (refusal.value.code, refusal.value.exit_code) == ("snp-leaf-malformed", 4)


def test_what_another_policy_accepted_is_refused_by_one_that_does_not_name_it() -> None:
    """Evidence may have been verified with the tolerances of another policy."""
    accepted = verified(policy_of(gpus(accepted_opaque=OPAQUE)).tolerances)
    other = gpus(accepted_opaque={"36:0400": "x"})
    del other["snp"]["accepted_spls"]
    nothing = "no value without a known meaning"
    for policy, allowed in ((policy_of(other), "only 36:0400"), (Policy.baseline(), nothing)):
        result = appraise(accepted, policy=policy, at=AT)
        cpu, gpu = (check for check in result.failed if check.id == "policy.not_understood")
        assert (cpu.item, cpu.expected, cpu.got) == ("cpu", nothing, "spl4:3")
        assert (gpu.item, gpu.expected, gpu.got) == ("gpu0", allowed, "36:0300")
        assert not result.affirmed


def test_the_level_of_a_chip_under_an_azure_vm_is_judged_likewise() -> None:
    vm, pool, names = AzureVm(), extended_chip(AZURE_CHIP, {"spl5": 2}).endorsements(at=AT), {"spl5:2": "x"}
    for spls in ({}, {"spl5:3": "x"}, {"spl4:2": "x"}):
        with pytest.raises(AttestError) as refusal:
            judged_vm(vm, endorsements=pool, tolerances=DeviceTolerances(spls=accepted_of(spls)))
        assert refusal.value.code == "snp-leaf-malformed"
    accepted = judged_vm(vm, endorsements=pool, tolerances=DeviceTolerances(spls=accepted_of(names)))
    shown: Any = accepted.items[0].claims
    assert shown["snp"]["not_understood"] == ["spl5:2"]
    (check,) = (
        check
        for check in appraise(accepted, policy=Policy.baseline(), at=AT).failed
        if check.id == "policy.not_understood"
    )
    assert check.got == "spl5:2"


@pytest.mark.parametrize(
    "name",
    ["36", "36:", "36:3", "36:03 00", "36:0300 ", "36:030G", "36:0A00", "34:0200", "20:00", "036:0300", "0x24:0300"],
)
def test_names_of_opaque_values_have_one_grammar(name: str) -> None:
    if name == "36:":
        assert policy_of(gpu_document(accepted_opaque={name: "an empty value"})).gpu_tolerances.accepted_opaque
        return
    with pytest.raises(ConfigurationError) as refusal:
        policy_of(gpu_document(accepted_opaque={name: "x"}))
    assert refusal.value.field == f"gpu.accepted_opaque.{name}"


@pytest.mark.parametrize("name", ["spl4", "spl4:", "spl4:0", "spl4:01", "spl4:256", "spl3:1", "spl8:1", "SPL4:1"])
def test_names_of_levels_have_one_grammar(name: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        policy_of(document(accepted_spls={name: "x"}))
    assert refusal.value.field == f"snp.accepted_spls.{name}"


@pytest.mark.parametrize("level", [1, 9, 10, 99, 100, 199, 200, 249, 250, 255])
def test_every_level_above_zero_can_be_named(level: int) -> None:
    (accepted,) = policy_of(document(accepted_spls={f"spl7:{level}": "x"})).accepted_spls
    assert accepted.value == f"spl7:{level}"


@pytest.mark.parametrize("reason", ["", " ", "\u200b", None, 3])
def test_a_value_is_accepted_with_a_visible_reason_only(reason: Any) -> None:  # noqa: ANN401
    for policy in (document(accepted_spls={"spl4:1": reason}), gpu_document(accepted_opaque={"36:0300": reason})):
        with pytest.raises(ConfigurationError):
            policy_of(policy)
    with pytest.raises(ConfigurationError):
        policy_of(document(accepted_spls={}))


def test_what_is_accepted_of_switches_is_not_accepted_of_gpus() -> None:
    policy = policy_of(switch_document(accepted_opaque={"21:57": "x"}))
    assert [one.value for one in policy.tolerances.switches.accepted_opaque] == ["21:57"]
    assert (policy.tolerances.gpus.accepted_opaque, policy.tolerances.spls) == ((), ())


@pytest.mark.parametrize("section", ["snp", "gpu"])
def test_all_branches_have_to_accept_the_same_values(section: str) -> None:
    base = gpus(accepted_opaque=OPAQUE)
    head = {name: base[name] for name in ("schema", "name", "version", "simulated", "reference_values")}
    one = {name: base[name] for name in ("snp", "gpu", "devices")}
    key, names = ("accepted_spls", {"spl4:4": "x"}) if section == "snp" else ("accepted_opaque", {"36:0400": "x"})
    other = {**one, section: {**one[section], key: names}}
    assert policy_of({**head, "any_of": [one, one]}).tolerances == policy_of(base).tolerances
    with pytest.raises(ConfigurationError, match=f"{key}.* as in any_of\\[0\\].{section}"):
        policy_of({**head, "any_of": [one, other]})


def test_lint_warns_of_every_accepted_value_and_the_explanation_names_it() -> None:
    data = json.dumps(gpus(accepted_opaque=OPAQUE)).encode()
    policy = decode_policy(read_document(data, name="policy"))
    warned = {one.path for one in lint_policy(policy, at=AT) if one.rule == "value-not-understood"}
    assert warned == {"gpu.accepted_opaque.36:0300", "snp.accepted_spls.spl4:3"}
    assert "36:0300" in explanation_text(load_policy(data), policy.reference_values)


def test_a_named_opaque_value_has_at_most_64_bytes() -> None:
    assert policy_of(gpu_document(accepted_opaque={"36:" + "ab" * 64: "x"})).gpu_tolerances.accepted_opaque
    with pytest.raises(ConfigurationError):
        policy_of(gpu_document(accepted_opaque={"36:" + "ab" * 65: "x"}))
