"""Common state of both kinds of session: settings, keys, the protocol, and handling of forks."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from attest.errors import AttestError, LeaseLostError
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
from attest.session.settings import SessionSettings, load_settings
from attest.session.steps import KeyRequest

OnLost = Callable[[SessionKey, LeaseLostError], object]
OnRenewed = Callable[[SessionKey], object]
log = logging.getLogger("attest.session")


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The arguments of a session; see ``Session``."""

    url: str | None = None
    service: VerifierKey | str | Path | None = None
    policy: Policy | ServiceExpectation | str | Path | None = None
    tls_ca: str | Path | None = None
    log_memory: str | Path | None = None
    timeout: float | None = None
    settings: SessionSettings | None = None
    attester: Attester | None = None
    on_lost: OnLost | None = None
    on_renewed: OnRenewed | None = None
    timing: SessionTiming = SYSTEM_TIMING

    def effective(self, environ: Mapping[str, str]) -> SessionSettings:
        """Return the settings.

        Raises:
            ConfigurationError: as ``load_settings``.
            TypeError: settings together with arguments that are settings.
        """
        is_file = isinstance(self.policy, str | Path)
        values: dict[str, object] = {
            "url": self.url,
            "key": None if isinstance(self.service, Path) else self.service,
            "key_file": self.service if isinstance(self.service, Path) else None,
            "policy": self.policy if is_file else None,
            "tls_ca": self.tls_ca,
            "log_memory": self.log_memory,
            "timeout_seconds": self.timeout,
        }
        if self.settings is None:
            return load_settings(values, environ=environ)
        if any(value is not None for value in values.values()):
            msg = "settings say it all: give them, or the single arguments"
            raise TypeError(msg)
        return self.settings


class SessionState:
    """State of a session; thread-safe.

    Args:
        given: the arguments.
        environ: the environment.
    """

    def __init__(self, given: Given, *, environ: Mapping[str, str]) -> None:
        """Load the settings; no request is sent yet."""
        self.settings = given.effective(environ)
        self.timing = given.timing
        self.url = self.settings.url
        self._expect = expectation_of(self.settings, given.policy if not isinstance(given.policy, str | Path) else None)
        self._attester = guarded(given.attester or attester_of(self.settings))
        self._on_lost = given.on_lost
        self._on_renewed = given.on_renewed
        self.holdings = Holdings(self.timing)
        self.exchange = self._new_exchange()
        # One exchange at a time: later callers share the outcome of the first. The log is followed in order.
        self.turn = threading.Lock()
        self.starting = threading.Lock()
        self.closing = threading.Event()

    def _new_exchange(self) -> Exchange:
        return Exchange(service=self.settings.service, watch=watch_of(self.settings), expect=self._expect)

    @property
    def proven(self) -> ProvenService | None:
        """Last proof of the service's machine; None before it, or without an expectation."""
        return self.exchange.proven

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
        """Whether the session is closed."""
        return self.closing.is_set()

    def require_open(self) -> None:
        """Require an open session.

        Raises:
            ValueError: it is closed.
        """
        if self.closed:
            msg = "the session is closed"
            raise ValueError(msg)

    def defect(self, exc: Exception) -> AttestError:
        """Return the error for an unexpected failure of a renewal, which is retried like any other.

        Raises:
            ValueError: the session was closed in the meantime, which is the cause.
        """
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
            self._told(self._on_lost, held.key, error)

    def renewed(self, held: Held) -> None:
        """Call the program's ``on_renewed``."""
        log.debug("%s is renewed", held.reference)
        if self._on_renewed is not None:
            self._told(self._on_renewed, held.key)

    @staticmethod
    def _told(callback: Callable[..., object], *arguments: object) -> None:
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
        msg = f"one request asks for 1 to {MAX_KEYS} keys, not {len(references)}"
        raise ValueError(msg)
    if version is None:
        return references
    if references[0].version is not None:
        msg = f"{names[0]!r} names a version already"
        raise ValueError(msg)
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
        self._sessions: weakref.WeakSet[Forkable] = weakref.WeakSet()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after)

    def add(self, session: Forkable) -> None:
        self._sessions.add(session)

    def _after(self) -> None:
        for session in tuple(self._sessions):
            session.after_fork()


class Forkable(ABC):
    """A session that can start anew."""

    @abstractmethod
    def after_fork(self) -> None:
        """Start anew in a child process."""

    def __reduce__(self) -> NoReturn:
        """Refuse pickling."""
        msg = "a session does not leave its process"
        raise TypeError(msg)


FORKS = _Forks()
