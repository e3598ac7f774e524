"""Plans of reads: every byte once, in the order of the file, and no segment in two groups."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from attest.sealed.layout import ciphertext_size, plaintext_size, segment_index
from attest.sealed.read_plan import ReadPlan, neighbours

SEALED = ciphertext_size(40 << 20)
SIZE = plaintext_size(SEALED)

ranges = st.lists(
    st.tuples(st.integers(0, SIZE - 1), st.integers(0, 3 << 20)).map(lambda one: (one[0], min(one[1], SIZE - one[0]))),
    max_size=12,
)


def planned(wanted: list[tuple[int, int]]) -> tuple[ReadPlan, list[memoryview]]:
    memories = [memoryview(bytearray(length)) for _, length in wanted]
    return ReadPlan(zip([offset for offset, _ in wanted], memories, strict=True), SEALED), memories


@given(ranges, st.integers(1, 9))
def test_the_groups_have_every_byte_of_every_range_once(wanted: list[tuple[int, int]], size: int) -> None:
    plan, memories = planned(wanted)
    for numbers in plan.groups(size):
        for _, memory in plan.parts(numbers):
            assert not any(memory), "a byte is filled twice"
            memory[:] = b"\1" * len(memory)
    assert all(all(memory) for memory in memories)


@given(ranges.map(sorted), st.integers(1, 9))
def test_a_group_has_so_many_segments_and_shares_none(wanted: list[tuple[int, int]], size: int) -> None:
    touched = {
        index
        for offset, length in wanted
        if length
        for index in range(segment_index(offset), segment_index(offset + length - 1) + 1)
    }
    plan, _ = planned(wanted)
    found = [[part.segment.index for part, _ in plan.parts(numbers)] for numbers in plan.groups(size)]
    assert {index for group in found for index in group} == touched
    distinct = sum(len(list(run)) for run in _runs(found))
    assert plan.segments == distinct
    for before, after in itertools.pairwise(found):
        assert before[-1] != after[0]
    assert all(len(list(_changes(group))) <= size for group in found)


@given(ranges.map(sorted))
def test_neighbours_follow_each_other_without_a_gap(wanted: list[tuple[int, int]]) -> None:
    plan, _ = planned(wanted)
    targets = [target for numbers in plan.groups(4) for target in plan.parts(numbers)]
    runs = list(neighbours(targets))
    assert [target for run in runs for target in run] == targets
    for run in runs:
        indexes = [target.part.segment.index for target in run]
        assert {after - before for before, after in itertools.pairwise(indexes)} <= {0, 1}
    for before, after in itertools.pairwise(runs):
        assert after[0].part.segment.index - before[-1].part.segment.index not in {0, 1}


def test_a_plan_of_nothing_has_no_groups() -> None:
    plan, _ = planned([(7, 0)])
    assert (plan.segments, plan.groups(3)) == (0, [])


def _changes(indexes: list[int]) -> list[int]:
    """The indexes without repetitions in a row."""
    return [index for place, index in enumerate(indexes) if not place or indexes[place - 1] != index]


def _runs(groups: list[list[int]]) -> list[list[int]]:
    return [_changes(group) for group in groups]
