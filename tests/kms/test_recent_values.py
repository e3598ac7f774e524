"""Values that a process used last."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kms.domain.recent_values import RecentValues


@given(st.integers(1, 8), st.lists(st.integers(0, 30), max_size=200))
def test_the_last_values_are_kept_and_at_most_as_many_again(most: int, keys: list[int]) -> None:
    kept = RecentValues[int, str](most)
    for key in keys:
        kept.put({key: str(key)})
        assert len(kept) <= 2 * most
    last = list(dict.fromkeys(reversed(keys)))[:most]
    assert [kept.get(key) for key in last] == [str(key) for key in last]


def test_a_value_in_use_outlives_any_number_of_others() -> None:
    kept = RecentValues[int, str](4)
    kept.put({-1: "used"})
    for number in range(100):
        kept.put({number: str(number)})
        assert kept.get(-1) == "used"
    assert kept.get(0) is None


def test_a_newer_value_takes_the_place_of_an_older_one() -> None:
    kept = RecentValues[str, int](2)
    for number in range(10):
        kept.put({"one": number, str(number): number})
        assert kept.get("one") == number
