"""Data counts where it is what was hashed, is refused where it must be and is not, and is a mere text elsewhere."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import VerificationError
from attest.evidence.eventlog.content import (
    Verification,
    application_event,
    event_text,
    grub_text,
    require_data,
    stub_text,
    tag_of,
    uefi_variable,
    verification,
)
from attest.evidence.eventlog.kinds import CCEL, TCG2_SHA256
from attest.evidence.eventlog.structure import ParsedEvent, parse_event_log
from tests.evidence.eventlog import writer as w

VERIFIED, VALUE_ONLY, UNVERIFIED = Verification.VERIFIED, Verification.VALUE_ONLY, Verification.UNVERIFIED


def the(record: bytes) -> ParsedEvent:
    (event,) = parse_event_log(w.log(record)).events
    return event


def how(record: bytes) -> Verification:
    return verification(the(record), CCEL)


def test_each_kind_is_verified_as_far_as_its_digest_reaches() -> None:
    v, o, u = VERIFIED, VALUE_ONLY, UNVERIFIED
    assert require_data(parse_event_log(w.log(*w.boot()))) == (
        *(v, v, v, v, v, v, v),  # the firmware's variables and the separator
        *(o, v, v, v, v, u),  # boot variables, authority, action, GPT, application
        *(u, o, o, o, u, u, u),  # the boot loader
        *(v, u),  # the application event, and tables
    )


@pytest.mark.parametrize("kind", [w.SEPARATOR, w.ACTION, w.DRIVER_CONFIG, w.AUTHORITY, w.GPT, w.BOOT, w.BOOT2])
def test_data_that_is_always_hashed_and_gives_another_digest_is_refused(kind: int) -> None:
    # Must-check 10 and 12: a changed text with an unchanged digest replays all the same.
    event = the(w.event(1, kind, w.variable("SecureBoot", b"\1"), hashed=w.variable("SecureBoot", b"\0")))
    with pytest.raises(VerificationError, match=r"event 1 .*RTMR0.*the digest is") as caught:
        verification(event, CCEL)
    error = caught.value
    assert (error.code, error.check, error.exit_code) == ("eventlog-data-mismatch", "eventlog.data", 4)
    assert (error.field, error.offset, error.expected) == ("event 1", event.offset, event.digest.hex())


def test_an_application_event_is_refused_when_changed_and_other_tags_are_not() -> None:
    with pytest.raises(VerificationError):
        how(w.event(4, w.TAG, w.aael("a b d"), hashed=w.aael("a b c")))
    assert how(w.event(4, w.TAG, w.tagged(1, b"a b d"), hashed=b"x")) is UNVERIFIED
    assert how(w.event(4, w.TAG, b"short")) is UNVERIFIED


def test_a_boot_variable_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(VerificationError):
        how(w.event(1, w.BOOT, b"no variable"))


def test_events_that_extend_nothing_prove_nothing() -> None:
    assert how(w.event(0, w.SEPARATOR, bytes(4))) is UNVERIFIED
    assert how(w.event(0, w.SEPARATOR, bytes(4), hashed=b"else")) is UNVERIFIED
    assert how(w.event(1, w.NO_ACTION, b"x")) is UNVERIFIED


def test_a_tpm_log_is_recomputed_in_its_own_bank() -> None:
    parsed = parse_event_log(w.TCG2_HEADER + w.tpm_event(0, w.SEPARATOR, bytes(4)), kind=TCG2_SHA256)
    assert require_data(parsed) == (VERIFIED,)


@pytest.mark.parametrize(
    ("data", "hashed", "expected"),
    [
        (b"grub_cmd: ls\0", b"ls", VALUE_ONLY),
        (b"grub_cmd: ls", b"ls", VALUE_ONLY),
        (b"kernel_cmdline: /vmlinuz\0", b"/vmlinuz", VALUE_ONLY),
        (b"grub_kernel_cmdline /vmlinuz\0_", b"/vmlinuz\0", VALUE_ONLY),
        (b"grub_cmd ls\0_", b"ls\0_", UNVERIFIED),
        (b"grub_cmd: ls\0", b"grub_cmd: ls\0", UNVERIFIED),
        (b"kernel_cmdline: good\0", b"bad", UNVERIFIED),
        (b"MokList\0", b"MokList\0", UNVERIFIED),
    ],
)
def test_what_a_boot_loader_writes_beside_a_digest(data: bytes, hashed: bytes, expected: Verification) -> None:
    assert how(w.event(3, w.IPL, data, hashed=hashed)) is expected


def test_a_text_of_grub_ends_at_its_nul() -> None:
    text = grub_text(the(w.event(3, w.IPL, b"grub_kernel_cmdline a b\0garbage")))
    assert text is not None
    assert (text.is_command_line, text.text) == (True, "a b")
    assert grub_text(the(w.event(3, w.IPL, b"grub_cmd: \xff\0"))) is None
    assert grub_text(the(w.event(3, w.IPL, b"MokList\0"))) is None
    assert grub_text(the(w.event(3, w.ACTION, b"grub_cmd: x"))) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(31),
        w.variable("x", b"y") + b"z",
        w.variable("x", b"y")[:-1],
        w.variable("x", b"").replace(b"x\0", b"\0\xd8"),
    ],
)
def test_a_variable_whose_lengths_or_name_are_wrong_is_none(data: bytes) -> None:
    assert uefi_variable(data) is None


def test_a_variable_may_be_its_head_alone() -> None:
    found = uefi_variable(bytes(32))
    assert found is not None
    assert (found.guid.int, found.name, found.value) == (0, "", b"")


def test_a_tag_stands_in_front_of_a_length() -> None:
    assert tag_of(the(w.event(3, w.TAG, bytes(range(1, 9))))) == 0x04030201
    assert tag_of(the(w.event(3, w.TAG, bytes(7)))) is None
    assert tag_of(the(w.event(3, w.IPL, bytes(8)))) is None


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("a\0".encode("utf-16-le"), "a"),
        ("\0".encode("utf-16-le"), None),
        ("é \0".encode("utf-16-le"), "é "),
        ("a".encode("utf-16-le"), None),
        ("a\0b\0".encode("utf-16-le"), None),
        ("a\0\0".encode("utf-16-le"), None),
        (b"a\0\0", None),
        (b"\x00\xd8\0\0", None),
    ],
)
def test_a_text_of_the_stub_is_utf_16_with_one_nul_at_its_end(data: bytes, text: str | None) -> None:
    assert stub_text(the(w.event(3, w.IPL, data))) == text
    assert stub_text(the(w.event(3, w.ACTION, data))) is None
    assert how(w.event(3, w.IPL, data)) is (UNVERIFIED if text is None else VERIFIED)


def test_a_variable_has_a_name_and_a_value() -> None:
    found = uefi_variable(w.variable("BootOrder", b"\1\0"))
    assert found is not None
    assert (found.guid, found.name, found.value) == (w.GLOBAL, "BootOrder", b"\1\0")


@pytest.mark.parametrize(
    "data",
    [
        w.aael("two words"),
        w.aael(" a b"),
        w.aael("a  b"),
        w.aael("a b c") + b"d",
        w.aael("a b c")[:7] + b"\1" + w.aael("a b c")[8:],
        w.tagged(1, b"a b c"),
        w.tagged(0x4141454C, b"a b \xff"),
    ],
)
def test_application_events_written_otherwise_are_none(data: bytes) -> None:
    assert application_event(the(w.event(4, w.TAG, data))) is None


def test_an_application_event_has_three_parts() -> None:
    found = application_event(the(w.event(4, w.TAG, w.aael('d o {"a": "b c"}'))))
    assert found is not None
    assert (found.domain, found.operation, found.content) == ("d", "o", '{"a": "b c"}')


def test_the_content_of_an_application_event_may_be_empty() -> None:
    found = application_event(the(w.event(4, w.TAG, w.aael("d o "))))
    assert found is not None
    assert (found.domain, found.operation, found.content) == ("d", "o", "")


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (w.secure_boot(), "SecureBoot = 01"),
        (w.secure_boot(b""), "SecureBoot = empty"),
        (w.event(1, w.AUTHORITY, w.variable("SbatLevel", b"sbat,1\n")), "SbatLevel = sbat,1"),
        (w.event(1, w.DRIVER_CONFIG, b"broken"), None),
        (w.load_options(), "tag 0x8f3b22ed: LOADED_IMAGE::LoadOptions"),
        (w.event(3, w.TAG, w.tagged(7, b"\1")), "tag 0x00000007: 01"),
        (w.event(3, w.IPL, b"grub_cmd: ls\0"), "grub_cmd: ls"),
        (w.event(1, w.SEPARATOR, bytes(4)), None),
        (w.event(1, w.POST_CODE, b"\x1b[2J"), None),
    ],
)
def test_data_for_people(record: bytes, text: str | None) -> None:
    assert event_text(the(record)) == text


@given(
    st.sampled_from([w.SEPARATOR, w.TAG, w.IPL, w.DRIVER_CONFIG, w.BOOT, w.BOOT2, 0x77]),
    st.one_of(
        st.binary(max_size=80),
        st.binary(max_size=20).map(lambda value: w.variable("x", value)),
        st.binary(max_size=20).map(lambda text: w.tagged(0x4141454C, text)),
        st.binary(max_size=20).map(lambda text: b"grub_cmd: " + text),
    ),
)
def test_any_data_is_read_or_none(kind: int, data: bytes) -> None:
    event = the(w.event(3, kind, data))
    with contextlib.suppress(VerificationError):
        verification(event, CCEL)
    for read in (grub_text, tag_of, application_event, event_text):
        read(event)
