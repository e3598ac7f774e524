"""Playwright in a thread of its own.

Its blocking interface keeps an event loop running for as long as the browser lives, and where one runs no other test of
the process can start one. So everything that it does happens in another thread, and tests hold stand-ins.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from playwright import sync_api
from playwright.sync_api import Locator

# A busy machine takes its time; only a failure takes all of it.
sync_api.expect.set_options(timeout=60_000)


class BrowserThread:
    """The thread in which Playwright lives."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="browser")

    def call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:  # noqa: ANN401  any call of Playwright's
        """Call there, and return or raise here; what is Playwright's comes back as a stand-in."""
        plain = [_plain(argument) for argument in arguments]
        options = {name: _plain(value) for name, value in named.items()}
        return self._stood_in(self._pool.submit(function, *plain, **options).result())

    def end(self) -> None:
        """End the thread once nothing is left to do."""
        self._pool.shutdown()

    def _stood_in(self, value: Any) -> Any:  # noqa: ANN401
        if isinstance(value, list):
            return [self._stood_in(member) for member in value]
        return StandIn(self, value) if type(value).__module__.startswith("playwright.") else value


class StandIn:
    """Something of Playwright's: every attribute is read, and every call made, in its thread."""

    def __init__(self, thread: BrowserThread, real: Any) -> None:  # noqa: ANN401
        self._thread = thread
        self._real = real

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        if name in _READS:
            self._thread.call(_wait_for_parts, self._real)
        value = self._thread.call(getattr, self._real, name)
        if not callable(value) or isinstance(value, StandIn):
            return value
        return lambda *arguments, **named: self._thread.call(value, *arguments, **named)

    def __enter__(self) -> Any:  # noqa: ANN401
        return self._thread.call(type(self._real).__enter__, self._real)

    def __exit__(self, *exception: object) -> Any:  # noqa: ANN401
        return self._thread.call(type(self._real).__exit__, self._real, *exception)


_READS = frozenset({"all", "all_inner_texts", "all_text_contents", "count", "inner_text", "is_disabled", "is_visible"})
"""What looks at a page without waiting for anything."""


def _wait_for_parts(real: Any) -> None:  # noqa: ANN401
    """Wait until the page fetches no part to which a person has turned."""
    page = getattr(real, "page", real)
    if isinstance(page, sync_api.Page) and not page.is_closed():
        page.locator("html.fetching").wait_for(state="detached", timeout=60_000)


def _plain(value: Any) -> Any:  # noqa: ANN401
    return value._real if isinstance(value, StandIn) else value  # noqa: SLF001  the other half of this module


def expect(locator: Locator) -> Any:  # noqa: ANN401  what Playwright does not export by name
    """Playwright's assertions, which wait, about a stand-in."""
    thread: BrowserThread = locator._thread  # type: ignore[attr-defined]  # noqa: SLF001  the other half of this module
    return thread.call(sync_api.expect, locator)
