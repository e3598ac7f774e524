"""Keys of a session, with their leases and times of renewal."""

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

LONGEST_PAUSE_SECONDS: Final = 60.0
"""Between attempts to renew: a recovered service is noticed within a minute."""


class Holdings:
    """The keys of one session, and the HPKE key pair that their leases are bound to."""

    def __init__(self, timing: SessionTiming) -> None:
        self._timing = timing
        self._lock = threading.Lock()
        self._held: dict[KeyReference, Held] = {}
        self._buffers: list[bytearray] = []
        self._ended = False
        self.recipient = WorkloadKey.generate()

    def held(self) -> tuple[Held, ...]:
        """Return the currently usable keys, in the order of their first release."""
        with self._lock:
            return tuple(one for one in self._held.values() if one.valid)

    def find(self, reference: KeyReference) -> Held | None:
        """Return the currently usable key of a reference."""
        with self._lock:
            found = self._held.get(reference)
        return found if found is not None and found.valid else None

    def take(self, references: tuple[KeyReference, ...], released: tuple[ReleasedKey, ...], begun: Moment) -> None:
        """Add released keys, new ones or new leases of held ones, for references in the same order.

        ``begun`` is the start of the request.
        """
        share = RENEW_AT - JITTER * self._timing.random()
        with self._lock:
            if self._ended:
                return  # closed while the request was under way
            for reference, one in zip(references, released, strict=True):
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
        # Equal material keeps its buffer, which the program may be reading.
        if not secrets.compare_digest(held.buffer, one.material):
            held.buffer = bytearray(one.material)
            self._buffers.append(held.buffer)
        held.lease, held.failures, held.next_try = lease, 0, None

    def seconds_until_due(self) -> float | None:
        """Return the seconds until the next action; None without keys."""
        with self._lock:
            waits = [one.until_next() for one in self._held.values()]
        return max(0.0, min(waits)) if waits else None

    def due(self) -> tuple[tuple[Held, ...], ...]:
        """Return the leases to renew now, in groups for one request each."""
        with self._lock:
            due = [one for one in self._held.values() if one.until_next() <= 0]
        return tuple(tuple(due[first : first + MAX_KEYS]) for first in range(0, len(due), MAX_KEYS))

    def delay(self, group: tuple[Held, ...], error: AttestError) -> tuple[Held, ...]:
        """Record a failed renewal, to be retried later; return the keys whose leases have ended."""
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
        """Mark a key as lost; its material stays until ``wipe``, so that callbacks run first."""
        with self._lock:
            held.lost = held.lost or error
            if self._held.get(held.reference) is held:
                del self._held[held.reference]

    def wipe(self, held: Held) -> None:
        """Overwrite a key's material with random bytes: zeros would be a valid, known key."""
        with self._lock:
            _overwrite(held.buffer)

    def end(self, error: Callable[[Held], LeaseLostError]) -> None:
        """Mark every key as lost, and overwrite all material."""
        with self._lock:
            self._ended = True
            for held in self._held.values():
                held.lost = held.lost or error(held)
            self._held.clear()
            for buffer in self._buffers:
                _overwrite(buffer)
            self._buffers.clear()

    def after_fork(self, error: Callable[[Held], LeaseLostError]) -> None:
        """Start again in a child process: leases and their key pair belong to the parent."""
        self._lock = threading.Lock()  # the parent may have held it
        was_ended = self._ended
        self.end(error)
        self._ended = was_ended
        self.recipient = WorkloadKey.generate()


def _overwrite(buffer: bytearray) -> None:
    buffer[:] = secrets.token_bytes(len(buffer))


def _later(at: Moment, seconds: float) -> Moment:
    return Moment(wall=at.wall + timedelta(seconds=seconds), ticks=at.ticks + seconds)
