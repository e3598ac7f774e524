"""Rate limits: a token bucket for each caller, in a table of bounded size. No clock is read here."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final

MAX_CALLERS: Final = 16_384
"""Callers that are remembered; the one with the oldest request is forgotten first."""
_IPV6_PREFIX_BITS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A rate of requests, or of another amount, such as their bytes.

    Attributes:
        per_second: amount a second, in the long run; more than 0.
        burst: amount at once, after a pause; at least 1.
    """

    per_second: float
    burst: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """The rest of a caller's allowance.

    Attributes:
        tokens: amount that may come at once, 0 to ``burst``.
        at: the moment of this count, in seconds of a clock that never goes back.
    """

    tokens: float
    at: float

    def taken(self, rate: Rate, *, at: float, amount: float = 1.0) -> tuple[Bucket, float]:
        """Take one request out, and return the rest and the seconds to wait: 0 if the request may go on.

        A refused request takes nothing. An amount above ``burst`` takes all of it.
        """
        amount = min(amount, float(rate.burst))
        tokens = min(float(rate.burst), self.tokens + max(0.0, at - self.at) * rate.per_second)
        if tokens < amount:
            return Bucket(tokens=tokens, at=at), (amount - tokens) / rate.per_second
        return Bucket(tokens=tokens - amount, at=at), 0.0


class RateTable:
    """The buckets of all callers of this process."""

    def __init__(self, rate: Rate, *, size: int = MAX_CALLERS) -> None:
        self._rate = rate
        self._size = size
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._buckets)

    def wait_of(self, caller: str, *, at: float, amount: float = 1.0) -> float:
        """Return how many seconds this caller has to wait; 0 when its request may go on, which is then counted."""
        with self._lock:
            bucket = self._buckets.pop(caller, None) or Bucket(tokens=float(self._rate.burst), at=at)
            self._buckets[caller], wait = bucket.taken(self._rate, at=at, amount=amount)
            if len(self._buckets) > self._size:
                self._buckets.popitem(last=False)
            return wait


def caller_of(address: str) -> str:
    """Return the caller behind an address: the address itself, or of IPv6 the /64 that one customer is given."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return f"{IPv6Address(int(found) >> _IPV6_PREFIX_BITS << _IPV6_PREFIX_BITS)}/{_IPV6_PREFIX_BITS}"
