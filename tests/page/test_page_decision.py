"""The decision: facts first, then what is accepted, and nothing less than before without a typed word."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext

from attest.policy import load_policy
from rag_demo.enclave.answers.extracts import Writer
from tests.page.browser import REPOSITORY, Verifier
from tests.page.site import PagedSite, errorless, machine_with_gpu
from tests.page.test_house import _codes
from tests.page.threaded import expect
from tests.page.visits import QUESTION, Visit, load
from tests.pages import page_text
from tests.rag_demo.service.support import machine

pytestmark = pytest.mark.loopback
STRINGS = REPOSITORY / "page" / "src" / "ui" / "strings"


def opened(context: BrowserContext, site: PagedSite) -> Visit:
    visit = Visit(context, site.url)
    visit.is_in("unknown")
    return visit


# -- facts, then the decision


def test_five_facts_and_the_decision_stand_on_a_phone_without_scrolling(
    context: BrowserContext, site: PagedSite
) -> None:
    visit = opened(context, site)
    titles = visit.page.locator("#facts strong").all_inner_texts()
    assert titles == [
        "Genuine chip",
        "Memory sealed, debugging off",
        "GPU protected",
        "Software known",
        "Only this machine can read what you send",
    ]
    box = visit.page.locator("#accept").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 844
    assert visit.page.locator("button.primary:visible").count() == 1
    details = visit.page.locator("#fact-chip dl")
    expect(details).to_be_hidden()
    visit.page.click("#fact-chip summary")
    assert "microcode" in details.inner_text()
    expect(visit.page.locator("#bar")).to_be_visible()
    visit.page.set_viewport_size({"width": 1440, "height": 900})
    expect(visit.page.locator("#bar")).to_be_hidden()


def test_two_clicks_lead_to_the_first_green_and_ask_what_matters_most(context: BrowserContext, site: PagedSite) -> None:
    visit = opened(context, site)
    visit.page.click("#accept")
    asked = visit.page.locator("#confirm li strong").all_inner_texts()
    assert asked == ["A simulated machine", "Software of the machine", "Firmware of the AMD processor (Genoa)"]
    expect(visit.page.locator("#confirm h3")).to_be_focused()
    visit.picture("asked-light-390", at="#confirm")
    visit.page.click("#agree")
    visit.is_in("trusted")
    expect(visit.page.locator("#question")).to_be_focused()


def test_ticking_all_asks_back_and_accepts_nothing_by_itself(context: BrowserContext, site: PagedSite) -> None:
    visit = opened(context, site)
    visit.page.click("#each summary")
    rows = visit.page.locator("#rows > li")
    for text in ("Measured by the AMD processor at the start", "Another digest is other software."):
        expect(rows.filter(has_text=text)).to_have_count(1)
    assert "exactly this" not in visit.text("#rows")
    visit.page.click("#tick")
    assert visit.page.locator("#confirm li").count() == 3
    assert visit.page.locator("#trust input:checked").count() == 0
    visit.page.click("#agree")
    assert visit.page.locator("#trust input:checked").count() == rows.count()
    visit.is_in("unknown")
    visit.page.click("#use")
    visit.is_in("trusted")


def test_the_chain_is_drawn_from_the_root_to_the_key(context: BrowserContext, site: PagedSite) -> None:
    visit = opened(context, site)
    drawn = visit.page.locator("#chain text.major").all_text_contents()
    assert drawn == ["ARK-Genoa", "SEV-Genoa", "SEV-VCEK", "Proof of this machine: cpu", "Key of your messages"]
    site.machine.now = machine_with_gpu()
    visit.again()
    visit.is_in("refused")
    # The service has no endorsements of a GPU: what was refused is not drawn as a proof.
    assert visit.page.locator("#chain svg").count() == 0
    assert visit.page.locator("#fact-gpu").get_attribute("class") == "no"


# -- less than before


def test_older_firmware_is_marked_and_wants_a_typed_word(context: BrowserContext, site: PagedSite) -> None:
    visit = opened(context, site)
    visit.accept()
    site.machine.with_microcode(-1)
    visit.again()
    visit.is_in("refused")
    expect(visit.page.locator("#verdict")).to_be_focused()
    assert visit.page.locator("#fact-chip").get_attribute("class") == "no"
    visit.page.click("#accept")
    said = visit.text("#confirm")
    visit.picture("lowered-light-390", at="#verdict")
    assert re.search(r"older than what you accepted on \d{4}-\d\d-\d\d: microcode \d+", said)
    visit.page.click("#agree")
    assert "type the word “accept” first" in visit.text("#policy-told")
    visit.is_in("refused")
    visit.page.fill("#typed", "yes")
    visit.page.press("#typed", "Enter")
    visit.is_in("refused")
    visit.page.fill("#typed", "Accept")
    visit.page.press("#typed", "Enter")
    visit.is_in("trusted")


def test_forgetting_the_policy_is_no_way_around_the_word(context: BrowserContext, site: PagedSite) -> None:
    visit = opened(context, site)
    visit.accept()
    visit.page.click("#forget")
    visit.is_in("unknown")
    site.machine.with_microcode(-1)
    visit.again()
    visit.is_in("unknown")
    visit.page.click("#accept")
    expect(visit.page.locator("#typed")).to_be_visible()
    assert "older than what you accepted on" in visit.text("#confirm")


def test_newer_firmware_wants_no_word(context: BrowserContext, site: PagedSite) -> None:
    visit = opened(context, site)
    visit.accept()
    visit.page.click("#forget")
    visit.is_in("unknown")
    site.machine.with_microcode(1)
    visit.again()
    visit.is_in("unknown")
    visit.page.click("#accept")
    assert visit.page.locator("#typed").count() == 0


def test_from_red_a_policy_from_a_file_wants_the_word_as_well(context: BrowserContext, site: PagedSite) -> None:
    visit = opened(context, site)
    visit.accept()
    site.machine.now = machine().with_other_image()
    visit.again()
    visit.is_in("refused")
    load(visit, machine().with_other_image().policy(name="theirs"))
    visit.page.click("#agree")
    visit.is_in("refused")
    visit.page.fill("#typed", "accept")
    visit.page.click("#agree")
    visit.is_in("trusted")
    assert "theirs" in visit.text("#policy-shown")


# -- the policy in force


def test_the_policy_in_force_has_name_version_digest_and_author(context: BrowserContext, site: PagedSite) -> None:
    visit = opened(context, site)
    assert "You have accepted nothing yet." in visit.text("#policy-shown")
    visit.accept()
    with visit.page.expect_download() as saving:
        visit.page.click("#export")
    policy = load_policy(Path(saving.value.path()).read_bytes(), name="policy.json")
    shown = visit.text("#policy-shown")
    for text in ("accepted-in-the-page", policy.digest.hex(), "you, in this browser, on"):
        assert text in shown
    load(visit, machine().policy(name="by-the-owner"))
    expect(visit.page.locator("#policy-shown")).to_contain_text("the file p.json, loaded by you on")


def test_a_policy_is_shared_as_a_link_that_holds_it_and_its_digest(context: BrowserContext, site: PagedSite) -> None:
    visit = opened(context, site)
    visit.accept()
    visit.page.click("#share")
    link = visit.page.input_value("#link")
    digest = str(visit.page.locator("#policy-shown code").inner_text())
    assert link.endswith(f"&sha256={digest}")
    visit.page.click("#forget")
    visit.is_in("unknown")
    other = Visit(context, link)
    other.is_in("unknown")
    expect(other.page.locator("#offer")).to_contain_text(digest)
    other.page.click("#use-link")
    other.is_in("trusted")
    assert "a link that you opened on" in other.text("#policy-shown")
    assert "policy=" not in other.page.url
    assert not [one for one in other.asked if "policy=" in one.split("#")[0]], "the policy was sent"
    changed = Visit(context, link[:-1] + ("0" if link[-1] != "0" else "1"))
    expect(changed.page.locator("#offer")).to_contain_text("not the one that it names")


# -- words


def test_every_code_has_a_sentence_of_its_own_kind(in_browser: Verifier) -> None:
    source = (REPOSITORY / "page" / "src" / "ui" / "problem_kinds.ts").read_text()
    named = set(re.findall(r'^  "?([a-z0-9-]+)"?: "\w+",$', source, re.MULTILINE))
    families = re.findall(r"^  \[/(.+)/, \"(\w+)\"\],$", source, re.MULTILINE)
    kinds = {kind for _, kind in families} | set(re.findall(r'^  "?[a-z0-9-]+"?: "(\w+)",$', source, re.MULTILINE))
    documented = set(re.findall(r"^\| ((?:`[a-z0-9-]+`(?:, )?)+)", page_text("errors-sample"), re.MULTILINE))
    sample = {code for row in documented for code in re.findall(r"`((?:rag|document)-[a-z0-9-]+)`", row)}
    without = [
        code
        for code in {*_codes(), *sample}
        if code not in named and not any(re.search(family, code) for family, _ in families)
    ]
    assert without == []
    assert len(families) > 15
    for language in ("en", "de", "fr"):
        text = (STRINGS / language / "checks.ts").read_text()
        assert {kind for kind in kinds if not re.search(rf"^    {kind}: \[", text, re.MULTILINE)} == set()


def test_no_sentence_of_the_page_names_a_document_that_a_reader_cannot_open(
    context: BrowserContext, site: PagedSite
) -> None:
    visit = opened(context, site)
    visit.page.click("text=Every check")
    expect(visit.page.locator("#checks a").first).to_be_visible()
    assert not re.search(r"DESIGN|must-check|specs/|docs/", visit.text("body"))
    links = visit.page.locator("#checks a").all()
    assert links
    assert all(re.match("https://", str(one.get_attribute("href"))) for one in links)


def test_a_changed_report_shows_its_cause_and_no_failures_that_follow_from_it(
    context: BrowserContext, site: PagedSite
) -> None:
    visit = opened(context, site)

    def change(route: object) -> None:
        answer = route.fetch()  # type: ignore[attr-defined]
        offer = answer.json()
        media, value, *rest = offer["evidence"]["cpu"]
        middle = len(value) // 8
        other = "A" if value[middle] != "A" else "B"
        offer["evidence"]["cpu"] = [media, value[:middle] + other + value[middle + 1 :], *rest]
        route.fulfill(response=answer, body=json.dumps(offer))  # type: ignore[attr-defined]

    visit.page.route("**/.well-known/attest-channel*", change)
    visit.again()
    visit.is_in("refused")
    assert "Nothing that you typed or chose was sent to it." in visit.text("#failure")
    visit.page.click("text=Every check")
    expect(visit.page.locator("#checks .sign").first).to_be_visible()
    assert visit.page.locator("#checks .sign.fail").count() <= 1


@pytest.mark.parametrize(
    ("locale", "title", "language"),
    [
        ("de-AT", "Mit wem sprechen Sie?", "de"),
        ("fr", "À qui parlez-vous ?", "fr"),
        ("pl", "Who are you talking to?", "en"),
    ],
)
def test_the_browser_chooses_the_language(
    locale: str, title: str, language: str, in_browser: Verifier, site: PagedSite
) -> None:
    with errorless(in_browser, site, locale=locale, viewport={"width": 390, "height": 844}) as context:
        visit = opened(context, site)
        assert visit.text("h1") == title
        assert visit.page.locator("html").get_attribute("lang") == language
        fetched = (
            "performance.getEntriesByType('resource').filter(({ name }) => /(?:first|seen|rest)-/.test(name)).length"
        )
        assert visit.page.evaluate(fetched) == 2
        box = visit.page.locator("#accept").bounding_box()
        assert box is not None
        visit.picture(f"unknown-{language}")
        assert box["y"] + box["height"] <= 844
        visit.accept()


def test_a_print_is_one_page(context: BrowserContext, site: PagedSite) -> None:
    visit = opened(context, site)
    visit.accept()
    printed = visit.page.pdf(format="A4")
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 1


# -- whose words


def test_what_the_documents_do_not_answer_is_not_called_unknown(context: BrowserContext, site: PagedSite) -> None:
    visit = opened(context, site)
    visit.accept()
    visit.asks()
    expect(visit.page.locator("#log")).to_contain_text("Found nothing near enough to your question in your documents.")
    assert "I don't know" not in visit.text("#log")


def test_quoted_and_written_answers_never_look_alike(context: BrowserContext, site: PagedSite) -> None:
    visit = opened(context, site)
    visit.accept()
    visit.upload()
    expect(visit.page.locator("#uploads")).to_contain_text("stored")
    visit.asks()
    expect(visit.page.locator("#log .label.quoted")).to_have_text("Quoted from ward.txt, page 1")
    answers = site.site.workshop.answers
    answers.writer = Writer(name="small-writer", where="in the same machine", weights="by their digest")
    try:
        visit.page.fill("#question", QUESTION)
        visit.page.press("#question", "Enter")
        label = visit.page.locator("#log .label.written")
        expect(label).to_contain_text("Written by small-writer (in the same machine; by their digest)")
        last = visit.page.locator("#log > div").last
        # [1] is a passage that was shown, [7] is none.
        expect(last.locator(".answer-text a")).to_have_text("[1]")
        expect(last.locator(".answer-text del")).to_have_text("[7]")
        last.locator(".answer-text a").click()
        expect(last.locator("details li").first).to_be_focused()
    finally:
        answers.writer = None
