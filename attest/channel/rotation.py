"""Timer that replaces a channel key before its end.

::

    rotation = KeyRotation(gateway, random=os.urandom, clock=clock)
    task = asyncio.create_task(rotation.run())                   for the life of the service

A key is replaced one overlap before its day is over, so that no key is accepted for longer than a day: a private key
stolen later opens recordings of that day, and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from attest.channel.keys import LIFETIME, OVERLAP, ChannelKey
from attest.channel.server import Gateway
from attest.release.sealed_key import KEM_HYBRID

LONGEST_SLEEP_SECONDS: Final = 60.0
"""A suspended machine or a changed clock is noticed within a minute."""


class KeyRotation:
    """Replacement of a gateway's key by a new one generated here.

    Args:
        gateway: its key was generated in this process; released keys are rotated by their service.
        kems: of the next key, in order of preference.
        lifetime: of the next key; at most 24 hours.
        rotated: called after each replacement.

    Raises:
        ValueError: other replicas have the gateway's key too.
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
        if gateway.keys.replicated:
            raise ValueError("a key that other replicas have too is rotated by the service that releases it")
        self._gateway = gateway
        self._random = random
        self._clock = clock
        self._kems = tuple(kems)
        self._lifetime = lifetime
        self._rotated = rotated

    def due_in(self, at: datetime) -> timedelta:
        """Return the time until the next replacement; zero or negative means now."""
        return self._gateway.keys.current.not_after - min(OVERLAP, self._lifetime / 2) - at

    def rotate(self, *, at: datetime) -> None:
        """Replace the key by a fresh one; the previous one stays accepted for the overlap.

        Raises:
            ValueError: as ``ServiceKeys.replace``.
        """
        self._gateway.replace_key(self.fresh(at=at), at=at)
        self._rotated()

    def fresh(self, *, at: datetime) -> ChannelKey:
        """Return a key whose ids follow those of the current one."""
        last = self._gateway.keys.current.document.configs[-1].key_id
        return ChannelKey.born(
            random=self._random, at=at, first_id=(last + 1) % 256, kems=self._kems, lifetime=self._lifetime
        )

    async def run(self, *, pause: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Rotate until cancelled; ``pause`` sleeps for a number of seconds."""
        while True:
            at = self._clock()
            if self.due_in(at) <= timedelta(0):
                self.rotate(at=at)
            # Deletes replaced keys on time, also without requests.
            self._gateway.keys.forget(at=at)
            await pause(min(LONGEST_SLEEP_SECONDS, max(1.0, self.due_in(self._clock()).total_seconds())))
