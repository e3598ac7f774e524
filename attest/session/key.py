"""A key of a session: its lease, its state, and the program's view of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import NoReturn

from attest.encoding import rfc3339_text
from attest.errors import AttestError, LeaseLostError
from attest.release.names import KeyReference
from attest.release.released_key import ReleasedKey, shown_size
from attest.session.schedule import Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLease:
    """One release of one key; its material is separate, in an overwritable buffer.

    ``begun`` is the start of its request, which precedes the service's start of the lease; ``seconds`` its duration by
    the service's own clock, and ``share`` the part of that before renewal.
    """

    released: ReleasedKey
    begun: Moment
    seconds: float
    share: float

    def left(self, at: Moment) -> float:
        """Return the remaining seconds."""
        return self.seconds - self.begun.seconds_to(at)

    def until_due(self, at: Moment) -> float:
        """Return the seconds until renewal; zero or negative means now."""
        return self.share * self.seconds - self.begun.seconds_to(at)


@dataclass(slots=True, kw_only=True, eq=False)
class Held:
    """A held key: its newest lease, its material, and its state.

    Attributes:
        failures: failed renewals since the last success.
        next_try: time of the next attempt; None means by the lease.
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
        self.key = SessionKey(self)

    def left(self) -> float:
        """Return the remaining seconds of the lease."""
        return self.lease.left(self.moment())

    @property
    def valid(self) -> bool:
        """True while it is usable."""
        return self.lost is None and self.left() > 0

    def until_next(self) -> float:
        """Return the seconds until the next action."""
        at = self.moment()
        return self.lease.until_due(at) if self.next_try is None else -self.next_try.seconds_to(at)

    def ended(self, cause: AttestError | None = None) -> LeaseLostError:
        """Return the error for an ended lease."""
        why = "" if cause is None else f", and it could not be renewed: {cause.message}"
        return LeaseLostError(
            f"the lease of {self.reference} ended at {rfc3339_text(self.lease.released.expires_at)}{why}",
            code="lease-lost",
            cause=cause,
            hint="request the key again when the service is back",
        )


class SessionKey:
    """A key of a session for the life of its lease. Its repr omits the material, and it cannot be pickled.

    Without a version it follows rotation: a renewal brings the new version.
    """

    __slots__ = ("__weakref__", "_held")

    def __init__(self, held: Held) -> None:
        self._held = held

    @property
    def reference(self) -> KeyReference:
        """The requested reference."""
        return self._held.reference

    @property
    def name(self) -> str:
        """Name of the key: ``KEY`` or ``TENANT/KEY``."""
        return str(self.reference.name)

    @property
    def version(self) -> int:
        """The held version."""
        return self._held.lease.released.version

    @property
    def purpose(self) -> str:
        """Purpose of the key."""
        return self._held.lease.released.purpose

    @property
    def policy_digest(self) -> bytes:
        """SHA-256 of the policy under which it was released."""
        return self._held.lease.released.policy_digest

    @property
    def lease_id(self) -> str:
        """Name of the lease."""
        return self._held.lease.released.lease_id

    @property
    def expires_at(self) -> datetime:
        """End of the lease, by the service's clock."""
        return self._held.lease.released.expires_at

    @property
    def receipt(self) -> str:
        """The service's signed receipt, for records."""
        return self._held.lease.released.receipt

    @property
    def log_entry(self) -> bytes:
        """The decision's log entry, for records with ``log_proof``."""
        return self._held.lease.released.entry

    @property
    def log_proof(self) -> str:
        """Proof of the entry's inclusion in the log."""
        return self._held.lease.released.proof

    @property
    def seconds_left(self) -> float:
        """Remaining seconds of the lease without renewal; 0 after its end."""
        return 0.0 if self._held.lost is not None else max(0.0, self._held.left())

    @property
    def valid(self) -> bool:
        """True while the key is usable."""
        return self.seconds_left > 0

    @property
    def lost(self) -> LeaseLostError | None:
        """Reason of its loss; None while it is usable."""
        if self._held.lost is None and self._held.left() <= 0:
            return self._held.ended()
        return self._held.lost

    def require(self) -> None:
        """Require that the key is usable now.

        Raises:
            LeaseLostError: ``lease-lost``, ``lease-renewal-refused``, ``session-closed`` or ``session-forked``.
        """
        lost = self.lost
        if lost is not None:
            raise lost

    @property
    def material(self) -> memoryview:
        """The key for reading; do not keep it: a lost lease overwrites it with random bytes.

        Raises:
            LeaseLostError: as ``require``.
        """
        self.require()
        return memoryview(self._held.buffer).toreadonly()

    def export(self) -> bytes:
        """Return a copy of the key, which survives the lease.

        Raises:
            LeaseLostError: as ``require``.
        """
        return bytes(self.material)

    def __len__(self) -> int:
        return len(self._held.buffer)

    def __repr__(self) -> str:
        state = "valid" if self.valid else "lost"
        size = shown_size(self.purpose, self._held.buffer)
        return f"SessionKey({str(self.reference)!r}, version={self.version}, {state}, {size})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a SessionKey does not leave its process")
