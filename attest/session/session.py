"""``attest.Session``: keys for a blocking program, with leases renewed by a thread."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, Self

from attest.context_managers import ClosedOnExit
from attest.errors import AttestError
from attest.release.client import driven
from attest.release.names import KeyReference
from attest.session.connection import open_http
from attest.session.key import SessionKey
from attest.session.schedule import IDLE_SECONDS, Deadline
from attest.session.state import BaseSession, references_of
from attest.session.steps import KeyRequest, Received, obtain, resumed

if TYPE_CHECKING:
    import httpx

JOIN_SECONDS: Final = 5.0
"""Longest wait of ``close`` for a renewal under way; the keys are overwritten before."""


class Session(BaseSession["httpx.Client"], ClosedOnExit):
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

    Raises:
        ConfigurationError: a missing or invalid setting.
    """

    _connects_at_once = True
    _lock: threading.Lock
    _starting: threading.Lock
    _wake: threading.Event
    _thread: threading.Thread | None

    def _own_client(self) -> httpx.Client:
        return open_http(self.settings)

    def _reset(self) -> None:
        # One exchange at a time: later callers share the outcome of the first. The log is followed in order.
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._wake = threading.Event()
        self._thread = None

    # -- keys

    def key(self, name: str, version: int | None = None, *, timeout: float | None = None) -> SessionKey:
        """Return a currently usable key, held already or released by this call.

        Args:
            name: ``KEY`` or ``TENANT/KEY``, or either with ``@VERSION``.
            version: None follows the current one.
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

    def renew(self) -> float | None:
        """Renew the leases that are due, for programs with ``background=False``; return the seconds until the next.

        None means that there are no keys.

        Raises:
            ValueError: the session is closed.
        """
        steps = self._renewal()
        outcome: Received | AttestError | None = None
        with suppress(StopIteration):
            while True:
                wanted = resumed(steps, outcome)
                try:
                    outcome = self._released(wanted, self._deadline(at_most=wanted.seconds))
                except Exception as exc:  # noqa: BLE001  on_lost must still be called when the lease ends
                    outcome = self._failure(exc)
        return self._holdings.seconds_until_due()

    def close(self) -> None:
        """Stop the thread, and overwrite the keys. Leases end by themselves; the service cannot end one early."""
        if self._closed:
            return
        self._end()
        self._wake.set()
        if self._http is not None:
            self._http.close()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(JOIN_SECONDS)

    def __enter__(self) -> Self:
        self._require_open()
        return self

    # -- inside

    def _obtain(self, references: tuple[KeyReference, ...], timeout: float | None) -> tuple[SessionKey, ...]:
        self._require_open()
        deadline = self._deadline(timeout)
        steps = obtain(self._holdings, references, url=self.settings.url, deadline=deadline)
        outcome: Received | AttestError | None = None
        try:
            while True:
                step = resumed(steps, outcome)
                if isinstance(step, float):
                    self._pause(step)
                    outcome = None
                else:
                    try:
                        outcome = self._released(step, deadline)
                    except AttestError as exc:
                        outcome = exc
        except StopIteration as done:
            self._keep_renewing()
            return tuple(held.key for held in done.value)

    def _released(self, wanted: KeyRequest, deadline: Deadline) -> Received | None:
        """Send one request at a time, if it is still necessary."""
        with self._turn(deadline):
            self._require_open()
            if not wanted.needed():
                return None
            begun = self._timing.moment()
            try:
                keys = driven(self._release(wanted), self._client(), patience=self._patience(deadline))
            except RuntimeError:  # from a client closed in the meantime
                self._require_open()
                raise
            self._require_open()
            return Received(keys=keys, begun=begun)

    @contextmanager
    def _turn(self, deadline: Deadline) -> Iterator[None]:
        lock = self._lock
        if not lock.acquire(timeout=max(0.0, deadline.left())):
            raise self._busy(deadline)
        try:
            yield
        finally:
            lock.release()

    def _pause(self, seconds: float) -> None:
        if self._timing.pause is not None:
            self._timing.pause(seconds)
        else:
            self._closing.wait(seconds)

    # -- the thread

    def _keep_renewing(self) -> None:
        if not self._background or self._closed:
            return
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=_renewing, args=(weakref.ref(self), self._wake), name="attest-session", daemon=True
                )
                self._thread.start()
        self._wake.set()


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
