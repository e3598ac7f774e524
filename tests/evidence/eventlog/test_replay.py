"""A log leads to the registers that were signed, or is refused with the register that differs."""

from hashlib import sha384

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import BindingError, VerificationError
from attest.evidence.eventlog.replay import Registers, replay, require_replay, verify_event_log
from attest.evidence.eventlog.structure import parse_event_log
from tests.evidence.eventlog import writer as w

ZERO = bytes(48)
ZEROS = {f"RTMR{number}": ZERO for number in range(4)}
NONE = dict.fromkeys(ZEROS, 0)


def replayed(*events: bytes) -> Registers:
    return replay(parse_event_log(w.log(*events)))


def test_a_register_is_a_chain_of_digests() -> None:
    one, two = (sha384(text).digest() for text in (b"one", b"two"))
    found = replayed(w.event(3, w.ACTION, b"one"), w.event(3, w.POST_CODE, b"?", hashed=b"two"))
    assert found.values == ZEROS | {"RTMR2": sha384(sha384(ZERO + one).digest() + two).digest()}
    assert found.counts == NONE | {"RTMR2": 2}


def test_what_extends_no_register_changes_none() -> None:
    found = replayed(w.event(1, w.NO_ACTION, b"x"), w.event(0, w.POST_CODE, b"x"), w.event(0, w.NO_ACTION, b"x"))
    assert found == Registers(values=ZEROS, counts=NONE)


def test_only_sha384_counts() -> None:
    both = w.header((w.SHA256, 32), (w.SHA384, 48))
    digest = sha384(b"x").digest()
    logs = [both + w.record(1, 1, b"", [(w.SHA256, bytes([n]) * 32), (w.SHA384, digest)]) for n in (1, 2)]
    one, two = (replay(parse_event_log(log)).values for log in logs)
    assert one == two


def test_a_log_that_fits_is_verified_with_what_its_data_is_worth() -> None:
    log = parse_event_log(w.log(*w.boot()))
    verified = verify_event_log(log, signed=replay(log).values)
    assert verified.log is log
    assert [*verified.registers.counts.values()] == [10, 3, 7, 2]
    assert (verified.proven, verified.unjudged) == (frozenset(ZEROS), ())
    assert len(verified.verifications) == len(log.events)


def test_a_register_that_differs_is_named_with_both_values() -> None:
    log = parse_event_log(w.log(*w.boot()))
    good = replay(log).values
    for name in ZEROS:
        registers = {**good, name: sha384(good[name]).digest()}
        with pytest.raises(BindingError, match=f"{name} is") as caught:
            require_replay(log, registers, tolerant=True)  # which matters for registers of an operating system only
        error = caught.value
        assert (error.code, error.check) == ("eventlog-register-mismatch", "eventlog.registers")
        assert (error.field, error.exit_code) == (name, 4)
        assert error.expected == registers[name].hex()
        assert error.got == f"{good[name].hex()} from {replay(log).counts[name]} events"


def test_a_register_without_events_has_to_be_zero() -> None:
    log = parse_event_log(w.log())
    assert require_replay(log, ZEROS).registers.counts == NONE
    with pytest.raises(BindingError, match="from 0 events"):
        require_replay(log, ZEROS | {"RTMR3": b"\1".ljust(48, b"\0")})


def test_data_that_was_changed_is_refused_though_the_digests_replay() -> None:
    good = w.log(w.secure_boot(b"\0"))
    bad = good[:-1] + b"\1"
    registers = replay(parse_event_log(good)).values
    assert replay(parse_event_log(bad)).values == registers
    with pytest.raises(VerificationError) as caught:
        verify_event_log(parse_event_log(bad), signed=registers)
    assert caught.value.code == "eventlog-data-mismatch"


def test_the_registers_are_looked_at_before_the_data() -> None:
    log = parse_event_log(w.log(w.secure_boot(b"\0"))[:-1] + b"\1")
    with pytest.raises(BindingError):
        verify_event_log(log, signed=ZEROS)


def test_wrong_use_is_a_value_error() -> None:
    log = parse_event_log(w.log())
    for registers in ({"RTMR0": b""}, {"RTMR4": ZERO}, {"MRTD": ZERO}, {"PCR0": bytes(32)}, {"RTMR0": bytes(32)}):
        with pytest.raises(ValueError, match="registers of 48 bytes named RTMR0, RTMR1"):
            require_replay(log, registers)


def test_a_log_that_nothing_is_signed_of_proves_nothing() -> None:
    log = parse_event_log(w.log(w.separator(1)))
    for signed in ({}, {"RTMR3": ZERO}):
        with pytest.raises(BindingError) as caught:
            require_replay(log, signed)
        assert (caught.value.code, caught.value.exit_code) == ("eventlog-registers-unsigned", 4)
        assert caught.value.expected == "a signed value of one of: RTMR0"
    with pytest.raises(BindingError, match=r"extends \(none\)"):
        require_replay(parse_event_log(w.log()), {})


@given(st.lists(st.sampled_from(w.boot())), st.integers(1, 4), st.binary(max_size=8))
def test_one_more_event_changes_its_register_and_no_other(events: list[bytes], index: int, data: bytes) -> None:
    before, after = replayed(*events).values, replayed(*events, w.event(index, w.POST_CODE, data)).values
    assert [name for name in ZEROS if before[name] != after[name]] == [f"RTMR{index - 1}"]


@given(st.permutations(w.boot()[:7]))
def test_the_order_within_a_register_matters(events: list[bytes]) -> None:
    same = [*events] == w.boot()[:7]
    assert (replayed(*events).values == replayed(*w.boot()[:7]).values) is same


def test_each_flipped_byte_of_each_digest_breaks_the_replay() -> None:
    whole = w.log(*w.boot())
    log = parse_event_log(whole)
    good = replay(log).values
    for event in log.events:
        for at in range(event.offset + 14, event.offset + 62):
            flipped = parse_event_log(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            with pytest.raises(BindingError):
                require_replay(flipped, good)
