"""Context of the handlers: the release service, the settings, and threads for work that blocks."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, TypeVar

import anyio
import anyio.to_thread
from anyio import CapacityLimiter
from fastapi import Depends, Request

from attest.clock import ticks
from attest.rate_limits import RateTable
from kms.auth.authentication import Authenticator
from kms.config.settings import Settings
from kms.controls.pace import require_pace
from kms.domain.actors import Actor
from kms.domain.errors import UnavailableError
from kms.release.service import ReleaseService
from kms.release.services import Services
from kms.running.fsck_verdict import FsckVerdict
from kms.running.self_evidence import SelfEvidenceService

T = TypeVar("T")


class _Place:
    """A token of a limiter: acquired in the event loop, and released when the thread ends."""

    def __init__(self, limiter: CapacityLimiter) -> None:
        """Create it without a token."""
        self._limiter = limiter
        self._loop = asyncio.get_running_loop()
        self._begun = threading.Lock()

    async def take(self) -> None:
        """Wait for a token."""
        await self._limiter.acquire_on_behalf_of(self)

    def filled(self, work: Callable[[], T]) -> T:
        """Do the work in the thread, unless its request was abandoned."""
        if not self._begun.acquire(blocking=False):
            raise UnavailableError("timed out before the work began", code="request-timeout", retryable=True)
        try:
            return work()
        finally:
            with contextlib.suppress(RuntimeError):  # the event loop has ended
                self._loop.call_soon_threadsafe(self._limiter.release_on_behalf_of, self)

    def give_up(self) -> None:
        """Release the token in the event loop if the thread has not begun; otherwise the thread does at its end."""
        if self._begun.acquire(blocking=False):
            self._limiter.release_on_behalf_of(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workroom:
    """Settings of a running application, and its threads for blocking work.

    ``limiter`` bounds concurrent work; ``threads`` sets no further bound, because each token has a thread.
    """

    settings: Settings
    limiter: CapacityLimiter
    threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(math.inf))

    async def run(self, work: Callable[[], T]) -> T:
        """Do blocking work in a thread, within the limits of concurrency and time.

        Work that has begun is not interrupted, and its decisions stay in the log. Until it ends it keeps its token, so
        that abandoned work is bounded, too.

        Raises:
            UnavailableError: ``request-timeout``.
        """
        try:
            with anyio.fail_after(self.settings.request_seconds):
                place = _Place(self.limiter)
                await place.take()
                try:
                    return await anyio.to_thread.run_sync(
                        partial(place.filled, work), abandon_on_cancel=True, limiter=self.threads
                    )
                except anyio.get_cancelled_exc_class():
                    place.give_up()
                    raise
        except TimeoutError as exc:
            raise UnavailableError(
                f"no answer within {self.settings.request_seconds} s",
                code="request-timeout",
                hint="request a new challenge; this one may be used up",
                retryable=True,
            ) from exc


@dataclass(frozen=True, slots=True, kw_only=True)
class Context(Workroom):
    """The running release plane; ``draining`` returns True when the process is shutting down.

    ``callers`` identifies callers; None where any caller may request keys. ``fsck`` returns the result of the last
    scheduled examination.
    """

    services: Services
    releases: ReleaseService
    attestation: SelfEvidenceService
    draining: Callable[[], bool]
    callers: Authenticator | None = None
    rates: RateTable | None = None
    fsck: Callable[[], FsckVerdict | None] = lambda: None

    async def caller(self, request: Request) -> Actor | None:
        """Return the identified caller, or None if any may request keys, before the rest of the request is read.

        Raises:
            UnauthenticatedError: no known identity.
            RateLimitedError: the identity requests too often.
            UnavailableError: as ``Authenticator``.
        """
        if self.callers is None:
            return None
        headers = tuple(request.headers.getlist("authorization"))
        caller = await self.run(partial(self.callers.identify, authorization=headers, certificate=None))
        if self.rates is not None:
            require_pace(self.rates, f"{caller.means}:{caller.name}", what="this identity", at=ticks())
        return caller


def _context(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


WithContext = Annotated[Context, Depends(_context)]
