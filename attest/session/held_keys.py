"""What a session holds: keys, until when each may be used, and when each is to be renewed."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Final

from attest.errors import AttestError, LeaseLostError
from attest.release.leases import JITTER, RENEW_AT
from attest.release.names import KeyReference
from attest.release.released_key import ReleasedKey
from attest.release.sealed_key import WorkloadKey
from attest.release.wire import MAX_KEYS
from attest.session.key import Held, SessionLease
from attest.session.retry import pause_after
from attest.session.schedule import Moment, SessionTiming

__all__ = ["Holdings"]

LONGEST_PAUSE_SECONDS: Final = 60.0
"""Between attempts to renew: a service that is back is found within a minute."""


class Holdings:
    """The keys of one session, and the one HPKE key pair to which their leases are bound.

    Args:
        timing: where time and chance come from.
    """

    def __init__(self, timing: SessionTiming) -> None:
        """Hold nothing."""
        self._timing = timing
        self._lock = threading.Lock()
        self._held: dict[KeyReference, Held] = {}
        self._buffers: list[bytearray] = []
        self._ended = False
        self.recipient = WorkloadKey.generate()

    def held(self) -> tuple[Held, ...]:
        """Return what may be used now, in the order in which it was obtained."""
        with self._lock:
            return tuple(one for one in self._held.values() if one.valid)

    def find(self, reference: KeyReference) -> Held | None:
        """Return what may be used now under a reference."""
        with self._lock:
            found = self._held.get(reference)
        return found if found is not None and found.valid else None

    def take(self, asked: tuple[KeyReference, ...], released: tuple[ReleasedKey, ...], begun: Moment) -> None:
        """Keep what was released: new keys, or new leases of those that are held.

        Args:
            asked: the references, in the order of ``released``.
            released: what came.
            begun: when the request began.
        """
        share = RENEW_AT - JITTER * self._timing.random()
        with self._lock:
            if self._ended:
                return  # closed while the answer was on its way
            for reference, one in zip(asked, released, strict=True):
                self._take(reference, one, begun, share)

    def _take(self, reference: KeyReference, one: ReleasedKey, begun: Moment, share: float) -> None:
        seconds = max(0.0, (one.expires_at - one.released_at).total_seconds())
        soon = self._timing.renew_after
        if soon is not None and seconds > 0:
            share = min(share, soon / seconds)
        lease = SessionLease(released=replace(one, material=b""), begun=begun, seconds=seconds, share=share)
        held = self._held.get(reference)
        if held is None:
            held = Held(reference=reference, moment=self._timing.moment, lease=lease, buffer=bytearray())
            self._held[reference] = held
        # The same material stays where it is: whoever reads it meanwhile keeps reading the key.
        if not secrets.compare_digest(held.buffer, one.material):
            held.buffer = bytearray(one.material)
            self._buffers.append(held.buffer)
        held.lease, held.failures, held.next_try = lease, 0, None

    def seconds_until_due(self) -> float | None:
        """Return in how many seconds something is to be done; None: nothing is held."""
        with self._lock:
            waits = [one.until_next() for one in self._held.values()]
        return max(0.0, min(waits)) if waits else None

    def due(self) -> tuple[tuple[Held, ...], ...]:
        """Return what is to be renewed now, in groups of what one request can ask for."""
        with self._lock:
            due = [one for one in self._held.values() if one.until_next() <= 0]
        return tuple(tuple(due[first : first + MAX_KEYS]) for first in range(0, len(due), MAX_KEYS))

    def delay(self, group: tuple[Held, ...], error: AttestError) -> tuple[Held, ...]:
        """Note that a renewal did not succeed, and may later.

        Returns:
            those whose lease is over.
        """
        at, chance = self._timing.moment(), self._timing.random()
        over = []
        with self._lock:
            for one in group:
                one.failures += 1
                left = one.lease.left(at)
                if left <= 0:
                    over.append(one)
                pause = min(LONGEST_PAUSE_SECONDS, max(1.0, pause_after(one.failures + 2, error, chance=chance)))
                one.next_try = _later(at, min(pause, max(0.0, left)))
        return tuple(over)

    def lose(self, held: Held, error: LeaseLostError) -> None:
        """Let a key be used no more; its material stays until ``wipe``, so that those who use it hear of it first."""
        with self._lock:
            held.lost = held.lost or error
            if self._held.get(held.reference) is held:
                del self._held[held.reference]

    def wipe(self, held: Held) -> None:
        """Overwrite a key's material with random bytes: zeros would be a key that everybody has."""
        with self._lock:
            _overwrite(held.buffer)

    def end(self, error: Callable[[Held], LeaseLostError]) -> None:
        """Let every key be used no more, and overwrite all that there ever was."""
        with self._lock:
            self._ended = True
            for held in self._held.values():
                held.lost = held.lost or error(held)
            self._held.clear()
            for buffer in self._buffers:
                _overwrite(buffer)
            self._buffers.clear()

    def after_fork(self, error: Callable[[Held], LeaseLostError]) -> None:
        """Begin anew in a child process: its parent's leases are not its own, nor is the key that they are bound to."""
        self._lock = threading.Lock()  # somebody may have held it in the parent
        was_ended = self._ended
        self.end(error)
        self._ended = was_ended
        self.recipient = WorkloadKey.generate()


def _overwrite(buffer: bytearray) -> None:
    buffer[:] = secrets.token_bytes(len(buffer))


def _later(at: Moment, seconds: float) -> Moment:
    return Moment(wall=at.wall + timedelta(seconds=seconds), ticks=at.ticks + seconds)
