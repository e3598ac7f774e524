"""Policies judge TDX and SGX evidence: each demand fails on its own; what is absent is never accepted in silence."""

import copy
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.appraisal import AttestationResult, appraise
from attest.checks import Check, Outcome, Tier, Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.errors import AttestError, VerificationError
from attest.evidence.endorsement_files import read_endorsements
from attest.evidence.eventlog.facts import facts_of
from attest.policy import Policy, load_policy
from attest.verification import VerifiedEvidence, verify
from attest_simulator.intel import IntelAuthority, SimulatedPlatform, SimulatedTd, application_event, typical_boot
from attest_simulator.intel.eventlog import (
    LogEntry,
    MeasuredEvent,
    boot_variable,
    efi_variable,
    grub_command,
    kernel_command_line,
    opaque_event,
    separator,
)
from tests.evidence.intel.recorded import RECORDED, Recorded
from tests.policy.documents import policy_of
from tests.policy.intel_documents import (
    AT,
    ENCLAVE,
    PLATFORM,
    STRICT_SGX,
    STRICT_TDX,
    TD,
    collateral,
    firmware_lists,
    quote_evidence,
    sgx_document,
    tdx_document,
    verified_enclave,
    verified_td,
    without_tcb,
)

LINE = "/vmlinuz root=/dev/vda1 ro console=ttyS0"
NO_TCB = (Unchecked(check="tcb", reason="recorded without collateral"),)
NO_LOG = (Unchecked(check="eventlog", reason="this cloud hands out no log"),)


def judged(policy: dict[str, Any], verified: VerifiedEvidence) -> AttestationResult:
    """Appraise by a policy document."""
    return appraise(verified, policy=policy_of(policy), at=AT)


def failed(result: AttestationResult) -> set[str]:
    """Ids of the failed checks without the prefix."""
    return {check.id.removeprefix("policy.").removeprefix("tdx.").removeprefix("sgx.") for check in result.failed}


def check_of(result: AttestationResult, name: str) -> Check:
    """The check of one rule."""
    return next(check for check in result.policy_checks if check.id == f"policy.{name}")


def test_an_honest_td_and_an_honest_enclave_are_affirmed_and_every_check_is_listed() -> None:
    for policy, verified in ((STRICT_TDX, verified_td()), (STRICT_SGX, verified_enclave())):
        result = judged(policy, verified)
        result.require()
        rules = next(iter(result.policy.rules.values()))
        assert {check.id for check in result.policy_checks} >= {rule.id for rule in rules}
        assert len({rule.id for rule in rules}) == len(rules)
        assert all(rule.claim.clause for rule in rules)
        assert result.status is Tier.AFFIRMING


def test_a_policy_for_one_kind_refuses_the_other() -> None:
    assert failed(judged(STRICT_SGX, verified_td())) == {"kind"}
    assert failed(judged(STRICT_TDX, verified_enclave())) == {"kind"}


@pytest.mark.parametrize(
    ("report", "tdx", "wanted"),
    [
        ({"mr_td": bytes(48)}, {}, {"mr_td"}),
        *(({}, {f"rtmr{i}": ["other"]}, {f"rtmr{i}"}) for i in range(4)),
        ({"td_attributes": 1 << 28 | 1}, {}, {"td_attributes.debug", "under_debug"}),
        ({"td_attributes": 1 << 28 | 4}, {}, {"under_debug", "unnamed_attributes"}),
        ({"td_attributes": 0}, {}, {"td_attributes.sept_ve_disable"}),
        ({"td_attributes": 1 << 28 | 1 << 29}, {}, {"td_attributes.migratable"}),
        ({"td_attributes": 1 << 28 | 1 << 40}, {}, {"unnamed_attributes"}),
        ({}, {"td_attributes": {"perfmon": True}}, {"td_attributes.perfmon"}),
        ({"xfam": 0x602E7 | 1 << 40}, {}, {"unknown_xfam"}),
        ({"xfam": 0x2}, {}, {"unknown_xfam"}),
        ({"mr_service_td": b"\1" * 48}, {}, {"service_td"}),
        ({"mr_service_td": b"\1" * 48}, {"mr_service_td": ["02" * 48]}, {"mr_service_td"}),
        ({}, {"mr_seam": ["01" * 48]}, {"mr_seam"}),
        ({}, {"mr_config_id": ["01" * 48]}, {"mr_config_id"}),
        ({}, {"mr_owner": ["01" * 48]}, {"mr_owner"}),
        ({}, {"mr_owner_config": ["01" * 48]}, {"mr_owner_config"}),
        ({}, {"minimum_tdx_module_svn": {"1": 7}}, {"minimum_tdx_module_svn"}),
        ({}, {"minimum_tdx_module_svn": {"0": 1, "3": 1}}, {"minimum_tdx_module_svn"}),
    ],
)
def test_mc_6_each_demand_on_a_td_fails_on_its_own(
    report: dict[str, Any], tdx: dict[str, Any], wanted: set[str]
) -> None:
    result = judged(tdx_document(**tdx), verified_td(**report))
    assert failed(result) == wanted
    assert result.status is Tier.CONTRAINDICATED


TCB: list[tuple[dict[str, Any], set[str]]] = [
    ({"tcb_status": ["OutOfDate"]}, {"tcb_status"}),
    ({"minimum_tcb_evaluation_data_number": 18}, set()),
    (
        {"minimum_tcb_evaluation_data_number": 19},
        {"minimum_tcb_evaluation_data_number", "minimum_qe_identity_evaluation_data_number"},
    ),
    ({"fmspcs": ["00" * 6]}, {"fmspc"}),
    ({"ppids": ["00" * 16]}, {"ppid"}),
    ({"denied_ppids": [PLATFORM.sgx.ppid.hex()]}, {"denied_ppids"}),
    ({"denied_ppids": ["00" * 16]}, set()),
    ({"platform": {"dynamic_platform": False}}, {"platform.dynamic_platform"}),
    ({"platform": {"cached_keys": False}}, {"platform.cached_keys"}),
    ({"platform": {"smt_enabled": False}}, {"platform.smt_enabled"}),
    ({"platform": {"smt_enabled": True}}, set()),
]


@pytest.mark.parametrize(("change", "wanted"), TCB)
def test_each_demand_on_the_platform_fails_on_its_own(change: dict[str, Any], wanted: set[str]) -> None:
    assert failed(judged(tdx_document(**change), verified_td())) == wanted
    assert failed(judged(sgx_document(**change), verified_enclave())) == wanted


@pytest.mark.parametrize(
    ("report", "sgx", "wanted"),
    [
        ({"mr_enclave": bytes(32)}, {}, {"mr_enclave"}),
        ({"attributes": b"\7" + ENCLAVE.attributes[1:]}, {}, {"attributes.debug"}),
        ({}, {"attributes": {"kss": True}}, {"attributes.kss"}),
        ({}, {"mr_signer": ["01" * 32]}, {"mr_signer"}),
        ({}, {"isv_prod_id": [2, 3]}, {"isv_prod_id"}),
        ({}, {"minimum_isv_svn": 2}, {"minimum_isv_svn"}),
        ({}, {"minimum_isv_svn": 1}, set()),
        ({}, {"config_id": ["01" * 64]}, {"config_id"}),
        ({}, {"mr_enclave": ["other-enclave"]}, {"mr_enclave"}),
        ({}, {"mr_enclave": ["other-enclave", "enclave"]}, set()),
    ],
)
def test_each_demand_on_an_enclave_fails_on_its_own(
    report: dict[str, Any], sgx: dict[str, Any], wanted: set[str]
) -> None:
    assert failed(judged(sgx_document(**sgx), verified_enclave(**report))) == wanted


def test_what_a_td_report_of_version_1_0_does_not_carry_fails_the_demand() -> None:
    """must-check 41: a missing value never equals a default."""
    verified = verified_td(version=4)
    assert judged(STRICT_TDX, verified).affirmed
    result = judged(tdx_document(mr_service_td=["00" * 48]), verified)
    assert failed(result) == {"mr_service_td"}
    assert check_of(result, "tdx.mr_service_td").got == "absent"


def test_what_a_certificate_of_the_processor_ca_does_not_say_fails_the_demand() -> None:
    td = replace(TD, platform=SimulatedPlatform.of(ca=IntelAuthority.PROCESSOR))
    assert judged(STRICT_TDX, verified_td(td)).affirmed
    for wanted in (True, False):
        result = judged(tdx_document(platform={"smt_enabled": wanted}), verified_td(td))
        assert failed(result) == {"platform.smt_enabled"}


def test_a_named_service_td_may_be_bound() -> None:
    verified = verified_td(mr_service_td=b"\2" * 48)
    assert judged(tdx_document(mr_service_td=["02" * 48]), verified).affirmed


def test_every_version_of_the_tdx_module_has_its_own_minimum() -> None:
    """must-check 41: SVNs of two versions are two countings."""
    assert judged(tdx_document(minimum_tdx_module_svn={"0": 200, "1": 6}), verified_td()).affirmed
    result = judged(tdx_document(minimum_tdx_module_svn={"0": 1, "1": 7}), verified_td())
    check = check_of(result, "tdx.minimum_tdx_module_svn")
    assert check.expected == "version 0 with SVN at least 1; version 1 with SVN at least 7"
    assert check.got == "version 1 SVN 6"


def test_a_relaxed_demand_is_not_evaluated_and_shows_its_reason() -> None:
    relaxed = {"unchecked": "a laboratory"}
    policy = tdx_document(td_attributes={"debug": relaxed}, mr_td=relaxed, event_log={"required": relaxed})
    result = judged(policy, verified_td(td_attributes=1 << 28 | 1, mr_td=bytes(48)))
    assert result.affirmed
    for name in ("td_attributes.debug", "under_debug", "mr_td", "event_log.required"):
        check = check_of(result, f"tdx.{name}")
        assert (check.outcome, check.expected) == (Outcome.NOT_EVALUATED, "unchecked: a laboratory")


# -- status and advisories


@pytest.mark.parametrize(
    "status", ["SWHardeningNeeded", "ConfigurationNeeded", "ConfigurationAndSWHardeningNeeded", "OutOfDate"]
)
def test_a_status_other_than_up_to_date_must_be_accepted(status: str) -> None:
    verified = verified_td(endorsements=collateral("tdx", PLATFORM, status))
    assert failed(judged(STRICT_TDX, verified)) == {"tcb_status"}
    assert judged(tdx_document(tcb_status=["UpToDate", status]), verified).affirmed
    baseline = appraise(verified, policy=Policy.baseline(), at=AT)
    wanted = set[str]() if status == "SWHardeningNeeded" else {"tcb_status"}
    assert failed(baseline) == {"not_simulated", *wanted}


@pytest.mark.parametrize(("seconds", "good"), [(-1, False), (0, True), (1, True)])
def test_an_advisory_is_accepted_until_its_last_moment_included(seconds: int, good: bool) -> None:
    endorsements = collateral("tdx", PLATFORM, "SWHardeningNeeded", ("INTEL-SA-00837",))
    accepted = {"reason": "not affected", "expires": (AT + timedelta(seconds=seconds)).isoformat()}
    policy = tdx_document(tcb_status=["SWHardeningNeeded"], accepted_advisories={"INTEL-SA-00837": accepted})
    result = judged(policy, verified_td(endorsements=endorsements))
    assert failed(result) == (set() if good else {"accepted_advisories"})
    assert check_of(result, "tdx.accepted_advisories").got == "INTEL-SA-00837"


def test_every_advisory_must_be_accepted() -> None:
    both = ("INTEL-SA-00837", "INTEL-SA-00960")
    verified = verified_td(endorsements=collateral("tdx", PLATFORM, "SWHardeningNeeded", both))
    accepted = {"reason": "not affected", "expires": "2027-01-01T00:00:00Z"}
    policy = tdx_document(tcb_status=["SWHardeningNeeded"])
    assert failed(judged(policy, verified)) == {"accepted_advisories"}
    policy["tdx"]["accepted_advisories"] = {both[0]: accepted}
    assert failed(judged(policy, verified)) == {"accepted_advisories"}
    policy["tdx"]["accepted_advisories"] = dict.fromkeys(both, accepted)
    assert judged(policy, verified).affirmed


# -- what cannot be judged


@pytest.mark.parametrize("who", ["caller", "policy"])
def test_with_the_tcb_left_unchecked_its_rules_are_not_evaluated(who: str) -> None:
    """CLI.md: the claims that it would have given are absent. All others are judged."""
    numbers = {"minimum_tcb_evaluation_data_number": 18}
    for policy, verify_it, endorsements in (
        (tdx_document(**numbers), verified_td, without_tcb("tdx")),
        (sgx_document(**numbers), verified_enclave, without_tcb("sgx")),
    ):
        verified = verify_it(endorsements=endorsements, unchecked=NO_TCB)
        if who == "policy":
            verified = verified._replace(unchecked=())
            policy["unchecked"] = {"tcb": NO_TCB[0].reason}
        result = judged(policy, verified)
        assert result.affirmed
        assert result.unchecked == NO_TCB
        waived = {
            check.id.split(".", 2)[2]: check
            for check in result.policy_checks
            if check.outcome is Outcome.NOT_EVALUATED and check.id not in ("policy.not_simulated", "policy.tdx.rtmr1")
        }
        assert set(waived) == {
            "tcb_status",
            "accepted_advisories",
            "minimum_tcb_evaluation_data_number",
            "minimum_qe_identity_evaluation_data_number",
        }
        assert waived["tcb_status"].expected == "unchecked: recorded without collateral"
        assert waived["tcb_status"].got == "absent"


def test_absent_claims_about_the_tcb_fail_when_nobody_said_why() -> None:
    verified = verified_td(endorsements=without_tcb("tdx"), unchecked=NO_TCB)._replace(unchecked=())
    assert failed(judged(STRICT_TDX, verified)) == {"tcb_status", "accepted_advisories"}
    other = verified._replace(unchecked=(Unchecked(check="revocation", reason="x"),))
    assert failed(judged(STRICT_TDX, other)) == {"tcb_status", "accepted_advisories"}


def test_leaving_the_tcb_unchecked_never_excuses_a_status_that_is_there() -> None:
    verified = verified_td(endorsements=collateral("tdx", PLATFORM, "OutOfDate"))._replace(unchecked=NO_TCB)
    assert failed(judged(STRICT_TDX, verified)) == {"tcb_status"}


def test_of_two_reasons_the_callers_is_told() -> None:
    verified = verified_td(endorsements=without_tcb("tdx"), unchecked=NO_TCB)
    result = judged({**STRICT_TDX, "unchecked": {"tcb": "the author's"}}, verified)
    assert check_of(result, "tdx.tcb_status").expected == "unchecked: recorded without collateral"
    assert len(result.unchecked) == 2


# -- the event log


LOADER = {"kernel_command_lines": [LINE], "grub_commands": [f"linux {LINE}"]}
FACTS = facts_of(verified_td(log=True).items[0].eventlog)  # type: ignore[arg-type]  # the log is given
STORES = {name: [dict(fact.values)["value_sha384"]] for name, fact in FACTS.signature_stores or ()}
FIRMWARE = firmware_lists()
GOOD = {"secure_boot": True, "signature_stores": STORES, **FIRMWARE, **LOADER}


def log_failed(event_log: dict[str, Any], td: SimulatedTd = TD, *, log: bool = True) -> set[str]:
    """What fails of demands on the log of a TD."""
    result = judged(tdx_document(event_log=event_log), verified_td(td, log=log))
    return {name.removeprefix("event_log.") for name in failed(result)}


def booted(*entries: LogEntry, **boot: Any) -> SimulatedTd:  # noqa: ANN401  as typical_boot takes
    """A TD after a boot and some more events."""
    return replace(TD, log=(*typical_boot(**boot), *entries))


def loader(*events: MeasuredEvent) -> SimulatedTd:
    """A TD whose boot loader measured these events."""
    others = tuple(entry for entry in typical_boot() if entry.index != 3)
    return replace(TD, log=(*others, *(LogEntry(index=3, event=event) for event in events)))


def test_a_log_that_says_what_is_demanded_is_affirmed() -> None:
    assert log_failed(GOOD) == set()
    assert log_failed({"required": True}) == set()


def test_without_a_log_every_demand_on_it_fails_unless_somebody_said_why() -> None:
    result = judged(tdx_document(event_log=GOOD), verified_td())
    demanded = {check.id for check in result.policy_checks if ".event_log." in check.id}
    assert {check.id for check in result.failed} == demanded
    assert {check.got for check in result.failed} == {"absent"}
    relaxed = judged(tdx_document(event_log=GOOD), verified_td(unchecked=NO_LOG))
    assert relaxed.affirmed
    assert check_of(relaxed, "tdx.event_log.secure_boot").expected == "unchecked: this cloud hands out no log"


def test_leaving_the_log_unchecked_never_excuses_what_a_log_says() -> None:
    for td in (booted(secure_boot=False), replace(TD, log=())):
        verified = verified_td(td, log=True, unchecked=NO_LOG)
        assert failed(judged(tdx_document(event_log={"secure_boot": True}), verified)) == {"event_log.secure_boot"}


@pytest.mark.parametrize(
    ("td", "got"),
    [
        (booted(secure_boot=False), "false"),
        (replace(TD, log=()), "the log has no SecureBoot variable of the firmware, or several"),
        (
            replace(TD, log=(LogEntry(index=1, event=separator()), *typical_boot())),
            "the log has no SecureBoot variable of the firmware, or several",
        ),
        (
            replace(TD, log=(LogEntry(index=1, event=efi_variable("SecureBoot", b"\2")),)),
            "the variable SecureBoot has no known value",
        ),
    ],
)
def test_secure_boot_must_be_on_and_told_by_the_firmware(td: SimulatedTd, got: str) -> None:
    result = judged(tdx_document(event_log={"secure_boot": True}), verified_td(td, log=True))
    assert failed(result) == {"event_log.secure_boot"}
    assert check_of(result, "tdx.event_log.secure_boot").got == got


@pytest.mark.parametrize("store", ["pk", "kek", "db", "dbx"])
def test_each_signature_store_must_be_an_accepted_one(store: str) -> None:
    assert log_failed({"signature_stores": {store: STORES[store]}}) == set()
    assert log_failed({"signature_stores": {store: ["00" * 48]}}) == {f"signature_stores.{store}"}
    assert log_failed({"signature_stores": {store: STORES[store]}}, replace(TD, log=())) == {
        f"signature_stores.{store}"
    }
    assert log_failed({"signature_stores": {store: {"unchecked": "changes"}}}) == set()


def test_every_boot_variable_must_be_an_accepted_one() -> None:
    assert log_failed(FIRMWARE | {"boot_variables": ["0100"]}) == {"boot_variables"}
    assert log_failed(FIRMWARE | {"boot_variables": ["0000", "0100"]}) == set()


def test_the_whole_of_the_firmwares_registers_must_be_accepted() -> None:
    assert log_failed({"boot_variables": ["0000"]}) == {"other_firmware_events"}
    assert log_failed({"other_firmware_events": FIRMWARE["other_firmware_events"]}) == {"boot_variables"}
    assert log_failed(FIRMWARE | {"other_firmware_events": {"unchecked": "changes with the host"}}) == set()


def test_acpi_tables_of_the_hosts_choice_are_refused() -> None:
    """BadAML (CCS 2025): the guest's kernel runs what is in them."""
    tables = opaque_event(0xA, b"ACPI DATA", measured=b"tables with code of the host's")
    evil = booted(LogEntry(index=1, event=tables))
    assert log_failed(FIRMWARE, evil) == {"other_firmware_events"}
    registers = {"good": {"values": [TD.rtmrs[0].hex()], "origin": "the simulator"}}
    pinned = tdx_document(rtmr0=["good"])
    pinned["reference_values"] |= registers
    assert failed(judged(pinned, verified_td(evil))) == {"rtmr0"}
    assert failed(judged(pinned, verified_td())) == set()


def test_a_boot_variable_that_is_filed_as_something_else_is_refused_all_the_same() -> None:
    """No digest covers the type: the host files its own boot option as an action of the firmware."""
    evil = booted(LogEntry(index=1, event=boot_variable("Boot0001", b"\1\0\0\0the host's boot loader")))
    log = evil.event_log()
    label, other = ((kind).to_bytes(4, "little") for kind in (0x80000002, 0xA))
    assert log.count(label) == 2
    hidden = log[: log.rindex(label)] + other + log[log.rindex(label) + 4 :]
    verified = verify(
        quote_evidence(evil.quote(bytes(64), version=5), hidden),
        endorsements=collateral("tdx"),
        anchors=TrustAnchors.simulation(),
        at=AT,
        unchecked=(Unchecked(check="freshness", reason="a test"),),
    )
    facts = facts_of(verified.items[0].eventlog)  # type: ignore[arg-type]  # the log is given
    assert [dict(fact.values)["value"] for fact in facts.boot_variables or ()] == ["0000"]
    assert failed(judged(tdx_document(event_log=FIRMWARE), verified)) == {"event_log.other_firmware_events"}


@pytest.mark.parametrize(
    ("td", "wanted"),
    [
        (booted(command_line="/vmlinuz init=/bin/sh"), {"kernel_command_lines", "grub_commands"}),
        (loader(grub_command(f"linux {LINE}")), {"kernel_command_lines"}),
        (loader(kernel_command_line(LINE)), {"grub_commands"}),
        (loader(), {"kernel_command_lines", "grub_commands"}),
        (
            booted(LogEntry(index=3, event=kernel_command_line("/vmlinuz init=/bin/sh"))),
            {"kernel_command_lines"},
        ),
        (
            booted(LogEntry(index=3, event=opaque_event(0xD, b"grub_cmd: init=/bin/sh\0", measured=b"init=/bin/sh"))),
            {"grub_commands"},
        ),
        (booted(LogEntry(index=3, event=opaque_event(0xD, b"MokList", measured=b"keys"))), {"other_loader_events"}),
    ],
)
def test_the_whole_register_of_the_boot_loader_must_be_accepted(td: SimulatedTd, wanted: set[str]) -> None:
    assert log_failed(LOADER, td) == wanted


def relabelled(td: SimulatedTd, what: bytes, other: bytes) -> bytes:
    """The log of a TD with a prefix that no digest covers exchanged for another of the same length."""
    log = td.event_log()
    assert len(what) == len(other)
    assert what in log
    return log.replace(what, other)


def test_mc_12_a_command_line_that_is_filed_as_something_else_is_refused_all_the_same() -> None:
    """must-check 40: the boot medium is the host's; the digests are all there, and the log's types are its own."""
    evil = loader(
        grub_command(f"linux {LINE}"), kernel_command_line("/vmlinuz init=/bin/sh"), kernel_command_line(LINE)
    )
    log = relabelled(evil, b"kernel_cmdline: /vmlinuz init", b"kernel_cmdlinX: /vmlinuz init")
    verified = verify(
        quote_evidence(evil.quote(bytes(64), version=5), log),
        endorsements=collateral("tdx"),
        anchors=TrustAnchors.simulation(),
        at=AT,
        unchecked=(Unchecked(check="freshness", reason="a test"),),
    )
    facts = facts_of(verified.items[0].eventlog)  # type: ignore[arg-type]  # the log is given
    assert [dict(fact.values)["text"] for fact in facts.kernel_command_lines or ()] == [LINE]
    result = judged(tdx_document(event_log=LOADER), verified)
    assert failed(result) == {"event_log.other_loader_events"}


@pytest.mark.parametrize(("name", "tag"), [("initrds", 0x8F3B22EC), ("load_options", 0x8F3B22ED)])
def test_what_linux_measures_itself_is_accepted_by_digest(name: str, tag: int) -> None:
    data = tag.to_bytes(4, "little") + (4).to_bytes(4, "little") + b"Linu"
    event = opaque_event(6, data, measured=b"an initial RAM disk")
    td = booted(LogEntry(index=3, event=event))
    assert log_failed({**LOADER, name: [event.digest_of(0xC).hex()]}, td) == set()
    assert log_failed({**LOADER, name: ["00" * 48]}, td) == {name}
    assert log_failed(LOADER, td) == {name}
    assert log_failed({**LOADER, name: {"unchecked": "changes with each build"}}, td) == set()


LOADS = {"domain": "example.com", "operation": "load", "contents": ["model 1", "model 2"]}
STARTS = {"domain": "example.com", "operation": "start"}


@pytest.mark.parametrize(
    ("events", "accepted", "wanted"),
    [
        ([("load", "model 1")], [LOADS], set()),
        ([("load", "model 2"), ("load", "model 1")], [LOADS], set()),
        ([("load", "model 3")], [LOADS], {"application_events"}),
        ([("load", "model 1"), ("load", "model 3")], [LOADS], {"application_events"}),
        ([("load", "model 1"), ("start", "now")], [LOADS], {"application_events"}),
        ([("load", "model 1"), ("start", "now")], [LOADS, STARTS], set()),
        ([("load", "model 1")], [LOADS, STARTS], {"application_events"}),
        ([], [LOADS], {"application_events"}),
    ],
)
def test_application_events_are_all_accepted_and_all_there(
    events: list[tuple[str, str]], accepted: list[dict[str, Any]], wanted: set[str]
) -> None:
    td = TD
    for operation, content in events:
        td = td.extend(3, application_event("example.com", operation, content))
    assert log_failed({"application_events": accepted}, td) == wanted


def test_an_unknown_event_in_the_runtime_register_is_refused() -> None:
    event = opaque_event(6, b"12345678", measured=b"who knows")
    td = TD.extend(3, application_event("example.com", "load", "model 1")).extend(3, event)
    assert log_failed({"application_events": [LOADS]}, td) == {"other_runtime_events"}
    known = {"application_events": [LOADS], "other_runtime_events": [event.digest_of(0xC).hex()]}
    assert log_failed(known, td) == set()
    assert log_failed({"other_runtime_events": known["other_runtime_events"]}, td) == {"application_events"}


def test_a_text_of_an_application_event_does_not_pass_for_another_operation() -> None:
    td = TD.extend(3, application_event("example.com", "loader", "model 1"))
    assert log_failed({"application_events": [LOADS]}, td) == {"application_events"}


# -- shipped policies

POLICIES = Path(__file__).resolve().parent.parent / "policies"


def test_the_shipped_production_policy_relaxes_nothing_and_affirms_nobody() -> None:
    policy = load_policy((POLICIES / "tdx-production.yaml").read_bytes())
    assert policy.simulated is None
    assert policy.unchecked == ()
    assert all(rule.relaxed is None for rule in policy.rules["tdx"])
    result = appraise(verified_td(log=True), policy=policy, at=AT)
    assert failed(result) == {"not_simulated", "mr_td", "rtmr0", "rtmr1", "rtmr2"}


def test_the_shipped_production_policy_refuses_every_recorded_quote(vectors_dir: Path) -> None:
    policy = load_policy((POLICIES / "tdx-production.yaml").read_bytes())
    for vector, evaluation in CASES:
        try:
            verified = baseline_of(vector, evaluation, vectors_dir).verified
        except AttestError:
            continue
        assert not appraise(verified, policy=policy, at=verified.at).affirmed


def test_the_laboratory_policy_affirms_the_simulators_td_and_nothing_else() -> None:
    policy = load_policy((POLICIES / "tdx-lab-simulated.yaml").read_bytes())
    assert appraise(verified_td(), policy=policy, at=AT).affirmed
    assert failed(appraise(verified_td(mr_td=bytes(48)), policy=policy, at=AT)) == {"mr_td"}
    assert failed(appraise(verified_enclave(), policy=policy, at=AT)) == {"kind"}


# -- recorded quotes


def baseline_of(vector: Recorded, evaluation: dict[str, Any], vectors: Path, *relaxed: str) -> AttestationResult:
    """Appraise a recorded quote by the baseline, at the moment that its manifest names."""
    at = datetime.fromisoformat(evaluation["verify_time"])
    bundle = vectors / "collateral" / evaluation["collateral"]
    unchecked = tuple(Unchecked(check=name, reason="recorded") for name in ("freshness", *relaxed))
    verified = verify(
        quote_evidence(vector.read(vectors)),
        endorsements=read_endorsements([(bundle.name, bundle.read_bytes())], at=at).endorsements,
        anchors=TrustAnchors.vendors(),
        at=at,
        unchecked=unchecked,
    )
    return appraise(verified, policy=Policy.baseline(), at=at)


CASES = [(vector, evaluation) for vector in RECORDED for evaluation in vector.facts["evaluations"]]
DEBUG = {"v4-debug": {"under_debug"}, "v3-00606a000000-debug": {"attributes.debug"}}


@pytest.mark.parametrize(("vector", "evaluation"), CASES, ids=lambda value: getattr(value, "id", ""))
def test_the_baseline_judges_every_recorded_quote(
    vectors_dir: Path, vector: Recorded, evaluation: dict[str, Any]
) -> None:
    status = evaluation["expected"]["status"]
    if status == "TCB_NOT_SUPPORTED":
        with pytest.raises(VerificationError):
            baseline_of(vector, evaluation, vectors_dir)
        return
    wanted = DEBUG.get(vector.id, set()) | (set() if status in {"UpToDate", "SWHardeningNeeded"} else {"tcb_status"})
    assert failed(baseline_of(vector, evaluation, vectors_dir)) == wanted


@pytest.mark.parametrize("vector", RECORDED, ids=lambda vector: vector.id)
def test_with_the_tcb_left_unchecked_the_baseline_judges_the_rest(vectors_dir: Path, vector: Recorded) -> None:
    """Without collateral nothing is said about the TCB: not evaluated, and no reason against."""
    at = max(vector.times)
    unchecked = tuple(Unchecked(check=name, reason="recorded") for name in ("freshness", "tcb", "revocation"))
    verified = verify(
        quote_evidence(vector.read(vectors_dir)),
        endorsements=read_endorsements([], at=at).endorsements,
        anchors=TrustAnchors.vendors(),
        at=at,
        unchecked=unchecked,
    )
    result = appraise(verified, policy=Policy.baseline(), at=at)
    service = {"service_td"} if vector.id == "v5-servtd" else set()
    assert failed(result) == DEBUG.get(vector.id, set()) | service
    kind = verified.items[0].kind
    assert check_of(result, f"{kind}.tcb_status").outcome is Outcome.NOT_EVALUATED


def test_strict_rules_on_recorded_quotes(vectors_dir: Path) -> None:
    """Each recorded quote of TDX under a policy that accepts its measurement and asks nothing but the defaults."""
    for vector, evaluation in CASES:
        if vector.facts["body"].get("mr_td") is None:
            continue
        policy = copy.deepcopy(STRICT_TDX)
        policy["reference_values"]["image"]["values"] = [vector.facts["body"]["mr_td"]]
        try:
            verified = baseline_of(vector, evaluation, vectors_dir).verified
        except AttestError:
            continue
        names = failed(appraise(verified, policy=policy_of(policy), at=verified.at))
        assert "mr_td" not in names
        assert ("tcb_status" in names) is (evaluation["expected"]["status"] != "UpToDate")
        assert ("accepted_advisories" in names) is bool(evaluation["expected"]["advisory_ids"])


# -- laws

HONEST = verified_td(log=True)
MORE: list[tuple[str, Any]] = [
    ("rtmr0", ["other"]),
    ("td_attributes", {"pks": True}),
    ("mr_seam", ["01" * 48]),
    ("minimum_tcb_evaluation_data_number", 17),
    ("denied_ppids", [PLATFORM.sgx.ppid.hex()]),
    ("minimum_tdx_module_svn", {"1": 6}),
    ("event_log", {"secure_boot": True}),
    ("event_log", {"initrds": ["00" * 48]}),
]


@given(st.lists(st.sampled_from(MORE), unique_by=lambda pair: pair[0]), st.sampled_from(MORE))
def test_adding_a_demand_never_turns_a_failure_into_a_success(
    some: list[tuple[str, Any]], more: tuple[str, Any]
) -> None:
    before = judged(tdx_document(**dict(some)), HONEST)
    after = judged(tdx_document(**dict([*some, more])), HONEST)
    if not before.affirmed and more[0] not in dict(some):
        assert not after.affirmed


@given(st.integers(0, 255), st.integers(0, 255))
def test_a_higher_svn_of_the_module_never_fails_a_minimum(svn: int, minimum: int) -> None:
    (rule,) = [
        rule
        for rule in policy_of(tdx_document(minimum_tdx_module_svn={"1": minimum})).rules["tdx"]
        if rule.id == "policy.tdx.minimum_tdx_module_svn"
    ]
    assert rule.holds({"version": 1, "SVN": svn}, AT) is (svn >= minimum)
    assert rule.holds({"version": 2, "SVN": svn}, AT) is False
