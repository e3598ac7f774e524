"""Uploads: what is said before, what is never sent, the queue, its progress, and outages."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import BrowserContext, Route

from rag_demo.enclave.interfaces import IndexedDocument
from rag_demo.enclave.service.ingest import Ingest
from tests.page.site import PagedSite
from tests.page.test_page_states import GATEWAY, OFFER, STOPPED, state_is
from tests.page.threaded import expect
from tests.page.uploading import (
    DROP,
    WATCH,
    Model,
    choose,
    comes_to_list,
    is_stored,
    model_of,
    names_stored,
    row,
    text_file,
)
from tests.page.visits import QUESTION, Visit
from tests.rag_demo.service.parts import MemoryStore
from tests.rag_demo.service.support import machine

pytestmark = pytest.mark.loopback


@pytest.fixture
def model(site: PagedSite) -> Iterator[Model]:
    with model_of(site) as found:
        yield found


@pytest.fixture
def visit(context: BrowserContext, site: PagedSite) -> Visit:
    made = Visit(context, site.url)
    made.accept()
    return made


# -- before anything is sent


def test_kinds_and_limits_and_what_a_scan_needs_are_said_before(context: BrowserContext, site: PagedSite) -> None:
    visit = Visit(context, site.url)
    visit.is_in("unknown")
    expect(visit.page.locator("#limits")).to_have_text(
        "The service reads .pdf .docx .html .htm .xhtml .md .markdown .txt .text. A document has at most 4.2 MB. "
        "It keeps at most 500 documents for you. A scan needs text first: run text recognition (OCR) over it."
    )
    assert "limits" in str(visit.page.get_attribute("#file", "aria-describedby"))


def test_a_document_of_the_wrong_size_or_kind_is_not_sent_and_the_machine_not_asked(visit: Visit) -> None:
    asked = len(visit.asked)
    choose(
        visit,
        text_file("large.txt", b"x" * (4 * 1024 * 1024 + 1)),
        text_file("empty.txt", b""),
        text_file("photo.png", b"\x89PNG\r\n", "image/png"),
        text_file("program", b"\x7fELF\0\0", ""),
        text_file("letter.pdf", b"no PDF", "application/pdf"),
    )
    expect(visit.page.locator("#uploads .refused")).to_have_count(5)
    for name, why in {
        "large.txt": "it has 4.2 MB, and the service takes at most 4.2 MB.",
        "empty.txt": "the file is empty.",
        "photo.png": "the service does not read this kind of file, only .pdf .docx",
        "program": "the service does not read this kind of file",
        "letter.pdf": "its name ends in .pdf, but its content is of another kind.",
    }.items():
        expect(row(visit, name)).to_contain_text(f"Not sent: {why}")
    assert len(visit.asked) == asked


def test_text_whose_name_promises_no_kind_is_sent(visit: Visit) -> None:
    choose(visit, text_file("minutes.2026", kind=""))
    is_stored(visit, "minutes.2026")


def test_a_scan_without_text_is_told_what_it_needs(visit: Visit) -> None:
    choose(visit, text_file("scan.txt", b" \n\n "))
    expect(row(visit, "scan.txt")).to_contain_text("The document has no text, as a scan or a photograph has none. Run")
    expect(row(visit, "scan.txt")).to_contain_text("text recognition (OCR)")


def test_a_collection_that_is_full_says_what_to_do(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    other = IndexedDocument(
        id="0" * 32,
        name="a",
        media_type="text/plain",
        size=1,
        pages=1,
        passages=1,
        added=datetime(2026, 1, 1, tzinfo=UTC),
    )
    monkeypatch.setattr(MemoryStore, "documents", lambda _store, _collection: (other,) * 500)
    choose(visit, text_file("one-more.txt"))
    expect(row(visit, "one-more.txt")).to_contain_text("The service keeps no more documents. Delete one")


# -- the queue


def test_several_are_sent_one_after_the_other_and_each_is_cancelled_by_itself(
    visit: Visit, site: PagedSite, model: Model
) -> None:
    model.stops()
    choose(visit, text_file("first.txt"), text_file("second.txt"), text_file("third.txt"))
    model.is_at_work()
    for name in ("second.txt", "third.txt"):
        expect(row(visit, name)).to_contain_text("waits for its turn")
    visit.picture("uploads-queue", at="#drop")
    # By the keyboard alone; the focus stays where it was.
    visit.page.locator("[aria-label='Cancel second.txt']").focus()
    visit.page.keyboard.press("Enter")
    expect(row(visit, "second.txt")).to_have_text("second.txt: cancelled; nothing of it was sent")
    expect(row(visit, "second.txt")).to_be_focused()
    model.works()
    is_stored(visit, "third.txt")
    is_stored(visit, "first.txt")
    assert names_stored(site, visit) == ["first.txt", "third.txt"]
    assert visit.sealed == 2


def test_one_that_is_cancelled_on_its_way_is_not_kept(
    visit: Visit, site: PagedSite, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, leave = threading.Event(), Ingest.leave

    def leaves(work: Ingest) -> None:
        leave(work)
        left.set()

    monkeypatch.setattr(Ingest, "leave", leaves)
    model.stops()
    choose(visit, text_file("regretted.txt"), text_file("next.txt"))
    model.is_at_work()
    visit.page.click("[aria-label='Cancel regretted.txt']")
    expect(row(visit, "regretted.txt")).to_contain_text(
        "cancelled on its way; it is stored only if the list below names it"
    )
    assert left.wait(60)
    model.works()
    is_stored(visit, "next.txt")
    expect(visit.page.locator(".stock bdi")).to_have_text(["next.txt"])
    assert names_stored(site, visit) == ["next.txt"]


def test_progress_is_told_in_bytes_then_in_passages_then_in_the_time_that_is_left(visit: Visit, model: Model) -> None:
    working = threading.Event()
    # The service tells its progress every 0.2 s.
    model.works(lambda: working.wait(0.25))
    visit.page.evaluate(WATCH)
    choose(visit, text_file("long.txt", b"\n\n".join(b"passage" for _ in range(64))))
    is_stored(visit, "long.txt")
    shown = visit.page.evaluate("globalThis.shown")

    def first(text: str) -> int:
        return next(number for number, one in enumerate(shown) if text in one)

    left = next(one for one in shown if " left" in one)
    assert first("574 bytes of 574 bytes sent") < first("passage 16 of 64") < shown.index(left), shown
    assert "of 64, about 1 second left" in left


def test_files_are_dropped_anywhere_and_only_on_a_machine_that_is_accepted(
    context: BrowserContext, site: PagedSite
) -> None:
    visit = Visit(context, site.url)
    visit.is_in("unknown")
    sign = visit.page.locator("#dropping")
    visit.page.evaluate(DROP, ["h1", "dragover", "early.txt"])
    expect(sign).to_have_text("Nothing is sent now: you accept no machine at this moment.")
    visit.page.evaluate(DROP, ["h1", "drop", "early.txt"])
    expect(row(visit, "early.txt")).to_contain_text("The machine is not accepted now.")
    expect(sign).to_be_hidden()
    visit.accept()
    assert visit.sealed == 0
    visit.page.evaluate(DROP, ["#claims", "dragover", "dropped.txt"])
    expect(sign).to_have_text("Drop: the files are sent sealed to the machine that you accepted.")
    visit.picture("dropping")
    assert visit.page.evaluate(DROP, ["#claims", "drop", "dropped.txt"]) is False
    is_stored(visit, "dropped.txt")
    # A policy that is dropped on its own field is no document.
    assert visit.page.evaluate(DROP, ["#load", "drop", "policy.json"]) is True
    assert visit.page.locator("#uploads > li").count() == 2


# -- outages and refusals


@pytest.mark.parametrize("broken_by", ["a reset", "an answer from elsewhere"])
def test_a_document_whose_connection_breaks_is_kept_and_sent_again(broken_by: str, visit: Visit) -> None:
    broken: list[str] = []

    def once(route: Route) -> None:
        if broken:
            route.continue_()
            return
        broken.append(route.request.url)
        if broken_by == "a reset":
            route.abort("connectionreset")
        else:
            route.fulfill(status=303, headers={"location": "/v1/state"})

    visit.page.route(GATEWAY, once)
    choose(visit, text_file("kept.txt"))
    expect(row(visit, "kept.txt")).to_contain_text("the document is kept here, next try in 1 s")
    is_stored(visit, "kept.txt")


def test_a_document_whose_answer_is_lost_is_sent_again_and_stored_once(visit: Visit) -> None:
    lost: list[int] = []

    def once(route: Route) -> None:
        if lost:
            route.continue_()
            return
        # The service takes all of it and stores it; the connection ends before the page has the answer.
        lost.append(route.fetch().status)
        route.abort("connectionreset")

    visit.page.route(GATEWAY, once)
    choose(visit, text_file("once.txt"))
    expect(row(visit, "once.txt")).to_contain_text("the document is kept here, next try in 1 s")
    is_stored(visit, "once.txt")
    assert lost == [200]
    expect(visit.page.locator(".stock > li")).to_have_count(1)
    visit.page.reload()
    visit.is_in("trusted")
    comes_to_list(visit)
    expect(visit.page.locator(".stock > li")).to_have_count(1)


def test_a_document_waits_for_a_service_that_is_silent_or_has_stopped(visit: Visit) -> None:
    visit.page.route(OFFER, lambda route: route.abort("connectionrefused"))
    choose(visit, text_file("kept.txt"))
    expect(row(visit, "kept.txt")).to_contain_text("the document is kept here: the service gives no answer now.")
    visit.page.unroute_all()
    state_is(visit.page, STOPPED)
    visit.again()
    visit.is_in("stopped")
    expect(row(visit, "kept.txt")).to_contain_text("nothing of it is sent now: the service has stopped.")
    assert visit.sealed == 0
    visit.page.unroute_all()
    visit.again()
    is_stored(visit, "kept.txt")


def test_a_document_on_its_way_to_a_machine_that_is_refused_waits_until_that_is_accepted(
    visit: Visit, site: PagedSite, model: Model
) -> None:
    model.stops()
    choose(visit, text_file("secret.txt"))
    model.is_at_work()
    site.machine.now = machine().with_other_image()
    visit.again()
    visit.is_in("refused")
    expect(row(visit, "secret.txt")).to_contain_text(
        "nothing of it is sent now: the machine was refused. It is sent once you accept the machine."
    )
    model.works()
    sealed = visit.sealed
    visit.again()
    visit.is_in("refused")
    assert visit.sealed == sealed
    visit.picture("upload-kept", at="#drop")
    visit.accept("accept")
    is_stored(visit, "secret.txt")


def test_a_document_that_waits_for_a_machine_can_be_cancelled(visit: Visit, site: PagedSite) -> None:
    site.machine.now = machine().with_other_image()
    choose(visit, text_file("secret.txt"))
    expect(row(visit, "secret.txt")).to_contain_text("the machine was refused")
    visit.page.click("[aria-label='Cancel secret.txt']")
    expect(row(visit, "secret.txt")).to_contain_text("cancelled; nothing of it was sent")
    visit.accept("accept")
    choose(visit, text_file("next.txt"))
    is_stored(visit, "next.txt")
    assert names_stored(site, visit) == ["next.txt"]
    assert visit.sealed == 1


# -- questions


def test_a_question_without_an_answer_returns_to_its_field(visit: Visit) -> None:
    visit.page.route(GATEWAY, lambda route: route.abort("connectionreset"))
    visit.asks()
    expect(visit.page.locator("#question")).to_have_value(QUESTION)
    expect(visit.page.locator("#log")).to_contain_text("Your question stands in its field again.")
    # One that is typed meanwhile is not overwritten.
    visit.page.evaluate(
        "document.querySelector('#composer').requestSubmit();document.querySelector('#question').value = 'Another one?'"
    )
    expect(visit.page.locator("#log .refused")).to_have_count(2)
    expect(visit.page.locator("#question")).to_have_value("Another one?")


def test_text_from_right_to_left_is_shown_so(visit: Visit) -> None:
    choose(visit, text_file("מחלקה.txt", "במחלקה ארבעים מיטות".encode()))
    is_stored(visit, "מחלקה.txt")
    visit.page.fill("#question", "כמה מיטות במחלקה")
    places = ["#question", "#uploads bdi", ".stock bdi"]
    answered = [".asked", "blockquote", "#log ol li > span", ".label bdi", ".cited bdi"]
    direction = "(names) => names.map((name) => getComputedStyle(document.querySelector(name)).direction)"
    assert visit.page.evaluate(direction, places) == ["rtl"] * 3
    visit.page.press("#question", "Enter")
    expect(visit.page.locator("blockquote")).to_contain_text("ארבעים")
    visit.page.evaluate("document.querySelector('#log details').open = true")
    assert visit.page.evaluate(direction, answered) == ["rtl"] * 5
    visit.picture("right-to-left", at="#log")
