"""Where blocking work is done: pools of the service's own, so that none of it takes the threads that keys need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TypeVar

from rag_demo.enclave.service.settings import ServiceLimits

__all__ = ["Threads", "in_thread"]

_T = TypeVar("_T")


async def in_thread(threads: Executor, work: Callable[[], _T]) -> _T:
    """Do something in a thread; whoever gives up waiting leaves it to end by itself."""
    return await asyncio.get_running_loop().run_in_executor(threads, work)


class Threads:
    """The pools.

    Args:
        limits: of the service.
    """

    def __init__(self, limits: ServiceLimits) -> None:
        """Start no thread yet."""
        self.uploads = ThreadPoolExecutor(limits.uploads, thread_name_prefix="rag-upload")
        self.questions = ThreadPoolExecutor(min(limits.questions, 8), thread_name_prefix="rag-question")

    def close(self) -> None:
        """Begin nothing any more; what runs notices that its life is over."""
        self.uploads.shutdown(wait=False, cancel_futures=True)
        self.questions.shutdown(wait=False, cancel_futures=True)
