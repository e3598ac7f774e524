"""Measurement in interleaved rounds, with medians, and a ratio within each round.

Machines are shared and their speed drifts. So both sides of a ratio run in turn, many short rounds long, and the
median of the rounds' ratios is the figure: a slow second hits both sides alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

__all__ = ["Figure", "interleaved_ratio", "median_seconds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured number and the bar that it is held to.

    Attributes:
        id: name in DESIGN 13.
        value: the figure.
        bar: the bound; None where the figure is for information.
        better: ``higher`` if the figure must be at least the bound, ``lower`` if at most.
        detail: description of the measurement, for people; printed above the closing line.
    """

    id: str
    value: float
    bar: float | None
    better: Literal["higher", "lower"]
    detail: str

    @property
    def holds(self) -> bool:
        """True if the figure meets the bar."""
        if self.bar is None:
            return True
        return self.value >= self.bar if self.better == "higher" else self.value <= self.bar

    def line(self) -> str:
        """Return the closing line: ``<id> <figure> bar <bound>|none ok|short``."""
        if self.bar is None:
            return f"{self.id} {self.value:.3f} bar none ok"
        bound = f"{'>=' if self.better == 'higher' else '<='}{self.bar:g}"
        return f"{self.id} {self.value:.3f} bar {bound} {'ok' if self.holds else 'short'}"


def _seconds(work: Callable[[], object], times: int) -> float:
    begin = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - begin) / times


def interleaved_ratio(
    base: Callable[[], object], work: Callable[[], object], *, rounds: int = 41, times: int = 25
) -> tuple[float, float, float]:
    """Return the median of base time ÷ work time over the rounds, and both median times in seconds."""
    base()
    work()
    pairs = [(_seconds(base, times), _seconds(work, times)) for _ in range(rounds)]
    ratio = statistics.median(first / second for first, second in pairs)
    return ratio, statistics.median(first for first, _ in pairs), statistics.median(second for _, second in pairs)


def median_seconds(work: Callable[[], object], *, rounds: int = 41, times: int = 25) -> float:
    """Return the median time of one call in seconds."""
    work()
    return statistics.median(_seconds(work, times) for _ in range(rounds))
