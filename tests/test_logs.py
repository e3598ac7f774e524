"""What a test does to the root logger ends with it."""

import io
import logging
from contextlib import suppress

from attest.agent.logs import set_up_logs
from tests.conftest import pytest_runtest_protocol


def test_a_logger_that_a_test_set_up_ends_with_it() -> None:
    root = logging.getLogger()
    handlers, level = [*root.handlers], root.level
    around = pytest_runtest_protocol()
    next(around)
    set_up_logs(level=logging.DEBUG, stream=io.StringIO())
    assert (root.handlers, root.level) != (handlers, level)
    with suppress(StopIteration):
        around.send(None)
    assert (root.handlers, root.level) == (handlers, level)
