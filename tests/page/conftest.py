"""One browser for all tests of the page."""

import os
from collections.abc import Iterator
from typing import cast, get_args

import pytest
import pytest_socket
from playwright.sync_api import BrowserContext

from tests.page.browser import Verifier, browser_is_there, verifier
from tests.page.engines import EngineName, verifier_in
from tests.page.site import PagedSite, errorless, paged_site


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
        pytest.skip("no Chromium here; on Debian: apt-get install chromium-headless-shell")
    # A fixture of the session is made before the marker of its first test opens the loopback address.
    pytest_socket.enable_socket()
    with verifier() as found:
        yield found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagedSite]:
    """Give a service with the page, for the tests of one file."""
    pytest_socket.enable_socket()
    with paged_site(tmp_path_factory.mktemp("page")) as found:
        yield found


@pytest.fixture
def context(in_browser: Verifier, site: PagedSite) -> Iterator[BrowserContext]:
    """Give a phone that has not seen the service yet. An error of a script or a violation of the CSP fails the test."""
    shape = {"viewport": {"width": 390, "height": 844}, "accept_downloads": True}
    with errorless(in_browser, site, console="Content Security Policy", **shape) as made:
        yield made
