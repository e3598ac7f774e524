"""``attest.Session``: keys for a blocking program, with leases renewed by a thread."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from attest.errors import AttestError, ServiceUnreachableError
from attest.policy.loader import Policy
from attest.release.client import driven
from attest.release.exchange import Attester
from attest.release.mutual_attestation import ProvenService, ServiceExpectation
from attest.release.names import KeyReference
from attest.release.notes import VerifierKey
from attest.session.connection import open_http
from attest.session.key import SessionKey
from attest.session.schedule import IDLE_SECONDS, SYSTEM_TIMING, Deadline, SessionTiming
from attest.session.settings import SessionSettings
from attest.session.state import FORKS, Forkable, Given, OnLost, OnRenewed, SessionState, references_of
from attest.session.steps import KeyRequest, Received, obtain, renew

if TYPE_CHECKING:
    import httpx

JOIN_SECONDS: Final = 5.0
"""Longest wait of ``close`` for a renewal under way; the keys are overwritten before."""


class Session(Forkable):
    """Keys from one key-release service for the life of a program; thread-safe.

    ::

        with attest.Session(url, service=verifier_key) as session:
            key = session.key("llama-70b")
            model = decrypt(weights, key.material)

    Omitted values come from the environment and from ``attest.toml`` (see ``attest.session.settings``), so that
    ``attest.Session()`` suffices in a prepared image. The first request is for the first key.

    Args:
        url: of the service.
        service: its verifier key from ``kms init``: text, or a file (``Path``). Never from the service itself.
        policy: requirements for the service's own machine before any other request (mutual attestation): a
            policy or its file, or a ``ServiceExpectation``. None and no setting: no requirements.
        tls_ca: accepted issuers of its TLS certificate (PEM); None uses the system's.
        log_memory: file with the service's last log checkpoint, across processes.
        timeout: seconds for one call, retries and pauses included; by default 30.
        settings: all of the above in one object.
        attester: collects the evidence; None uses this machine with its GPUs.
        on_lost: called with a key and the reason, before the key is overwritten, in the thread that renews.
        on_renewed: called with each key that has a new lease, in the thread that renews.
        background: renew leases in a thread. Otherwise the program calls ``renew()`` in time.
        http: makes the HTTP client instead of one for ``url``; called again in a child process.
        timing: sources of time and randomness.

    Raises:
        ConfigurationError: a missing or invalid setting.
    """

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
        http: Callable[[], httpx.Client] | None = None,
        timing: SessionTiming = SYSTEM_TIMING,
    ) -> None:
        """Load the settings; no request is sent yet."""
        given = Given(
            url=url,
            service=service,
            policy=policy,
            tls_ca=tls_ca,
            log_memory=log_memory,
            timeout=timeout,
            settings=settings,
            attester=attester,
            on_lost=on_lost,
            on_renewed=on_renewed,
            timing=timing,
        )
        self._state = SessionState(given, environ=os.environ)
        self._open_http = http or (lambda: open_http(self._state.settings))
        self._background = background
        self._http: httpx.Client | None = self._open_http()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        FORKS.add(self)

    # -- keys

    def key(self, name: str, version: int | None = None, *, timeout: float | None = None) -> SessionKey:
        """Return a currently usable key, held already or released by this call.

        Args:
            name: ``KEY`` or ``TENANT/KEY``, or either with ``@VERSION``.
            version: of the key; None follows the current one.
            timeout: seconds for this call instead of the session's.

        Raises:
            PolicyNotMetError: this machine does not meet the key's policy; see ``failed_checks``.
            KeyUnknownError: no such key for this workload.
            ReleaseRefusedError: the service refuses for another reason; see ``code``.
            ServiceUnreachableError: the service was unreachable until the deadline.
            ServiceNotGenuineError: not the configured service, or its machine does not meet the policy.
            CollectionError: this machine gives no evidence.
            EndorsementError: an endorsement of the service's machine is missing.
            ConfigurationError: an invalid key name or setting.
            ValueError: the session is closed, or a version is stated twice.
        """
        (found,) = self._obtain(references_of((name,), version), timeout)
        return found

    def keys(self, *names: str, timeout: float | None = None) -> tuple[SessionKey, ...]:
        """Return several keys, the missing ones in one request: all of them, or none.

        Args:
            names: 1 to 16, as for ``key``; the result has this order, without repetition.
            timeout: seconds for this call instead of the session's.

        Raises:
            AttestError: as ``key``.
            ValueError: as ``key``; or no name, or too many.
        """
        return self._obtain(references_of(names), timeout)

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
        return self._state.proven

    def renew(self) -> float | None:
        """Renew the leases that are due, for programs with ``background=False``.

        Returns:
            seconds until the next action; None without keys.

        Raises:
            ValueError: the session is closed.
        """
        self._state.require_open()
        steps = renew(self._state.holdings, url=self._state.url, lost=self._state.lost, renewed=self._state.renewed)
        received: Received | None = None
        with suppress(StopIteration):
            wanted = next(steps)
            while True:
                try:
                    received = self._asked(wanted, self._state.deadline(at_most=wanted.seconds))
                except AttestError as exc:
                    wanted = steps.throw(exc)
                except Exception as exc:  # noqa: BLE001  on_lost must still be called when the lease ends
                    wanted = steps.throw(self._state.defect(exc))
                else:
                    wanted = steps.send(received)
        return self._state.holdings.seconds_until_due()

    def close(self) -> None:
        """Stop the thread, and overwrite the keys. Leases end by themselves; the service cannot end one early."""
        if self._state.closed:
            return
        self._state.end()
        self._wake.set()
        if self._http is not None:
            self._http.close()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(JOIN_SECONDS)

    def __enter__(self) -> Self:
        """Return the session."""
        self._state.require_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def __repr__(self) -> str:
        """Return a text with the service and the held keys' names."""
        names = ", ".join(str(one.reference) for one in self._state.holdings.held())
        return f"Session({self._state.url!r}, {'closed' if self._state.closed else f'holds [{names}]'})"

    # -- inside

    def _obtain(self, references: tuple[KeyReference, ...], timeout: float | None) -> tuple[SessionKey, ...]:
        self._state.require_open()
        deadline = self._state.deadline(timeout)
        steps = obtain(self._state.holdings, references, url=self._state.url, deadline=deadline)
        try:
            step = next(steps)
            while True:
                if isinstance(step, float):
                    self._pause(step)
                    step = steps.send(None)
                    continue
                try:
                    received = self._asked(step, deadline)
                except AttestError as exc:
                    step = steps.throw(exc)
                else:
                    step = steps.send(received)
        except StopIteration as done:
            self._keep_renewing()
            return tuple(held.key for held in done.value)

    def _asked(self, wanted: KeyRequest, deadline: Deadline) -> Received | None:
        """Send one request at a time, if it is still necessary."""
        with self._turn(deadline):
            self._state.require_open()
            if not wanted.needed():
                return None
            begun = self._state.timing.moment()
            try:
                keys = driven(self._state.release(wanted), self._client(), patience=self._state.patience(deadline))
            except RuntimeError:  # from a client closed in the meantime
                self._state.require_open()
                raise
            self._state.require_open()
            return Received(keys=keys, begun=begun)

    @contextmanager
    def _turn(self, deadline: Deadline) -> Iterator[None]:
        turn = self._state.turn
        if not turn.acquire(timeout=max(0.0, deadline.left())):
            raise ServiceUnreachableError(
                f"no key from {self._state.url} within {deadline.seconds:g} s: another request was under way",
                url=self._state.url,
                tried=(),
            )
        try:
            yield
        finally:
            turn.release()

    def _client(self) -> httpx.Client:
        if self._http is None:
            self._http = self._open_http()
        return self._http

    def _pause(self, seconds: float) -> None:
        if self._state.timing.pause is not None:
            self._state.timing.pause(seconds)
            return
        self._state.closing.wait(seconds)

    # -- the thread

    def _keep_renewing(self) -> None:
        if not self._background or self._state.closed:
            return
        with self._state.starting:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=_renewing, args=(weakref.ref(self), self._wake), name="attest-session", daemon=True
                )
                self._thread.start()
        self._wake.set()

    def after_fork(self) -> None:
        """Start anew in a child process, with its own connection, thread and leases."""
        self._state.after_fork()
        self._http = None  # not closed: the connection is the parent's
        self._wake = threading.Event()
        self._thread = None


def _renewing(session: weakref.ref[Session], wake: threading.Event) -> None:
    """Renew until the session is closed or garbage collected."""
    while True:
        wake.clear()
        found = session()
        if found is None:
            return
        try:
            seconds = found.renew()
        except ValueError:
            return  # closed
        del found
        wake.wait(IDLE_SECONDS if seconds is None else min(seconds, IDLE_SECONDS))
