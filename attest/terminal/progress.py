"""How far a long work is: a bar with throughput on a terminal, a line before and after elsewhere."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

import click

from attest.terminal.display import Display

__all__ = ["byte_count", "shown_progress"]

_LEAST_BYTES = 64 << 20
"""Below it a work is over before a line about it is read."""


def byte_count(count: float) -> str:
    """Write a number of bytes for people, in decimal units."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


@contextmanager
def shown_progress(word: str, total: int, *, display: Display) -> Iterator[Callable[[str, int], None]]:
    """Show how far a work is, on standard error; yields what is told about it, from any thread.

    Args:
        word: what is done, ``sealing`` say.
        total: bytes.
        display: quiet shows nothing.
    """
    if display.quiet:
        yield _unheard
        return
    if sys.stderr.isatty():
        with _bar(word, total, display=display) as tell:
            yield tell
        return
    done, began, lock = 0, monotonic(), threading.Lock()

    def count_bytes(_: str, count: int) -> None:
        nonlocal done
        with lock:
            done += count

    if total >= _LEAST_BYTES:
        click.echo(f"{word} {byte_count(total)}", err=True)
    yield count_bytes
    took = max(monotonic() - began, 1e-3)
    if total >= _LEAST_BYTES:
        click.echo(f"{word}: {byte_count(done)} in {took:.1f} s, {byte_count(done / took)}/s", err=True)


@contextmanager
def _bar(word: str, total: int, *, display: Display) -> Iterator[Callable[[str, int], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    console = Console(stderr=True, no_color=not display.colour, markup=False, highlight=False)
    columns = (TextColumn(word), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(word, total=total)

        def advance(_: str, count: int) -> None:
            progress.advance(task, count)

        yield advance


def _unheard(name: str, count: int) -> None:
    """Be told, and tell nobody."""
    del name, count
