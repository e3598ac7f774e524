"""One browser for all tests of the page."""

from collections.abc import Iterator

import pytest
import pytest_socket

from tests.page.browser import Verifier, browser_is_there, verifier


@pytest.fixture(scope="session")
def in_browser() -> Iterator[Verifier]:
    """Give the verifier in a browser; skip without one, or fail where ATTEST_REQUIRE_BROWSER=1 promises it."""
    if not browser_is_there():
        pytest.skip("no Chromium here; on Debian: apt-get install chromium")
    # A fixture of the session is made before the marker of its first test opens the loopback address.
    pytest_socket.enable_socket()
    with verifier() as found:
        yield found
