"""A key of a session: its lease, what became of it, and how a program sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NoReturn

from attest.encoding import rfc3339_text
from attest.errors import AttestError, LeaseLostError
from attest.release.names import KeyReference
from attest.release.released_key import ReleasedKey
from attest.session.schedule import Moment

__all__ = ["Held", "SessionKey", "SessionLease"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLease:
    """One release of one key. Its material is apart, in a buffer that can be overwritten.

    Attributes:
        released: everything about it, with the material left out.
        begun: when the request for it began, which is before the service counts from.
        seconds: how long it lasts, by the service's own clock.
        share: of that time, after which it is to be renewed.
    """

    released: ReleasedKey
    begun: Moment
    seconds: float
    share: float

    def left(self, at: Moment) -> float:
        """Return how many seconds of it are left."""
        return self.seconds - self.begun.seconds_to(at)

    def until_due(self, at: Moment) -> float:
        """Return in how many seconds it is to be renewed; not positive when it is to be now."""
        return self.share * self.seconds - self.begun.seconds_to(at)


@dataclass(slots=True, kw_only=True, eq=False)
class Held:
    """One key that a session holds: the lease it has now, the material, and what became of it.

    Attributes:
        reference: what was asked for.
        moment: reads the clocks.
        lease: the newest.
        buffer: the material.
        lost: why it may be used no more.
        failures: how often its renewal failed since the last one.
        next_try: when it is tried again; None: when the lease says so.
    """

    reference: KeyReference
    moment: Callable[[], Moment]
    lease: SessionLease
    buffer: bytearray = field(repr=False)
    lost: LeaseLostError | None = None
    failures: int = 0
    next_try: Moment | None = None
    key: SessionKey = field(init=False)

    def __post_init__(self) -> None:
        """Make the one view of it that programs get."""
        self.key = SessionKey(self)

    def left(self) -> float:
        """Return how many seconds of the lease are left."""
        return self.lease.left(self.moment())

    @property
    def valid(self) -> bool:
        """Whether it may be used now."""
        return self.lost is None and self.left() > 0

    def until_next(self) -> float:
        """Return in how many seconds something is to be done for it."""
        at = self.moment()
        return self.lease.until_due(at) if self.next_try is None else -self.next_try.seconds_to(at)

    def ended(self, cause: AttestError | None = None) -> LeaseLostError:
        """Return the error for a lease whose time is over."""
        why = "" if cause is None else f", and it could not be renewed: {cause.message}"
        return LeaseLostError(
            f"the lease of {self.reference} ended at {rfc3339_text(self.lease.released.expires_at)}{why}",
            code="lease-lost",
            cause=cause,
            hint="ask the session for the key anew when the service is back",
        )


class SessionKey:
    """A key of a session, for as long as its lease lives. Its repr never shows it, and it cannot be pickled.

    Without a version it follows the key: where the key was rotated, a renewal brings the new version.
    """

    __slots__ = ("__weakref__", "_held")

    def __init__(self, held: Held) -> None:
        """Show what is held; sessions do."""
        self._held = held

    @property
    def reference(self) -> KeyReference:
        """What was asked for."""
        return self._held.reference

    @property
    def name(self) -> str:
        """What the key is called: ``KEY`` or ``TENANT/KEY``."""
        return str(self.reference.name)

    @property
    def version(self) -> int:
        """Which version of it is held."""
        return self._held.lease.released.version

    @property
    def purpose(self) -> str:
        """What it is for."""
        return self._held.lease.released.purpose

    @property
    def policy_digest(self) -> bytes:
        """SHA-256 of the policy under which it was released."""
        return self._held.lease.released.policy_digest

    @property
    def lease_id(self) -> str:
        """Names the lease."""
        return self._held.lease.released.lease_id

    @property
    def expires_at(self) -> datetime:
        """When the lease ends, by the service's clock."""
        return self._held.lease.released.expires_at

    @property
    def receipt(self) -> str:
        """The service's signed receipt, to keep."""
        return self._held.lease.released.receipt

    @property
    def log_entry(self) -> bytes:
        """The decision's entry of the service's log, to keep with ``log_proof``."""
        return self._held.lease.released.entry

    @property
    def log_proof(self) -> str:
        """That the log holds the entry."""
        return self._held.lease.released.proof

    @property
    def seconds_left(self) -> float:
        """How long the lease lives, if it is not renewed; 0 when it does no more."""
        return 0.0 if self._held.lost is not None else max(0.0, self._held.left())

    @property
    def valid(self) -> bool:
        """Whether the key may be used now."""
        return self.seconds_left > 0

    @property
    def lost(self) -> LeaseLostError | None:
        """Why it may be used no more; None as long as it may."""
        if self._held.lost is None and self._held.left() <= 0:
            return self._held.ended()
        return self._held.lost

    def require(self) -> None:
        """Make sure that the key may be used now.

        Raises:
            LeaseLostError: ``lease-lost``, ``lease-renewal-refused``, ``session-closed`` or ``session-forked``.
        """
        lost = self.lost
        if lost is not None:
            raise lost

    @property
    def material(self) -> memoryview:
        """The key, to read and not to keep: it is overwritten with random bytes when the lease is lost.

        Raises:
            LeaseLostError: as ``require``.
        """
        self.require()
        return memoryview(self._held.buffer).toreadonly()

    def export(self) -> bytes:
        """Return a copy of the key, which nothing can take back.

        Raises:
            LeaseLostError: as ``require``.
        """
        return bytes(self.material)

    def __len__(self) -> int:
        """Return the number of its bytes."""
        return len(self._held.buffer)

    def __repr__(self) -> str:
        """Name the key and nothing of its material."""
        state = "valid" if self.valid else "lost"
        return f"SessionKey({str(self.reference)!r}, version={self.version}, {state}, <{len(self)} bytes>)"

    def __reduce__(self) -> NoReturn:
        """Refuse to leave the process."""
        msg = "a SessionKey does not leave its process"
        raise TypeError(msg)
