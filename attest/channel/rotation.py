"""A timer that gives out another channel key before the one that is given out ends.

::

    rotation = KeyRotation(gateway, random=os.urandom, clock=clock)
    task = asyncio.create_task(rotation.run())                   for as long as the service runs

A key is replaced one overlap before its day is over, so that no key is accepted for longer than a day: whoever gets a
private half later can open what was recorded within that day, and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from attest.channel.hpke import KEM_HYBRID
from attest.channel.keys import LIFETIME, OVERLAP, ChannelKey
from attest.channel.server import Gateway

__all__ = ["KeyRotation"]

LONGEST_SLEEP_SECONDS: Final = 60.0
"""A machine that slept, or whose clock was set, is noticed within a minute."""


class KeyRotation:
    """Replaces the key of a gateway by another one that is born here.

    Args:
        gateway: whose key was born in this process; a released one is rotated by who releases it.
        random: returns so many random bytes.
        clock: returns the present moment, aware.
        kems: of the next key, in order of preference.
        lifetime: of the next key; at most 24 hours.
        rotated: is told after each replacement.

    Raises:
        ValueError: the gateway's key is had by other replicas too.
    """

    def __init__(
        self,
        gateway: Gateway,
        *,
        random: Callable[[int], bytes],
        clock: Callable[[], datetime],
        kems: Sequence[int] = (KEM_HYBRID,),
        lifetime: timedelta = LIFETIME,
        rotated: Callable[[], object] = lambda: None,
    ) -> None:
        """Wait for ``run``."""
        if gateway.keys.replicated:
            msg = "a key that other replicas have too is rotated by the service that releases it"
            raise ValueError(msg)
        self._gateway = gateway
        self._random = random
        self._clock = clock
        self._kems = tuple(kems)
        self._lifetime = lifetime
        self._rotated = rotated

    def due_in(self, at: datetime) -> timedelta:
        """Return in what time the key is to be replaced; not positive when it is to be now."""
        return self._gateway.keys.current.not_after - min(OVERLAP, self._lifetime / 2) - at

    def rotate(self, *, at: datetime) -> None:
        """Give out a fresh key from now on; the one before is accepted for the overlap.

        Raises:
            ValueError: as ``ServiceKeys.replace``.
        """
        self._gateway.replace_key(self.fresh(at=at), at=at)
        self._rotated()

    def fresh(self, *, at: datetime) -> ChannelKey:
        """Return a key whose ids follow those of the one that is given out."""
        last = self._gateway.keys.current.document.configs[-1].key_id
        return ChannelKey.born(
            random=self._random, at=at, first_id=(last + 1) % 256, kems=self._kems, lifetime=self._lifetime
        )

    async def run(self, *, pause: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Rotate until cancelled.

        Args:
            pause: waits so many seconds.
        """
        while True:
            at = self._clock()
            if self.due_in(at) <= timedelta(0):
                self.rotate(at=at)
            # What was replaced is dropped when its time is over, also where nobody asks for anything.
            self._gateway.keys.forget(at=at)
            await pause(min(LONGEST_SLEEP_SECONDS, max(1.0, self.due_in(self._clock()).total_seconds())))
