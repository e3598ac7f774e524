"""Scheduled examination of a running service: a replay of the log in slices, and comparison with the database.

One worker of each machine makes it, so that no replica relies on another. Each slice is a short reading transaction,
and the pause after it bounds the processor time. ``kms fsck`` checks more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Final

from attest.clock import Clock
from attest.errors import AttestError
from kms.domain.errors import UnavailableError
from kms.operations.replay import Difference, LoggedState
from kms.running.fsck_verdict import FsckVerdict, SharedVerdict
from kms.running.scheduled_tasks import Pause, repeated
from kms.store import Store

FIRST_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 60.0
SLICE_ENTRIES: Final = 1000
"""Maximum entries replayed in one transaction."""
PAUSES: Final = 9
"""Ratio of pause to slice, so that the replay takes at most a tenth of one core."""
FULL_SECONDS: Final = 86_400.0
"""A run reads the whole log if the last full run started this long ago; otherwise it reads only new entries."""
MAX_REPORTED: Final = 50
"""Maximum differences reported by one run."""


@dataclass(slots=True, kw_only=True)
class ScheduledFsck:
    """The examination in runs; ``every`` is the number of seconds between two runs."""

    store: Store
    clock: Clock
    every: float
    verdict: SharedVerdict
    report: Callable[[str], None]
    monotonic: Callable[[], float] = time.monotonic
    _state: LoggedState | None = field(default=None, init=False)
    _full_at: float = field(default=0.0, init=False)

    def run(self, pause: Pause) -> float:
        """Examine once; return the seconds to the next run.

        ``pause`` waits, and returns True at shutdown, which ends the run.
        """
        began, findings = self.monotonic(), _Findings(report=self.report)
        if self._state is None or began >= self._full_at + FULL_SECONDS:
            self._state, self._full_at = LoggedState(), began
        try:
            while not self._slice(self._state, findings):
                if pause(PAUSES * findings.seconds):
                    return self.every
        except UnavailableError as exc:
            self._state = None
            self.report(f"error: fsck: {exc.message} [{exc.code}]; retrying")
            return RETRY_SECONDS
        except AttestError as exc:
            findings.add([Difference("log", f"{exc.message} [{exc.code}]")])
        seconds = self.monotonic() - began
        self.verdict.put(FsckVerdict(ended_at=self.clock().timestamp(), findings=findings.number, seconds=seconds))
        findings.conclude(entries=self._state.seq)
        # Leases are compared when their entry is read, so after a difference the next run reads the whole log.
        self._state = None if findings.number else self._state
        return self.every

    def _slice(self, state: LoggedState, findings: _Findings) -> bool:
        """Replay a slice; return True after the last one, whose state is compared with the database."""
        began = self.monotonic()
        with self.store.examining() as tx:
            is_last = tx.log.size() - state.seq <= SLICE_ENTRIES
            findings.add(state.advance(tx, limit=SLICE_ENTRIES))
            if is_last:
                findings.add(state.differences(tx))
        findings.seconds = self.monotonic() - began
        return is_last


@dataclass(slots=True, kw_only=True)
class _Findings:
    """The differences found by a run, and the seconds of its last slice."""

    report: Callable[[str], None]
    number: int = 0
    seconds: float = 0.0

    def add(self, found: Iterable[Difference]) -> None:
        """Count differences, and report the first of them."""
        for one in found:
            self.number += 1
            if self.number <= MAX_REPORTED:
                self.report(f"error: fsck: {one.check}: {one.line}")

    def conclude(self, *, entries: int) -> None:
        """Report the result."""
        if self.number:
            self.report(
                f"error: fsck: {self.number} differences between the database and the {entries} entries of its log; "
                "the service is not ready; 'kms fsck' lists all differences"
            )
        else:
            self.report(f"fsck: the database matches the {entries} entries of its log")


def examined(fsck: ScheduledFsck, *, after: float = FIRST_SECONDS) -> AbstractContextManager[None]:
    """Examine on schedule, in a separate thread, while the block runs; never if ``every`` is 0."""
    return repeated("fsck", fsck.run, after=after) if fsck.every else nullcontext()
