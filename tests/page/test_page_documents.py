"""The documents panel: the list, deletion that is asked back, and the access token."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, FilePayload

from tests.page.browser import Verifier
from tests.page.site import PagedSite, errorless
from tests.page.test_page_states import GATEWAY
from tests.page.threaded import expect
from tests.page.uploading import choose, comes_to_list, is_stored, lists, model_of, names_stored, row, text_file
from tests.page.visits import AXE, Visit, violations
from tests.rag_demo.service.support import machine

pytestmark = pytest.mark.loopback
NAMES = ".stock bdi"
TOKEN = re.compile(r"[\w-]{43}")


def with_documents(context: BrowserContext, site: PagedSite, *names: str) -> Visit:
    visit = Visit(context, site.url)
    visit.accept()
    choose(visit, *(text_file(name) for name in names))
    is_stored(visit, names[-1])
    lists(visit, *names)
    return visit


def saved_token(visit: Visit) -> bytes:
    visit.page.evaluate("document.querySelector('#token').open = true")
    with visit.page.expect_download() as saving:
        visit.page.click("#token-save")
    assert saving.value.suggested_filename == "attest-access-token.json"
    return Path(saving.value.path()).read_bytes()


def load_token(visit: Visit, data: bytes) -> None:
    visit.page.evaluate("document.querySelector('#token').open = true")
    chosen = FilePayload(name="token.json", mimeType="application/json", buffer=data)
    visit.page.set_input_files("#token-file", files=[chosen])


# -- the list


def test_the_list_names_pages_size_and_date_and_survives_a_reload(context: BrowserContext, site: PagedSite) -> None:
    visit = Visit(context, site.url)
    visit.is_in("unknown")
    panel = visit.page.locator("#documents")
    expect(panel).to_contain_text("The list is read from the machine once you accept it.")
    expect(panel).to_contain_text("If you clear this browser, you lose it and with it your documents")
    visit.accept()
    expect(panel).to_contain_text("The service has no documents of yours.")
    assert visit.sealed == 0, "a browser without a token has no documents to ask for"
    choose(visit, text_file("letter.txt", b"The ward has forty beds.\f" + b"The pharmacy opens at eight. " * 50))
    is_stored(visit, "letter.txt")
    lists(visit, "letter.txt")
    facts = r"2 pages · 1.5 kB · stored \w{3} \d{1,2}, 20\d\d, \d{1,2}:\d\d"
    expect(visit.page.locator(".stock small")).to_have_text(re.compile(facts))
    expect(panel).to_contain_text("1 of at most 500")
    sealed = visit.sealed
    visit.page.reload()
    lists(visit, "letter.txt")
    expect(visit.page.locator(".stock small")).to_have_text(re.compile(facts))
    assert visit.sealed == sealed + 1


def test_a_list_that_cannot_be_read_says_so_and_is_read_again(context: BrowserContext, site: PagedSite) -> None:
    visit = with_documents(context, site, "letter.txt")
    visit.page.route(GATEWAY, lambda route: route.fulfill(status=503, body="{}"))
    visit.page.reload()
    visit.is_in("trusted")
    comes_to_list(visit)
    again = visit.page.locator("text=Read the list again")
    expect(again).to_be_visible()
    expect(visit.page.locator("#documents .refused")).to_contain_text(
        "The list could not be read. The service is busy."
    )
    visit.page.unroute_all()
    again.click()
    lists(visit, "letter.txt")
    expect(again).to_be_hidden()


# -- deletion


def test_a_deletion_says_what_it_does_asks_back_and_goes_by_the_keyboard_alone(
    context: BrowserContext, site: PagedSite
) -> None:
    visit = with_documents(context, site, "kept.txt", "gone.txt")
    keyboard, sealed = visit.page.keyboard, visit.sealed
    visit.page.locator("[aria-label='Delete gone.txt']").focus()
    keyboard.press("Enter")
    question = visit.page.locator(".consent")
    expect(question.locator("h3")).to_be_focused()
    expect(question).to_contain_text("Delete gone.txt?")
    expect(question).to_contain_text("The service erases text, passages, search index and name from its database")
    expect(question).to_contain_text("Encrypted copies, such as backups of its operator, stay")
    assert visit.sealed == sealed
    keyboard.press("Escape")
    expect(question).to_have_count(0)
    expect(visit.page.locator("[aria-label='Delete gone.txt']")).to_be_focused()
    assert names_stored(site, visit) == ["kept.txt", "gone.txt"]
    keyboard.press("Enter")
    keyboard.press("Tab")
    expect(visit.page.locator("text=Yes, delete")).to_be_focused()
    keyboard.press("Enter")
    expect(visit.page.locator("#documents [role=status]").first).to_have_text("gone.txt is deleted. 1 of at most 500")
    assert names_stored(site, visit) == ["kept.txt"]
    expect(visit.page.locator("#documents h2")).to_be_focused()


def test_all_are_deleted_at_once_after_a_question(context: BrowserContext, site: PagedSite) -> None:
    visit = with_documents(context, site, "one.txt", "two.txt")
    visit.page.click("text=Delete all")
    expect(visit.page.locator(".consent")).to_contain_text("Delete all documents (2)?")
    visit.page.click("text=Yes, delete")
    expect(visit.page.locator("#documents")).to_contain_text(
        "All your documents are deleted. The service has no documents of yours."
    )
    assert names_stored(site, visit) == []
    expect(visit.page.locator("text=Delete all")).to_be_hidden()


def test_one_that_another_tab_has_deleted_was_not_there_any_more(context: BrowserContext, site: PagedSite) -> None:
    visit = with_documents(context, site, "twice.txt")
    other = Visit(context, site.url)
    other.is_in("trusted")
    comes_to_list(other)
    for one in (other, visit):
        one.page.click("[aria-label='Delete twice.txt']")
        one.page.click("text=Yes, delete")
    expect(other.page.locator("#documents")).to_contain_text("twice.txt is deleted.")
    expect(visit.page.locator("#documents")).to_contain_text("twice.txt was not there any more.")
    expect(visit.page.locator(NAMES)).to_have_count(0)


def test_nothing_is_deleted_on_a_machine_that_is_refused(context: BrowserContext, site: PagedSite) -> None:
    visit = with_documents(context, site, "kept.txt")
    visit.page.click("[aria-label='Delete kept.txt']")
    site.machine.now = machine().with_other_image()
    visit.again()
    visit.is_in("refused")
    expect(visit.page.locator("[aria-label='Delete kept.txt']")).to_be_disabled()
    sealed = visit.sealed
    visit.page.click("text=Yes, delete")
    expect(visit.page.locator("#documents .refused")).to_contain_text("The machine is not accepted now.")
    assert visit.sealed == sealed


# -- the token


def test_a_token_opens_the_documents_in_another_browser(
    in_browser: Verifier, context: BrowserContext, site: PagedSite
) -> None:
    said: list[str] = []
    context.on("console", lambda message: said.append(message.text))
    visit = with_documents(context, site, "letter.txt")
    data = saved_token(visit)
    found = json.loads(data)
    assert found | {"token": ""} == {"schema": "attest.access-token/1", "service": site.url.rstrip("/"), "token": ""}
    assert TOKEN.fullmatch(found["token"])
    assert not any(found["token"] in one for one in [*visit.asked, *said, visit.page.url, visit.page.content()])
    with errorless(in_browser, site) as elsewhere:
        other = Visit(elsewhere, site.url)
        other.is_in("unknown")
        load_token(other, data)
        expect(other.page.locator("#token-told")).to_have_text("This browser has the token of the file now.")
        assert other.sealed == 0
        other.accept()
        lists(other, "letter.txt")
        load_token(other, data)
        expect(other.page.locator("#token-told")).to_have_text("This browser has that token already.")
        other.page.reload()
        lists(other, "letter.txt")


def test_a_token_takes_the_place_of_another_only_after_a_question(context: BrowserContext, site: PagedSite) -> None:
    visit = with_documents(context, site, "letter.txt")
    mine = saved_token(visit)
    another = json.dumps(json.loads(mine) | {"token": "A" * 42 + "E"}).encode()
    load_token(visit, another)
    question = visit.page.locator(".consent")
    expect(question).to_contain_text("this browser opens them no more. Save the present token first")
    question.locator("text=Keep").click()
    assert saved_token(visit) == mine
    load_token(visit, another)
    question.locator("text=Yes, replace it").click()
    expect(visit.page.locator(NAMES)).to_have_count(0)
    expect(visit.page.locator("#documents")).to_contain_text("The service has no documents of yours.")
    load_token(visit, mine)
    question.locator("text=Yes, replace it").click()
    lists(visit, "letter.txt")


def test_a_file_that_is_no_token_of_this_service_is_not_loaded(context: BrowserContext, site: PagedSite) -> None:
    visit = Visit(context, site.url)
    visit.is_in("unknown")
    told = visit.page.locator("#token-told")
    visit.page.evaluate("document.querySelector('#token').open = true")
    visit.page.click("#token-save")
    expect(told).to_have_text("There is no token yet: it is made with the first message.")
    token: dict[str, Any] = {"schema": "attest.access-token/1", "service": site.url.rstrip("/"), "token": "A" * 43}
    for wrong in (
        b"secret words",
        b"null",
        json.dumps(token | {"schema": "attest.policy/1"}).encode(),
        json.dumps(token | {"token": "A" * 42}).encode(),
        json.dumps(token).encode() + b" " * 5000,
    ):
        visit.page.evaluate("document.querySelector('#token-told').textContent = ''")
        load_token(visit, wrong)
        expect(told).to_have_text("Not loaded: the file holds no access token of this page.")
    load_token(visit, json.dumps(token | {"service": "https://other.example"}).encode())
    expect(told).to_have_text("Not loaded: the token is for another service, https://other.example.")
    assert visit.page.evaluate("Object.keys(localStorage).filter((name) => name.includes('token'))") == []


def test_no_token_is_loaded_while_documents_are_on_their_way(context: BrowserContext, site: PagedSite) -> None:
    visit = Visit(context, site.url)
    visit.accept()
    with model_of(site) as model:
        model.stops()
        choose(visit, text_file("mine.txt"))
        model.is_at_work()
        load_token(visit, saved_token(visit))
        expect(visit.page.locator("#token-told")).to_contain_text("documents are on their way")


# -- for everybody


def test_the_panel_speaks_the_language_of_the_browser(in_browser: Verifier, site: PagedSite) -> None:
    with errorless(in_browser, site, locale="de-DE") as context:
        visit = Visit(context, site.url)
        visit.accept()
        choose(visit, text_file("brief.txt"))
        lists(visit, "brief.txt")
        assert "Ein Dokument hat höchstens 4,2 MB." in visit.text("#limits")
        facts = r"1 Seite · 53 Byte · gespeichert \d\d\.\d\d\.20\d\d, \d\d:\d\d"
        expect(visit.page.locator(".stock small")).to_have_text(re.compile(facts))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_panel_and_the_uploads(
    scheme: Any,  # noqa: ANN401  a literal of the driver
    context: BrowserContext,
    site: PagedSite,
) -> None:
    if not AXE.is_file() and os.environ.get("ATTEST_REQUIRE_BROWSER") != "1":
        pytest.skip("axe-core is not installed: make page")
    visit = Visit(context, "about:blank")
    visit.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    visit.page.goto(site.url)
    visit.accept()
    choose(
        visit, text_file("Entlassungsbrief vom 5. Juni 2026, Station 4.txt"), text_file("photo.png", kind="image/png")
    )
    expect(visit.page.locator("#uploads .refused")).to_have_count(1)
    lists(visit, "Entlassungsbrief vom 5. Juni 2026, Station 4.txt")
    with model_of(site) as model:
        model.stops()
        choose(visit, text_file("on-its-way.txt"), text_file("queued.txt"))
        model.is_at_work()
        expect(row(visit, "on-its-way.txt")).to_contain_text(re.compile("page 1 of 1|passage 0 of 1"))
        visit.page.click("text=Delete all")
        expect(visit.page.locator(".consent h3")).to_be_focused()
        for width, height in ((390, 844), (1440, 900)):
            visit.page.set_viewport_size({"width": width, "height": height})
            assert violations(visit.page) == []
            assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
            visit.picture(f"uploads-{scheme}-{width}", at="#composer")
            visit.picture(f"documents-{scheme}-{width}", at="#documents")
        visit.page.evaluate("document.querySelector('#token').open = true")
        visit.page.locator("#dropping").evaluate("(one) => { one.hidden = false; one.textContent = 'Drop'; }")
        assert violations(visit.page) == []
