"""The steps of a session, without a network.

As in ``attest.release.exchange``, a step is a generator. It yields a ``KeyRequest`` and is sent the released keys, or
the error is thrown in; or it yields the number of seconds to wait. ``session.py`` and ``async_session.py`` drive the
same steps.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final

from attest.errors import (
    AppraisalError,
    AttestError,
    EvidenceError,
    LeaseLostError,
    ReleaseRefusedError,
    ServiceNotGenuineError,
    ServiceUnreachableError,
    VerificationError,
)
from attest.release.names import KeyReference
from attest.release.released_key import ReleasedKey
from attest.session.held_keys import Holdings
from attest.session.key import Held
from attest.session.retry import Attempts
from attest.session.schedule import Deadline, Moment

__all__ = ["KeyRequest", "Obtaining", "Received", "Renewing", "obtain", "renew"]

LEAST_SECONDS: Final = 1.0
"""For a renewal of a lease that ends now."""
_GONE = frozenset({"lease-ended", "lease-expired", "lease-unknown"})
"""An answer that got lost may have renewed the lease; the workload then asks anew, and names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """What was released.

    Attributes:
        keys: in the order in which they were asked for.
        begun: when the request began.
    """

    keys: tuple[ReleasedKey, ...]
    begun: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRequest:
    """Keys that are to be asked for in one request.

    Attributes:
        references: which.
        renews: leases that this renews.
        seconds: that are left for it; None: as many as the session has for a call.
        needed: says whether it is still needed, when its turn has come: another thread may have asked meanwhile.
    """

    references: tuple[KeyReference, ...]
    renews: tuple[str, ...] = ()
    seconds: float | None = None
    needed: Callable[[], bool] = lambda: True

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The references as text."""
        return tuple(map(str, self.references))


Obtaining = Generator[KeyRequest | float, Received | None, tuple[Held, ...]]
"""Is sent None where nothing was needed any more, and after a wait."""
Renewing = Generator[KeyRequest, Received | None, None]
OnLost = Callable[[Held, LeaseLostError], None]
OnRenewed = Callable[[Held], None]


def obtain(holdings: Holdings, references: tuple[KeyReference, ...], *, url: str, deadline: Deadline) -> Obtaining:
    """Return keys that may be used now; ask for those that are not held.

    Args:
        holdings: of the session.
        references: which keys, each once.
        url: whom the session asks, for errors.
        deadline: the end of it.

    Raises:
        ReleaseRefusedError: the service said no.
        ServiceUnreachableError: nothing came of it in time.
        ServiceNotGenuineError: somebody else answered.
        AttestError: this machine gives no evidence, or a setting is wrong.
    """
    attempts = Attempts(url=url, deadline=deadline)

    def missing() -> tuple[KeyReference, ...]:
        return tuple(one for one in references if holdings.find(one) is None)

    def still(wanted: tuple[KeyReference, ...]) -> bool:
        return missing() == wanted

    while wanted := missing():
        try:
            received = yield KeyRequest(references=wanted, needed=partial(still, wanted))
        except AttestError as exc:
            try:
                pause = attempts.after(exc)
            except AttestError as final:
                raise _for_program(final, url=url) from exc
            yield pause
            continue
        if received is not None:
            holdings.take(wanted, received.keys, received.begun)
            break
    found = tuple(held for one in references if (held := holdings.find(one)) is not None)
    if len(found) < len(references):
        raise _born_dead(url)
    return found


def renew(holdings: Holdings, *, url: str, lost: OnLost, renewed: OnRenewed) -> Renewing:
    """Renew what is due, as far as it can be done now.

    Args:
        holdings: of the session.
        url: whom the session asks, for errors.
        lost: is told of each key that may be used no more.
        renewed: is told of each key with a new lease.
    """
    for group in holdings.due():
        yield from _renew_group(holdings, group, url=url, lost=lost, renewed=renewed)


def _renew_group(
    holdings: Holdings, group: tuple[Held, ...], *, url: str, lost: OnLost, renewed: OnRenewed
) -> Renewing:
    references = tuple(one.reference for one in group)
    leases = tuple(one.lease.released.lease_id for one in group)
    try:
        # Who is told of a lost lease has to hear of it when the lease ends, and not after waiting for an answer.
        seconds = max(LEAST_SECONDS, min(one.left() for one in group))
        received = yield from _asked(KeyRequest(references=references, renews=leases, seconds=seconds))
    except AttestError as exc:
        if not _is_final(exc):
            for held in holdings.delay(group, _for_program(exc, url=url)):
                _lose(holdings, held, held.ended(_for_program(exc, url=url)), lost)
        elif len(group) == 1:
            _lose(holdings, group[0], _refusal(group[0], exc), lost)
        else:
            # One of them is the reason, and the others shall not suffer for it.
            for one in group:
                yield from _renew_group(holdings, (one,), url=url, lost=lost, renewed=renewed)
        return
    if received is not None:
        holdings.take(references, received.keys, received.begun)
        for held in group:
            renewed(held)


def _asked(wanted: KeyRequest) -> Generator[KeyRequest, Received | None, Received | None]:
    """Ask, and once more as if for the first time where the leases are there no more."""
    try:
        return (yield wanted)
    except ReleaseRefusedError as exc:
        if exc.code not in _GONE:
            raise
    return (yield KeyRequest(references=wanted.references, seconds=wanted.seconds))


def _is_final(error: AttestError) -> bool:
    """Say whether the service itself said no. Whatever else happens (nothing or somebody else answers) may pass."""
    if not isinstance(error, ReleaseRefusedError) or error.retryable or error.code == "service-error":
        return False
    return HTTPStatus.BAD_REQUEST <= error.status < HTTPStatus.INTERNAL_SERVER_ERROR


def _refusal(held: Held, error: AttestError) -> LeaseLostError:
    return LeaseLostError(
        f"the lease of {held.reference} is not renewed: {error.message}",
        code="lease-renewal-refused",
        cause=error,
        hint=error.hint,
    )


def _lose(holdings: Holdings, held: Held, error: LeaseLostError, lost: OnLost) -> None:
    """Tell those who use a key first, and then take it away."""
    holdings.lose(held, error)
    lost(held, error)
    holdings.wipe(held)


def _born_dead(url: str) -> LeaseLostError:
    return LeaseLostError(
        f"the service at {url} granted a lease that was over when it arrived",
        code="lease-lost",
        hint="the lease has to last longer than a release takes: kms key release KEY --lease-seconds",
    )


def _for_program(error: AttestError, *, url: str) -> AttestError:
    """Return the error that a program is to see in place of one of the protocol."""
    if isinstance(error, ServiceNotGenuineError | ServiceUnreachableError | ReleaseRefusedError):
        return error
    if isinstance(error, AppraisalError | EvidenceError | VerificationError):
        return ServiceNotGenuineError(error, url=url)
    return error
