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
    """

    releases: ReleaseService
    attestation: AttestationDesk
    draining: Callable[[], bool]


def _context(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


WithContext = Annotated[Context, Depends(_context)]
