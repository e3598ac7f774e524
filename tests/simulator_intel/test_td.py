"""A simulated TD: what it measures, what its log says, and that the two agree."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from attest.errors import AttestError
from attest.evidence.eventlog.content import Verification
from attest.evidence.eventlog.facts import facts_of
from attest.evidence.eventlog.replay import verify_event_log
from attest.evidence.eventlog.structure import ParsedEventLog, parse_event_log
from attest.evidence.intel.quote import parse_quote
from attest.evidence.tdx.structure import ParsedTdReport
from attest_simulator.intel import (
    LogEntry,
    MeasuredEvent,
    SimulatedPlatform,
    SimulatedTd,
    application_event,
    typical_boot,
)
from attest_simulator.intel.eventlog import (
    SHA256,
    SHA384,
    boot_variable,
    ccel_table,
    efi_action,
    efi_variable,
    grub_command,
    kernel_command_line,
    opaque_event,
    replayed,
    separator,
    write_event_log,
)
from attest_simulator.intel.td import SEPT_VE_DISABLE, TD_DEBUG

TD = SimulatedTd(platform=SimulatedPlatform.of())
REPORT_DATA = bytes(64)


def body_of(quote: bytes) -> ParsedTdReport:
    body = parse_quote(quote).body
    assert isinstance(body, ParsedTdReport)
    return body


def named(rtmrs: tuple[bytes, ...]) -> dict[str, bytes]:
    return {f"RTMR{number}": value for number, value in enumerate(rtmrs)}


def entries_of(log: ParsedEventLog) -> tuple[LogEntry, ...]:
    return tuple(
        LogEntry(index=e.index, event=MeasuredEvent(kind=e.type, data=e.data, digest=e.digest)) for e in log.events
    )


@pytest.mark.parametrize("name", ["live1", "live2", "alibaba-aael", "grub"])
def test_the_writer_gives_real_logs_byte_by_byte(vectors_dir: Path, name: str) -> None:
    raw = (vectors_dir / "ccel" / name / "ccel.bin").read_bytes()
    log = parse_event_log(raw)
    assert [number for number, _ in log.spec_id.algorithms] == [SHA384]
    assert write_event_log(entries_of(log), size=len(raw)) == raw


@pytest.mark.parametrize("name", ["live2"])
def test_our_replay_gives_the_registers_of_a_real_quote(vectors_dir: Path, name: str) -> None:
    folder = vectors_dir / "ccel" / name
    log = parse_event_log((folder / "ccel.bin").read_bytes())
    assert replayed(entries_of(log)) == body_of((folder / "quote.bin").read_bytes()).rtmrs


def test_the_registers_of_a_quote_are_those_of_the_log() -> None:
    td = TD.extend(3, application_event("example.com", "load-model", "sha384:00"))
    log = parse_event_log(td.event_log(size=65536))
    rtmrs = body_of(td.quote(REPORT_DATA)).rtmrs
    assert rtmrs == td.rtmrs
    assert all(any(register) for register in rtmrs)
    facts = facts_of(verify_event_log(log, signed=named(rtmrs)))
    assert facts.event_count == len(td.log)
    assert facts.secure_boot is not None
    assert facts.secure_boot.verification is Verification.VERIFIED
    assert dict(facts.secure_boot.values)["enabled"] is True
    assert len(facts.kernel_command_lines or ()) == 1
    assert [dict(fact.values)["domain"] for fact in facts.application_events or ()] == ["example.com"]


@pytest.mark.parametrize("secure_boot", [True, False])
def test_a_boot_can_be_chosen(secure_boot: bool) -> None:
    log = typical_boot(secure_boot=secure_boot, command_line="ro quiet", kernel=b"k", firmware=b"f")
    td = replace(TD, log=log)
    facts = facts_of(verify_event_log(parse_event_log(td.event_log()), signed=named(td.rtmrs)))
    assert facts.secure_boot is not None
    assert dict(facts.secure_boot.values)["enabled"] is secure_boot
    assert all(mine != theirs for mine, theirs in zip(td.rtmrs[:3], TD.rtmrs[:3], strict=True))
    assert td.rtmrs[3] == bytes(48)


def test_a_log_that_lies_about_a_variable_is_refused_though_it_replays() -> None:
    lie = replace(
        efi_variable("SecureBoot", b"\1"), digest=hashlib.sha384(efi_variable("SecureBoot", b"\0").data).digest()
    )
    td = replace(TD, log=(LogEntry(index=1, event=lie),))
    assert td.rtmrs == replace(TD, log=(LogEntry(index=1, event=efi_variable("SecureBoot", b"\0")),)).rtmrs
    with pytest.raises(AttestError):
        verify_event_log(parse_event_log(td.event_log()), signed=named(td.rtmrs))


def test_a_log_that_keeps_an_event_back_is_refused() -> None:
    shorter = replace(TD, log=TD.log[:-1])
    with pytest.raises(AttestError):
        verify_event_log(parse_event_log(shorter.event_log()), signed=named(TD.rtmrs))


def test_extending_leaves_the_old_td_alone() -> None:
    later = TD.extend(2, grub_command("echo"))
    assert len(later.log) == len(TD.log) + 1
    assert later.rtmrs[:2] == TD.rtmrs[:2]
    expected = hashlib.sha384(TD.rtmrs[2] + hashlib.sha384(b"echo").digest()).digest()
    assert later.rtmrs[2] == expected
    with pytest.raises(ValueError, match="RTMR4"):
        TD.extend(4, separator())


def test_no_action_and_index_0_extend_nothing() -> None:
    quiet = (
        LogEntry(index=1, event=MeasuredEvent(kind=3, data=b"x")),
        LogEntry(index=0, event=separator()),
    )
    assert replayed(quiet) == (bytes(48),) * 4


@pytest.mark.parametrize(
    ("event", "measured"),
    [
        (separator(), bytes(4)),
        (efi_action("text"), b"text"),
        (boot_variable("BootOrder", b"\1\0"), b"\1\0"),
        (kernel_command_line("ro"), b"ro"),
        (grub_command("ls"), b"ls"),
        (application_event("d", "o", "c"), b"LEAA\5\0\0\0d o c"),
        (opaque_event(0xA, b"ACPI DATA", measured=b"hidden"), b"hidden"),
    ],
)
def test_each_event_hashes_what_its_type_says(event: MeasuredEvent, measured: bytes) -> None:
    assert event.digest_of(SHA384) == hashlib.sha384(measured).digest()
    assert event.digest_of(SHA256) == hashlib.sha256(measured).digest()
    with pytest.raises(ValueError, match="0x0012"):
        event.digest_of(0x12)


def test_a_log_may_have_two_banks() -> None:
    log = parse_event_log(write_event_log(TD.log, algorithms=(SHA256, SHA384)))
    assert log.spec_id.algorithms == ((SHA256, 32), (SHA384, 48))
    assert [e.digest for e in log.events] == [e.event.digest_of(SHA384) for e in TD.log]


def test_a_log_area_is_filled_to_its_size() -> None:
    assert len(TD.event_log(size=8192)) == 8192
    assert TD.event_log(size=8192).endswith(b"\xff" * 16)
    zeros = write_event_log(TD.log, size=8192, fill=0)
    assert len(parse_event_log(zeros).events) == len(TD.log)


def test_the_acpi_table_is_as_the_specification_draws_it() -> None:
    table = ccel_table(log_bytes=65536, address=0x1234)
    assert (table[:4], len(table), table[4:8]) == (b"CCEL", 56, (56).to_bytes(4, "little"))
    assert table[36:38] == b"\2\0"
    assert (int.from_bytes(table[40:48], "little"), int.from_bytes(table[48:], "little")) == (65536, 0x1234)
    assert sum(table) % 256 == 0


def test_every_property_of_a_td_reaches_its_quote() -> None:
    td = replace(
        TD,
        mr_td=b"\1" * 48,
        td_attributes=SEPT_VE_DISABLE | TD_DEBUG,
        xfam=0x3,
        mr_config_id=b"\2" * 48,
        mr_owner=b"\3" * 48,
        mr_owner_config=b"\4" * 48,
        mr_service_td=b"\5" * 48,
        tee_tcb_svn_2=b"\6" * 16,
    )
    body = body_of(td.quote(REPORT_DATA, version=5))
    assert body.debug
    assert (body.mr_td, body.mr_config_id, body.mr_owner) == (b"\1" * 48, b"\2" * 48, b"\3" * 48)
    assert (body.mr_owner_config, body.mr_service_td) == (b"\4" * 48, b"\5" * 48)
    assert (body.tee_tcb_svn, body.tee_tcb_svn_2) == (TD.platform.tee_tcb_svn, b"\6" * 16)
    assert body.mr_seam == TD.platform.mr_seam
    assert td.event_log() == TD.event_log()
