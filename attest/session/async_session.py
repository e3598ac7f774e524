"""``attest.AsyncSession``: the counterpart of ``attest.Session`` for asyncio."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from attest.errors import AttestError, ServiceUnreachableError
from attest.policy.loader import Policy
from attest.release.exchange import Attester, Steps
from attest.release.mutual_attestation import AttestationAnswer, ProvenService, ServiceExpectation
from attest.release.names import KeyReference
from attest.release.notes import VerifierKey
from attest.release.transport import Timeouts, send_async
from attest.session.connection import open_async_http
from attest.session.key import SessionKey
from attest.session.schedule import IDLE_SECONDS, SYSTEM_TIMING, Deadline, SessionTiming
from attest.session.settings import SessionSettings
from attest.session.state import FORKS, Forkable, Given, OnLost, OnRenewed, SessionState, references_of
from attest.session.steps import KeyRequest, Received, obtain, renew

if TYPE_CHECKING:
    import httpx

_T = TypeVar("_T")


class _Done(NamedTuple):
    """Result of a generator: ``StopIteration`` must not leave a thread."""

    value: Any  # Any: result of any steps


class AsyncSession(Forkable):
    """Keys from one key-release service, for a program on asyncio, within one event loop.

    ::

        async with attest.AsyncSession(url, service=verifier_key) as session:
            key = await session.key("llama-70b")
            model = decrypt(weights, key.material)

    Arguments, settings and errors are those of ``Session``. A task renews the leases; callbacks run in the loop.
    Evidence is collected, and answers are checked, in a thread, without blocking the loop. A child process
    after a fork starts anew, on its own loop.
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
        http: Callable[[], httpx.AsyncClient] | None = None,
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
        self._open_http = http or (lambda: open_async_http(self._state.settings))
        self._background = background
        self._http: httpx.AsyncClient | None = None
        self._turn = asyncio.Lock()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        FORKS.add(self)

    # -- keys

    async def key(self, name: str, version: int | None = None, *, timeout: float | None = None) -> SessionKey:  # noqa: ASYNC109  as above
        """Return a currently usable key; arguments and errors as ``Session.key``.

        Raises:
            AttestError: as ``Session.key``.
            ValueError: the session is closed, or a version is stated twice.
        """
        (found,) = await self._obtain(references_of((name,), version), timeout)
        return found

    async def keys(self, *names: str, timeout: float | None = None) -> tuple[SessionKey, ...]:  # noqa: ASYNC109  as above
        """Return several keys, the missing ones in one request; as ``Session.keys``.

        Raises:
            AttestError: as ``Session.key``.
            ValueError: the session is closed; no name, or too many.
        """
        return await self._obtain(references_of(names), timeout)

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

    async def renew(self) -> float | None:
        """Renew the leases that are due; as ``Session.renew``.

        Raises:
            ValueError: the session is closed.
        """
        self._state.require_open()
        steps = renew(self._state.holdings, url=self._state.url, lost=self._state.lost, renewed=self._state.renewed)
        with suppress(StopIteration):
            wanted = next(steps)
            while True:
                try:
                    received = await self._asked(wanted, self._state.deadline(at_most=wanted.seconds))
                except AttestError as exc:
                    wanted = steps.throw(exc)
                except Exception as exc:  # noqa: BLE001  on_lost must still be called when the lease ends
                    wanted = steps.throw(self._state.defect(exc))
                else:
                    wanted = steps.send(received)
        return self._state.holdings.seconds_until_due()

    async def close(self) -> None:
        """Stop the task, and overwrite the keys."""
        if self._state.closed:
            return
        self._state.end()
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        if self._http is not None:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        """Return the session."""
        self._state.require_open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()

    def __repr__(self) -> str:
        """Return a text with the service and the held keys' names."""
        names = ", ".join(str(one.reference) for one in self._state.holdings.held())
        return f"AsyncSession({self._state.url!r}, {'closed' if self._state.closed else f'holds [{names}]'})"

    # -- inside

    async def _obtain(self, references: tuple[KeyReference, ...], seconds: float | None) -> tuple[SessionKey, ...]:
        self._state.require_open()
        deadline = self._state.deadline(seconds)
        steps = obtain(self._state.holdings, references, url=self._state.url, deadline=deadline)
        try:
            step = next(steps)
            while True:
                if isinstance(step, float):
                    await self._pause(step)
                    step = steps.send(None)
                    continue
                try:
                    received = await self._asked(step, deadline)
                except AttestError as exc:
                    step = steps.throw(exc)
                else:
                    step = steps.send(received)
        except StopIteration as done:
            self._keep_renewing()
            return tuple(held.key for held in done.value)

    async def _asked(self, wanted: KeyRequest, deadline: Deadline) -> Received | None:
        """Send one request at a time, if it is still necessary."""
        async with self._when_its_turn(deadline):
            self._state.require_open()
            if not wanted.needed():
                return None
            begun = self._state.timing.moment()
            steps = self._state.release(wanted)
            keys = await _driven(steps, self._client(), patience=self._state.patience(deadline))
            self._state.require_open()
            return Received(keys=keys, begun=begun)

    @asynccontextmanager
    async def _when_its_turn(self, deadline: Deadline) -> AsyncIterator[None]:
        try:
            await asyncio.wait_for(self._turn.acquire(), timeout=max(0.001, deadline.left()))
        except TimeoutError as exc:
            raise ServiceUnreachableError(
                f"no key from {self._state.url} within {deadline.seconds:g} s: another request was under way",
                url=self._state.url,
                tried=(),
            ) from exc
        try:
            yield
        finally:
            self._turn.release()

    def _client(self) -> httpx.AsyncClient:
        if self._http is None:
            self._http = self._open_http()
        return self._http

    async def _pause(self, seconds: float) -> None:
        await (self._state.timing.pause_async or asyncio.sleep)(seconds)
        self._state.require_open()

    # -- the task

    def _keep_renewing(self) -> None:
        if not self._background or self._state.closed:
            return
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._renewing(), name="attest-session")
        self._wake.set()

    async def _renewing(self) -> None:
        """Renew until the session is closed."""
        while not self._state.closed:
            self._wake.clear()
            try:
                seconds = await self.renew()
            except ValueError:
                # Closed at a moment in which waiting with a deadline loses a cancellation
                # (CPython 3.11, asyncio.wait_for). Closing waits for the end only.
                if self._state.closed:
                    return
                raise
            with suppress(TimeoutError):
                await asyncio.wait_for(
                    self._wake.wait(), IDLE_SECONDS if seconds is None else min(seconds, IDLE_SECONDS)
                )

    def after_fork(self) -> None:
        """Start anew in a child process, with its own connection, task and leases."""
        self._state.after_fork()
        self._http = None  # not closed: the connection is the parent's
        self._turn = asyncio.Lock()
        self._wake = asyncio.Event()
        self._task = None


async def _driven(steps: Steps[_T], http: httpx.AsyncClient, *, patience: Timeouts) -> _T:
    """Execute the steps' requests. Each step runs in a thread: it may collect evidence, or write a file."""
    answer: AttestationAnswer | None = None
    while True:
        found = await asyncio.to_thread(_next, steps, answer)
        if isinstance(found, _Done):
            result: _T = found.value
            return result
        answer = await send_async(http, found, patience=patience)


def _next(steps: Generator[Any, Any, Any], answer: AttestationAnswer | None) -> Any:  # noqa: ANN401  an ``Ask``, or ``_Done``
    try:
        return steps.send(answer)
    except StopIteration as done:
        return _Done(done.value)
