"""Limits of concurrent work, for all users together and for each, and the thread pools of blocking work.

The limits are called from one event loop, and no call waits. The pools are apart from the threads that renew keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from http import HTTPStatus
from typing import TypeVar

from attest.concurrency import ConcurrencyLimit
from rag_demo.enclave.errors import RefusedError
from rag_demo.enclave.service.settings import ServiceLimits

_T = TypeVar("_T")


def take_turn(limit: ConcurrencyLimit, user: bytes, what: str) -> Callable[[], None]:
    """Take a turn; return what gives it back, once, however often it is called.

    Raises:
        RefusedError: ``rag-too-busy``.
    """
    if not limit.acquire(user):
        if limit.of(user) >= limit.each:
            raise busy(f"{limit.each} of your {what} are in progress")
        raise busy(f"{limit.total} {what} are in progress")
    given_back = False

    def give_back() -> None:
        nonlocal given_back
        if not given_back:
            given_back = True
            limit.release(user)

    return give_back


def busy(problem: str) -> RefusedError:
    """Return the refusal above the limit of concurrent work."""
    return RefusedError(
        problem,
        code="rag-too-busy",
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        hint="try again when one of them has ended",
        retry_seconds=2,
    )


def too_often(seconds: float) -> RefusedError:
    """Return the refusal of a user above the rate limit."""
    wait = max(1, int(seconds) + 1)
    return RefusedError(
        f"too many requests; wait {wait} s",
        code="rag-rate-limited",
        status=HTTPStatus.TOO_MANY_REQUESTS,
        retry_seconds=wait,
    )


async def in_thread(threads: Executor, work: Callable[[], _T]) -> _T:
    """Run a function in a thread; a cancelled caller leaves it to end by itself."""
    return await asyncio.get_running_loop().run_in_executor(threads, work)


class Threads:
    """The pools."""

    def __init__(self, limits: ServiceLimits) -> None:
        self.uploads = ThreadPoolExecutor(limits.uploads, thread_name_prefix="rag-upload")
        self.questions = ThreadPoolExecutor(min(limits.questions, 8), thread_name_prefix="rag-question")

    def close(self) -> None:
        """Start no further work; running work notices the end of its life."""
        self.uploads.shutdown(wait=False, cancel_futures=True)
        self.questions.shutdown(wait=False, cancel_futures=True)
