"""Facts of a TPM's log come from the PCR where each is measured, and only when that PCR was proven."""

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.checks import Outcome
from attest.encoding import JsonValue
from attest.errors import VerificationError
from attest.evidence.eventlog.content import event_text, stub_text
from attest.evidence.eventlog.facts import EventLogFacts, facts_document, facts_of
from attest.evidence.eventlog.kinds import TCG2_SHA256
from attest.evidence.eventlog.replay import replay, verify_event_log
from attest.evidence.eventlog.structure import ParsedEvent, parse_event_log
from attest.policy.eventlog import AZURE_LOG, decode_event_log, event_log_rules
from attest_simulator.intel.eventlog import (
    LogEntry,
    MeasuredEvent,
    application_event,
    boot_application,
    boot_variable,
    efi_variable,
    grub_command,
    kernel_command_line,
    opaque_event,
    separator,
)
from attest_simulator.tpm_log import stub_command_line, tagged_event, typical_tpm_boot, write_tpm_log
from tests.samples import AT

LISTS = (
    *("pk", "kek", "db", "dbx", "authorities", "boot_variables", "boot_applications", "kernel_command_lines"),
    *("grub_commands", "load_options", "initrds", "other_loader_events", "other_firmware_events"),
)
IPL = 0xD
PLACES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("pk", "kek", "db", "dbx", "authorities"), ("PCR7",)),
    **dict.fromkeys(("boot_variables", "other_firmware_events"), ("PCR1",)),
    "boot_applications": ("PCR4",),
    "kernel_command_lines": ("PCR8", "PCR12"),
    "grub_commands": ("PCR8",),
    **dict.fromkeys(("load_options", "initrds"), ("PCR9",)),
    "other_loader_events": ("PCR8", "PCR9", "PCR11", "PCR12", "PCR13", "PCR14"),
}


def facts(entries: Iterable[LogEntry], *, without: tuple[str, ...] = ()) -> EventLogFacts:
    """Read the facts of a boot of which all PCRs but some were quoted."""
    log = parse_event_log(write_tpm_log(entries), kind=TCG2_SHA256)
    signed = {name: value for name, value in replay(log).values.items() if name not in without}
    return facts_of(verify_event_log(log, signed=signed))


def document(entries: Iterable[LogEntry], *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(facts_document(facts(entries, without=without))))
    return found


def at(index: int, event: MeasuredEvent) -> LogEntry:
    return LogEntry(index=index, event=event)


def sha(data: bytes) -> str:
    return sha256(data).hexdigest()


def test_a_boot_by_grub() -> None:
    found = document(typical_tpm_boot(command_line="/vmlinuz quiet", kernel=b"kernel"))
    assert set(found) == {"event_count", "secure_boot", *LISTS}
    state = found["secure_boot"]
    assert (state["register"], state["verification"], state["enabled"]) == ("PCR7", "verified", True)
    assert state["digest"] == sha(efi_variable("SecureBoot", b"\1").data)
    assert [found[store][0]["size"] for store in ("pk", "kek", "db", "dbx")] == [22, 26, 25, 0]
    assert [(boot["register"], boot["value"]) for boot in found["boot_variables"]] == [("PCR1", "0000")]
    assert [image["register"] for image in found["boot_applications"]] == ["PCR4"]
    (line,) = found["kernel_command_lines"]
    assert (line["register"], line["text"], line["verification"]) == ("PCR8", "/vmlinuz quiet", "value only")
    assert [command["text"] for command in found["grub_commands"]] == ["linux /vmlinuz quiet"]
    assert [options["register"] for options in found["load_options"]] == ["PCR9"]
    assert [initrd["digest"] for initrd in found["initrds"]] == [sha(b"simulated initrd")]
    others = [(other["register"], other["digest"]) for other in found["other_loader_events"]]
    assert others == [("PCR14", sha(b"simulated owner keys")), ("PCR9", sha(b"kernel"))]


def test_a_boot_by_a_unified_kernel_image() -> None:
    found = document(typical_tpm_boot(loader="stub", command_line="root=/dev/sda1 ü", secure_boot=False))
    assert found["secure_boot"]["enabled"] is False
    (line,) = found["kernel_command_lines"]
    assert (line["register"], line["text"], line["verification"]) == ("PCR12", "root=/dev/sda1 ü", "verified")
    assert found["grub_commands"] == []
    assert [other["register"] for other in found["other_loader_events"]] == ["PCR11", "PCR11"]


@pytest.mark.parametrize("register", sorted({place for places in PLACES.values() for place in places}))
def test_a_list_is_absent_without_one_of_its_registers(register: str) -> None:
    # An empty list says that there was no such event. A register that nobody signed cannot say so.
    found = document(typical_tpm_boot(), without=(register,))
    assert {name for name in LISTS if name not in found} == {n for n, places in PLACES.items() if register in places}
    assert ("secure_boot" in found) is (register != "PCR7")


def test_must_check_10_a_demand_on_a_list_that_cannot_be_proven_is_not_met_by_its_absence() -> None:
    stores: dict[str, JsonValue] = {"db": [sha256(b"signers").hexdigest()]}
    demands: dict[str, JsonValue] = {"signature_stores": stores, "kernel_command_lines": ["quiet"]}
    rules = tuple(event_log_rules(decode_event_log(demands, "event_log", key=AZURE_LOG), key=AZURE_LOG))

    def outcomes(*without: str) -> dict[str, Outcome]:
        boot = (at(7, efi_variable("db", b"signers")), at(8, kernel_command_line("quiet")))
        found = facts(boot, without=without)
        checks = [rule.judge(found, at=AT, item=None, reasons={}, branch=None) for rule in rules]
        return {check.id.rpartition(".")[2]: check.outcome for check in checks}

    loader = {"kernel_command_lines", "grub_commands", "load_options", "initrds", "other_loader_events"}
    assert outcomes() == dict.fromkeys(("required", "db", *loader), Outcome.PASS)
    assert outcomes("PCR9", "PCR12")["load_options"] is Outcome.FAIL  # of which there had to be none
    assert {name for name, outcome in outcomes("PCR7", "PCR9", "PCR12").items() if outcome is Outcome.FAIL} == {
        *("db", "kernel_command_lines", "load_options", "initrds", "other_loader_events")
    }


def test_a_register_that_was_left_unjudged_gives_no_fact() -> None:
    entries = typical_tpm_boot()
    log = parse_event_log(write_tpm_log(entries), kind=TCG2_SHA256)
    signed = {**replay(log).values, "PCR8": sha256(b"extended since").digest()}
    found = facts_of(verify_event_log(log, signed=signed, tolerant=True))
    assert (found.kernel_command_lines, found.grub_commands, found.other_loader_events) == (None, None, None)
    assert found.secure_boot is not None
    assert found.initrds


def test_software_that_runs_has_no_register_in_this_log() -> None:
    found = facts([at(index, application_event("a", "b", "c")) for index in range(24)])
    assert (found.application_events, found.other_runtime_events) == (None, None)


@pytest.mark.parametrize(
    "entries",
    [
        (at(1, efi_variable("SecureBoot", b"\1")),),
        (at(7, separator()), at(7, efi_variable("SecureBoot", b"\1"))),
        (at(7, separator(b"\xff" * 4)), at(7, efi_variable("SecureBoot", b"\1"))),
        (at(7, separator(b"\1\0\0\0")), at(7, efi_variable("SecureBoot", b"\1"))),
        # Whoever carries the log can relabel a separator, but not change its digest.
        *(
            (at(7, opaque_event(1, b"relabelled", measured=data)), at(7, efi_variable("SecureBoot", b"\1")))
            for data in (bytes(4), b"\xff" * 4, b"\1\0\0\0")
        ),
        (at(7, efi_variable("SecureBoot", b"\0")), at(7, efi_variable("SecureBoot", b"\1"))),
    ],
)
def test_secure_boot_is_stated_by_the_firmware_alone(entries: tuple[LogEntry, ...]) -> None:
    assert facts(entries).secure_boot is None


@pytest.mark.parametrize(
    ("event", "name", "places"),
    [
        (boot_variable("BootOrder", bytes(2)), "boot_variables", {1}),
        (boot_application(b"image", path="\\x"), "boot_applications", {4}),
        (grub_command("ls"), "grub_commands", {8}),
        (kernel_command_line("quiet"), "kernel_command_lines", {8}),
        (stub_command_line("quiet"), "kernel_command_lines", {12}),
        (tagged_event(0x8F3B22ED, b"x", measured=b"y"), "load_options", {9}),
        (tagged_event(0x8F3B22EC, b"x", measured=b"y"), "initrds", {9}),
    ],
)
def test_each_kind_of_event_counts_in_its_own_register(event: MeasuredEvent, name: str, places: set[int]) -> None:
    found = {index for index in range(24) if document([at(index, event)])[name]}
    assert found == places


def test_every_event_of_the_loaders_registers_is_in_one_list() -> None:
    events = (grub_command("ls"), kernel_command_line("q"), stub_command_line("s"), tagged_event(1, b"", measured=b""))
    entries = [at(index, event) for index in range(24) for event in events]
    found = document(entries)
    told = [fact["event"] for name in LISTS[7:-1] for fact in found[name]]
    registers = (8, 9, 11, 12, 13, 14)
    assert sorted(told) == [number for number, entry in enumerate(entries, 1) if entry.index in registers]


@pytest.mark.parametrize(
    "data",
    [b"", b"\0\0", b"a\0", b"a\0b\0", b"a\0\0\0b\0\0\0", b"\0\0\0\0", b"a\0\0", b"\0\xd8\0\0", b"grub_cmd: x\0\0\0"],
)
def test_what_is_no_command_line_of_the_stub_is_told_by_digest(data: bytes) -> None:
    found = document([at(12, MeasuredEvent(kind=IPL, data=data))])
    assert found["kernel_command_lines"] == []
    assert [other["digest"] for other in found["other_loader_events"]] == [sha(data)]


def test_a_command_line_that_was_not_measured_is_none() -> None:
    found = document([at(12, replace(stub_command_line("good"), measured=b"bad"))])
    assert found["kernel_command_lines"] == []
    assert [other["digest"] for other in found["other_loader_events"]] == [sha(b"bad")]


def test_a_command_line_of_the_stub_is_shown_to_people() -> None:
    def the(event: MeasuredEvent) -> ParsedEvent:
        (found,) = parse_event_log(write_tpm_log([at(12, event)]), kind=TCG2_SHA256).events
        return found

    assert event_text(the(stub_command_line("quiet"))) == "quiet"
    assert event_text(the(stub_command_line("\x1b[2J"))) is None
    assert event_text(the(MeasuredEvent(kind=IPL, data=b"\xff\xfe\xfd"))) is None
    assert stub_text(the(separator())) is None


KINDS = (4, 6, IPL, 0x80000001, 0x80000002, 0x800000E0, 0x80000003, 0x77)
DATA = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=8).map(lambda text: (text + "\0").encode("utf-16-le", "surrogatepass")),
    st.binary(max_size=20).map(lambda text: b"grub_cmd: " + text),
)
EVENTS = st.builds(MeasuredEvent, kind=st.sampled_from(KINDS), data=DATA)


@given(st.lists(st.builds(LogEntry, index=st.integers(0, 23), event=EVENTS), max_size=6))
def test_any_log_that_is_verified_has_facts_that_json_can_carry(entries: list[LogEntry]) -> None:
    with contextlib.suppress(VerificationError):
        assert document(entries)["event_count"] == len(entries)
