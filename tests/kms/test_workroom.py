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

PLACES = 2


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
        self.end.wait(30)
        with self.lock:
            self.running -= 1
        return "done"


def room(*, seconds: float) -> Workroom:
    class Limits:
        request_seconds = seconds

    return Workroom(settings=cast("Settings", Limits()), limiter=CapacityLimiter(PLACES))


async def timed_out(workroom: Workroom, work: Callable[[], Any]) -> None:
    with pytest.raises(UnavailableError) as caught:
        await workroom.run(work)
    assert caught.value.code == "request-timeout"


async def emptied(workroom: Workroom) -> None:
    while workroom.limiter.borrowed_tokens:  # noqa: ASYNC110  it tells nobody when that changes
        await anyio.sleep(0.005)


def test_work_that_was_given_up_keeps_its_place_until_it_ends() -> None:
    slow = Slow()

    async def main() -> None:
        workroom = room(seconds=0.2)
        async with anyio.create_task_group() as group:
            for _ in range(5 * PLACES):
                group.start_soon(timed_out, workroom, slow)
        assert (slow.begun, slow.running) == (PLACES, PLACES)
        await timed_out(workroom, slow)
        slow.end.set()
        await emptied(workroom)
        assert await workroom.run(lambda: "next") == "next"

    anyio.run(main)
    assert slow.most == PLACES


def test_a_caller_who_goes_away_leaves_no_more_work_than_there_are_places() -> None:
    slow = Slow()

    async def main() -> None:
        workroom = room(seconds=30)
        for _ in range(5):
            with anyio.move_on_after(0.05):
                async with anyio.create_task_group() as group:
                    for _ in range(3):
                        group.start_soon(workroom.run, slow)
        assert slow.begun == PLACES
        slow.end.set()
        await emptied(workroom)

    anyio.run(main)
    assert slow.most == PLACES


def test_who_is_gone_before_the_work_begins_leaves_nothing() -> None:
    slow = Slow()

    async def main() -> None:
        workroom = room(seconds=30)
        for _ in range(3):
            with anyio.CancelScope() as scope:
                scope.cancel()
                await workroom.run(slow)
        assert workroom.limiter.borrowed_tokens == 0

    anyio.run(main)
    assert slow.begun == 0


def test_what_work_returns_and_raises_is_passed_on_and_frees_its_place() -> None:
    def fail() -> None:
        raise LookupError

    async def main() -> None:
        workroom = room(seconds=30)
        for _ in range(3 * PLACES):
            assert await workroom.run(partial(str, 7)) == "7"
            with pytest.raises(LookupError):
                await workroom.run(fail)
        await emptied(workroom)

    anyio.run(main)
