"""The parts of the page in Chromium that come when a person turns to them, and what holds until they are there."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Route, ViewportSize

from tests.page.browser import Verifier
from tests.page.site import PagedSite, errorless
from tests.page.threaded import expect
from tests.page.visits import Visit, held_back, parts_asked, violations

pytestmark = pytest.mark.loopback

TALL = ViewportSize(width=1000, height=4000)


@pytest.fixture
def context(in_browser: Verifier, site: PagedSite) -> Iterator[BrowserContext]:
    with errorless(
        in_browser, site, console="Content Security Policy", viewport={"width": 1000, "height": 800}
    ) as made:
        yield made


def accepted(context: BrowserContext, site: PagedSite, *, uploads: bool = False) -> Visit:
    """Visit a machine that was accepted in an earlier visit, with a document there or none."""
    visit = Visit(context, site.url)
    visit.is_in("unknown")
    visit.accept()
    if uploads:
        visit.upload()
        expect(visit.page.locator("#uploads")).to_contain_text("stored")
    visit.is_quiet()
    visit.asked.clear()
    visit.page.reload()
    visit.is_in("trusted")
    visit.is_quiet()
    return visit


@pytest.mark.parametrize(
    ("element", "part"),
    [
        ("#accept", "trust"),
        ("#each summary", "trust"),
        ("#drop", "documents"),
        ("#documents", "documents"),
        ("#composer", "question"),
        ("#share", "policy_actions"),
        ("details:has(#checks) summary", "checks"),
        ("details:has(#history) summary", "history_view"),
    ],
)
def test_a_part_is_fetched_when_the_pointer_comes_to_its_place(
    context: BrowserContext, site: PagedSite, element: str, part: str
) -> None:
    visit = Visit(context, site.url)
    visit.is_quiet()
    assert part not in parts_asked(visit)
    with visit.page.expect_response(f"**/{part}-*.js"):
        visit.page.locator(element).hover(force=True)
    visit.is_quiet()
    assert parts_asked(visit) >= {part, "rest", "later_style"}


def test_a_part_is_fetched_when_the_keyboard_comes_to_its_place(context: BrowserContext, site: PagedSite) -> None:
    visit = Visit(context, site.url)
    visit.is_quiet()
    with visit.page.expect_response("**/trust-*.js"):
        visit.page.focus("#accept")


def test_a_fold_that_is_opened_says_that_its_part_is_on_its_way(context: BrowserContext, site: PagedSite) -> None:
    visit = Visit(context, site.url)
    visit.is_quiet()
    let_go = held_back(visit, "**/rest-*.js")
    visit.page.click("#each summary")
    expect(visit.page.locator("#each .loading")).to_have_text("The rest of this page is being loaded…")
    assert violations(visit.page) == []
    visit.page.click("#accept")
    expect(visit.page.locator("#decide .loading")).to_be_visible()
    visit.is_closed()
    let_go()
    expect(visit.page.locator("#agree")).to_be_visible()
    expect(visit.page.locator("#rows > li").first).to_be_visible()
    expect(visit.page.locator(".loading")).to_have_count(0)


@pytest.mark.parametrize("missing", ["trust", "rest", "later_style"])
def test_a_missing_part_is_told_when_it_is_needed_and_nothing_can_be_accepted(
    context: BrowserContext, site: PagedSite, missing: str
) -> None:
    visit = Visit(context, site.url)
    visit.is_quiet()
    visit.page.route(f"**/{missing}-*.js", lambda route: route.abort("connectionreset"))
    visit.page.click("#accept")
    expect(visit.page.locator("#failure")).to_contain_text("Nothing can be accepted or sent.")
    expect(visit.page.locator("#accept, #agree, .loading")).to_have_count(0)
    visit.is_closed()
    visit.again()
    visit.is_in("unknown")
    expect(visit.page.locator("#accept")).to_have_count(0)
    assert violations(visit.page) == []
    visit.page.unroute(f"**/{missing}-*.js")
    visit.page.click("#reload")
    visit.is_in("unknown")
    visit.accept()


def test_a_part_that_was_changed_on_the_way_does_not_run_and_sends_nothing(
    context: BrowserContext, site: PagedSite
) -> None:
    def change(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text() + "\n;globalThis.changed = true;")

    visit = accepted(context, site)
    visit.page.route("**/question-*.js", change)
    visit.asks()
    expect(visit.page.locator("#failure")).to_contain_text("Nothing can be accepted or sent.")
    visit.is_closed()
    assert visit.page.evaluate("globalThis.changed") is None
    assert visit.sealed == 0
    assert visit.page.input_value("#question") != ""


def test_the_list_of_documents_is_read_when_a_person_comes_to_it(context: BrowserContext, site: PagedSite) -> None:
    visit = accepted(context, site, uploads=True)
    assert "documents" not in parts_asked(visit)
    expect(visit.page.locator("#documents")).to_contain_text("The list is read from the machine once you come to it.")
    visit.page.mouse.wheel(0, 10)
    visit.page.locator("#documents").scroll_into_view_if_needed()
    expect(visit.page.locator("#documents .stock")).to_contain_text("ward.txt")


def test_a_tall_window_alone_reads_no_list(context: BrowserContext, site: PagedSite) -> None:
    visit = accepted(context, site, uploads=True)
    visit.page.set_viewport_size(TALL)
    visit.page.reload()
    visit.is_in("trusted")
    visit.is_quiet()
    assert "documents" not in parts_asked(visit)
    visit.page.mouse.move(5, 5)
    expect(visit.page.locator("#documents .stock")).to_contain_text("ward.txt")


def test_a_page_that_nobody_has_touched_outlives_the_loss_of_its_network(
    context: BrowserContext, site: PagedSite
) -> None:
    visit = accepted(context, site)
    context.set_offline(True)
    visit.page.evaluate("document.querySelector('#again').click()")
    visit.is_in("unreachable")
    visit.is_closed()
    expect(visit.page.locator("#reload")).to_have_count(0)
    context.set_offline(False)
    visit.page.evaluate("document.querySelector('#again').click()")
    visit.is_in("trusted")
    visit.asks()
    expect(visit.page.locator("#log")).to_contain_text("Sealed to key 0")
