"""Work for which nobody waits any more is bounded like all other: its place is free when it has ended."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import anyio
import pytest
from anyio import CapacityLimiter

from kms.api.context import Workroom
from kms.config.settings import Settings
from kms.domain.errors import UnavailableError
from tests.event_loop import Loop, played

PLACES = 2
REQUEST_SECONDS = 60


class Slow:
    """Work that ends when it is told to."""

    def __init__(self) -> None:
        self.running = self.most = self.begun = 0
        self.lock = threading.Lock()
        self.end = threading.Event()

    def __call__(self) -> str:
        with self.lock:
            self.begun += 1
            self.running += 1
            self.most = max(self.most, self.running)
        self.end.wait(120)
        with self.lock:
            self.running -= 1
        return "done"


def room() -> Workroom:
    class Limits:
        request_seconds = REQUEST_SECONDS

    return Workroom(settings=cast("Settings", Limits()), limiter=CapacityLimiter(PLACES))


async def timed_out(workroom: Workroom, work: Callable[[], Any]) -> None:
    with pytest.raises(UnavailableError) as caught:
        await workroom.run(work)
    assert caught.value.code == "request-timeout"


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110  nothing is set where that changes
        await anyio.sleep(0.005)


async def emptied(workroom: Workroom) -> None:
    await until(lambda: not workroom.limiter.borrowed_tokens)


async def begun(workroom: Workroom, slow: Slow, *, waiting: int) -> None:
    """Wait until every place is at work, and so many callers wait for one."""
    await until(lambda: slow.begun == PLACES and workroom.limiter.statistics().tasks_waiting == waiting)


def test_work_that_was_given_up_keeps_its_place_until_it_ends() -> None:
    slow = Slow()

    async def main(loop: Loop) -> None:
        workroom = room()
        async with anyio.create_task_group() as group:
            for _ in range(5 * PLACES):
                group.start_soon(timed_out, workroom, slow)
            await begun(workroom, slow, waiting=4 * PLACES)
            loop.ahead += REQUEST_SECONDS + 1
        assert (slow.begun, slow.running) == (PLACES, PLACES)
        async with anyio.create_task_group() as group:
            group.start_soon(timed_out, workroom, slow)
            await begun(workroom, slow, waiting=1)
            loop.ahead += REQUEST_SECONDS + 1
        slow.end.set()
        await emptied(workroom)
        assert await workroom.run(lambda: "next") == "next"

    played(main)
    assert (slow.begun, slow.most) == (PLACES, PLACES)


def test_a_caller_who_goes_away_leaves_no_more_work_than_there_are_places() -> None:
    slow = Slow()

    async def main(loop: Loop) -> None:
        workroom = room()
        callers = PLACES + 1
        for waiting in (1, callers, callers):
            async with anyio.create_task_group() as group:
                for _ in range(callers):
                    group.start_soon(workroom.run, slow)
                await begun(workroom, slow, waiting=waiting)
                group.cancel_scope.cancel()
        slow.end.set()
        await emptied(workroom)

    played(main)
    assert (slow.begun, slow.most) == (PLACES, PLACES)


def test_who_is_gone_before_the_work_begins_leaves_nothing() -> None:
    slow = Slow()

    async def main(loop: Loop) -> None:
        workroom = room()
        for _ in range(3):
            with anyio.CancelScope() as scope:
                scope.cancel()
                await workroom.run(slow)
        assert workroom.limiter.borrowed_tokens == 0

    played(main)
    assert slow.begun == 0


def test_what_work_returns_and_raises_is_passed_on_and_frees_its_place() -> None:
    def fail() -> None:
        raise LookupError

    async def main(loop: Loop) -> None:
        workroom = room()
        for _ in range(3 * PLACES):
            assert await workroom.run(partial(str, 7)) == "7"
            with pytest.raises(LookupError):
                await workroom.run(fail)
        await emptied(workroom)

    played(main)
