"""Keeping a lease: attest again in time, as long as the service says yes, and tell the application when it does not.

::

    keeper = LeaseKeeper(client, ("model",), attester=attester, timing=Timing(now=clock, wait=wait, random=random))
    keys = keeper.obtain()
    for keys in keeper.renewals():      # waits; yields what each renewal brought
        use(keys)

``renewals`` ends by an exception and by nothing else: the service refused, or could not be asked until the lease had
ended. What the application owes its keys' owner then is to drop the keys; this module cannot do it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from attest.encoding import rfc3339_text
from attest.errors import AttestError, EndorsementError, LeaseLostError
from attest.release.client import Attester, KeyReleaseClient, ReleasedKey, ReleaseRefusedError
from attest.release.sealed_key import KEM_HYBRID

__all__ = ["LeaseClocks", "LeaseKeeper", "LeaseLostError"]

RENEW_AT: Final = 2 / 3
"""Of a lease's time that is left when it is obtained; what remains is for a service that cannot be reached."""
JITTER: Final = 1 / 10
"""Of the same time, by which a renewal is earlier at most: machines that started together do not ask together."""
FIRST_RETRY_SECONDS: Final = 1.0
LONGEST_RETRY_SECONDS: Final = 60.0
_ASK_AGAIN: Final = frozenset({429, 503})
_GONE: Final = frozenset({"lease-ended", "lease-expired"})
"""An answer that got lost may have renewed the lease; the workload then asks anew, and names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseClocks:
    """Where time and chance come from.

    Attributes:
        now: the present moment, aware, UTC.
        wait: waits so many seconds; whoever wants to stop the keeper raises in it.
        random: a number from 0, included, to 1, excluded.
    """

    now: Callable[[], datetime]
    wait: Callable[[float], None]
    random: Callable[[], float]


class LeaseKeeper:
    """Obtains keys, and renews their leases as long as it is asked to.

    Args:
        client: asks the service.
        key_ids: the keys, as ``KEY`` or ``TENANT/KEY``; all are released, or none.
        attester: collects the evidence, each time anew.
        timing: where time and chance come from.
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
        """Prepare to ask."""
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
        keys = self._client.release(self._key_ids, attester=self._attester, kem=self._kem)
        return self._keep(keys)

    def renewals(self) -> Iterator[tuple[ReleasedKey, ...]]:
        """Renew again and again, each time in time, and yield what came.

        Raises:
            ReleaseRefusedError: the service said no: the policy, the key or the machine is not what it was.
            LeaseLostError: ``lease-lost``: the lease ended while the service could not be asked.
            AttestError: as ``KeyReleaseClient.release``: somebody else answered.
            ValueError: nothing was obtained yet.
        """
        while True:
            self._timing.wait(self._seconds_until_due())
            yield self._keep(self._renewed())

    def _keep(self, keys: tuple[ReleasedKey, ...]) -> tuple[ReleasedKey, ...]:
        self._held, self._obtained_at = keys, self._timing.now()
        return keys

    @property
    def expires_at(self) -> datetime:
        """When the first of the leases ends.

        Raises:
            ValueError: nothing was obtained yet.
        """
        if not self._held:
            msg = "obtain() comes first"
            raise ValueError(msg)
        return min(key.expires_at for key in self._held)

    def _seconds_until_due(self) -> float:
        expires_at, now = self.expires_at, self._timing.now()
        start = self._obtained_at or now
        share = RENEW_AT - JITTER * self._timing.random()
        return max(0.0, (start + share * (expires_at - start) - now).total_seconds())

    def _renewed(self) -> tuple[ReleasedKey, ...]:
        """Ask until there is an answer, or the lease has ended."""
        pause = FIRST_RETRY_SECONDS
        while True:
            try:
                return self._ask()
            except (EndorsementError, ReleaseRefusedError) as exc:
                if isinstance(exc, ReleaseRefusedError) and exc.status not in _ASK_AGAIN:
                    raise
                self._require_time_left(pause, exc)
            self._timing.wait(pause * (1 - self._timing.random() / 2))
            pause = min(2 * pause, LONGEST_RETRY_SECONDS)

    def _ask(self) -> tuple[ReleasedKey, ...]:
        """Renew, or ask anew for the same key pair where the lease is there no more."""
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
            f"the lease ends at {rfc3339_text(self.expires_at)}, and the service cannot be asked: {exc.message}",
            code="lease-lost",
            cause=exc,
            hint="drop the keys, or ask for them anew when the service is back",
        )
