"""The pace of one requester: an identified caller, or a machine, whichever addresses its requests come from."""

from __future__ import annotations

import math

from attest.rate_limits import RateTable
from kms.domain.errors import RateLimitedError


def require_pace(rates: RateTable, requester: str, *, what: str, at: float) -> None:
    """Count a request of a requester; ``what`` names its kind in the error, ``at`` is of ``attest.clock.ticks``.

    Raises:
        RateLimitedError: ``rate-limited``.
    """
    wait = math.ceil(rates.wait_of(requester, at=at))
    if wait > 0:
        raise RateLimitedError(f"too many requests from {what}; wait {wait} s; nothing was decided", retry_seconds=wait)
