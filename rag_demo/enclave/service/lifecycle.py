"""Locked, unlocking, ready, stopped: the state of the service depends on its present keys alone.

::

    locked ──keys released──▶ unlocking ──model and store opened──▶ ready ──a lease lost──▶ stopped
       ▲  │ not released, or not opened: why, pause, again                                     │
       └──┘                                    unlocking ◀──keys released again────────────────┘

``stopped`` is ``locked`` after a life: its keys, weights, vectors and channel keys are wiped, running work has ended,
and the service tries again, with growing pauses, and reports why it does not succeed.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final, TypeVar

from attest.errors import AttestError, LeaseLostError, ReleaseRefusedError
from rag_demo.enclave.errors import RefusedError
from rag_demo.enclave.service.held_keys import HeldKeys, OpenKeyring
from rag_demo.enclave.service.resources import OpenBench, ReadyResources, ReleasedKeys

FIRST_PAUSE_SECONDS: Final = 0.5
CANCEL_SECONDS: Final = 1.0
"""Time for cancelled work to end in order."""
MAX_WHY: Final = 500
MAX_CHECKS: Final = 50
_T = TypeVar("_T")
_chance: Final = random.SystemRandom()
_log = logging.getLogger("rag.enclave")


class LifecycleState(StrEnum):
    """State of the service."""

    LOCKED = "locked"
    UNLOCKING = "unlocking"
    READY = "ready"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingModel:
    """The embedding model in use; ``languages`` as an ``Embedder`` has them."""

    name: str
    dimensions: int
    languages: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The reason why the service is not ready.

    Attributes:
        failed_checks: ids of the checks that failed for this machine, where a service listed them.
    """

    code: str
    detail: str
    failed_checks: tuple[str, ...] = ()

    @staticmethod
    def of(error: BaseException) -> Why:
        """Return the reason in an error; of an unexpected one, its class alone."""
        if not isinstance(error, AttestError):
            return Why(code="rag-defect", detail=f"an internal error of the service: {type(error).__name__}")
        said = next((one for one in (error, error.__cause__) if isinstance(one, ReleaseRefusedError)), None)
        failed = () if said is None else said.failed_check_ids[:MAX_CHECKS]
        return Why(code=error.code, detail=error.message[:MAX_WHY], failed_checks=failed)


class Life:
    """One period of service, from the opening of model and store to the loss of a lease."""

    def __init__(self, bench: ReadyResources) -> None:
        self.bench = bench
        self._over = asyncio.Event()

    @property
    def over(self) -> bool:
        """True once the life is over; safe to use from any thread."""
        return self._over.is_set()

    def end(self) -> bool:
        """End all running work of this life; return true if it had not ended before."""
        was_over = self.over
        self._over.set()
        return not was_over

    async def during(self, work: Coroutine[Any, Any, _T]) -> _T:  # Any: of typeshed
        """Await something while the life lasts; a later result is dropped.

        Raises:
            RefusedError: ``rag-stopped``.
        """
        doing = asyncio.ensure_future(work)
        ending = asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait({doing, ending}, return_when=asyncio.FIRST_COMPLETED)
            if self.over:
                raise stopped()
            return doing.result()
        finally:
            ending.cancel()
            doing.add_done_callback(_unheard)
            if not doing.done():
                doing.cancel()
                await asyncio.wait({doing}, timeout=CANCEL_SECONDS)


@dataclass(slots=True, kw_only=True, eq=False)
class Enclave:
    """The service's one state. To be used from one event loop.

    Attributes:
        open_bench: opens model and store with its keys; runs in a thread.
        unlocked: awaited with the keyring when everything is opened, before the first request is served.
        wiped: called at once when a life is over.
        retry_seconds: longest pause between attempts.
    """

    keyring: OpenKeyring
    open_bench: OpenBench
    unlocked: Callable[[HeldKeys], Awaitable[object]] | None = None
    wiped: Callable[[], object] = lambda: None
    retry_seconds: float = 30.0
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep
    state: LifecycleState = field(default=LifecycleState.LOCKED, init=False)
    why: Why | None = field(default=None, init=False)
    model: EmbeddingModel | None = field(default=None, init=False)
    _life: Life | None = field(default=None, init=False)
    _keyring: HeldKeys | None = field(default=None, init=False)
    _resting: LifecycleState = field(default=LifecycleState.LOCKED, init=False)
    _lost: asyncio.Future[LeaseLostError] | None = field(default=None, init=False)
    _failures: int = field(default=0, init=False)
    _ending: bool = field(default=False, init=False)

    # -- for requests

    def require_ready(self) -> Life:
        """Return the current life.

        Raises:
            RefusedError: ``rag-locked``, ``rag-unlocking`` or ``rag-stopped``.
        """
        keyring, life = self._keyring, self._life
        if life is None or keyring is None or life.over or self.state is not LifecycleState.READY:
            raise stopped() if self.state is LifecycleState.STOPPED else _not_yet(self.state)
        try:
            # A lease may have ended before a timer noticed it.
            keyring.require()
        except LeaseLostError as exc:
            self._lose(exc)
            raise stopped() from exc
        return life

    @property
    def leases(self) -> tuple[tuple[str, datetime], ...]:
        """The name and the end of each lease that this service lives on; none while it asks for keys again."""
        if self._keyring is None or self.state not in {LifecycleState.UNLOCKING, LifecycleState.READY}:
            return ()
        return self._keyring.leases

    # -- living

    def end(self) -> None:
        """Let ``run`` end at its next cancellation, and start nothing more.

        A cancellation alone can get lost where something fails at the same moment (``asyncio.TaskGroup``).
        """
        self._ending = True

    async def run(self) -> None:
        """Run one life after another, until ``end`` and a cancellation."""
        while not self._ending:
            try:
                await self._live()
            except Exception as exc:  # noqa: BLE001  a defect must not leave a service that is locked for ever
                self._rest(_first(exc))
            if not self._ending:
                await self.pause(self._next_pause())

    async def _live(self) -> None:
        self._lost = asyncio.get_running_loop().create_future()
        keyring = self._keyring = self.keyring(lost=self._lose)
        try:
            await keyring.obtain()
            self.state = LifecycleState.UNLOCKING
            _log.info("the keys were released; opening model and database")
            life = self._life = Life(await self._opened(keyring))
            await self._unlock_others(life, keyring)
            keyring.require()
            self._be_ready(life)
            await self._lost
        finally:
            await self._end(keyring)

    async def _opened(self, keyring: HeldKeys) -> ReadyResources:
        material = ReleasedKeys(model=keyring.key("model").material, database=keyring.key("database").material)
        opening = asyncio.ensure_future(asyncio.to_thread(self.open_bench, material))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_late)
            raise

    async def _unlock_others(self, life: Life, keyring: HeldKeys) -> None:
        try:
            if self.unlocked is not None:
                await self.unlocked(keyring)
        finally:
            if life.over:  # lost meanwhile: keys taken after that are wiped as well
                self.wiped()

    def _be_ready(self, life: Life) -> None:
        bench = life.bench
        self.model = EmbeddingModel(
            name=bench.model_name, dimensions=bench.embedder.dimensions, languages=bench.embedder.languages
        )
        self.state, self.why, self._failures = LifecycleState.READY, None, 0
        self._resting = LifecycleState.STOPPED
        _log.info("ready")

    def _lose(self, error: LeaseLostError) -> None:
        """End the life at once; the session overwrites the key when this returns."""
        if self._life is not None and self._life.end():
            self.wiped()
        if self.state is LifecycleState.READY:
            self._rest(error)
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(error)

    def _rest(self, error: BaseException) -> None:
        self.state, self.why = self._resting, Why.of(error)
        self._failures += 1
        # Of an unexpected error the log has its place, and never its text.
        named = {"code": self.why.code}
        if isinstance(error, AttestError):
            _log.error("%s: %s", self.state, self.why.detail, extra={**named, "hint": error.hint})
        else:
            _log.error("%s: %s", self.state, self.why.detail, extra=named, exc_info=error)

    async def _end(self, keyring: HeldKeys) -> None:
        """Overwrite the secrets where possible, and drop the rest."""
        life, self._life, self._keyring = self._life, None, None
        if self.state in {LifecycleState.READY, LifecycleState.UNLOCKING}:
            self.state = self._resting
        if life is not None and life.end():
            self.wiped()
        try:
            if life is not None:
                await asyncio.shield(asyncio.ensure_future(asyncio.to_thread(life.bench.close)))
        except Exception as exc:  # noqa: BLE001  what cannot be closed is dropped
            _log.error("model or database could not be closed", exc_info=exc)
        finally:
            await keyring.close()  # in any case

    def _next_pause(self) -> float:
        doubled: float = FIRST_PAUSE_SECONDS * 2 ** min(max(0, self._failures - 1), 16)
        most = min(self.retry_seconds, doubled)
        return most * (0.5 + 0.5 * _chance.random())


def stopped() -> RefusedError:
    """Return the refusal of work that a lost lease ended."""
    return RefusedError(
        "the service lost a lease of its keys and has stopped",
        code="rag-stopped",
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        hint="GET /v1/state gives the reason; no request in progress is continued",
        retry_seconds=10,
    )


def _not_yet(state: LifecycleState) -> RefusedError:
    return RefusedError(
        "the service has no keys yet" if state is LifecycleState.LOCKED else "the service is being unlocked",
        code="rag-locked" if state is LifecycleState.LOCKED else "rag-unlocking",
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        hint="GET /v1/state gives the reason; in the client, use 'check'",
        retry_seconds=5 if state is LifecycleState.LOCKED else 2,
    )


def _first(error: BaseException) -> BaseException:
    """Return the first error of a group of groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _unheard(doing: asyncio.Future[Any]) -> None:  # Any: the result is ignored
    """Retrieve the exception, so that asyncio does not log it."""
    if not doing.cancelled():
        doing.exception()


def _close_late(opening: asyncio.Future[ReadyResources]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
