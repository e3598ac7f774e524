"""A simulated machine that its viewer changes: the page turns red, sends nothing, and turns back."""

from collections.abc import Iterator

import httpx
import pytest
import pytest_socket
from playwright.sync_api import BrowserContext

from attest_simulator.changing_machine import CHANGES
from rag_demo.enclave.service.simulated_changes import CHANGES_PATH, NAMES
from tests.page.browser import Verifier
from tests.page.site import PagedSite, errorless, paged_site
from tests.page.threaded import expect
from tests.page.visits import QUESTION, SHOTS, Visit

pytestmark = pytest.mark.loopback


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagedSite]:
    pytest_socket.enable_socket()
    folder = tmp_path_factory.mktemp("trial")
    with paged_site(folder, change=folder / "machine-change") as found:
        yield found


def test_a_button_turns_the_page_red_and_another_turns_it_back(context: BrowserContext, site: PagedSite) -> None:
    visit = Visit(context, site.url)
    visit.accept()
    visit.asks()
    expect(visit.page.locator("#log")).to_contain_text("Found nothing near enough")
    before = visit.page.locator("#log > div").count()
    visit.page.click("#trial-older-firmware")
    visit.is_in("refused")
    visit.is_closed()
    sealed = visit.sealed
    visit.page.evaluate("document.querySelector('#composer').requestSubmit()")
    expect(visit.page.locator("#trial")).to_contain_text("The machine has changed.")
    SHOTS.mkdir(parents=True, exist_ok=True)
    visit.page.screenshot(path=SHOTS / "trial-refused.png", full_page=True)
    assert (visit.page.locator("#log > div").count(), visit.sealed) == (before, sealed)
    visit.page.click("#trial-back")
    visit.is_in("trusted")
    visit.page.fill("#question", QUESTION)
    expect(visit.page.locator("#trial-older-firmware")).to_be_visible()


def test_the_routes_change_the_file_and_nothing_else(site: PagedSite) -> None:
    def answer(method: str, name: str = "") -> tuple[int, object]:
        given = httpx.request(method, f"{site.site.url}{CHANGES_PATH}{name}")
        return given.status_code, given.json().get("now", given.json().get("code"))

    assert site.change is not None
    assert answer("POST", "/other-gpu") == (200, "other-gpu")
    assert site.change.read_text() == "other-gpu"
    assert answer("GET") == (200, "other-gpu")
    assert answer("POST", "/as-it-was") == (200, None)
    for method, name in (("POST", ""), ("GET", "/other-gpu"), ("POST", "/../x"), ("POST", "/x"), ("DELETE", "")):
        assert answer(method, name) == (404, "rag-route-unknown")
    assert site.change.read_text() == ""
    assert set(NAMES) == set(CHANGES)


def test_a_machine_that_cannot_change_has_no_such_route(
    in_browser: Verifier, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pytest_socket.enable_socket()
    with paged_site(tmp_path_factory.mktemp("fixed")) as fixed, errorless(in_browser, fixed) as context:
        assert httpx.get(f"{fixed.site.url}{CHANGES_PATH}").status_code == 404
        visit = Visit(context, fixed.url)
        visit.accept()
        assert visit.page.locator("#trial").is_hidden()
