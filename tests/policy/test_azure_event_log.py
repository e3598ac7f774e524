"""Demands on the log of an Azure VM's boot: what is accepted, what is refused, and what cannot be proven."""

import contextlib
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.appraisal import AttestationResult, appraise
from attest.checks import Outcome
from attest.cli.policy_init import source_of
from attest.errors import ConfigurationError, InvalidValueError
from attest.evidence.azure.structure import HclReportType
from attest.evidence.eventlog.facts import facts_of
from attest.policy.authoring.draft import choose, draft_policy
from attest.policy.authoring.lint import lint_policy
from attest.policy.authoring.policy_diff import diff_policies
from attest.policy.eventlog import LOADER_LISTS
from attest.policy.model import decode_policy
from attest.verification import VerifiedEvidence
from attest_simulator.intel.eventlog import LogEntry, MeasuredEvent, grub_command, kernel_command_line, opaque_event
from attest_simulator.tpm_log import stub_command_line, typical_tpm_boot, write_tpm_log
from tests.evidence.azure.made import ALL, judged
from tests.policy.azure_logs import BY_GRUB, BY_STUB, GRUB, LINE, NO_LOG, UKI, verified_boot, vm_of
from tests.policy.documents import policy_of
from tests.policy.mixed import azure_td, policy_with, snp
from tests.policy.test_load import JSON
from tests.samples import AT

WAIVER = {"unchecked": "a test"}
SOME = ["00" * 32]
STORES = {
    "pk": [sha256(b"simulated platform key").hexdigest()],
    "kek": [sha256(b"simulated key exchange key").hexdigest()],
    "db": [sha256(b"simulated allowed signers").hexdigest()],
    "dbx": [sha256(b"").hexdigest()],
}


FACTS = facts_of(verified_boot().items[0].eventlog)  # type: ignore[arg-type]  # the log is given
FIRMWARE: dict[str, Any] = {
    "boot_variables": ["0000"],
    "other_firmware_events": [fact.digest.hex() for fact in FACTS.other_firmware_events or ()],
}


def document(log: Any, **azure: object) -> dict[str, Any]:  # noqa: ANN401  anything, also what does not load
    return policy_with(azure={"event_log": log, **azure}, snp=snp())


def result_of(log: dict[str, Any], evidence: VerifiedEvidence, **top: object) -> AttestationResult:
    more = {} if any(name in log for name in LOADER_LISTS) else {"pcr4": WAIVER}
    return appraise(evidence, policy=policy_of(document(log, **more) | top), at=AT)


def failed(log: dict[str, Any], evidence: VerifiedEvidence, **top: object) -> set[str]:
    return {check.id.removeprefix("policy.azure.event_log.") for check in result_of(log, evidence, **top).failed}


def booted(*more: tuple[int, MeasuredEvent], entries: tuple[LogEntry, ...] = GRUB) -> VerifiedEvidence:
    """A VM after some more events."""
    return verified_boot((*entries, *(LogEntry(index=index, event=event) for index, event in more)))


# -- what is accepted


def test_a_boot_that_is_what_is_demanded_is_affirmed_without_a_demand_on_a_register() -> None:
    everything = {"secure_boot": True, "signature_stores": STORES, **FIRMWARE}
    assert failed(everything | BY_GRUB, verified_boot()) == set()
    assert failed(everything | BY_STUB, verified_boot(UKI)) == set()
    assert failed({"required": True, "secure_boot": True}, verified_boot()) == set()


def test_a_vm_on_tdx_is_judged_by_the_same_demands() -> None:
    policy = policy_of(policy_with(azure={"event_log": {"secure_boot": True, **BY_GRUB}}, tdx=azure_td()))
    assert appraise(verified_boot(kind=HclReportType.TDX), policy=policy, at=AT).affirmed
    other = appraise(verified_boot(UKI, kind=HclReportType.TDX), policy=policy, at=AT)
    assert {check.id for check in other.failed} == {
        "policy.azure.event_log.grub_commands",
        "policy.azure.event_log.other_loader_events",
    }


def test_of_several_that_are_accepted_one_suffices() -> None:
    assert failed(BY_GRUB | {"initrds": [*SOME, *BY_GRUB["initrds"]]}, verified_boot()) == set()
    assert failed(BY_GRUB | {"kernel_command_lines": ["other", LINE]}, verified_boot()) == set()


# -- what is refused


def test_secure_boot_and_its_keys_are_judged_by_what_the_firmware_measured() -> None:
    off = verified_boot(typical_tpm_boot(secure_boot=False))
    demands = {"secure_boot": True, "signature_stores": STORES}
    assert failed(demands, off) == {"secure_boot", *(f"signature_stores.{name}" for name in ("pk", "kek", "db"))}
    assert failed({"signature_stores": {"dbx": SOME}}, verified_boot()) == {"signature_stores.dbx"}
    assert failed({"signature_stores": {"dbx": WAIVER}, "secure_boot": WAIVER}, off) == set()


@pytest.mark.parametrize("name", LOADER_LISTS)
def test_each_list_of_the_loader_refuses_what_it_does_not_name(name: str) -> None:
    other = ["other"] if name in ("kernel_command_lines", "grub_commands") else SOME
    assert failed(BY_GRUB | {name: other}, verified_boot()) == {name}
    without = {key: value for key, value in BY_GRUB.items() if key != name}
    assert failed(without, verified_boot()) == {name}  # left out, it accepts nothing
    assert failed(BY_GRUB | {name: WAIVER}, verified_boot()) == set()


@pytest.mark.parametrize(
    ("index", "event", "fails"),
    [
        (8, kernel_command_line("init=/bin/sh"), "kernel_command_lines"),
        (8, grub_command("insmod evil"), "grub_commands"),
        (8, opaque_event(0xD, b"grub_cmd: quiet\0", measured=b"init=/bin/sh"), "other_loader_events"),
        (9, opaque_event(0xD, b"/vmlinuz\0", measured=b"evil"), "other_loader_events"),
        (11, opaque_event(0xD, b"/vmlinuz\0", measured=b"evil"), "other_loader_events"),
        (12, stub_command_line("init=/bin/sh"), "kernel_command_lines"),
        (12, opaque_event(0x6, b"anything", measured=b"evil"), "other_loader_events"),
        (13, opaque_event(0xD, b"anything", measured=b"evil"), "other_loader_events"),
        (14, opaque_event(0xD, b"MokList\0", measured=b"evil"), "other_loader_events"),
    ],
)
def test_one_event_more_in_any_register_of_the_loader_is_refused(index: int, event: MeasuredEvent, fails: str) -> None:
    assert failed(BY_GRUB, booted((index, event))) == {fails}


def test_a_command_line_that_is_filed_as_something_else_is_refused_all_the_same() -> None:
    """must-check 40: no digest covers the word that makes a text of GRUB a command line, nor a type."""
    evil = (*GRUB, LogEntry(index=8, event=kernel_command_line("init=/bin/sh")))
    log = write_tpm_log(evil)
    renamed = log.replace(b"kernel_cmdline: init", b"kernel_cmdlinX: init")
    other_type = opaque_event(0xC, b"kernel_cmdline: init=/bin/sh\0", measured=b"init=/bin/sh")
    retyped = write_tpm_log((*GRUB, LogEntry(index=8, event=other_type)))
    assert failed(BY_GRUB, verified_boot(evil, log=log)) == {"kernel_command_lines"}
    for changed in (renamed, retyped):
        assert changed != log
        assert failed(BY_GRUB, verified_boot(evil, log=changed)) == {"other_loader_events"}


# -- what cannot be proven


@pytest.mark.parametrize("register", [8, 9, 11, 12, 13, 14])
def test_a_register_that_was_not_quoted_is_no_empty_one(register: int) -> None:
    selected = tuple(index for index in ALL if index != register)
    evidence = verified_boot(selected=selected)
    found = failed(BY_GRUB, evidence)
    assert "other_loader_events" in found
    assert found == failed(BY_GRUB, evidence, unchecked={"eventlog": "a test"})


def test_registers_of_the_firmware_that_were_not_quoted_fail_their_demands() -> None:
    evidence = verified_boot(selected=(4, *range(8, 15)))
    demands = {"secure_boot": True, "signature_stores": STORES, **FIRMWARE}
    every = {"secure_boot", *FIRMWARE, *(f"signature_stores.{name}" for name in STORES)}
    assert failed(demands, evidence) == every
    assert failed(demands, evidence, unchecked={"eventlog": "a test"}) == every


@pytest.mark.parametrize("register", [8, 9, 11, 12, 13])
def test_a_register_that_grew_and_was_left_unjudged_fails_what_is_read_from_it(register: int) -> None:
    """Whoever carries the log also chooses what it cannot prove: no relaxation of the log excuses that."""
    evidence = verified_boot(grown=(register,))
    assert [entry.check for entry in evidence.unchecked] == ["eventlog"]
    assert "other_loader_events" in failed(BY_GRUB, evidence)
    assert failed({"secure_boot": True}, evidence) == set()
    result = result_of(BY_GRUB, evidence)
    (check,) = [check for check in result.failed if check.id.endswith("other_loader_events")]
    assert check.got == "absent"


def test_without_a_log_every_demand_on_it_fails_unless_somebody_said_why() -> None:
    log = {"secure_boot": True, **BY_GRUB}
    without = judged(vm_of())
    assert failed(log, without) == {"required", *log}
    relaxed = result_of(log, judged(vm_of(), unchecked=(NO_LOG,)))
    assert relaxed.affirmed
    outcomes = {check.outcome for check in relaxed.policy_checks if ".event_log." in check.id}
    assert outcomes == {Outcome.NOT_EVALUATED}


# -- what loads


@pytest.mark.parametrize("name", LOADER_LISTS)
def test_a_list_of_the_loader_stands_in_the_place_of_a_register(name: str) -> None:
    value = ["a"] if name in ("kernel_command_lines", "grub_commands") else SOME
    for demand in (value, WAIVER):
        assert decode_policy(document({name: demand})).azure is not None


@pytest.mark.parametrize(
    ("log", "path", "expected"),
    [
        ({}, "azure", "pcr0 to pcr23"),
        ({"secure_boot": True, "boot_variables": ["00"], "signature_stores": STORES}, "azure", "pcr0 to pcr23"),
        ([], "azure.event_log", "a mapping"),
        ({"initrds": []}, "azure.event_log.initrds", "at least one"),
        ({"initrds": ["00" * 48]}, "azure.event_log.initrds[0]", "32 bytes"),
        ({"load_options": [1]}, "azure.event_log.load_options[0]", "32 bytes"),
        ({"other_loader_events": ["x"]}, "azure.event_log.other_loader_events[0]", "32 bytes"),
        ({"signature_stores": {"db": ["00" * 48]}}, "azure.event_log.signature_stores.db[0]", "32 bytes"),
        ({"signature_stores": {"dbt": SOME}}, "azure.event_log.signature_stores.dbt", "one of"),
        ({"secure_boot": False}, "azure.event_log.secure_boot", "true"),
        ({"required": False}, "azure.event_log.required", "true"),
        ({"boot_variables": ["0x"]}, "azure.event_log.boot_variables[0]", "hex"),
        ({"kernel_command_lines": [""]}, "azure.event_log.kernel_command_lines[0]", "text"),
        ({"application_events": [{"domain": "a", "operation": "b"}]}, "azure.event_log.application_events", "known"),
        ({"other_runtime_events": SOME}, "azure.event_log.other_runtime_events", "known"),
        ({"kernel_commandlines": ["a"]}, "azure.event_log.kernel_commandlines", "known"),
    ],
)
def test_what_cannot_stand_there_is_refused_with_its_path(log: Any, path: str, expected: str) -> None:  # noqa: ANN401
    with pytest.raises(InvalidValueError) as refused:
        decode_policy(document(log))
    assert refused.value.field == path
    assert expected in (refused.value.expected or "")


@given(st.sampled_from(["required", "secure_boot", "signature_stores", "boot_variables", *LOADER_LISTS]), JSON)
def test_any_demand_on_the_log_gives_a_policy_or_a_configuration_error(name: str, value: object) -> None:
    with contextlib.suppress(ConfigurationError):
        policy_of(document({name: value}))


# -- what people are told


def test_lint_knows_what_the_lists_of_a_loader_say() -> None:
    def found(log: dict[str, Any], *, around: dict[str, Any] | None = None, **azure: object) -> set[tuple[str, str]]:
        top = {"simulated": "refuse"} | (around or {})
        return {(one.rule, one.path) for one in lint_policy(decode_policy(document(log, **azure) | top), at=AT)}

    about_boot = {("boot-not-demanded", "azure"), ("identity-not-demanded", "azure")}
    assert found(BY_GRUB).isdisjoint(about_boot)
    assert found(BY_GRUB, pcr7=["pcr7"]).isdisjoint(about_boot)
    assert found({"secure_boot": True}, pcr7=["pcr7"]) & about_boot == {("boot-not-demanded", "azure")}
    assert found(dict.fromkeys(LOADER_LISTS, WAIVER)) & about_boot == {("identity-not-demanded", "azure")}
    # With the log itself left open, nothing need be there.
    no_log = {"unchecked": {"eventlog": "a test"}}
    assert found(BY_GRUB, around=no_log) & about_boot == {("identity-not-demanded", "azure")}
    # Any loader can measure what it likes: somebody has to say which ones are started.
    any_loader = {"vm_configuration": {"secure_boot": WAIVER}}
    assert found(BY_GRUB, **any_loader) & about_boot == {("boot-not-demanded", "azure")}
    assert found(BY_GRUB | {"secure_boot": True}, **any_loader).isdisjoint(about_boot)
    assert found(BY_GRUB, pcr4=["pcr4"], **any_loader).isdisjoint(about_boot)


def test_differences_are_told_with_their_direction() -> None:
    def effects(old: dict[str, Any], new: dict[str, Any]) -> dict[str, str]:
        one, two = (decode_policy(document(log, pcr4=["pcr4"])) for log in (old, new))
        return {
            change.path.removeprefix("azure.event_log."): str(change.effect)
            for change in diff_policies(one, two).changes
            if change.path != "version"
        }

    grub = BY_GRUB
    assert effects({}, {"secure_boot": True}) == {"secure_boot": "stricter"}
    assert effects(grub, grub | {"initrds": [*grub["initrds"], *SOME]}) == {"initrds": "looser"}
    assert effects(grub, grub | {"initrds": WAIVER}) == {"initrds": "looser"}
    assert effects({}, {"signature_stores": {"db": SOME}}) == {"signature_stores.db": "stricter"}
    assert set(effects({}, grub).values()) == {"stricter"}
    bare = decode_policy(policy_with(azure={"pcr4": ["pcr4"]}, snp=snp()))
    assert diff_policies(bare, decode_policy(document({}, pcr4=["pcr4"]))).effect == "stricter"


@pytest.mark.parametrize("secure", [True, False])
def test_a_draft_demands_the_log_that_came_along(secure: bool) -> None:
    verified = verified_boot(typical_tpm_boot(secure_boot=secure))
    source = source_of(verified)
    kinds = [item.kind for item in source.items]
    draft = draft_policy(source, name="drafted", reference="seen", chosen=choose(kinds))
    section: Any = draft.document["azure"]
    assert section["event_log"] == ({"required": True, "secure_boot": True} if secure else {"required": True})
    assert appraise(verified, policy=draft.policy, at=AT).affirmed
    without = source_of(judged(vm_of()))
    assert "event_log" not in str(draft_policy(without, name="d", reference="s", chosen=choose(kinds)).document)


# -- the firmware's register


def test_the_whole_of_the_register_with_boot_variables_must_be_accepted() -> None:
    assert FIRMWARE["other_firmware_events"] or failed({"boot_variables": ["0000"]}, verified_boot()) == set()
    option = opaque_event(0xA, b"another kind", measured=b"\1\0\0\0the host's boot loader")
    evil = booted((1, option))
    assert "other_firmware_events" in failed(FIRMWARE, evil)
    known = FIRMWARE | {"other_firmware_events": [*FIRMWARE["other_firmware_events"], option.digest_of(0xB).hex()]}
    assert failed(known, evil) == set()
    assert "other_firmware_events" in failed({"boot_variables": ["0000"]}, evil)
