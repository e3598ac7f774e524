"""What the handlers are given: the release service, the settings, and how to run work that blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, TypeVar

import anyio
import anyio.to_thread
from anyio import CapacityLimiter
from fastapi import Depends, Request

from kms.actors import Actor
from kms.auth.authenticating import Authenticator
from kms.errors import UnavailableError
from kms.proving import AttestationDesk
from kms.releases import ReleaseService
from kms.services import Services
from kms.settings import Settings

__all__ = ["Context", "WithContext", "Workroom"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workroom:
    """What every running application has.

    Attributes:
        settings: as validated at start.
        services: opened from them.
        limiter: bounds the work that is done at the same time.
    """

    settings: Settings
    services: Services
    limiter: CapacityLimiter

    async def run(self, work: Callable[[], T]) -> T:
        """Do blocking work in a thread, within the limits of number and time.

        Work that has begun is not broken off: it ends by itself, and what it decided stays in the log.

        Raises:
            UnavailableError: ``request-timeout``.
        """
        try:
            with anyio.fail_after(self.settings.request_seconds):
                return await anyio.to_thread.run_sync(partial(work), abandon_on_cancel=True, limiter=self.limiter)
        except TimeoutError as exc:
            raise UnavailableError(
                f"no answer within {self.settings.request_seconds} s",
                code="request-timeout",
                hint="ask for a new challenge; this one may be used up",
                retryable=True,
            ) from exc


@dataclass(frozen=True, slots=True, kw_only=True)
class Context(Workroom):
    """The running release plane.

    Attributes:
        releases: challenges and releases.
        attestation: proves the service itself.
        draining: says whether the process is about to end.
        callers: tells who asks for keys; None where anybody may.
    """

    releases: ReleaseService
    attestation: AttestationDesk
    draining: Callable[[], bool]
    callers: Authenticator | None = None

    async def caller(self, request: Request) -> Actor | None:
        """Return who asks for keys, or None where anybody may; nothing else of the request is read before.

        Raises:
            UnauthenticatedError: nobody who is known.
            UnavailableError: as ``Authenticator``.
        """
        if self.callers is None:
            return None
        headers = tuple(request.headers.getlist("authorization"))
        return await self.run(partial(self.callers.identify, authorization=headers, certificate=None))


def _context(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


WithContext = Annotated[Context, Depends(_context)]
