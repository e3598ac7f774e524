"""The one progress display: a bar with throughput on a terminal, a line before and after elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import click

from attest.clock import ticks

CLEARED_LINE: Final = "\r\x1b[K"
_BAR_WIDTH: Final = 24
_TERMINAL: Final = (100, 24)
"""Columns and lines of a terminal of unknown size."""
_REDRAW_SECONDS: Final = 0.1
_LEAST_BYTES: Final = 64 << 20
"""Smaller work is over before a line about it is read."""


def byte_count(count: float) -> str:
    """Write a number of bytes for people, in decimal units."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def bar(done: float, text: str) -> str:
    """Return the characters that draw a bar, ``done`` from 0 to 1, and a text over the line of a terminal."""
    full = round(_BAR_WIDTH * min(done, 1.0))
    shown = f"[{'#' * full}{'.' * (_BAR_WIDTH - full)}] {text}"
    # A bar that wraps is drawn over its last line alone.
    columns = shutil.get_terminal_size(_TERMINAL).columns
    return f"{CLEARED_LINE}{shown[: max(1, columns - 1)]}"


@contextmanager
def shown_progress(
    word: str, total: int, *, quiet: bool = False, unit: str | None = None, clock: Callable[[], float] = ticks
) -> Iterator[Callable[[str, int], None]]:
    """Show the progress of a work, such as ``sealing``, on standard error; ``total`` is in bytes or in ``unit``.

    Yields:
        Function for the name of a part and its amount done since; any thread may call it.
    """
    work = _Work(word, total, unit, clock)
    if quiet:
        yield work.count
    elif sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        try:
            yield work.draw
        finally:
            click.echo(CLEARED_LINE, err=True, nl=False)
    else:
        is_long = unit is not None or total >= _LEAST_BYTES
        if is_long:
            click.echo(f"{word} {work.amount(total)}", err=True)
        yield work.count
        if is_long:
            click.echo(f"{word}: {work.amount(work.done)} in {work.seconds():.1f} s, {work.rate()}", err=True)


class _Work:
    """A work, and how much of it is done."""

    def __init__(self, word: str, total: int, unit: str | None, clock: Callable[[], float]) -> None:
        self.done = 0
        self._word = word
        self._total = total
        self._unit = unit
        self._clock = clock
        self._began = self._drawn = clock()
        self._lock = threading.Lock()

    def count(self, _: str, count: int) -> None:
        with self._lock:
            self.done += count

    def draw(self, _: str, count: int) -> None:
        with self._lock:
            self.done += count
            now = self._clock()
            if self.done < self._total and now - self._drawn < _REDRAW_SECONDS:
                return
            self._drawn = now
            text = f"{self._word} {self.amount(self.done)} of {self.amount(self._total)}, {self.rate()}"
            click.echo(bar(self.done / max(self._total, 1), f"{text}{self._left()}"), err=True, nl=False)

    def seconds(self) -> float:
        return max(self._clock() - self._began, 1e-3)

    def rate(self) -> str:
        return f"{self.amount(self.done / self.seconds())}/s"

    def amount(self, count: float) -> str:
        return byte_count(count) if self._unit is None else f"{count:.0f} {self._unit}"

    def _left(self) -> str:
        if not 0 < self.done < self._total:
            return ""
        seconds = round(self.seconds() * (self._total - self.done) / self.done)
        return f", {seconds // 60}:{seconds % 60:02} left"
