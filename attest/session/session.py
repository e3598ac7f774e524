"""``attest.Session``: keys for a program that blocks, with leases renewed by a thread."""

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
from attest.policy.load import Policy
from attest.release.client import driven
from attest.release.exchange import Attester
from attest.release.mutual import ProvenService, ServiceExpectation
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

__all__ = ["Session"]

JOIN_SECONDS: Final = 5.0
"""How long closing waits for a renewal under way; the keys are gone before."""


class Session(Forkable):
    """Keys from one key-release service, for as long as a program uses them. Safe to use from any number of threads.

    ::

        with attest.Session(url, service=verifier_key) as session:
            key = session.key("llama-70b")
            model = decrypt(weights, key.material)

    What is left out comes from the environment and from ``attest.toml`` (see ``attest.session.settings``), so that in
    an image that is prepared ``attest.Session()`` suffices. Nothing is asked before the first key is.

    Args:
        url: where the service is.
        service: its verifier key, as ``kms init`` printed it: text, or a file (``Path``) with it. Never from itself.
        policy: what the service's own machine has to prove before anything is asked of it (mutual attestation): a
            policy or its file, or everything about it as a ``ServiceExpectation``. None and no setting: nothing.
        tls_ca: who may vouch for its TLS certificate (PEM); None: whom the system trusts.
        log_memory: file that remembers the service's log from one process to the next.
        timeout: seconds for everything that one call does, attempts and pauses included; 30 where nobody says.
        settings: everything of the above in place of it.
        attester: collects the evidence; None is this machine with its GPUs.
        on_lost: called with a key and the reason, before the key is overwritten, in the thread that renews.
        on_renewed: called with each key that has a new lease, in the thread that renews.
        background: whether a thread renews leases. Without it the program calls ``renew()`` in time.
        http: makes the HTTP client in place of one for ``url``; called again in a child process.
        timing: where time and chance come from.

    Raises:
        ConfigurationError: a setting is missing or wrong.
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
        """Read the settings; nothing is asked yet."""
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
        """Return a key that may be used now: the one that is held, or one that is released for this.

        Args:
            name: ``KEY`` or ``TENANT/KEY``, or either with ``@VERSION``.
            version: which version; None follows the one that is current.
            timeout: seconds for this call in place of the session's.

        Raises:
            PolicyNotMetError: this machine is not what the key's policy asks for; see ``failed_checks``.
            KeyUnknownError: there is no such key for this workload.
            ReleaseRefusedError: the service said no for another reason; see ``code``.
            ServiceUnreachableError: the service could not be asked until the time was over.
            ServiceNotGenuineError: what answers is not the configured service, or its machine does not meet the policy.
            CollectionError: this machine gives no evidence.
            EndorsementError: what a vendor says of the service's machine is missing.
            ConfigurationError: what is asked for is no name of a key, or a setting is wrong.
            ValueError: the session is closed, or a version is said twice.
        """
        (found,) = self._obtain(references_of((name,), version), timeout)
        return found

    def keys(self, *names: str, timeout: float | None = None) -> tuple[SessionKey, ...]:
        """Return several keys, in one request as far as they are not held: all of them, or none.

        Args:
            names: 1 to 16, as for ``key``; in this order is the answer, each once.
            timeout: seconds for this call in place of the session's.

        Raises:
            AttestError: as ``key``.
            ValueError: as ``key``; or no name, or too many.
        """
        return self._obtain(references_of(names), timeout)

    @property
    def held(self) -> tuple[SessionKey, ...]:
        """The keys that may be used now."""
        return tuple(one.key for one in self._state.holdings.held())

    @property
    def settings(self) -> SessionSettings:
        """The settings that count, and where each came from."""
        return self._state.settings

    @property
    def proven(self) -> ProvenService | None:
        """What the service proved of its machine; None before that, or where nothing is expected of it."""
        return self._state.proven

    def renew(self) -> float | None:
        """Renew what is due now. The background thread does this; with ``background=False`` the program does.

        Returns:
            in how many seconds there is something to do again; None: nothing is held.

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
                except Exception as exc:  # noqa: BLE001  whoever waits for on_lost must hear of it when the lease ends
                    wanted = steps.throw(self._state.defect(exc))
                else:
                    wanted = steps.send(received)
        return self._state.holdings.seconds_until_due()

    def close(self) -> None:
        """End the thread, and overwrite the keys. Leases end by themselves; the service has no way to end one early."""
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
        """Name the service and what is held."""
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
        """Make one request, when no other is under way and it is still needed."""
        with self._turn(deadline):
            self._state.require_open()
            if not wanted.needed():
                return None
            begun = self._state.timing.moment()
            try:
                keys = driven(self._state.release(wanted), self._client(), patience=self._state.patience(deadline))
            except RuntimeError:  # of a client that was closed meanwhile
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
        """Begin anew in a child process: with a connection, a thread and leases of its own."""
        self._state.after_fork()
        self._http = None  # not closed: the connection is the parent's
        self._wake = threading.Event()
        self._thread = None


def _renewing(session: weakref.ref[Session], wake: threading.Event) -> None:
    """Renew until the session is closed, or nobody has it any more."""
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
