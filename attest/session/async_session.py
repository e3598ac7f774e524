"""``attest.AsyncSession``: the counterpart of ``attest.Session`` for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from attest.errors import AttestError
from attest.release.exchange import Steps
from attest.release.mutual_attestation import AttestationAnswer
from attest.release.names import KeyReference
from attest.release.transport import Timeouts, send_async
from attest.session.connection import open_async_http
from attest.session.key import SessionKey
from attest.session.schedule import IDLE_SECONDS, Deadline
from attest.session.state import BaseSession, references_of
from attest.session.steps import KeyRequest, Received, obtain, resumed

if TYPE_CHECKING:
    import httpx

_T = TypeVar("_T")


class _Done(NamedTuple):
    """Result of a generator: ``StopIteration`` must not leave a thread."""

    value: Any  # Any: result of any steps


class AsyncSession(BaseSession["httpx.AsyncClient"]):
    """Keys from one key-release service, for a program on asyncio, within one event loop.

    ::

        async with attest.AsyncSession(url, service=verifier_key) as session:
            key = await session.key("llama-70b")
            model = decrypt(weights, key.material)

    Arguments, settings and errors are those of ``Session``. A task renews the leases; callbacks run in the loop.
    Evidence is collected, and answers are checked, in a thread, without blocking the loop. A child process
    after a fork starts again, on its own loop.
    """

    _turn: asyncio.Lock
    _wake: asyncio.Event
    _task: asyncio.Task[None] | None

    def _own_client(self) -> httpx.AsyncClient:
        return open_async_http(self.settings)

    def _reset(self) -> None:
        self._turn = asyncio.Lock()
        self._wake = asyncio.Event()
        self._task = None

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

    async def renew(self) -> float | None:
        """Renew the leases that are due; as ``Session.renew``.

        Raises:
            ValueError: the session is closed.
        """
        steps = self._renewal()
        outcome: Received | AttestError | None = None
        with suppress(StopIteration):
            while True:
                wanted = resumed(steps, outcome)
                try:
                    outcome = await self._released(wanted, self._deadline(at_most=wanted.seconds))
                except Exception as exc:  # noqa: BLE001  on_lost must still be called when the lease ends
                    outcome = self._failure(exc)
        return self._holdings.seconds_until_due()

    async def close(self) -> None:
        """Stop the task, and overwrite the keys."""
        if self._closed:
            return
        self._end()
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        if self._http is not None:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        self._require_open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # -- inside

    async def _obtain(self, references: tuple[KeyReference, ...], seconds: float | None) -> tuple[SessionKey, ...]:
        self._require_open()
        deadline = self._deadline(seconds)
        steps = obtain(self._holdings, references, url=self.settings.url, deadline=deadline)
        outcome: Received | AttestError | None = None
        try:
            while True:
                step = resumed(steps, outcome)
                if isinstance(step, float):
                    await self._pause(step)
                    outcome = None
                else:
                    try:
                        outcome = await self._released(step, deadline)
                    except AttestError as exc:
                        outcome = exc
        except StopIteration as done:
            self._keep_renewing()
            return tuple(held.key for held in done.value)

    async def _released(self, wanted: KeyRequest, deadline: Deadline) -> Received | None:
        """Send one request at a time, if it is still necessary."""
        async with self._when_its_turn(deadline):
            self._require_open()
            if not wanted.needed():
                return None
            begun = self._timing.moment()
            steps = self._release(wanted)
            keys = await _driven(steps, self._client(), patience=self._patience(deadline))
            self._require_open()
            return Received(keys=keys, begun=begun)

    @asynccontextmanager
    async def _when_its_turn(self, deadline: Deadline) -> AsyncIterator[None]:
        try:
            await asyncio.wait_for(self._turn.acquire(), timeout=max(0.001, deadline.left()))
        except TimeoutError as exc:
            raise self._busy(deadline) from exc
        try:
            yield
        finally:
            self._turn.release()

    async def _pause(self, seconds: float) -> None:
        await (self._timing.pause_async or asyncio.sleep)(seconds)
        self._require_open()

    # -- the task

    def _keep_renewing(self) -> None:
        if not self._background or self._closed:
            return
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._renewing(), name="attest-session")
        self._wake.set()

    async def _renewing(self) -> None:
        """Renew until the session is closed."""
        while not self._closed:
            self._wake.clear()
            try:
                seconds = await self.renew()
            except ValueError:
                # Closed at a moment in which waiting with a deadline loses a cancellation
                # (CPython 3.11, asyncio.wait_for). Closing waits for the end only.
                if self._closed:
                    return
                raise
            with suppress(TimeoutError):
                await asyncio.wait_for(
                    self._wake.wait(), IDLE_SECONDS if seconds is None else min(seconds, IDLE_SECONDS)
                )


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
