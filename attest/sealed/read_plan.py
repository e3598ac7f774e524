"""Plan of a read: which parts of which segments fill which buffers, in groups for threads and requests."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import NamedTuple

from attest.sealed.layout import SegmentPart, Split


class Target(NamedTuple):
    """A part of a segment, and the memory that it fills."""

    part: SegmentPart
    memory: memoryview


class ReadPlan:
    """Ranges of a plaintext as parts of segments, in the order of the file.

    Parts are computed when they are asked for: a plan for a terabyte takes a few MiB.

    Args:
        ranges: offsets in the plaintext, with the memory that each range fills.
        ciphertext: size of the sealed file.

    Raises:
        SealedFileError: ``sealed-size-invalid``: not the size of a sealed file.
        ValueError: a range exceeds the plaintext.
    """

    def __init__(self, ranges: Iterable[tuple[int, memoryview]], ciphertext: int) -> None:
        ordered = sorted(ranges, key=lambda one: one[0])
        self._ranges = [(Split(offset, len(memory), ciphertext), memory) for offset, memory in ordered]
        self._ends = list(accumulate(len(split) for split, _ in self._ranges))
        self.segments = sum(1 for _ in self._begins())
        """Number of segments that the ranges touch."""

    def groups(self, segments: int) -> list[range]:
        """Return the numbers of the parts in groups of so many neighbouring segments; no segment is in two groups."""
        begins = array("q", (number for place, number in enumerate(self._begins()) if place % segments == 0))
        ends = [*begins[1:], self._ends[-1]] if begins else []
        return [range(begin, end) for begin, end in zip(begins, ends, strict=True)]

    def parts(self, numbers: range) -> Iterator[Target]:
        """Yield the parts with these numbers."""
        for number in numbers:
            place = bisect_right(self._ends, number)
            split, memory = self._ranges[place]
            part = split[number - (self._ends[place - 1] if place else 0)]
            yield Target(part, memory[part.at : part.at + part.end - part.begin])

    def _begins(self) -> Iterator[int]:
        """Yield the number of the first part of each segment."""
        number, last = 0, None
        for split, _ in self._ranges:
            for index in split.indexes:
                if index != last:
                    yield number
                number, last = number + 1, index


def neighbours(targets: Iterable[Target]) -> Iterator[list[Target]]:
    """Yield runs of parts whose segments are the same, or follow each other."""
    run: list[Target] = []
    for target in targets:
        if run and target.part.segment.index - run[-1].part.segment.index not in {0, 1}:
            yield run
            run = []
        run.append(target)
    if run:
        yield run
