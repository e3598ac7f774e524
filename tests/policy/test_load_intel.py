"""The sections `tdx`, `sgx` and `tdx.event_log` are closed too, and strict where nothing is said."""

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import ConfigurationError, InvalidValueError
from attest.policy import Policy
from attest.policy.eventlog import LOADER_LISTS
from attest.policy.loader import BASELINE_RULES
from attest.policy.model import decode_policy
from tests.policy.documents import policy_of
from tests.policy.intel_documents import STRICT_SGX, STRICT_TDX, sgx_document, tdx_document
from tests.policy.test_load import JSON, refused

SOME = ["00" * 48]
RELAXED = {"unchecked": "a test"}
ACCEPTED = {"reason": "the workload is not affected", "expires": "2027-01-31T00:00:00Z"}
LINES = ("kernel_command_lines", "grub_commands", "load_options", "initrds", "other_loader_events")


def rules_of(document: dict[str, Any], kind: str) -> dict[str, str]:
    """What each rule demands."""
    return {
        rule.id.removeprefix(f"policy.{kind}."): rule.expected if rule.relaxed is None else f"unchecked: {rule.relaxed}"
        for rule in policy_of(document).rules[kind]
    }


def test_what_is_left_out_of_tdx_is_demanded_strictly() -> None:
    rules = rules_of(STRICT_TDX, "tdx")
    assert rules.pop("mr_td").startswith("image: 374b")
    assert rules.pop("rtmr1").startswith("unchecked: ")
    assert rules == {
        "td_attributes.debug": "false",
        "td_attributes.sept_ve_disable": "true",
        "td_attributes.migratable": "false",
        "under_debug": "false",
        "unnamed_attributes": "no bit without a known name",
        "unknown_xfam": "bits that a TD of today may set",
        "service_td": "false",
        "tcb_status": "one of UpToDate",
        "accepted_advisories": "no advisory",
    }


def test_what_is_left_out_of_sgx_is_demanded_strictly() -> None:
    rules = rules_of(STRICT_SGX, "sgx")
    assert rules.pop("mr_enclave").startswith("enclave: ")
    assert rules == {
        "attributes.debug": "false",
        "tcb_status": "one of UpToDate",
        "accepted_advisories": "no advisory",
    }


def test_an_event_log_is_demanded_once_the_section_is_there() -> None:
    rules = rules_of(tdx_document(event_log={"secure_boot": True}), "tdx")
    demanded = {name.removeprefix("event_log."): text for name, text in rules.items() if "event_log" in name}
    assert demanded == {"required": "a log that replays", "secure_boot": "true"}


def test_once_one_list_of_a_register_is_stated_the_others_must_be_empty() -> None:
    """Otherwise somebody files the digest of his own command line under another kind of event."""
    for name in LINES:
        rules = rules_of(tdx_document(event_log={name: SOME}), "tdx")
        assert rules[f"event_log.{name}"].startswith("at least one, and each of: ")
        assert {rules[f"event_log.{other}"] for other in LINES if other != name} == {"no such event"}
        assert "event_log.application_events" not in rules
    application = [{"domain": "example.com", "operation": "load"}]
    rules = rules_of(tdx_document(event_log={"application_events": application}), "tdx")
    assert rules["event_log.application_events"] == ("each at least once, and no other: example.com load with anything")
    assert rules["event_log.other_runtime_events"] == "no such event"
    rules = rules_of(tdx_document(event_log={"other_runtime_events": SOME}), "tdx")
    assert rules["event_log.application_events"] == "no such event"
    rules = rules_of(
        tdx_document(event_log={"initrds": SOME, "grub_commands": {"unchecked": "GRUB's menu changes"}}), "tdx"
    )
    assert rules["event_log.grub_commands"] == "unchecked: GRUB's menu changes"


def test_a_service_td_is_refused_unless_it_is_named() -> None:
    assert "service_td" in rules_of(tdx_document(mr_service_td={"unchecked": "none of ours"}), "tdx")
    assert "service_td" not in rules_of(tdx_document(mr_service_td=SOME), "tdx")
    assert "service_td" in rules_of(tdx_document(mr_service_td=SOME, service_td=False), "tdx")


def test_an_accepted_advisory_shows_with_its_end_and_its_reason() -> None:
    rules = rules_of(tdx_document(accepted_advisories={"INTEL-SA-00837": ACCEPTED}), "tdx")
    assert rules["accepted_advisories"] == (
        "no advisory but INTEL-SA-00837 until 2027-01-31T00:00:00Z: the workload is not affected"
    )


@pytest.mark.parametrize(("document", "path"), [(STRICT_TDX, "tdx.mr_td"), (STRICT_SGX, "sgx.mr_enclave")])
def test_a_measurement_must_be_stated(document: dict[str, Any], path: str) -> None:
    section, key = path.split(".")
    changed = copy.deepcopy(document)
    del changed[section][key]
    assert refused(changed).field == path


def test_a_policy_speaks_of_at_least_one_kind_of_attester() -> None:
    changed = copy.deepcopy(STRICT_TDX)
    del changed["tdx"]
    assert "snp, tdx, sgx, gpu, nvswitch or sample" in refused(changed).message
    both = policy_of({**STRICT_TDX, "sgx": STRICT_SGX["sgx"]})
    assert set(both.rules) == {"tdx", "sgx"}


TCB: list[tuple[dict[str, Any], str]] = [
    ({"tcb_status": []}, "tcb_status"),
    ({"tcb_status": ["Revoked"]}, "tcb_status[0]"),
    ({"tcb_status": ["uptodate"]}, "tcb_status[0]"),
    ({"tcb_status": "UpToDate"}, "tcb_status"),
    ({"tcb_status": {"unchecked": " "}}, "tcb_status.unchecked"),
    ({"accepted_advisories": {}}, "accepted_advisories"),
    ({"accepted_advisories": ["INTEL-SA-00837"]}, "accepted_advisories"),
    ({"accepted_advisories": {"INTEL-SA-837": ACCEPTED}}, "accepted_advisories.INTEL-SA-837"),
    ({"accepted_advisories": {"INTEL-SA-00837": {"reason": "x"}}}, "accepted_advisories.INTEL-SA-00837.expires"),
    (
        {"accepted_advisories": {"INTEL-SA-00837": {"expires": "2027-01-31T00:00:00Z"}}},
        "accepted_advisories.INTEL-SA-00837.reason",
    ),
    (
        {"accepted_advisories": {"INTEL-SA-00837": {"reason": "x", "expires": "2027-01-31"}}},
        "accepted_advisories.INTEL-SA-00837.expires",
    ),
    (
        {"accepted_advisories": {"INTEL-SA-00837": {**ACCEPTED, "until": "x"}}},
        "accepted_advisories.INTEL-SA-00837.until",
    ),
    ({"minimum_tcb_evaluation_data_number": 0}, "minimum_tcb_evaluation_data_number"),
    ({"minimum_tcb_evaluation_data_number": True}, "minimum_tcb_evaluation_data_number"),
    ({"minimum_tcb_evaluation_data_number": "17"}, "minimum_tcb_evaluation_data_number"),
    ({"fmspcs": ["00"]}, "fmspcs[0]"),
    ({"ppids": []}, "ppids"),
    ({"denied_ppids": []}, "denied_ppids"),
    ({"platform": {"smt": False}}, "platform.smt"),
    ({"platform": {"smt_enabled": "no"}}, "platform.smt_enabled"),
]


@pytest.mark.parametrize(("change", "path"), TCB)
def test_a_wrong_value_about_the_tcb_is_refused_with_its_path(change: dict[str, Any], path: str) -> None:
    assert refused(tdx_document(**change)).field == f"tdx.{path}"
    assert refused(sgx_document(**change)).field == f"sgx.{path}"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"mr_td": []}, "mr_td"),
        ({"mr_td": ["enclave"]}, "mr_td[0]"),
        ({"mr_td": ["nobody"]}, "mr_td[0]"),
        ({"mrtd": ["image"]}, "mrtd"),
        ({"rtmr0": "image"}, "rtmr0"),
        ({"rtmr4": ["image"]}, "rtmr4"),
        ({"td_attributes": {}}, "td_attributes"),
        ({"td_attributes": {"debug": True}}, "td_attributes.debug"),
        ({"td_attributes": {"sept_ve_disable": False}}, "td_attributes.sept_ve_disable"),
        ({"td_attributes": {"migratable": True}}, "td_attributes.migratable"),
        ({"td_attributes": {"debugging": False}}, "td_attributes.debugging"),
        ({"unnamed_attributes": True}, "unnamed_attributes"),
        ({"unknown_xfam": True}, "unknown_xfam"),
        ({"service_td": True}, "service_td"),
        ({"mr_service_td": ["00"]}, "mr_service_td[0]"),
        ({"mr_seam": "00" * 48}, "mr_seam"),
        ({"mr_config_id": [7]}, "mr_config_id[0]"),
        ({"mr_owner": []}, "mr_owner"),
        ({"mr_owner_config": ["zz" * 48]}, "mr_owner_config[0]"),
        ({"minimum_tdx_module_svn": 6}, "minimum_tdx_module_svn"),
        ({"minimum_tdx_module_svn": {}}, "minimum_tdx_module_svn"),
        ({"minimum_tdx_module_svn": {"256": 1}}, "minimum_tdx_module_svn.256"),
        ({"minimum_tdx_module_svn": {"01": 1}}, "minimum_tdx_module_svn.01"),
        ({"minimum_tdx_module_svn": {"1": 256}}, "minimum_tdx_module_svn.1"),
        ({"event_log": []}, "event_log"),
        ({"event_log": {"requierd": True}}, "event_log.requierd"),
        ({"event_log": {"required": False}}, "event_log.required"),
        ({"event_log": {"secure_boot": False}}, "event_log.secure_boot"),
        ({"event_log": {"signature_stores": {}}}, "event_log.signature_stores"),
        ({"event_log": {"signature_stores": {"dbt": SOME}}}, "event_log.signature_stores.dbt"),
        ({"event_log": {"signature_stores": {"db": ["00"]}}}, "event_log.signature_stores.db[0]"),
        ({"event_log": {"boot_variables": ["0x00"]}}, "event_log.boot_variables[0]"),
        ({"event_log": {"boot_variables": [0]}}, "event_log.boot_variables[0]"),
        ({"event_log": {"kernel_command_lines": []}}, "event_log.kernel_command_lines"),
        ({"event_log": {"kernel_command_lines": [""]}}, "event_log.kernel_command_lines[0]"),
        ({"event_log": {"grub_commands": "linux"}}, "event_log.grub_commands"),
        ({"event_log": {"initrds": ["00"]}}, "event_log.initrds[0]"),
        ({"event_log": {"load_options": [1]}}, "event_log.load_options[0]"),
        ({"event_log": {"other_loader_events": ["text"]}}, "event_log.other_loader_events[0]"),
        ({"event_log": {"other_runtime_events": []}}, "event_log.other_runtime_events"),
        ({"event_log": {"application_events": [{}]}}, "event_log.application_events[0].domain"),
        (
            {"event_log": {"application_events": [{"domain": "a b", "operation": "c"}]}},
            "event_log.application_events[0].domain",
        ),
        (
            {"event_log": {"application_events": [{"domain": "a", "operation": "c", "content": ["d"]}]}},
            "event_log.application_events[0].content",
        ),
        (
            {"event_log": {"application_events": [{"domain": "a", "operation": "c", "contents": []}]}},
            "event_log.application_events[0].contents",
        ),
    ],
)
def test_a_wrong_value_about_a_td_is_refused_with_its_path(change: dict[str, Any], path: str) -> None:
    assert refused(tdx_document(**change)).field == f"tdx.{path}"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"mr_enclave": ["image"]}, "mr_enclave[0]"),
        ({"mr_signer": ["00"]}, "mr_signer[0]"),
        ({"isv_prod_id": [65536]}, "isv_prod_id[0]"),
        ({"minimum_isv_svn": -1}, "minimum_isv_svn"),
        ({"config_id": ["00" * 48]}, "config_id[0]"),
        ({"attributes": {"debug": True}}, "attributes.debug"),
        ({"attributes": {"provision": False}}, "attributes.provision"),
        ({"event_log": {"secure_boot": True}}, "event_log"),
    ],
)
def test_a_wrong_value_about_an_enclave_is_refused_with_its_path(change: dict[str, Any], path: str) -> None:
    assert refused(sgx_document(**change)).field == f"sgx.{path}"


@pytest.mark.parametrize(
    ("document", "wrong", "meant"),
    [
        (tdx_document(accepted_advisory={}), "accepted_advisory", "accepted_advisories"),
        (tdx_document(event_log={"kernel_commandlines": ["x"]}), "kernel_commandlines", "kernel_command_lines"),
        (sgx_document(mr_singer=["00" * 32]), "mr_singer", "mr_signer"),
    ],
)
def test_the_right_key_is_suggested(document: dict[str, Any], wrong: str, meant: str) -> None:
    error = refused(document)
    assert wrong in str(error.field)
    assert meant in error.message


def test_reference_values_of_one_name_are_of_one_size() -> None:
    changed = copy.deepcopy(STRICT_TDX)
    changed["reference_values"]["image"]["values"].append("00" * 32)
    assert refused(changed).field == "reference_values.image.values[1]"
    del changed["reference_values"]
    assert "48-byte" in refused(changed).message


def test_the_baselines_digest_is_over_what_it_demands() -> None:
    texts = [rule.expected for rules in BASELINE_RULES.values() for rule in rules]
    assert len(Policy.baseline().digest) == 32
    assert "one of UpToDate, SWHardeningNeeded" in texts
    assert all(rule.relaxed is None for rules in BASELINE_RULES.values() for rule in rules)


KEYS = ["mr_td", "rtmr0", "td_attributes", "accepted_advisories", "minimum_tdx_module_svn", "platform", "event_log"]
LOG_KEYS = ["required", "secure_boot", "signature_stores", "boot_variables", "application_events", *LINES]


@given(st.sampled_from(KEYS), JSON)
def test_any_value_in_any_place_gives_a_policy_or_a_configuration_error(name: str, value: object) -> None:
    with contextlib.suppress(ConfigurationError):
        policy_of(tdx_document(**{name: value}))


@given(st.sampled_from(LOG_KEYS), JSON)
def test_any_demand_on_the_log_gives_a_policy_or_a_configuration_error(name: str, value: object) -> None:
    with contextlib.suppress(ConfigurationError):
        policy_of(tdx_document(event_log={name: value}))


# -- what a TD booted


@pytest.mark.parametrize(
    "judged",
    [
        {"rtmr1": ["image"]},
        {"rtmr2": ["image"]},
        {"rtmr1": RELAXED},
        *({"event_log": {name: RELAXED}} for name in LOADER_LISTS),
    ],
)
def test_a_td_is_judged_by_what_it_booted_or_that_is_relaxed_by_name(judged: dict[str, Any]) -> None:
    assert decode_policy(STRICT_TDX | {"tdx": {"mr_td": ["image"], **judged}}).tdx


@pytest.mark.parametrize(
    "section",
    [
        {},
        {"rtmr0": ["image"], "rtmr3": ["image"]},
        {"event_log": {"secure_boot": True}},
        {"event_log": {"boot_variables": RELAXED, "other_runtime_events": RELAXED}},
    ],
)
def test_a_policy_that_accepts_any_kernel_is_refused(section: dict[str, Any]) -> None:
    td = {"mr_td": ["image"], **section}
    for body, path in (({"tdx": td}, "tdx"), ({"any_of": [{"tdx": td}]}, "any_of[0].tdx")):
        head = {name: value for name, value in STRICT_TDX.items() if name != "tdx"}
        with pytest.raises(InvalidValueError) as refused:
            decode_policy(head | body)
        assert refused.value.field == path
        assert "rtmr1 or rtmr2" in (refused.value.expected or "")


def test_the_lists_of_the_firmwares_registers_hold_or_fall_together() -> None:
    rules = rules_of(tdx_document(event_log={"boot_variables": ["00"]}), "tdx")
    assert rules["event_log.other_firmware_events"] == "no such event"
    rules = rules_of(tdx_document(event_log={"other_firmware_events": SOME}), "tdx")
    assert rules["event_log.boot_variables"] == "no such event"
    assert "event_log.other_firmware_events" not in rules_of(tdx_document(event_log={}), "tdx")
