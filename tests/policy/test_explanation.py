"""Policies in words: a sentence and a remedy for every rule that a policy can have."""

import re
from pathlib import Path
from typing import Any

import pytest

from attest.appraisal import appraise
from attest.checks import Check, Outcome
from attest.evidence.sgx.structure import ATTRIBUTE_BITS
from attest.evidence.snp.structure import GUEST_POLICY_BITS, PLATFORM_INFO_BITS
from attest.evidence.tdx.structure import TD_ATTRIBUTE_BITS
from attest.policy import Policy, load_policy
from attest.policy.authoring.explanation import (
    explanation_document,
    explanation_text,
    failures_document,
    failures_text,
    fix_for,
)
from attest.policy.authoring.rule_descriptions import FIXES, SENTENCES, longest_prefix, words_for
from attest.policy.azure import PCR_KEYS, VM_SWITCHES
from attest.policy.document import read_document
from attest.policy.model import decode_policy
from tests.policy.documents import policy_of
from tests.policy.drafts import drafted, verified_fixture

REPOSITORY = Path(__file__).resolve().parents[2]
HEX48, HEX64 = "ab" * 48, "cd" * 64
RELAXED = {"unchecked": "not this time"}
TCB = {"Genoa": {"bootloader": 1, "tee": 0, "snp": 2, "microcode": 3}}
INTEL = {
    "tcb_status": ["UpToDate"],
    "minimum_tcb_date": "2024-11-13T00:00:00Z",
    "minimum_tcb_evaluation_data_number": 5,
    "fmspcs": ["00" * 6],
    "ppids": ["01" * 16],
    "denied_ppids": ["02" * 16],
    "platform": {"dynamic_platform": False, "cached_keys": True, "smt_enabled": RELAXED},
}
EVENT_LOG: dict[str, Any] = {
    "secure_boot": True,
    "signature_stores": {store: [HEX48] for store in ("pk", "kek", "db", "dbx")},
    "boot_variables": ["00"],
    "other_firmware_events": [HEX48],
    "kernel_command_lines": ["a"],
    "grub_commands": ["b"],
    "load_options": [HEX48],
    "initrds": [HEX48],
    "other_loader_events": [HEX48],
    "application_events": [{"domain": "a", "operation": "b"}],
    "other_runtime_events": [HEX48],
}
AZURE_LOG: dict[str, Any] = {
    "signature_stores": {store: ["00" * 32] for store in ("pk", "kek", "db", "dbx")},
    **{key: EVENT_LOG[key] for key in ("secure_boot", "boot_variables", "kernel_command_lines", "grub_commands")},
    **{key: ["00" * 32] for key in ("load_options", "initrds", "other_loader_events", "other_firmware_events")},
}
DEVICE: dict[str, Any] = {
    "vbios_versions": {"at_least": "96.00"},
    "fwids": [HEX48],
    "device_identities": ["41" + "00" * 8],
    "denied_device_identities": ["41" + "11" * 8],
    "waived_measurements": {"7": "known"},
    "accepted_opaque": {"36:0300": "known"},
    "held_rim_signers": RELAXED,
}
EVERYTHING: dict[str, Any] = {
    "schema": "attest.policy/1",
    "name": "everything",
    "version": 7,
    "unchecked": {"topology": "one GPU of a board"},
    "reference_values": {
        "image": {"origin": "a build", "values": [HEX48], "expires": "2027-01-01T00:00:00Z"},
        "enclave": {"origin": "another", "values": ["ef" * 32, "ee" * 32]},
    },
    "snp": {
        "products": ["Genoa"],
        "measurement": ["image"],
        "minimum_tcb": TCB,
        "minimum_committed_tcb": TCB,
        "minimum_launch_tcb": TCB,
        "guest_policy": {name: name not in ("debug", "migrate_ma") or False for name, _ in GUEST_POLICY_BITS}
        | {"debug": False, "migrate_ma": False},
        "platform_info": {name: True for name, _ in PLATFORM_INFO_BITS},
        "chip_ids": [HEX64],
        "denied_chip_ids": ["00" * 64],
        "host_data": ["00" * 32],
        "id_key_digests": [HEX48],
        "author_key_digests": [HEX48],
        "family_ids": ["00" * 16],
        "image_ids": ["00" * 16],
        "csp_ids": ["a cloud"],
        "minimum_abi": {"major": 1, "minor": 51},
        "minimum_guest_svn": 3,
        "mitigations_at_launch": 1,
        "mitigations_now": 3,
        "accepted_spls": {"spl4:3": "known"},
        **{f"exact_{which}": {"Genoa": [TCB["Genoa"]]} for which in ("tcb", "committed_tcb", "launch_tcb")},
    },
    "tdx": {
        "mr_td": ["image"],
        **{f"rtmr{number}": ["image"] for number in range(4)},
        "td_attributes": {name: name == "sept_ve_disable" for name, _ in TD_ATTRIBUTE_BITS},
        "service_td": RELAXED,
        "mr_service_td": RELAXED,
        "mr_seam": [HEX48],
        "mr_config_id": [HEX48],
        "mr_owner": [HEX48],
        "mr_owner_config": [HEX48],
        "tcb_status_current": ["UpToDate"],
        "minimum_tdx_module_svn": {"1": 6},
        "event_log": EVENT_LOG,
        "accepted_advisories": {"INTEL-SA-00837": {"reason": "none of ours", "expires": "2027-01-01T00:00:00Z"}},
        **INTEL,
    },
    "dstack": {
        "compose_hashes": ["00" * 32],
        "os_images": ["01" * 32],
        "app_ids": ["02" * 20],
        "key_providers": [{"name": "kms", "id": "3059"}, {"name": "tpm"}],
    },
    "sgx": {
        "mr_enclave": ["enclave"],
        "mr_signer": ["00" * 32],
        "isv_prod_id": [1],
        "minimum_isv_svn": 2,
        "config_id": [HEX64],
        "attributes": {name: False for name, _ in ATTRIBUTE_BITS},
        **INTEL,
    },
    "gpu": {
        "architectures": ["hopper"],
        "driver_versions": {"exactly": "580.95.05"},
        "modes": ["spt"],
        "projects": ["1010"],
        "project_skus": ["0200"],
        "chip_skus": ["895"],
        **DEVICE,
    },
    "nvswitch": {**DEVICE, "waived_measurements": {"30": "known"}},
    "sample": {"launch_digest": ["abcde"], "svn": ["1"], "device_svn": ["2"]},
    "devices": {"gpus": 1, "switches": {"at_least": 0, "at_most": 4}},
}
AZURE: dict[str, Any] = {
    **{key: EVERYTHING[key] for key in ("schema", "name", "version", "reference_values", "snp")},
    "azure": {
        **{key: ["enclave"] for key in PCR_KEYS},
        "vm_configuration": {name: name != "console_enabled" for name, _ in VM_SWITCHES},
        "vm_unique_ids": ["x"],
        "root_cert_thumbprints": ["y"],
        "user_data": [HEX64],
        "tpm_clock_safe": True,
        "maximum_restart_count": 0,
        "event_log": AZURE_LOG,
    },
}
POLICIES = (policy_of(EVERYTHING), policy_of(AZURE), Policy.baseline())
ALL_RULES = sorted({placed.rule.id for policy in POLICIES for placed in policy.all_rules()})


def test_every_source_of_rules_is_in_the_policy_that_has_everything() -> None:
    """What a rule of these modules may be called; a new one has to be added to the policy above."""
    literals = set()
    for module in ("azure", "snp", "intel", "dstack", "gpu", "devices", "eventlog"):
        text = (REPOSITORY / f"attest/policy/{module}.py").read_text()
        literals |= set(re.findall(r'"(policy\.[a-z0-9_.]+)"', text))
    names = {name for name in literals if not name.endswith(".")}
    # Parts of POLICY, as claims.
    claims = {"policy.debug", "policy.migrate_ma", "policy.abi", "policy.abi_major", "policy.abi_minor"}
    assert names - claims <= set(ALL_RULES)


OTHER_CHECKS = ("freshness", "policy.not_simulated", "policy.kind", "policy.any_of", "policy.at_least")


@pytest.mark.parametrize("rule_id", [*ALL_RULES, *OTHER_CHECKS])
def test_every_check_of_a_policy_has_a_remedy(rule_id: str) -> None:
    assert longest_prefix(FIXES, rule_id) is not None
    assert fix_for(rule_id) == longest_prefix(FIXES, rule_id)
    assert fix_for(rule_id).endswith(".")


@pytest.mark.parametrize("rule_id", ALL_RULES)
def test_every_rule_is_one_sentence_with_its_demand(rule_id: str) -> None:
    for expected in ("true", "false", "at least {name} 7"):
        sentence = words_for(rule_id, expected)
        assert not sentence[0].islower()
        assert sentence.endswith(".")
        assert "{expected}" not in sentence
        assert expected in {"true", "false"} or expected in sentence


@pytest.mark.parametrize("prefix", sorted({*FIXES, *SENTENCES} - {"policy."}))
def test_no_line_is_about_a_rule_that_does_not_exist(prefix: str) -> None:
    assert any(rule.startswith(prefix) for rule in (*ALL_RULES, *OTHER_CHECKS))


def test_a_check_of_nobody_is_sent_to_the_documentation() -> None:
    assert "docs/" in fix_for("unheard-of")
    assert words_for("unheard.of", "x") == "Of must be x."


def test_a_policy_is_told_whole_and_the_same_each_time() -> None:
    import json

    data = json.dumps(EVERYTHING).encode()
    references = decode_policy(read_document(data)).reference_values
    text = explanation_text(load_policy(data), references)
    assert text == explanation_text(load_policy(data), references)
    assert text.count("\n  - ") == len(list(load_policy(data).all_rules()))
    assert "UNCHECKED: topology need not be evaluated: one GPU of a board" in text
    assert "UNCHECKED: tdx.service_td is not demanded: not this time" in text
    assert "Reference values 'image': 1 value, ends 2027-01-01T00:00:00Z; a build" in text
    assert "Reference values 'enclave': 2 values, never ends; another" in text
    assert "SIMULATED evidence is refused." in text
    assert "It must not be that the host may debug the guest." in text
    assert "An SGX enclave:" in text
    assert "\nAll devices together:\n" in text
    document = explanation_document(load_policy(data), references)
    assert json.dumps(document) == json.dumps(explanation_document(load_policy(data), references))
    rules: Any = document["rules"]
    placed = tuple(load_policy(data).all_rules())
    assert [(rule["id"], rule["kind"], rule.get("unchecked")) for rule in rules] == [
        (one.rule.id, one.kind, one.rule.relaxed) for one in placed
    ]
    assert {len(rule) for rule in rules} == {3, 4}
    assert "not this time" in {one.rule.relaxed for one in placed}
    assert document["accepts"] == ["sev-snp", "tdx", "sgx", "nvidia-gpu", "nvidia-switch", "sample", "sample-device"]
    assert document["simulated"] is None


def test_branches_are_told_with_how_many_must_hold() -> None:
    strict = {"products": ["Genoa"], "measurement": ["image"], "minimum_tcb": TCB}
    document: dict[str, Any] = {
        "schema": "attest.policy/1",
        "name": "branches",
        "version": 1,
        "simulated": {"unchecked": "a laboratory"},
        "reference_values": {"image": {"origin": "a build", "values": [HEX48]}},
        "any_of": [{"name": "amd", "snp": strict}, {"tdx": {"mr_td": ["image"], "rtmr1": ["image"]}}],
        "at_least": {"count": 2, "of": [{"snp": strict}, {"name": "two", "snp": strict}]},
    }
    policy = policy_of(document)
    text = explanation_text(policy, {})
    assert "At least 1 of these 2 branches must be met in full:\n  branch any_of[amd]:\n" in text
    assert "    A SEV-SNP guest:\n      - The processor must be one of Genoa.\n" in text
    assert "At least 2 of these 2 branches must be met in full:" in text
    assert "SIMULATED evidence is accepted, which proves nothing about hardware: a laboratory" in text
    assert explanation_document(policy, {})["simulated"] == "a laboratory"
    rules = explanation_document(policy, {})["rules"]
    assert isinstance(rules, list)
    assert {rule["branch"] for rule in rules if isinstance(rule, dict)} >= {"any_of[amd]", "at_least[two]"}


def test_failures_name_component_expected_got_clause_and_remedy() -> None:
    verified = verified_fixture("genoa-v5-vcek")
    policy = drafted(verified_fixture("turin-v5-vcek")).draft.policy
    failed = appraise(verified, policy=policy, at=verified.at).failed
    text, rows = failures_text(failed), failures_document(failed)
    assert "FAILED policy.snp.products (cpu)\n  expected    one of Turin\n  got         Genoa\n  clause " in text
    assert text.count("how to fix") == len(failed) == len(rows)
    assert all(isinstance(row, dict) and set(row) >= {"id", "expected", "got", "clause", "how_to_fix"} for row in rows)
    assert text == failures_text(failed)


def test_a_failure_in_a_branch_says_which() -> None:
    check = Check(id="policy.kind", outcome=Outcome.FAIL, expected="a", got="b", clause="c", branch="any_of[amd]")
    assert failures_text([check]).startswith("FAILED policy.kind\n  branch      any_of[amd]\n  expected    a\n")
    assert failures_text([]) == ""
