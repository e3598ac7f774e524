"""An event loop whose clock a test sets forward, so that what takes too long need not be waited for."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be set forward."""

    ahead = 0.0

    def time(self) -> float:
        """Return the time of its timers."""
        return super().time() + self.ahead


def played(main: Callable[[Loop], Coroutine[Any, Any, None]]) -> None:
    """Run a story that is given its loop."""
    loop = Loop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main(loop))
