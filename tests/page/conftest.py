"""One browser for all tests of the page."""

import os
from collections.abc import Iterator
from typing import cast, get_args

import pytest
import pytest_socket

from tests.page.browser import Verifier, browser_is_there, verifier
from tests.page.engines import EngineName, verifier_in


@pytest.fixture(scope="session")
def in_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Verifier]:
    """Give the verifier in a browser; skip without one, or fail where ATTEST_REQUIRE_BROWSER=1 promises it.

    ATTEST_PAGE_ENGINE=firefox, or webkit, puts the questions of these tests to that engine in place of Chromium; those
    that need Playwright fail there.
    """
    if engine := os.environ.get("ATTEST_PAGE_ENGINE"):
        assert engine in get_args(EngineName)
        pytest_socket.enable_socket()
        with verifier_in(cast("EngineName", engine), tmp_path_factory.mktemp(engine)) as other:
            yield other
        return
    if not browser_is_there():
        pytest.skip("no Chromium here; on Debian: apt-get install chromium")
    # A fixture of the session is made before the marker of its first test opens the loopback address.
    pytest_socket.enable_socket()
    with verifier() as found:
        yield found
