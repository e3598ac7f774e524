"""Request rate of one requester, an identified caller or a guest, regardless of its addresses."""

from __future__ import annotations

import math
import threading
from typing import Final

from attest.rate_limits import Rate, RateTable
from kms.domain.errors import RateLimitedError

IMAGES_PER_CHIP: Final = 16
"""Number of images of one chip that may use their full rate at the same time."""


class GuestPace:
    """Rates of the guests of a host: of each image on each chip, and a larger one of each chip.

    Guests of one host share its chip. A guest cannot change its launch measurement while it runs, so it uses up only
    the rate of its own image, not that of other guests. The rate of the chip bounds a chip whose key has leaked, with
    which evidence of any measurement can be made.

    ``per_minute`` is the long-term rate and the burst of one image on one chip; at least 1.
    """

    def __init__(self, per_minute: int) -> None:
        self._images = _table(per_minute)
        self._chips = _table(per_minute * IMAGES_PER_CHIP)

    def require(self, chip: str, measurement: bytes | None, *, at: float) -> None:
        """Count a request of a guest; ``at`` is of ``attest.clock.ticks``.

        Raises:
            RateLimitedError: ``rate-limited``.
        """
        image = "none" if measurement is None else measurement.hex()
        require_pace(self._images, f"{chip} {image}", what="this image on this machine", at=at)
        require_pace(self._chips, chip, what="this machine", at=at)


class RefusalPace:
    """Rate of log entries about refusals that anyone can cause; the next entry has the number of those without one.

    ``per_minute`` is the long-term rate and the burst; at least 1.
    """

    def __init__(self, per_minute: int) -> None:
        self._rates = _table(per_minute)
        self._left_out = 0
        self._lock = threading.Lock()

    def admit(self, *, at: float) -> int | None:
        """Return how many refusals had no entry since the last one; None if this one has none; ``at`` as above."""
        with self._lock:
            if self._rates.wait_of("", at=at) > 0:
                self._left_out += 1
                return None
            left_out, self._left_out = self._left_out, 0
            return left_out


def require_pace(rates: RateTable, requester: str, *, what: str, at: float) -> None:
    """Count a request of a requester; ``what`` names its kind in the error, ``at`` is of ``attest.clock.ticks``.

    Raises:
        RateLimitedError: ``rate-limited``.
    """
    wait = math.ceil(rates.wait_of(requester, at=at))
    if wait > 0:
        raise RateLimitedError(f"too many requests from {what}; wait {wait} s; nothing was decided", retry_seconds=wait)


def _table(per_minute: int) -> RateTable:
    return RateTable(Rate(per_second=per_minute / 60, burst=per_minute))
