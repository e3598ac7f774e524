"""Thread pools for blocking work, apart from the threads that renew keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TypeVar

from rag_demo.enclave.service.settings import ServiceLimits

_T = TypeVar("_T")


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
