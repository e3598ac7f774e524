"""A sampling profiler: a timer interrupts the work a thousand times a second and records the running part.

The part is that of the outermost function that belongs to one; what a part waits for counts as its own.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from types import FrameType

__all__ = ["where_time_goes"]

_SECONDS = 0.001
_PARTS = (
    ("kms.store", "database"),
    ("kms.log.publisher", "checkpoint and proof"),
    ("attest.release.sealed_key", "sealing"),
    ("attest.release.notes", "signing"),
    ("attest.verification", "verification"),
    ("attest.appraisal", "appraisal"),
    ("kms.domain.decide", "decision"),
    ("kms.domain.log_entries", "log entry"),
    ("kms.domain.log_decisions", "log entry"),
    ("kms.references", "policies"),
    ("attest.encoding", "reading and writing JSON"),
    ("attest.release.wire", "reading and writing JSON"),
    ("attest.evidence.envelope", "reading and writing JSON"),
    ("json", "reading and writing JSON"),
)
_REST = "the rest"


def where_time_goes(work: Callable[[], object]) -> str:
    """Do something in the main thread, and say which parts of it took which share of the time."""
    found: Counter[str] = Counter()

    def look(number: int, frame: FrameType | None) -> None:
        del number
        found[_part(frame)] += 1

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _SECONDS, _SECONDS)
    try:
        work()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    total = found.total() or 1
    return ", ".join(f"{part} {count / total:.0%}" for part, count in found.most_common())


def _part(frame: FrameType | None) -> str:
    """Return the part of the outermost frame that is of one."""
    found = _REST
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        found = next((part for prefix, part in _PARTS if module.startswith(prefix)), found)
        frame = frame.f_back
    return found
