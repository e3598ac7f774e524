"""Versions are numbers with dots: compared number by number, never as text."""

from datetime import UTC, datetime

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from attest.encoding import JsonValue
from attest.errors import ConfigurationError
from attest.policy.authoring.comparison import spans
from attest.policy.versions import Numbering, VersionRange, in_ranges, parse_version, ranges_of, ranges_text

AT = datetime(2026, 6, 1, tzinfo=UTC)
DECIMAL, HEX = Numbering.DECIMAL, Numbering.HEX


def ranges(value: JsonValue, numbering: Numbering = DECIMAL) -> tuple[VersionRange, ...]:
    """Decode ranges."""
    return ranges_of(numbering)(value, "x")


def accepts(value: JsonValue, version: str, numbering: Numbering = DECIMAL) -> bool:
    """Whether a version is in the ranges."""
    return in_ranges(numbering, ranges(value, numbering))(version, AT)


@pytest.mark.parametrize(
    ("lower", "higher", "numbering"),
    [
        ("570.86.10", "570.124.03", DECIMAL),
        ("99.0", "570.0", DECIMAL),
        ("550.90.07", "550.90.10", DECIMAL),
        ("570", "570.0.1", DECIMAL),
        ("96.00.5E.00.01", "96.00.A5.00.01", HEX),
        ("96.00.99.00.01", "96.00.9a.00.01", HEX),
        ("9F.00", "A0.00", HEX),
    ],
)
def test_versions_are_compared_by_their_numbers(lower: str, higher: str, numbering: Numbering) -> None:
    assert accepts({"at_least": lower}, higher, numbering)
    assert not accepts({"at_least": higher}, lower, numbering)
    assert accepts({"below": higher}, lower, numbering)
    assert not accepts({"below": lower}, higher, numbering)


def test_the_lower_bound_is_included_and_the_upper_one_is_not() -> None:
    wanted: JsonValue = {"at_least": "570.86", "below": "600"}
    assert [accepts(wanted, v) for v in ("570.85.99", "570.86", "570.86.00", "599.99.99", "600.0.0", "600")] == [
        False, True, True, True, False, False,
    ]  # fmt: skip


def test_case_and_zeros_say_nothing() -> None:
    assert accepts({"exactly": "96.00.a5.00.01"}, "96.00.A5.00.01", HEX)
    assert accepts({"exactly": "550.90.7"}, "550.90.07")
    assert not accepts({"exactly": "550.90.7"}, "550.90.70")
    assert accepts({"below": "1"}, "0.0")


def test_of_several_ranges_one_has_to_hold() -> None:
    wanted: JsonValue = [{"exactly": "550.90.07"}, {"at_least": "570.124", "below": "571"}]
    assert [accepts(wanted, v) for v in ("550.90.07", "570.124.03", "570.86.10", "580.0")] == [
        True, True, False, False,
    ]  # fmt: skip
    assert ranges_text(ranges(wanted)) == "exactly 550.90.07, or at least 570.124 and below 571"


@pytest.mark.parametrize("text", ["", "570.", ".570", "570..1", "570.86-beta", " 570", "570\n", "1.2.3.4.5.6.7", "A0"])
def test_what_is_no_version_is_in_no_range(text: str) -> None:
    assert parse_version(text, DECIMAL) is None
    assert not accepts({"at_least": "0"}, text)


@pytest.mark.parametrize("text", ["0x96", "960.0", "9G", "96:00", "96.00.A5.00.01.00.00"])
def test_what_is_no_hex_version_is_in_no_range(text: str) -> None:
    assert not accepts({"at_least": "0"}, text, HEX)


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({}, "x"),
        ([], "x"),
        ("570", "x"),
        (570, "x"),
        ([{}], "x[0]"),
        ({"exactly": "1", "below": "2"}, "x"),
        ({"exactly": "1", "at_least": "1"}, "x"),
        ({"at_least": 570}, "x.at_least"),
        ({"at_least": 570.86}, "x.at_least"),
        ({"at_least": "latest"}, "x.at_least"),
        ({"at_least": None}, "x.at_least"),
        ({"at_least": "600", "below": "600.0"}, "x.below"),
        ({"at_least": "600", "below": "570"}, "x.below"),
        ({"below": "0.0"}, "x.below"),
        ({"atleast": "600"}, "x.atleast"),
    ],
)
def test_a_range_that_is_none_is_refused_with_its_path(value: JsonValue, field: str) -> None:
    with pytest.raises(ConfigurationError) as outcome:
        ranges(value)
    assert outcome.value.field == field


NUMBERS = st.lists(st.integers(0, 255), min_size=1, max_size=6)


def written(numbers: list[int], numbering: Numbering) -> str:
    """Write a version."""
    return ".".join(f"{n:02X}" if numbering is HEX else str(n) for n in numbers)


@given(NUMBERS, NUMBERS, NUMBERS, st.sampled_from(Numbering))
def test_a_higher_version_never_fails_a_minimum_that_a_lower_one_meets(
    minimum: list[int], one: list[int], other: list[int], numbering: Numbering
) -> None:
    lower, higher = sorted([one, other], key=lambda numbers: [*numbers, *[0] * 6][:6])
    wanted: JsonValue = {"at_least": written(minimum, numbering)}
    if accepts(wanted, written(lower, numbering), numbering):
        assert accepts(wanted, written(higher, numbering), numbering)


@given(NUMBERS, NUMBERS, st.sampled_from(Numbering))
def test_a_version_is_at_least_another_or_below_it(one: list[int], other: list[int], numbering: Numbering) -> None:
    assume(any(other) and any(one))  # nothing is below zero, and who asks for that is refused
    version, bound = written(one, numbering), written(other, numbering)
    least, below = (accepts({word: bound}, version, numbering) for word in ("at_least", "below"))
    assert least is not below
    assert accepts({"exactly": bound}, version, numbering) == (
        least and accepts({"at_least": version}, bound, numbering)
    )


@given(st.text(max_size=20), st.sampled_from(Numbering))
def test_any_text_is_a_version_or_none(text: str, numbering: Numbering) -> None:
    version = parse_version(text, numbering)
    assert version is None or version.text == text


def test_ranges_that_touch_are_one_beside_those_that_lie_apart() -> None:
    apart: list[JsonValue] = [{"at_least": "1", "below": "2"}]
    for parts, whole in (
        ([("5", "7"), ("6", "9")], ("5", "9")),
        ([("5", "9"), ("6", "7")], ("5", "9")),
        ([("5", "7"), ("7", "9")], ("5", "9")),
    ):
        written: list[JsonValue] = [{"at_least": low, "below": high} for low, high in parts]
        one: list[JsonValue] = [{"at_least": whole[0], "below": whole[1]}]
        several = spans(ranges_of(Numbering.DECIMAL)([*apart, *written], "v"))
        assert several == spans(ranges_of(Numbering.DECIMAL)([*apart, *one], "v"))
        assert len(several) == 2


def test_one_version_lies_between_what_is_below_it_and_what_is_above_it() -> None:
    exactly, *others = spans(ranges([{"exactly": "5.1"}])), spans(ranges([{"below": "5.1"}, {"at_least": "5.2"}]))
    assert exactly == [(((5, 1), 0), ((5, 1), 1))]
    assert others == [[(((), 0), ((5, 1), 0)), (((5, 2), 0), ((1 << 62,), 0))]]
