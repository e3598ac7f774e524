"""A TPM's log leads to the PCRs that were quoted, or is refused with the one that differs."""

from collections.abc import Mapping
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import BindingError, EvidenceError, VerificationError
from attest.evidence.eventlog.content import Verification
from attest.evidence.eventlog.kinds import TCG2_SHA256, Growth
from attest.evidence.eventlog.replay import continuation, replay, require_replay, verify_event_log
from attest.evidence.eventlog.structure import ParsedEventLog, ParsedTcgLog, parse_event_log
from attest_simulator.intel.eventlog import (
    SHA1,
    SHA256,
    SHA384,
    LogEntry,
    MeasuredEvent,
    efi_action,
    grub_command,
    separator,
)
from attest_simulator.tpm_log import (
    extended,
    replayed_pcrs,
    startup_locality,
    typical_tpm_boot,
    write_tpm_log,
)
from tests.evidence.eventlog import writer as w

BOOT = typical_tpm_boot()
UKI = typical_tpm_boot(loader="stub")
ZERO, ONES = bytes(32), b"\xff" * 32
SYSTEM = (8, 9, 11, 12, 13)
SYSTEM_ALONE = (10, *range(15, 24))
FIRMWARE = (*range(8), 14)


def parsed(data: bytes) -> ParsedTcgLog:
    return parse_event_log(data, kind=TCG2_SHA256)


def log_of(*entries: LogEntry) -> ParsedEventLog:
    return parsed(write_tpm_log(entries))


def quoted(entries: tuple[LogEntry, ...], **changed: bytes) -> Mapping[str, bytes]:
    """Every PCR as the TPM has it after a boot, with changes by name."""
    return {f"PCR{index}": value for index, value in enumerate(replayed_pcrs(entries))} | changed


def after(value: bytes, *words: bytes) -> bytes:
    """A register that an operating system extended by the hashes of words."""
    for word in words:
        value = extended(value, sha256(word).digest())
    return value


# -- where registers begin


def test_a_pcr_begins_with_zeros_or_with_ones() -> None:
    values = replay(log_of()).values
    assert values == {f"PCR{index}": ONES if 17 <= index <= 22 else ZERO for index in range(24)}


@pytest.mark.parametrize("locality", [0, 3, 4])
def test_pcr0_begins_with_the_locality_that_the_log_tells(locality: int) -> None:
    entries = (startup_locality(locality), *BOOT)
    log = log_of(*entries)
    assert log.startup_locality == locality
    assert replay(log_of(startup_locality(locality))).values["PCR0"] == bytes(31) + bytes([locality])
    assert require_replay(log, quoted(entries)).registers.values == quoted(entries)


def test_another_locality_than_the_tpms_is_refused() -> None:
    signed = quoted((startup_locality(3), *BOOT))
    for entries in (BOOT, (startup_locality(0), *BOOT), (startup_locality(4), *BOOT)):
        with pytest.raises(BindingError, match="PCR0 is"):
            require_replay(log_of(*entries), signed)


def test_a_locality_may_be_told_behind_other_registers_and_other_events_without_action() -> None:
    note = LogEntry(index=0, event=MeasuredEvent(kind=3, data=b"SP800-155 Event\0"))
    entries = (note, LogEntry(index=7, event=separator()), startup_locality(3), *BOOT)
    assert log_of(*entries).startup_locality == 3


@pytest.mark.parametrize(
    "entries",
    [
        (startup_locality(1),),
        (startup_locality(5),),
        (startup_locality(3), startup_locality(3)),
        (startup_locality(0), startup_locality(3)),
        (LogEntry(index=0, event=separator()), startup_locality(3)),
        (LogEntry(index=1, event=startup_locality(3).event),),
    ],
)
def test_a_locality_that_cannot_be_is_malformed(entries: tuple[LogEntry, ...]) -> None:
    with pytest.raises(EvidenceError, match="one StartupLocality of 0, 3 or 4") as caught:
        log_of(*entries)
    assert (caught.value.code, caught.value.field) == ("eventlog-malformed", f"event {len(entries)}")


@pytest.mark.parametrize("data", [b"StartupLocality\0", b"StartupLocality\0\3\0"])
def test_a_locality_of_another_length_is_malformed(data: bytes) -> None:
    with pytest.raises(EvidenceError, match="StartupLocality"):
        parsed(w.TCG2_HEADER + w.tpm_event(0, w.NO_ACTION, data))


def test_a_tds_log_has_no_locality() -> None:
    log = parse_event_log(w.log(w.event(0, w.NO_ACTION, b"StartupLocality\0\x09")))
    assert log.startup_locality == 0


# -- banks


def test_the_sha256_bank_counts_whatever_others_there_are() -> None:
    for banks in ((SHA256,), (SHA1, SHA256), (SHA384, SHA256, SHA1)):
        log = parsed(write_tpm_log(BOOT, algorithms=banks))
        assert replay(log).values == quoted(BOOT)
        assert log.to_bytes() == write_tpm_log(BOOT, algorithms=banks)


@pytest.mark.parametrize("banks", [(SHA1,), (SHA384,), (SHA1, SHA384)])
def test_a_log_without_the_sha256_bank_is_refused(banks: tuple[int, ...]) -> None:
    with pytest.raises(EvidenceError, match="a SHA-256 digest") as caught:
        parsed(write_tpm_log(BOOT, algorithms=banks))
    assert caught.value.code == "eventlog-malformed"


# -- comparing


@pytest.mark.parametrize("entries", [BOOT, UKI])
def test_a_boot_that_was_quoted_is_proven_in_every_register(entries: tuple[LogEntry, ...]) -> None:
    verified = verify_event_log(log_of(*entries), signed=quoted(entries))
    assert verified.proven == {f"PCR{index}" for index in range(24)}
    assert verified.unjudged == ()


@pytest.mark.parametrize("index", [*FIRMWARE, *SYSTEM])
@pytest.mark.parametrize("entries", [BOOT, UKI])
def test_must_check_10_a_register_that_differs_is_refused_by_name(entries: tuple[LogEntry, ...], index: int) -> None:
    good = quoted(entries)[f"PCR{index}"]
    with pytest.raises(BindingError, match=f"PCR{index} is") as caught:
        require_replay(log_of(*entries), quoted(entries, **{f"PCR{index}": after(good, b"?")}))
    error = caught.value
    assert (error.code, error.field) == ("eventlog-register-mismatch", f"PCR{index}")
    assert ("--unchecked eventlog=REASON" in (error.hint or "")) is (index in SYSTEM)


@pytest.mark.parametrize("index", SYSTEM_ALONE)
def test_a_register_of_the_operating_system_alone_may_be_left_out(index: int) -> None:
    name = f"PCR{index}"
    verified = verify_event_log(log_of(*BOOT), signed=quoted(BOOT, **{name: after(ZERO, b"measured by Linux")}))
    assert name not in verified.proven
    assert verified.unjudged == ()


@pytest.mark.parametrize("index", SYSTEM_ALONE)
def test_once_it_is_in_the_log_it_has_to_replay(index: int) -> None:
    entries = (*BOOT, LogEntry(index=index, event=efi_action("x")))
    log, name = log_of(*entries), f"PCR{index}"
    assert name in require_replay(log, quoted(entries)).proven
    for other in (ZERO, ONES, after(quoted(entries)[name], b"more")):
        with pytest.raises(BindingError, match=f"{name} is"):
            require_replay(log, quoted(entries, **{name: other}))


@pytest.mark.parametrize("index", SYSTEM)
def test_a_difference_that_the_system_may_have_made_can_be_left_unjudged(index: int) -> None:
    name = f"PCR{index}"
    signed = quoted(BOOT, **{name: after(quoted(BOOT)[name], b"init data")})
    verified = verify_event_log(log_of(*BOOT), signed=signed, tolerant=True)
    assert verified.unjudged == (name,)
    assert name not in verified.proven
    for event, how in zip(verified.log.events, verified.verifications, strict=True):
        assert event.register != name or how is Verification.UNVERIFIED


@pytest.mark.parametrize("index", FIRMWARE)
def test_nothing_excuses_a_difference_in_a_register_of_the_firmware(index: int) -> None:
    name = f"PCR{index}"
    with pytest.raises(BindingError, match=f"{name} is"):
        require_replay(log_of(*BOOT), quoted(BOOT, **{name: after(quoted(BOOT)[name], b"?")}), tolerant=True)


def test_only_registers_that_were_quoted_are_compared() -> None:
    log = log_of(*BOOT)
    few = {name: value for name, value in quoted(BOOT).items() if name in ("PCR4", "PCR7")}
    verified = verify_event_log(log, signed=few)
    assert verified.proven == {"PCR4", "PCR7"}
    pairs = zip(log.events, verified.verifications, strict=True)
    assert {event.register for event, how in pairs if how is not Verification.UNVERIFIED} == {"PCR4", "PCR7"}


@pytest.mark.parametrize("names", [(), ("PCR10",), ("PCR16", "PCR23"), ("PCR13",)])
def test_a_quote_over_no_register_of_the_log_proves_nothing_of_it(names: tuple[str, ...]) -> None:
    with pytest.raises(BindingError) as caught:
        require_replay(log_of(*BOOT), {name: quoted(BOOT)[name] for name in names})
    assert caught.value.code == "eventlog-registers-unsigned"
    assert caught.value.field == "registers"


def test_data_is_refused_in_a_register_that_was_not_quoted_too() -> None:
    whole = write_tpm_log(BOOT, algorithms=(SHA256,))
    at = whole.index("SecureBoot".encode("utf-16-le")) + len("SecureBoot") * 2
    changed = parsed(whole[:at] + b"\0" + whole[at + 1 :])
    with pytest.raises(VerificationError) as caught:
        verify_event_log(changed, signed={"PCR4": quoted(BOOT)["PCR4"]})
    assert caught.value.code == "eventlog-data-mismatch"


# -- what systemd is known to add


WORDS = (b"enter-initrd", b"leave-initrd", b"sysinit", b"ready", b"shutdown", b"final")


@pytest.mark.parametrize("count", range(len(WORDS) + 1))
def test_phases_of_a_boot_may_follow_a_unified_kernel_image(count: int) -> None:
    value = after(quoted(UKI)["PCR11"], *WORDS[:count])
    assert "PCR11" in require_replay(log_of(*UKI), quoted(UKI, PCR11=value)).proven
    register = TCG2_SHA256.registers[11]
    assert continuation(TCG2_SHA256, register, quoted(UKI)["PCR11"], value) == count


@pytest.mark.parametrize("words", [WORDS[1:], WORDS[:1] * 2, (WORDS[1], WORDS[0]), (*WORDS, b"ready"), (b"ready\0",)])
def test_phases_in_another_order_are_no_phases(words: tuple[bytes, ...]) -> None:
    value = after(quoted(UKI)["PCR11"], *words)
    with pytest.raises(BindingError, match="PCR11 is"):
        require_replay(log_of(*UKI), quoted(UKI, PCR11=value))


def test_systemd_may_close_the_registers_of_the_firmware() -> None:
    closed = {
        f"PCR{index}": after(quoted(BOOT)[f"PCR{index}"], b"os-separator") for index in (*range(8), 9, 12, 13, 14)
    }
    assert require_replay(log_of(*BOOT), quoted(BOOT, **closed)).proven >= closed.keys()
    twice = after(closed["PCR7"], b"os-separator")
    with pytest.raises(BindingError, match="PCR7 is"):
        require_replay(log_of(*BOOT), quoted(BOOT, PCR7=twice))


def test_which_registers_the_system_may_extend() -> None:
    by_growth = {
        growth: tuple(index for index, register in enumerate(TCG2_SHA256.registers) if register.growth is growth)
        for growth in Growth
    }
    assert by_growth == {Growth.NONE: FIRMWARE, Growth.SYSTEM: SYSTEM, Growth.SYSTEM_ALONE: SYSTEM_ALONE}


# -- laws


def test_must_check_10_one_event_more_or_less_or_elsewhere_is_refused() -> None:
    signed = quoted(BOOT)
    for number, entry in enumerate(BOOT):
        without = (*BOOT[:number], *BOOT[number + 1 :])
        moved = (*without, LogEntry(index=(entry.index + 1) % 10, event=entry.event))
        for entries in (without, moved, (*BOOT, entry)):
            with pytest.raises(BindingError):
                require_replay(log_of(*entries), signed)


ENTRIES = st.builds(
    LogEntry,
    index=st.integers(0, 23),
    event=st.one_of(st.just(separator()), st.text("ab", max_size=3).map(efi_action), st.text("c").map(grub_command)),
)


@given(st.lists(ENTRIES, max_size=12), st.sampled_from([None, 0, 3, 4]))
def test_the_replay_is_the_simulators(entries: list[LogEntry], locality: int | None) -> None:
    boot = (*(() if locality is None else (startup_locality(locality),)), *entries)
    log = log_of(*boot)
    assert replay(log).values == quoted(boot)
    if entries:
        assert require_replay(log, quoted(boot)).proven == quoted(boot).keys()


@given(st.lists(ENTRIES, min_size=1, max_size=8), ENTRIES)
def test_one_more_event_changes_its_register_alone(entries: list[LogEntry], more: LogEntry) -> None:
    before, then = replay(log_of(*entries)).values, replay(log_of(*entries, more)).values
    assert [name for name in before if before[name] != then[name]] == [f"PCR{more.index}"]
