"""Common state of both kinds of session: settings, keys, the protocol, and handling of forks."""

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


class SessionState:
    """State of a session; thread-safe. The arguments are those of ``Session``."""

    def __init__(
        self,
        settings: SessionSettings,
        *,
        policy: Policy | ServiceExpectation | None,
        attester: Attester | None,
        on_lost: OnLost | None,
        on_renewed: OnRenewed | None,
        timing: SessionTiming,
    ) -> None:
        """Load the policy; no request is sent yet."""
        self.settings = settings
        self.timing = timing
        self.url = settings.url
        self._expect = expectation_of(settings, policy)
        self._attester = guarded(attester or attester_of(settings))
        self._on_lost = on_lost
        self._on_renewed = on_renewed
        self.holdings = Holdings(timing)
        self.exchange = self._new_exchange()
        # One exchange at a time: later callers share the outcome of the first. The log is followed in order.
        self.turn = threading.Lock()
        self.starting = threading.Lock()
        self.closing = threading.Event()

    def _new_exchange(self) -> Exchange:
        return Exchange(service=self.settings.service, watch=watch_of(self.settings), expect=self._expect)

    def release(self, wanted: KeyRequest) -> Steps[tuple[ReleasedKey, ...]]:
        """Return the steps of the protocol for one request."""
        return self.exchange.release(
            wanted.key_ids, attester=self._attester, key=self.holdings.recipient, renews=wanted.renews
        )

    def patience(self, deadline: Deadline) -> Timeouts:
        """Return the time limits of one request within a deadline."""
        seconds = self.settings.timeout_seconds
        return Timeouts(seconds=seconds, connect_seconds=min(CONNECT_SECONDS, seconds), left=deadline.left)

    def deadline(self, timeout: float | None = None, *, at_most: float | None = None) -> Deadline:
        """Return the deadline of a call that starts now."""
        seconds = self.settings.timeout_seconds if timeout is None else timeout
        return self.timing.deadline(seconds if at_most is None else min(seconds, at_most))

    @property
    def closed(self) -> bool:
        """True if the session is closed."""
        return self.closing.is_set()

    def require_open(self) -> None:
        """Require an open session.

        Raises:
            ValueError: it is closed.
        """
        if self.closed:
            raise ValueError("the session is closed")

    def busy(self, deadline: Deadline) -> ServiceUnreachableError:
        """Return the error for a call whose deadline passed before its turn."""
        return ServiceUnreachableError(
            f"no key from {self.url} within {deadline.seconds:g} s: another request was under way",
            url=self.url,
            tried=(),
        )

    def failure(self, exc: Exception) -> AttestError:
        """Return the error of a failed renewal; an unexpected failure is retried like any other.

        Raises:
            ValueError: the session was closed in the meantime, which is the cause.
        """
        if isinstance(exc, AttestError):
            return exc
        self.require_open()
        log.error("a renewal failed", exc_info=exc)
        return AttestError(
            f"asking failed by {type(exc).__name__}",
            code="session-renewal-failed",
            hint="this is a defect of attest or of what was given to the session: the log of attest.session has more",
        )

    def lost(self, held: Held, error: LeaseLostError) -> None:
        """Call the program's ``on_lost``."""
        log.warning("%s is lost: %s [%s, %s]", held.reference, error.message, error.code, error.got)
        if self._on_lost is not None:
            self._call_back(self._on_lost, held.key, error)

    def renewed(self, held: Held) -> None:
        """Call the program's ``on_renewed``."""
        log.debug("%s is renewed", held.reference)
        if self._on_renewed is not None:
            self._call_back(self._on_renewed, held.key)

    @staticmethod
    def _call_back(callback: Callable[..., object], *arguments: object) -> None:
        try:
            callback(*arguments)
        except Exception:  # the program's own code: its failure must not stop other renewals
            log.exception("a callback of the session failed")

    def end(self) -> None:
        """Mark every key as lost, and overwrite the material."""
        self.closing.set()
        self.holdings.end(_closed)

    def after_fork(self) -> None:
        """Start anew in a child process, with new locks: threads of the parent may hold the old ones."""
        self.turn = threading.Lock()
        self.starting = threading.Lock()
        was_closed, self.closing = self.closed, threading.Event()
        if was_closed:
            self.closing.set()
        self.holdings.after_fork(_forked)
        self.exchange = self._new_exchange()


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


def _closed(held: Held) -> LeaseLostError:
    return LeaseLostError(
        f"the session that held {held.reference} was closed", code="session-closed", hint="open another session"
    )


def _forked(held: Held) -> LeaseLostError:
    return LeaseLostError(
        f"{held.reference} is the parent process's: a lease is not shared by a fork",
        code="session-forked",
        hint="ask the session for the key again in this process, which then has a lease of its own",
    )


class _Forks:
    """Registry of sessions that start anew in a child process."""

    def __init__(self) -> None:
        self._sessions: weakref.WeakSet[BaseSession[Any]] = weakref.WeakSet()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after)

    def add(self, session: BaseSession[Any]) -> None:
        self._sessions.add(session)

    def _after(self) -> None:
        for session in tuple(self._sessions):
            session.after_fork()


_FORKS = _Forks()
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
        self._state = SessionState(
            loaded, policy=stated, attester=attester, on_lost=on_lost, on_renewed=on_renewed, timing=timing
        )
        self._background = background
        self._open_http = http or self._own_client
        self._http: _Client | None = self._open_http() if self._connects_at_once else None
        self._reset()
        _FORKS.add(self)

    @abstractmethod
    def _own_client(self) -> _Client:
        """Return an HTTP client for the settings."""

    @abstractmethod
    def _reset(self) -> None:
        """Make what cannot be shared by a fork: events, locks, and the task or thread that renews."""

    @property
    def held(self) -> tuple[SessionKey, ...]:
        """The currently usable keys."""
        return tuple(one.key for one in self._state.holdings.held())

    @property
    def settings(self) -> SessionSettings:
        """The effective settings with their origins."""
        return self._state.settings

    @property
    def proven(self) -> ProvenService | None:
        """Last proof of the service's machine; None before it, or without an expectation."""
        return self._state.exchange.proven

    def after_fork(self) -> None:
        """Start anew in a child process, with its own connection and leases."""
        self._state.after_fork()
        self._http = None  # not closed: the connection is the parent's
        self._reset()

    def _client(self) -> _Client:
        if self._http is None:
            self._http = self._open_http()
        return self._http

    def _renewal(self) -> Renewing:
        self._state.require_open()
        return renew(self._state.holdings, url=self._state.url, lost=self._state.lost, renewed=self._state.renewed)

    def __repr__(self) -> str:
        names = ", ".join(str(one.reference) for one in self.held)
        return f"{type(self).__name__}({self._state.url!r}, {'closed' if self._state.closed else f'holds [{names}]'})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a session does not leave its process")
