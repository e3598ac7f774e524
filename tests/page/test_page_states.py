"""The states of the page: what each says, looks like and does, so that none is taken for another one."""

import json
import os
import re
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, Route

from attest.page import PageFile, page_files
from attest.page.server import page_server
from tests.page.browser import REPOSITORY, Verifier
from tests.page.served import served
from tests.page.site import PagedSite
from tests.page.test_policy_references import id_of, public_of, signed
from tests.page.threaded import expect
from tests.page.visits import AXE, Visit, load, violations
from tests.rag_demo.service.support import NAME, machine

pytestmark = pytest.mark.loopback
OFFER = "**/.well-known/attest-channel*"
GATEWAY = "**/.well-known/ohttp-gateway"
STOPPED = {"state": "stopped", "why": {"code": "lease-lost", "detail": "the key was taken back"}}
NO_GREEN = """(names) => names.flatMap((name) => [...document.querySelectorAll(name)])
    .map((one) => getComputedStyle(one)).flatMap((style) => [style.color, style.borderTopColor])"""


def state_is(page: Page, change: dict[str, Any]) -> None:
    """Let the service say something else of itself."""

    def handle(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=json.dumps(answer.json() | change))

    page.route("**/v1/state", handle)


def busy(route: Route) -> None:
    route.fulfill(status=503, body="{}")


def enters(visit: Visit, site: PagedSite, phase: str) -> None:
    """Bring an accepted page into a state."""
    if phase == "unreachable":
        visit.page.route(OFFER, busy)
    if phase == "stopped":
        state_is(visit.page, STOPPED)
    if phase == "refused":
        site.machine.with_microcode(-1)
    visit.again()
    visit.is_in(phase)


def accepted(context: BrowserContext, site: PagedSite) -> Visit:
    """Open the page with a machine that was accepted, in this visit or in one before."""
    visit = Visit(context, site.url)
    expect(visit.page.locator("#status:not([data-phase=checking])")).to_be_attached()
    visit.is_whole()
    if visit.page.locator("#accept").count():
        visit.accept()
    visit.is_in("trusted")
    return visit


def test_four_states_share_neither_words_nor_colour_nor_sign(context: BrowserContext, site: PagedSite) -> None:
    seen: list[tuple[str, str, str]] = []

    def look(visit: Visit) -> None:
        colour = visit.page.evaluate("getComputedStyle(document.querySelector('#verdict')).color")
        seen.append((visit.text("#word"), visit.text("#symbol"), colour))

    visit = Visit(context, "about:blank")
    held: list[Route] = []
    visit.page.route(OFFER, lambda route: held.append(route))  # noqa: PLW0108  the driver wants a function
    visit.page.goto(site.url)
    expect(visit.page.locator("#word")).to_have_text("Checking")
    look(visit)
    visit.page.close()
    for phase in ("unreachable", "stopped", "refused"):
        visit = accepted(context, site)
        enters(visit, site, phase)
        visit.is_closed()
        look(visit)
        visit.page.close()
        site.machine.now = machine()
    for column in zip(*seen, strict=True):
        assert len(set(column)) == len(seen), seen
    words = [set(re.findall(r"\w+", word.lower())) for word, _, _ in seen]
    assert all(not one & other for i, one in enumerate(words) for other in words[i + 1 :])


def test_a_simulated_machine_is_never_green_and_never_genuine(context: BrowserContext, site: PagedSite) -> None:
    visit = Visit(context, site.url)
    visit.is_in("unknown")
    for _ in range(2):
        text = visit.text("body").lower()
        assert "genuine," not in text
        assert "the hardware is" not in text
        assert "it proves that the hardware's maker signed" not in text
        assert "simulated" in text
        places = ["#status", "#verdict", "#bar", "#facts .mark", ".pass", "#facts .answer"]
        shown = visit.page.evaluate(NO_GREEN, places)
        assert not {"rgb(22, 101, 52)", "rgb(134, 239, 172)"} & set(shown)
        assert "✓" not in visit.page.title()
        if visit.page.locator("#accept").count():
            visit.accept()


@pytest.mark.parametrize("phase", ["unreachable", "stopped"])
def test_nothing_is_claimed_to_be_proved_while_nothing_is_known(
    phase: str, context: BrowserContext, site: PagedSite
) -> None:
    visit = accepted(context, site)
    enters(visit, site, phase)
    assert "It proves that the hardware's maker" not in visit.text("body")


def test_one_busy_answer_during_an_upload_keeps_the_document_and_concludes_nothing(
    context: BrowserContext, site: PagedSite
) -> None:
    visit = accepted(context, site)
    answered: list[int] = []

    def once(route: Route) -> None:
        if answered:
            route.continue_()
        else:
            answered.append(503)
            busy(route)

    visit.page.route(GATEWAY, once)
    visit.upload()
    expect(visit.page.locator("#uploads")).to_contain_text("the document is kept here, next try in 1 s")
    assert "not what it was" not in visit.text("body")
    assert visit.page.locator("#status").get_attribute("data-phase") == "trusted"
    expect(visit.page.locator("#uploads")).to_contain_text("ward.txt: stored")
    assert answered == [503]


def test_an_upload_outlives_a_service_that_gives_no_proof_for_a_while(context: BrowserContext, site: PagedSite) -> None:
    visit = accepted(context, site)
    visit.page.route(OFFER, busy)
    visit.upload()
    visit.is_in("unreachable")
    assert visit.text("#word") == "Unreachable or busy"
    expect(visit.page.locator("#uploads")).to_contain_text("the document is kept here")
    assert visit.code == "service-busy"
    visit.picture("unreachable")
    visit.page.unroute_all()
    # The page asks again by itself, and then the document goes.
    expect(visit.page.locator("#uploads")).to_contain_text("ward.txt: stored")
    visit.is_in("trusted")


def test_a_key_that_is_taken_back_ends_green_within_one_poll(context: BrowserContext, site: PagedSite) -> None:
    visit = accepted(context, site)
    state_is(visit.page, STOPPED)
    expect(visit.page.locator("#status[data-phase=stopped]")).to_be_attached(timeout=12_000)
    visit.is_closed()
    assert visit.text("#word") == "Service stopped"
    assert "The service says: stopped, the key was taken back." in visit.text("#why")
    visit.picture("stopped")
    visit.page.unroute_all()
    expect(visit.page.locator("#status[data-phase=trusted]")).to_be_attached(timeout=12_000)


def test_a_service_that_is_starting_is_busy_and_not_refused(context: BrowserContext, site: PagedSite) -> None:
    visit = accepted(context, site)
    state_is(visit.page, {"state": "unlocking"})
    visit.again()
    visit.is_in("unreachable")
    assert visit.code == "service-starting"


def test_without_a_script_nothing_is_checked_and_nothing_waits(in_browser: Verifier, site: PagedSite) -> None:
    browser = in_browser.page.context.browser
    assert browser is not None
    made = browser.new_context(java_script_enabled=False)
    page = made.new_page()
    page.goto(site.url)
    text = page.locator("body").inner_text()
    assert "Nothing was checked, and nothing is sent" in text
    assert "Nichts wurde geprüft" in text
    assert "Checking" not in text
    assert "It proves" not in text
    assert page.locator("input:visible, textarea:visible, button:visible").count() == 0
    made.close()


# -- the badge

BADGE = """<!doctype html><html lang="en"><title>Somebody</title>{style}<main><h1>Somebody's page</h1>
<attestation-badge src="{service}" name="rag.example" policy="/policy.json"></attestation-badge></main>
<script type="module" src="/badge.js"></script>"""


def badge_page(site: PagedSite, *, style: str = "") -> dict[str, PageFile]:
    pages = dict(page_files(service=site.url))
    headers = pages["/"].headers
    html = BADGE.format(service=site.url, style=style)
    pages["/"] = PageFile(media_type="text/html", body=html.encode(), headers=headers)
    pages["/policy.json"] = PageFile(media_type="application/json", body=machine().policy(), headers=headers)
    return pages


def test_a_badge_says_whose_policy_it_is_and_what_has_stopped(context: BrowserContext, site: PagedSite) -> None:
    with served(page_server(badge_page(site), port=0)) as url:
        visit = Visit(context, "about:blank")
        visit.page.goto(url)
        badge = visit.page.locator("attestation-badge")
        expect(badge.locator("summary")).to_have_text("≈ Simulated: meets this site's policy")
        assert "your policy" not in str(badge.locator("details").text_content())
        state_is(visit.page, STOPPED)
        visit.page.reload()
        expect(badge.locator("summary")).to_have_text("■ The service has stopped")
        visit.page.unroute_all()
        visit.page.route(OFFER, busy)
        visit.page.reload()
        expect(badge.locator("summary")).to_have_text("↻ Service unreachable or busy")


@pytest.mark.parametrize(("own", "background"), [("", "rgb(255, 255, 255)"), ("dark", "rgb(18, 18, 18)")])
def test_a_badge_follows_the_page_that_it_stands_in_and_not_the_system(
    own: str, background: str, context: BrowserContext, site: PagedSite
) -> None:
    style = f'<meta name="color-scheme" content="{own}">' if own else ""
    with served(page_server(badge_page(site, style=style), port=0)) as url:
        visit = Visit(context, "about:blank")
        visit.page.emulate_media(color_scheme="dark" if own == "" else "light")
        visit.page.goto(url)
        box = visit.page.locator("attestation-badge").locator("details")
        expect(box).to_have_attribute("data-phase", "trusted")
        assert box.evaluate("(one) => getComputedStyle(one).backgroundColor") == background


# -- a genuine machine


def without_the_mark(site: PagedSite) -> dict[str, PageFile]:
    """The page as it shows genuine hardware: its state takes no notice of who signed.

    No evidence of real hardware answers this page's own question, so that only simulated evidence can be shown.
    """
    pages = dict(page_files(service=site.url, name=NAME))
    marked = re.compile(rb"simulated:\w+\.simulated,at:")
    changed = {path: page for path, page in pages.items() if path.endswith(".js") and marked.search(page.body)}
    assert len(changed) == 1
    for path, page in changed.items():
        pages[path] = replace(page, body=marked.sub(b"simulated:!1,at:", page.body))
    html = re.sub(rb' integrity="[^"]+"|<script type="importmap">.*?</script>', b"", pages["/"].body)
    return pages | {"/": replace(pages["/"], body=html)}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_genuine_machine_is_amber_until_it_is_accepted_and_green_then(
    scheme: Any,  # noqa: ANN401  a literal of the driver
    context: BrowserContext,
    site: PagedSite,
) -> None:
    with served(page_server(without_the_mark(site), port=0)) as url:
        visit = Visit(context, "about:blank")
        visit.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        visit.page.goto(url)
        visit.is_in("unknown")
        assert visit.text("#word") == "Genuine, but not yet accepted by you"
        tones = [one.get_attribute("class") for one in visit.page.locator("#facts > li").all()]
        assert tones == ["yes", "yes", "open", "open", "yes"]
        assert "Unknown to us: no signed document vouches for it." in visit.text("#fact-software")
        assert "It proves that the hardware's maker signed" in visit.text("#proved")
        visit.picture(f"genuine-{scheme}-390")
        visit.accept()
        assert visit.text("#verdict") == "✓ Matches your policy"
        green = "rgb(22, 101, 52)" if scheme == "light" else "rgb(134, 239, 172)"
        assert visit.page.evaluate("getComputedStyle(document.querySelector('#verdict')).color") == green
        visit.picture(f"genuine-trusted-{scheme}-390")
        visit.page.set_viewport_size({"width": 1440, "height": 900})
        visit.picture(f"genuine-trusted-{scheme}-1440")
        assert violations(visit.page) == []


def test_software_that_a_signed_document_vouches_for_is_known(context: BrowserContext, site: PagedSite) -> None:
    with served(page_server(without_the_mark(site), port=0)) as url:
        visit = Visit(context, url)
        visit.is_in("unknown")
        policy, *others = vouched_policy()
        load(visit, policy, **{f"other{number}": data for number, data in enumerate(others)})
        visit.is_in("trusted")
        assert visit.page.locator("#fact-software").get_attribute("class") == "yes"
        assert "Vouched for by a signed reference document: images." in visit.text("#fact-software")


def vouched_policy() -> tuple[bytes, ...]:
    """A policy that knows its software by a signed document alone, with the document, a signature and the key."""
    policy = json.loads(machine().policy(name="by-documents"))
    values = policy.pop("reference_values")
    images = {
        "schema": "attest.references/1",
        "name": "images",
        "version": 1,
        "origin": "the build",
        "issued": "2026-01-01T00:00:00Z",
        "expires": {"unchecked": "a test"},
        "values": {"workload": {"kind": "snp-measurement", "values": values["workload"]["values"]}},
    }
    policy["references"] = [{"document": "images", "signers": [id_of("alice")]}]
    files = (json.dumps(policy), json.dumps(images), signed(images, "alice"), public_of("alice"))
    return tuple(text.encode() for text in files)


# -- for everybody


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("phase", ["checking", "unknown", "trusted", "unreachable", "stopped", "refused"])
def test_axe_finds_nothing_in_any_state(
    phase: str,
    scheme: Any,  # noqa: ANN401  a literal of the driver
    context: BrowserContext,
    site: PagedSite,
) -> None:
    if not AXE.is_file() and os.environ.get("ATTEST_REQUIRE_BROWSER") != "1":
        pytest.skip("axe-core is not installed: make page")
    visit = Visit(context, "about:blank")
    visit.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    held: list[Route] = []
    if phase == "checking":
        visit.page.route(OFFER, lambda route: held.append(route))  # noqa: PLW0108  the driver wants a function
    visit.page.goto(site.url)
    expect(
        visit.page.locator(f"#status[data-phase={'checking' if phase == 'checking' else 'unknown'}]")
    ).to_be_visible()
    expect(visit.page.locator("#facts > li")).to_have_count(5)
    if phase not in {"checking", "unknown"}:
        visit.accept()
    if phase == "trusted":
        visit.upload()
        expect(visit.page.locator("#uploads")).to_contain_text("stored")
        visit.asks()
        expect(visit.page.locator("#log")).to_contain_text("page 1")
    elif phase not in {"checking", "unknown"}:
        enters(visit, site, phase)
    for width, height in ((390, 844), (1440, 900)):
        visit.page.set_viewport_size({"width": width, "height": height})
        visit.picture(f"{phase}-{scheme}-{width}")
        if visit.page.locator("#accept").count():
            visit.page.click("#accept")
            visit.picture(f"{phase}-asked-{scheme}-{width}")
        visit.page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
        assert violations(visit.page) == []
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        visit.picture(f"{phase}-whole-{scheme}-{width}", whole=True)
        visit.page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = false))")


def test_pictures_of_the_documentation_are_small() -> None:
    pictures = sorted((REPOSITORY / "docs" / "images").glob("page-*.png"))
    named = ("compared", "documents", "refused", "stopped", "trusted", "unknown")
    assert [picture.stem for picture in pictures] == [f"page-{name}" for name in named]
    assert [picture.name for picture in pictures if picture.stat().st_size > 100_000] == []
