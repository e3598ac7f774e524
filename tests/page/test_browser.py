"""What the browser of these tests must not do to other tests of the same process."""

import asyncio

import pytest

from tests.page.browser import Verifier

pytestmark = pytest.mark.loopback


def test_other_tests_can_run_event_loops_while_a_browser_is_there(in_browser: Verifier) -> None:
    async def answer() -> int:
        await asyncio.sleep(0)
        return 42

    assert in_browser.page.evaluate("6 * 7") == asyncio.run(answer())
