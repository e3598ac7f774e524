"""The common part of both kinds of session: settings, keys, the protocol, and handling of forks."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

from attest.errors import AttestError, LeaseLostError, ServiceUnreachableError
from attest.policy.loader import Policy
from attest.release.exchange import Attester, Exchange, Steps
from attest.release.mutual_attestation import ProvenService, ServiceExpectation
from attest.release.names import KeyReference
from attest.release.notes import VerifierKey
from attest.release.released_key import ReleasedKey
from attest.release.transport import CONNECT_SECONDS, Timeouts
from attest.release.wire import MAX_KEYS
from attest.session.connection import attester_of, expectation_of, guarded, watch_of
from attest.session.held_keys import Holdings
from attest.session.key import Held, SessionKey
from attest.session.schedule import SYSTEM_TIMING, Deadline, SessionTiming
from attest.session.settings import SessionSettings, effective_settings
from attest.session.steps import KeyRequest, Renewing, renew

OnLost = Callable[[SessionKey, LeaseLostError], object]
OnRenewed = Callable[[SessionKey], object]
log = logging.getLogger("attest.session")
_Client = TypeVar("_Client")


class BaseSession(ABC, Generic[_Client]):
    """The parts of ``Session`` and ``AsyncSession`` that do not wait; see ``Session`` for the arguments."""

    _connects_at_once: ClassVar[bool] = False
    """Make the HTTP client with the session, so that a faulty setting shows at once."""

    def __init__(
        self,
        url: str | None = None,
        *,
        service: VerifierKey | str | Path | None = None,
        policy: Policy | ServiceExpectation | str | Path | None = None,
        tls_ca: str | Path | None = None,
        log_memory: str | Path | None = None,
        timeout: float | None = None,
        settings: SessionSettings | None = None,
        attester: Attester | None = None,
        on_lost: OnLost | None = None,
        on_renewed: OnRenewed | None = None,
        background: bool = True,
        http: Callable[[], _Client] | None = None,
        timing: SessionTiming = SYSTEM_TIMING,
    ) -> None:
        """Load the settings; no request is sent yet."""
        policy_file, stated = (policy, None) if isinstance(policy, str | Path) else (None, policy)
        loaded = effective_settings(
            settings,
            url=url,
            key=None if isinstance(service, Path) else service,
            key_file=service if isinstance(service, Path) else None,
            policy=policy_file,
            tls_ca=tls_ca,
            log_memory=log_memory,
            timeout_seconds=timeout,
        )
        self.settings = loaded
        """The effective settings with their origins."""
        self._expect = expectation_of(loaded, stated)
        self._attester = guarded(attester or attester_of(loaded))
        self._on_lost = on_lost
        self._on_renewed = on_renewed
        self._timing = timing
        self._holdings = Holdings(timing)
        self._exchange = self._new_exchange()
        self._closing = threading.Event()
        self._background = background
        self._open_http = http or self._own_client
        self._http: _Client | None = self._open_http() if self._connects_at_once else None
        self._reset()
        _SESSIONS.add(self)

    @abstractmethod
    def _own_client(self) -> _Client:
        """Return an HTTP client for the settings."""

    @abstractmethod
    def _reset(self) -> None:
        """Make what cannot be shared by a fork: events, locks, and the task or thread that renews."""

    @property
    def held(self) -> tuple[SessionKey, ...]:
        """The currently usable keys."""
        return tuple(one.key for one in self._holdings.held())

    @property
    def proven(self) -> ProvenService | None:
        """Last proof of the service's machine; None before it, or without an expectation."""
        return self._exchange.proven

    def after_fork(self) -> None:
        """Start again in a child process, with its own connection and leases.

        Locks and events are new: threads of the parent may hold the old ones.
        """
        was_closed, self._closing = self._closed, threading.Event()
        if was_closed:
            self._closing.set()
        self._holdings.after_fork(_lost_by_fork)
        self._exchange = self._new_exchange()
        self._http = None  # not closed: the connection is the parent's
        self._reset()

    def _new_exchange(self) -> Exchange:
        return Exchange(service=self.settings.service, watch=watch_of(self.settings), expect=self._expect)

    def _client(self) -> _Client:
        if self._http is None:
            self._http = self._open_http()
        return self._http

    def _renewal(self) -> Renewing:
        self._require_open()
        return renew(self._holdings, url=self.settings.url, lost=self._lost, renewed=self._renewed)

    def _release(self, wanted: KeyRequest) -> Steps[tuple[ReleasedKey, ...]]:
        return self._exchange.release(
            wanted.key_ids, attester=self._attester, key=self._holdings.recipient, renews=wanted.renews
        )

    def _patience(self, deadline: Deadline) -> Timeouts:
        """Return the time limits of one request within a deadline."""
        seconds = self.settings.timeout_seconds
        return Timeouts(seconds=seconds, connect_seconds=min(CONNECT_SECONDS, seconds), left=deadline.left)

    def _deadline(self, timeout: float | None = None, *, at_most: float | None = None) -> Deadline:
        """Return the deadline of a call that starts now."""
        seconds = self.settings.timeout_seconds if timeout is None else timeout
        return self._timing.deadline(seconds if at_most is None else min(seconds, at_most))

    @property
    def _closed(self) -> bool:
        return self._closing.is_set()

    def _require_open(self) -> None:
        if self._closed:
            raise ValueError("the session is closed")

    def _busy(self, deadline: Deadline) -> ServiceUnreachableError:
        return ServiceUnreachableError(
            f"no key from {self.settings.url} within {deadline.seconds:g} s: another request was under way",
            url=self.settings.url,
            tried=(),
        )

    def _failure(self, exc: Exception) -> AttestError:
        """Return the error of a failed renewal; an unexpected failure is retried like any other.

        Raises:
            ValueError: the session was closed in the meantime, which is the cause.
        """
        if isinstance(exc, AttestError):
            return exc
        self._require_open()
        log.error("a renewal failed", exc_info=exc)
        return AttestError(
            f"asking failed by {type(exc).__name__}",
            code="session-renewal-failed",
            hint="this is an internal error of attest or of the session's arguments: see the log of attest.session",
        )

    def _lost(self, held: Held, error: LeaseLostError) -> None:
        log.warning("%s is lost: %s [%s, %s]", held.reference, error.message, error.code, error.got)
        if self._on_lost is not None:
            self._call_back(self._on_lost, held.key, error)

    def _renewed(self, held: Held) -> None:
        log.debug("%s is renewed", held.reference)
        if self._on_renewed is not None:
            self._call_back(self._on_renewed, held.key)

    @staticmethod
    def _call_back(callback: Callable[..., object], *arguments: object) -> None:
        try:
            callback(*arguments)
        except Exception:  # the program's own code: its failure must not stop other renewals
            log.exception("a callback of the session failed")

    def _end(self) -> None:
        """Mark every key as lost, and overwrite the material."""
        self._closing.set()
        self._holdings.end(_lost_by_closing)

    def __repr__(self) -> str:
        names = ", ".join(str(one.reference) for one in self.held)
        return f"{type(self).__name__}({self.settings.url!r}, {'closed' if self._closed else f'holds [{names}]'})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session does not leave its process")


_SESSIONS: weakref.WeakSet[BaseSession[Any]] = weakref.WeakSet()


def _after_fork() -> None:
    for session in tuple(_SESSIONS):
        session.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def references_of(names: tuple[str, ...], version: int | None = None) -> tuple[KeyReference, ...]:
    """Parse the requested references, without repetition.

    Raises:
        ConfigurationError: an invalid key name.
        ValueError: none, too many for one request, or a version stated twice.
    """
    references = tuple(dict.fromkeys(KeyReference.parse(name) for name in names))
    if not 0 < len(references) <= MAX_KEYS:
        raise ValueError(f"one request asks for 1 to {MAX_KEYS} keys, not {len(references)}")
    if version is None:
        return references
    if references[0].version is not None:
        raise ValueError(f"{names[0]!r} names a version already")
    return (KeyReference.parse(f"{references[0].name}@{version}"),)


def _lost_by_closing(held: Held) -> LeaseLostError:
    return LeaseLostError(
        f"the session that held {held.reference} was closed", code="session-closed", hint="open another session"
    )


def _lost_by_fork(held: Held) -> LeaseLostError:
    return LeaseLostError(
        f"{held.reference} is the parent process's: a lease is not shared by a fork",
        code="session-forked",
        hint="request the key again in this process, which then has its own lease",
    )
