"""Renewal of leases: attest again in time until the service refuses, and report the loss to the application.

::

    keeper = LeaseKeeper(client, ("model",), attester=attester, timing=LeaseClocks(now=clock, wait=wait, random=random))
    keys = keeper.obtain()
    for keys in keeper.renewals():      # waits; yields the keys of each renewal
        use(keys)

``renewals`` ends only by an exception: the service refuses, or was unreachable until the lease ended. The application
then has to delete the keys; this module cannot do it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from attest.encoding import rfc3339_text
from attest.errors import AttestError, EndorsementError, LeaseLostError, ReleaseRefusedError
from attest.release.client import KeyReleaseClient
from attest.release.exchange import Attester
from attest.release.released_key import ReleasedKey
from attest.release.sealed_key import KEM_HYBRID

RENEW_AT: Final = 2 / 3
"""Part of a lease's time left at its renewal; the rest is a reserve for outages of the service."""
JITTER: Final = 1 / 10
"""Largest random advance of a renewal as a part of that time, so that machines do not renew together."""
FIRST_RETRY_SECONDS: Final = 1.0
LONGEST_RETRY_SECONDS: Final = 60.0
_RETRIED: Final = frozenset({429, 503})
_GONE: Final = frozenset({"lease-ended", "lease-expired"})
"""A lost answer may have renewed the lease; the workload then requests the keys without a lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseClocks:
    """Sources of time and randomness.

    Attributes:
        now: the present moment, aware, UTC.
        wait: sleeps for a number of seconds; it may raise to stop the keeper.
        random: a number from 0, included, to 1, excluded.
    """

    now: Callable[[], datetime]
    wait: Callable[[float], None]
    random: Callable[[], float]


class LeaseKeeper:
    """Keeper of keys: obtains them and renews their leases.

    Args:
        key_ids: the keys, as ``KEY`` or ``TENANT/KEY``; all or none are released.
        attester: collects fresh evidence for each request.
        kem: HPKE KEM of the key pair that the leases are bound to.
    """

    def __init__(
        self,
        client: KeyReleaseClient,
        key_ids: tuple[str, ...],
        *,
        attester: Attester,
        timing: LeaseClocks,
        kem: int = KEM_HYBRID,
    ) -> None:
        self._client = client
        self._key_ids = key_ids
        self._attester = attester
        self._timing = timing
        self._kem = kem
        self._held: tuple[ReleasedKey, ...] = ()
        self._obtained_at: datetime | None = None

    def obtain(self) -> tuple[ReleasedKey, ...]:
        """Obtain the keys for the first time.

        Raises:
            AttestError: as ``KeyReleaseClient.release``.
        """
        return self._keep(self._client.release(self._key_ids, attester=self._attester, kem=self._kem))

    def renewals(self) -> Iterator[tuple[ReleasedKey, ...]]:
        """Renew each lease in time, without end, and yield the renewed keys.

        Raises:
            ReleaseRefusedError: the service refuses: the policy, the key or the machine has changed.
            LeaseLostError: ``lease-lost``: the lease ended while the service was unreachable.
            AttestError: as ``KeyReleaseClient.release``: the answer is another service's.
            ValueError: ``obtain`` has not succeeded yet.
        """
        while True:
            self._timing.wait(self._seconds_until_due())
            yield self._keep(self._renewed())

    def _keep(self, keys: tuple[ReleasedKey, ...]) -> tuple[ReleasedKey, ...]:
        self._held, self._obtained_at = keys, self._timing.now()
        return keys

    @property
    def expires_at(self) -> datetime:
        """End of the lease that ends first.

        Raises:
            ValueError: ``obtain`` has not succeeded yet.
        """
        if not self._held:
            raise ValueError("call obtain() first")
        return min(key.expires_at for key in self._held)

    def _seconds_until_due(self) -> float:
        expires_at, now = self.expires_at, self._timing.now()
        start = self._obtained_at or now
        share = RENEW_AT - JITTER * self._timing.random()
        return max(0.0, (start + share * (expires_at - start) - now).total_seconds())

    def _renewed(self) -> tuple[ReleasedKey, ...]:
        """Retry until there is an answer, or the lease has ended."""
        pause = FIRST_RETRY_SECONDS
        while True:
            try:
                return self._renew()
            except (EndorsementError, ReleaseRefusedError) as exc:
                if isinstance(exc, ReleaseRefusedError) and exc.status not in _RETRIED:
                    raise
                self._require_time_left(pause, exc)
            self._timing.wait(pause * (1 - self._timing.random() / 2))
            pause = min(2 * pause, LONGEST_RETRY_SECONDS)

    def _renew(self) -> tuple[ReleasedKey, ...]:
        """Renew, or release to the same key pair if the lease no longer exists."""
        try:
            return self._client.release(self._key_ids, attester=self._attester, renewing=self._held)
        except ReleaseRefusedError as exc:
            if exc.code not in _GONE:
                raise
        return self._client.release(self._key_ids, attester=self._attester, key=self._held[0].recipient)

    def _require_time_left(self, pause: float, exc: AttestError) -> None:
        if self._timing.now() + timedelta(seconds=pause) < self.expires_at:
            return
        raise LeaseLostError(
            f"the lease ends at {rfc3339_text(self.expires_at)}, and the service cannot be reached: {exc.message}",
            code="lease-lost",
            cause=exc,
            hint="delete the keys, or request them again when the service is back",
        )
