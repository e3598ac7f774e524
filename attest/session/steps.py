"""The steps of a session, without I/O.

As in ``attest.release.exchange``, a step is a generator. It yields a ``KeyRequest`` and receives the released keys, or
their error is thrown in; or it yields a number of seconds to wait. ``session.py`` and ``async_session.py`` drive the
same steps.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final, TypeVar

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

_T = TypeVar("_T")
LEAST_SECONDS: Final = 1.0
"""Minimum time for the renewal of a lease that ends now."""
_GONE = frozenset({"lease-ended", "lease-expired", "lease-unknown"})
"""A lost answer may have renewed the lease; the workload then requests the keys without a lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """Released keys in the order of the request, and the start of the request."""

    keys: tuple[ReleasedKey, ...]
    begun: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRequest:
    """Keys for one request.

    Attributes:
        renews: leases to renew.
        seconds: limit of the request; None: the session's limit of a call.
        needed: returns True if it is still necessary at its turn: another thread may have sent it.
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
"""Receives None for an unnecessary request, and after a wait."""
Renewing = Generator[KeyRequest, Received | None, None]
OnLost = Callable[[Held, LeaseLostError], None]
OnRenewed = Callable[[Held], None]


def resumed(steps: Generator[_T, Received | None, object], outcome: Received | AttestError | None) -> _T:
    """Continue steps with the outcome of the last one, None to begin with; return the next one.

    Raises:
        AttestError: as the steps.
        StopIteration: the steps are over.
    """
    return steps.throw(outcome) if isinstance(outcome, AttestError) else steps.send(outcome)


def obtain(holdings: Holdings, references: tuple[KeyReference, ...], *, url: str, deadline: Deadline) -> Obtaining:
    """Return currently usable keys for references without repetition; request the missing ones.

    Raises:
        ReleaseRefusedError: the service refuses.
        ServiceUnreachableError: no answer in time.
        ServiceNotGenuineError: another service answered.
        AttestError: the machine has no evidence, or a setting is invalid.
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
        raise LeaseLostError(
            f"the service at {url} granted a lease that was over when it arrived",
            code="lease-lost",
            hint="the lease must last longer than a release takes: kms key release KEY --lease-seconds",
        )
    return found


def renew(holdings: Holdings, *, url: str, lost: OnLost, renewed: OnRenewed) -> Renewing:
    """Renew the leases that are due, as far as possible now; call ``lost`` and ``renewed`` with each affected key."""
    for group in holdings.due():
        yield from _renew_group(holdings, group, url=url, lost=lost, renewed=renewed)


def _renew_group(
    holdings: Holdings, group: tuple[Held, ...], *, url: str, lost: OnLost, renewed: OnRenewed
) -> Renewing:
    references = tuple(one.reference for one in group)
    leases = tuple(one.lease.released.lease_id for one in group)
    try:
        # on_lost is called when the lease ends, not after waiting for an answer.
        seconds = max(LEAST_SECONDS, min(one.left() for one in group))
        received = yield from _requested(KeyRequest(references=references, renews=leases, seconds=seconds))
    except AttestError as exc:
        if not _is_final(exc):
            for held in holdings.delay(group, _for_program(exc, url=url)):
                _lose(holdings, held, held.ended(_for_program(exc, url=url)), lost)
        elif len(group) == 1:
            _lose(holdings, group[0], _refusal(group[0], exc), lost)
        else:
            # One of them is the cause, and must not affect the others.
            for one in group:
                yield from _renew_group(holdings, (one,), url=url, lost=lost, renewed=renewed)
        return
    if received is not None:
        holdings.take(references, received.keys, received.begun)
        for held in group:
            renewed(held)


def _requested(wanted: KeyRequest) -> Generator[KeyRequest, Received | None, Received | None]:
    """Request keys, and again without leases if the leases no longer exist."""
    try:
        return (yield wanted)
    except ReleaseRefusedError as exc:
        if exc.code not in _GONE:
            raise
    return (yield KeyRequest(references=wanted.references, seconds=wanted.seconds))


def _is_final(error: AttestError) -> bool:
    """Return True if the service itself refuses. Other failures (no answer, or another service's) may pass."""
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
    """Call the program's callback first, then overwrite the key."""
    holdings.lose(held, error)
    lost(held, error)
    holdings.wipe(held)


def _for_program(error: AttestError, *, url: str) -> AttestError:
    """Return the program's error in place of a protocol error."""
    if isinstance(error, ServiceNotGenuineError | ServiceUnreachableError | ReleaseRefusedError):
        return error
    if isinstance(error, AppraisalError | EvidenceError | VerificationError):
        return ServiceNotGenuineError(error, url=url)
    return error
