"""Signals that a command handles, and those that end it after its clean-up."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from types import FrameType
from typing import NoReturn


@contextmanager
def handled_signals(handler: Callable[[int, FrameType | None], object], *numbers: signal.Signals) -> Iterator[None]:
    """Install a handler of signals for the duration of the block.

    In a thread other than the main one nothing changes.
    """
    before = {}
    with suppress(ValueError):  # only the main thread may
        for number in numbers:
            before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def stopped_by_signals() -> AbstractContextManager[None]:
    """Make SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt, so that every ``finally`` runs.

    A shell starts background commands with SIGINT ignored; they are stopped all the same.
    """
    return handled_signals(_stop, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise KeyboardInterrupt
