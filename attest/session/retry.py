"""Retries: retryable errors, pauses, and the error after the deadline.

The pause before attempt n is uniformly random between zero and ``FIRST_SECONDS`` · 2ⁿ, at most ``LONGEST_SECONDS``
("full jitter"), so that refused machines do not return together. A time stated by the service
(``Retry-After``) is a lower bound.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from attest.errors import AttestError, EndorsementError, ReleaseRefusedError, ServiceUnreachableError
from attest.release.transport import TIME_OVER
from attest.session.schedule import Deadline

_T = TypeVar("_T")
FIRST_SECONDS: Final = 0.25
LONGEST_SECONDS: Final = 30.0
MOST_STALE_CHALLENGES: Final = 3
"""One expired challenge is chance; more mean a machine that is too slow."""
_SHOWN: Final = 5
_BUSY = frozenset({429, 502, 503, 504})
_AWAY = frozenset({"service-unreachable", "service-evidence-unavailable"})


def _is_busy(error: AttestError) -> bool:
    """Return True if the service was unreachable or undecided, which may change quickly."""
    if isinstance(error, ReleaseRefusedError):
        return error.status in _BUSY
    return isinstance(error, EndorsementError) and error.code in _AWAY


def _may_pass(error: AttestError) -> bool:
    """Return True if an immediate retry is useful.

    A missing endorsement of the service's machine is not retried: its fetch had retries already.
    """
    return _is_busy(error) or (error.retryable and not isinstance(error, EndorsementError))


def pause_after(attempt: int, error: AttestError, *, chance: float) -> float:
    """Return the seconds to wait after the given number of failed attempts, the last one with this error.

    ``chance`` is a random number from 0 to 1.
    """
    longest = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(attempt, 16))
    stated: float | None = getattr(error, "retry_after", None)
    return chance * longest + (stated or 0.0)


@dataclass(slots=True, kw_only=True, eq=False)
class Attempts:
    """The attempts of one call."""

    url: str
    deadline: Deadline
    _tried: list[str] = field(default_factory=list, init=False)
    _stale: int = field(default=0, init=False)
    _cause: AttestError | None = field(default=None, init=False)

    def after(self, error: AttestError) -> float:
        """Return the pause before the next attempt.

        Raises:
            AttestError: ``error`` itself, if a retry is useless.
            ServiceUnreachableError: the deadline has passed, or would.
        """
        self._tried.append(f"{error.message} [{error.code}]")
        self._stale += not _is_busy(error)
        self._cause = self._cause if self._cause is not None and error.got == TIME_OVER else error
        if not _may_pass(error) or self._stale > MOST_STALE_CHALLENGES:
            raise error
        timing = self.deadline.timing
        pause = pause_after(len(self._tried), error, chance=timing.random())
        if pause >= self.deadline.left():
            raise self._over(self._cause) from error
        return pause

    def _over(self, cause: AttestError) -> ServiceUnreachableError:
        count = len(self._tried)
        times = "1 attempt" if count == 1 else f"{count} attempts"
        return ServiceUnreachableError(
            f"no key from {self.url} within {self.deadline.seconds:g} s: {times}, the last one: {cause.message}",
            url=self.url,
            tried=tuple(self._tried[-_SHOWN:]),
            hint=cause.hint,
        )


def retried(attempt: Callable[[Deadline], _T], *, url: str, deadline: Deadline) -> _T:
    """Return the outcome of an attempt, repeated with pauses while a later one may succeed.

    Raises:
        AttestError: as the attempt, and as ``Attempts.after``.
    """
    attempts = Attempts(url=url, deadline=deadline)
    while True:
        try:
            return attempt(deadline)
        except AttestError as exc:
            pause = attempts.after(exc)
        (deadline.timing.pause or time.sleep)(pause)
