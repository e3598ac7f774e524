"""The first event that differs is named, and what is missing or extra."""

import pytest

from attest.evidence.eventlog.kinds import TCG2_SHA256
from attest.evidence.eventlog.reference import RegisterDifference, compare_logs
from attest.evidence.eventlog.structure import parse_event_log
from tests.evidence.eventlog import writer as w


def compared(got: list[bytes], expected: list[bytes]) -> tuple[RegisterDifference, ...]:
    return compare_logs(parse_event_log(w.log(*got)), parse_event_log(w.log(*expected)))


def numbers(difference: RegisterDifference) -> tuple[int | None, int | None]:
    expected, got = difference.expected, difference.got
    return None if expected is None else expected.number, None if got is None else got.number


def test_equal_logs_have_no_difference() -> None:
    assert compared(w.boot(), w.boot()) == ()
    assert compared([*w.boot(), w.event(0, w.POST_CODE, b"x")], w.boot()) == ()


def test_a_changed_event_is_shown_with_both_texts() -> None:
    one, two = w.secure_boot(b"\1"), w.secure_boot(b"\0")
    (found,) = compared([w.separator(2), w.separator(1), two], [w.separator(1), one, w.separator(2)])
    assert (found.register, found.position, numbers(found)) == ("RTMR0", 2, (2, 3))
    assert found.expected is not None
    assert found.got is not None
    assert (found.expected.text, found.got.text) == ("SecureBoot = 01", "SecureBoot = 00")
    assert found.expected.type_name == "EV_EFI_VARIABLE_DRIVER_CONFIG"
    assert found.expected.digest != found.got.digest
    assert (found.missing, found.extra) == ((found.expected,), (found.got,))


def test_an_event_more_and_an_event_less() -> None:
    a, b = w.event(3, w.ACTION, b"a"), w.event(3, w.ACTION, b"b")
    (more,) = compared([a, b], [a])
    assert (more.position, numbers(more)) == (2, (None, 2))
    assert (len(more.missing), len(more.extra)) == (0, 1)
    (less,) = compared([a], [a, b])
    assert (less.position, numbers(less)) == (2, (2, None))
    assert (len(less.missing), len(less.extra)) == (1, 0)


def test_an_event_put_in_between_is_the_only_extra_one() -> None:
    a, b, c = (w.event(3, w.ACTION, text) for text in (b"a", b"b", b"c"))
    (found,) = compared([a, c, b], [a, b])
    assert numbers(found) == (2, 2)
    assert [event.text for event in found.extra] == ["c"]
    assert found.missing == ()


def test_another_order_has_nothing_missing_and_nothing_extra() -> None:
    a, b = w.event(3, w.ACTION, b"a"), w.event(3, w.ACTION, b"b")
    (found,) = compared([b, a], [a, b])
    assert (found.position, found.missing, found.extra) == (1, (), ())


def test_repetitions_count() -> None:
    a = w.event(3, w.ACTION, b"a")
    (found,) = compared([a, a, a], [a])
    assert [event.number for event in found.extra] == [2, 3]


def test_each_register_that_differs_is_listed() -> None:
    found = compared([w.separator(1), w.separator(4)], [w.separator(2)])
    assert [difference.register for difference in found] == ["RTMR0", "RTMR1", "RTMR3"]


def test_logs_of_two_kinds_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="CCEL log cannot be compared with a TCG2"):
        compare_logs(parse_event_log(w.log()), parse_event_log(w.TCG2_HEADER, kind=TCG2_SHA256))
