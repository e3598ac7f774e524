"""Signals that end a command after its clean-up."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise KeyboardInterrupt


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Make SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt, so that every ``finally`` runs.

    A shell starts background commands with SIGINT ignored; they are stopped all the same. In a thread other than the
    main one nothing changes.
    """
    before = {}
    with suppress(ValueError):  # only the main thread may
        for number in _ENDING:
            before[number] = signal.signal(number, _stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stopping(stop: Callable[[], object]) -> Iterator[None]:
    """Make SIGINT and SIGTERM shut a service down in order. In a thread other than the main one nothing changes."""
    before = {}
    with suppress(ValueError):  # only the main thread may
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, lambda *_: stop())
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
