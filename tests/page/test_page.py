"""The page in Chromium, before the sample's service on the simulator: what it shows, and what it never sends."""

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, Route

from attest.encoding import json_value
from attest.page import PageFile, page_files
from attest.page.server import page_server
from attest.policy import load_policy
from attest.policy.reference_values.reference_documents import decode_reference_document
from benchmarks.page import kilobytes, measured_load, on_demand_sizes
from tests.page.browser import Verifier
from tests.page.bundle import reached
from tests.page.served import served
from tests.page.site import PagedSite, errorless, machine_with_gpu
from tests.page.threaded import expect
from tests.page.visits import QUESTION, Visit, held_back, load, violations
from tests.rag_demo.service.support import NAME, machine

pytestmark = pytest.mark.loopback


@pytest.fixture
def context(in_browser: Verifier, site: PagedSite) -> Iterator[BrowserContext]:
    shape = {"viewport": {"width": 1000, "height": 800}, "accept_downloads": True}
    with errorless(in_browser, site, console="Content Security Policy", **shape) as made:
        yield made


# -- the story


def test_from_amber_to_an_answer_to_red_and_nothing_is_sent_before_or_after(
    context: BrowserContext, site: PagedSite
) -> None:
    visit = Visit(context, site.url)
    visit.is_in("unknown")
    visit.is_closed()
    assert "Simulated, and not yet accepted by you" in visit.text("#status")
    assert "have not accepted this machine yet" in visit.text("#obstacle")
    # Not even whoever reaches past the disabled fields sends anything.
    visit.tries_all_the_same()
    assert visit.sealed == 0

    visit.page.reload()
    visit.is_in("unknown")
    visit.page.click("#each summary")
    visit.page.click("#use")
    assert "Not yet: you have not accepted" in visit.text("#policy-told")
    visit.accept()
    assert "Messages are sealed to key 0 of this machine" in visit.text("#key")
    visit.upload()
    expect(visit.page.locator("#uploads")).to_contain_text("ward.txt: stored")
    visit.asks()
    expect(visit.page.locator("#log")).to_contain_text("[1] ward.txt, page 1")
    assert "The ward has forty beds." in visit.text("#log")
    digest = visit.text("#key").split(", ")[1]
    assert visit.text("#log").count("Sealed to key 0") == 1
    assert digest in visit.text("#log")
    sealed, kept = visit.sealed, len(site.site.workshop.opened[-1].store.documents(b""))
    assert sealed == 2

    site.machine.with_microcode(-1)
    visit.again()
    visit.is_in("refused")
    visit.is_closed()
    assert "Firmware of the AMD processor (Genoa)" in visit.text("#why")
    assert str(visit.page.locator("#rows > li").first.text_content()).startswith(
        "Firmware of the AMD processor (Genoa)"
    )
    visit.tries_all_the_same()
    assert visit.sealed == sealed
    assert len(site.site.workshop.opened[-1].store.documents(b"")) == kept
    assert {one.split()[1].removeprefix(site.url).split("?")[0] for one in visit.asked if "/v1" in one} == {"v1/state"}
    assert all(one.split()[1].startswith(site.url) for one in visit.asked), "somebody else was asked"


def test_the_machine_is_checked_anew_before_each_upload(context: BrowserContext, site: PagedSite) -> None:
    visit = Visit(context, site.url)
    visit.is_in("unknown")
    visit.accept()
    site.machine.now = machine().with_other_image()
    visit.upload("secret.txt", b"for nobody")
    expect(visit.page.locator("#uploads")).to_contain_text("nothing of it is sent now: the machine was refused.")
    visit.is_in("refused")
    assert visit.sealed == 0
    # What changed can be accepted, and only that is asked.
    assert visit.page.locator("#trust input").count() == 1
    visit.accept("accept")


def test_a_policy_is_kept_for_the_next_visit_until_it_is_forgotten(context: BrowserContext, site: PagedSite) -> None:
    visit = Visit(context, site.url)
    visit.is_in("unknown")
    visit.accept()
    later = Visit(context, site.url)
    later.is_in("trusted")
    later.page.click("#forget")
    later.is_in("unknown")
    later.is_closed()
    assert later.sealed == 0


# -- policies


def test_a_policy_goes_out_as_pythons_engine_reads_it_and_comes_back(context: BrowserContext, site: PagedSite) -> None:
    visit = Visit(context, site.url)
    visit.is_in("unknown")
    visit.accept()
    with visit.page.expect_download() as saving:
        visit.page.click("#export")
    document = Path(saving.value.path()).read_bytes()
    policy = load_policy(document, name="policy.json")
    assert (policy.name, policy.version) == ("accepted-in-the-page", 1)
    visit.page.click("#forget")
    visit.is_in("unknown")
    load(visit, document)
    visit.is_in("trusted")
    load(visit, machine().policy(name="by-the-owner"))
    expect(visit.page.locator("#policy-told")).to_have_text("p.json is your policy now.")
    visit.is_in("trusted")
    load(visit, machine().with_other_image().policy())
    visit.is_in("refused")
    assert "Software of the machine" in visit.text("#why")


def test_a_policy_comes_with_its_documents_of_reference_values_and_goes_out_with_them(
    context: BrowserContext, site: PagedSite
) -> None:
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
    document = decode_reference_document(json_value(json.dumps(images).encode(), what="a test"))
    policy["references"] = [{"document": "images", "sha256": document.digest.hex()}]
    whole, beside = json.dumps(policy).encode(), json.dumps(images).encode()
    visit = Visit(context, site.url)
    visit.is_in("unknown")
    load(visit, whole)
    expect(visit.page.locator("#policy-told")).to_contain_text("[references-missing]")
    load(visit, whole, images=beside.replace(b"the build", b"another"))
    expect(visit.page.locator("#policy-told")).to_contain_text("[references-not-accepted]")
    visit.is_in("unknown")
    load(visit, beside, policy=whole)
    visit.is_in("trusted")
    visit.page.reload()
    visit.is_in("trusted")
    assert " --policy policy.json --references references1.json --nonce" in str(visit.page.text_content("#command"))
    saved: dict[str, bytes] = {}
    visit.page.on("download", lambda one: saved.update({one.suggested_filename: Path(one.path()).read_bytes()}))
    visit.page.click("#export")
    visit.page.wait_for_timeout(500)
    assert saved == {"policy.json": whole, "references1.json": beside}


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b"schema: attest.policy/1",
        json.dumps({"schema": "attest.policy/1", "name": "x", "version": 1}).encode(),
        machine().policy().replace(b'"snp"', b'"snq"'),
        machine().policy()[:-1] + b', "verifiers": []}',
    ],
)
def test_a_broken_policy_takes_the_place_of_none(broken: bytes, context: BrowserContext, site: PagedSite) -> None:
    visit = Visit(context, site.url)
    visit.is_in("unknown")
    load(visit, broken)
    expect(visit.page.locator("#policy-told")).to_contain_text("Not taken: ")
    assert "[policy-" in visit.text("#policy-told")
    visit.is_in("unknown")


# -- a service that is not what it should be


def answer_with(page: Page, path: str, change: Any) -> None:  # noqa: ANN401  a function over a document
    """Stand between the page and the service."""

    def handle(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=json.dumps(change(answer.json())))

    page.route(f"**{path}*", handle)


def test_evidence_for_an_earlier_question_is_refused(context: BrowserContext, site: PagedSite) -> None:
    visit = Visit(context, site.url)
    visit.is_in("unknown")
    visit.accept()
    kept: list[Any] = []

    def the_first(offer: Any) -> Any:  # noqa: ANN401  a document
        kept.append(offer)
        return kept[0]

    answer_with(visit.page, "/.well-known/attest-channel", the_first)
    visit.again()
    visit.is_in("trusted")
    visit.again()
    visit.is_in("refused")
    assert visit.code == "nonce-mismatch"
    visit.is_closed()


def test_keys_to_which_the_evidence_does_not_commit_are_refused(context: BrowserContext, site: PagedSite) -> None:
    visit = Visit(context, site.url)
    visit.is_in("unknown")
    answer_with(
        visit.page, "/.well-known/attest-channel", lambda offer: offer | {"keys": offer["keys"][:-8] + "AAAAAAAA"}
    )
    visit.again()
    visit.is_in("refused")
    visit.is_closed()


@pytest.mark.parametrize(
    "body", ["", "{}", "null", "[]", '{"evidence": 1, "keys": 2}', "<html>", '{"evidence": [], "keys": ""}']
)
def test_any_answer_at_all_ends_in_red(body: str, context: BrowserContext, site: PagedSite) -> None:
    visit = Visit(context, "about:blank")
    visit.page.route("**/.well-known/attest-channel*", lambda route: route.fulfill(status=200, body=body))
    visit.page.goto(site.url)
    visit.is_in("refused")
    assert visit.code in {"wire-invalid", "channel-keys-malformed"}
    visit.is_closed()


def test_what_a_service_says_is_text(context: BrowserContext, site: PagedSite) -> None:
    html = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    visit = Visit(context, "about:blank")
    answer_with(visit.page, "/v1/state", lambda state: state | {"state": html, "why": {"detail": html}})
    visit.page.goto(site.url)
    visit.is_in("unknown")
    assert html in visit.text("#why")
    visit.agrees()
    visit.is_in("unreachable")
    assert visit.page.locator("main img, main script").count() == 0
    visit.page.unroute_all()
    visit.again()
    expect(visit.page.locator("#file")).to_be_enabled()
    visit.upload("<b>bold<b>.txt")
    expect(visit.page.locator("#uploads")).to_contain_text("<b>bold<b>.txt: stored")


def test_a_service_that_is_gone_stops_the_page_and_one_that_is_back_goes_on(
    context: BrowserContext, site: PagedSite
) -> None:
    visit = Visit(context, site.url)
    visit.is_in("unknown")
    visit.accept()
    # All code is there: without a network the page says so, and needs nothing that it has not.
    context.set_offline(True)
    visit.again()
    visit.is_in("unreachable")
    visit.is_closed()
    assert visit.code == "service-unreachable"
    context.set_offline(False)
    visit.again()
    visit.is_in("trusted")


def test_a_slow_service_leaves_the_page_closed(context: BrowserContext, site: PagedSite) -> None:
    waiting: list[Route] = []

    def hold(route: Route) -> None:
        waiting.append(route)

    visit = Visit(context, "about:blank")
    visit.page.route("**/.well-known/attest-channel*", hold)
    with visit.page.expect_request("**/.well-known/attest-channel*"):
        visit.page.goto(site.url)
    expect(visit.page.locator("#when")).to_contain_text("Checking now")
    assert visit.page.locator("#status").get_attribute("data-phase") == "checking"
    visit.is_closed()
    visit.picture("checking")
    assert len(waiting) == 1


def test_a_part_of_the_page_that_was_changed_on_the_way_does_not_run(context: BrowserContext, site: PagedSite) -> None:
    def handle(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text() + "\n;globalThis.changed = true;")

    visit = Visit(context, "about:blank")
    files = page_files()
    at_once = (name for name in reached("page.js") if name.startswith("chunk-"))
    largest = max(at_once, key=lambda name: len(files[f"/{name}"].body))
    visit.page.route(f"**/{largest}", handle)
    visit.page.goto(site.url)
    visit.page.wait_for_timeout(300)
    assert visit.page.evaluate("globalThis.changed") is None
    assert visit.page.locator("#status").get_attribute("data-phase") == "checking"
    visit.is_closed()


def test_a_format_that_was_changed_on_the_way_does_not_run(context: BrowserContext, site: PagedSite) -> None:
    site.machine.now = machine_with_gpu()
    fetched: list[str] = []

    def handle(route: Route) -> None:
        answer = route.fetch()
        fetched.append(route.request.url)
        route.fulfill(response=answer, body=answer.text() + "\n;globalThis.changed = true;")

    visit = Visit(context, "about:blank")
    visit.page.route("**/gpu-*.js", handle)
    visit.page.goto(site.url)
    visit.is_in("refused")
    assert visit.code == "page-incomplete"
    assert visit.page.evaluate("globalThis.changed") is None
    assert len(fetched) == 1
    visit.is_closed()


def test_a_format_is_fetched_when_its_evidence_is_met(context: BrowserContext, site: PagedSite) -> None:
    def fetched(visit: Visit) -> set[str]:
        names = visit.page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name.split('/').pop())")
        return {name.partition("-")[0] for name in names if name.endswith(".js")}

    visit = Visit(context, site.url)
    visit.is_in("unknown")
    assert fetched(visit) & {"gpu", "intel", "azure", "eventlog"} == set()
    site.machine.now = machine_with_gpu()
    visit.again()
    visit.is_in("refused")
    # The service has no endorsements of a GPU.
    assert visit.code == "ocsp-missing"
    assert fetched(visit) & {"gpu", "intel", "azure", "eventlog"} == {"gpu"}


def test_a_browser_without_ml_kem_is_told_that_this_service_offers_nothing_else(
    context: BrowserContext, site: PagedSite
) -> None:
    context.add_init_script("if (globalThis.SubtleCrypto) delete SubtleCrypto.prototype.encapsulateBits")
    visit = Visit(context, site.url)
    visit.is_in("unknown")
    visit.agrees()
    visit.is_in("refused")
    visit.is_closed()
    assert "keys for ML-KEM, which this browser lacks" in visit.text("#why")
    assert visit.code == "channel-keys-unsupported"
    assert visit.sealed == 0


# -- from one's own computer


def test_the_page_from_ones_own_computer_checks_the_service_from_there(
    context: BrowserContext, site: PagedSite
) -> None:
    pages = page_files(service=site.url, name=NAME)
    with served(page_server(pages, port=0)) as url:
        visit = Visit(context, url)
        visit.is_in("unknown")
        assert "came from your own computer" in visit.text("#server")
        visit.accept()
        visit.upload()
        expect(visit.page.locator("#uploads")).to_contain_text("ward.txt: stored")
    hosts = {one.split()[1].split("/")[2] for one in visit.asked}
    assert hosts == {url.split("/")[2], site.url.split("/")[2]}


def test_a_service_of_another_name_is_refused(context: BrowserContext, site: PagedSite) -> None:
    with served(page_server(page_files(service=site.url, name="other.example"), port=0)) as url:
        visit = Visit(context, url)
        visit.is_in("refused")
        visit.is_closed()


# -- in other people's pages

BADGE = """<!doctype html><html lang="en"><title>Somebody</title><main><h1>Somebody's page</h1>
<attestation-badge src="{service}" name="rag.example" policy="/policy.json"></attestation-badge></main>
<script type="module" src="/badge.js"></script>"""


@pytest.mark.parametrize(
    ("policy", "phase", "word"),
    [
        (machine().policy(), "trusted", "Simulated: meets this site's policy"),
        (machine().with_other_image().policy(), "refused", "Machine refused"),
        (b"{", "refused", "Machine refused"),
        (None, "refused", "Machine refused"),
    ],
)
def test_a_badge_says_the_state_and_opens_the_detail(
    policy: bytes | None, phase: str, word: str, context: BrowserContext, site: PagedSite
) -> None:
    pages = dict(page_files(service=site.url))
    html, headers = BADGE.format(service=site.url), pages["/"].headers
    pages["/"] = PageFile(media_type="text/html", body=html.encode(), headers=headers)
    if policy is not None:
        pages["/policy.json"] = PageFile(media_type="application/json", body=policy, headers=headers)
    with served(page_server(pages, port=0)) as url:
        visit = Visit(context, url)
        badge = visit.page.locator("attestation-badge")
        expect(badge.locator(f"details[data-phase={phase}]")).to_be_attached()
        expect(badge.locator("summary")).to_contain_text(word)
        badge.locator("summary").click()
        expect(badge.locator("p").first).to_be_visible()
        assert violations(visit.page) == []
    assert visit.sealed == 0


def test_certificate_chains_are_shown_and_saved(context: BrowserContext, site: PagedSite) -> None:
    visit = Visit(context, site.url)
    visit.is_in("unknown")
    visit.page.click("text=Certificate chains")
    chains = visit.page.locator("#chains")
    expect(chains.locator("h3")).to_have_text(["cpu"])
    assert chains.locator("ol").first.locator("li").count() == 3
    assert "SEV-VCEK" in chains.locator("li").first.inner_text()
    assert "pinned" in chains.locator("ol").first.locator("li").last.inner_text()
    with visit.page.expect_download() as waiting:
        visit.page.click("text=Save those of cpu")
    assert waiting.value.suggested_filename == "cpu.pem"
    assert waiting.value.path().read_bytes().count(b"-----BEGIN CERTIFICATE-----") == 3


# -- for everybody


def test_everything_is_done_by_the_keyboard(context: BrowserContext, site: PagedSite) -> None:
    visit = Visit(context, site.url)
    visit.is_in("unknown")
    keyboard = visit.page.keyboard

    def tab_to(selector: str) -> None:
        for _ in range(60):
            keyboard.press("Tab")
            if visit.page.evaluate("(selector) => document.activeElement?.matches(selector)", selector):
                width = visit.page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
                assert width == "3px", "the focus is not to be seen"
                return
        pytest.fail(f"{selector} cannot be reached")

    tab_to("#fact-chip summary")
    keyboard.press("Enter")
    expect(visit.page.locator("#fact-chip dd").first).to_be_visible()
    tab_to("#each summary")
    keyboard.press("Enter")
    expect(visit.page.locator("#use")).to_be_visible()
    for number in range(visit.page.locator("#trust input").count()):
        tab_to(f"#rows > li:nth-child({number + 1}) input")
        keyboard.press("Space")
    tab_to("#use")
    keyboard.press("Enter")
    visit.is_in("trusted")
    # The focus goes to where something can be done now.
    expect(visit.page.locator("#question")).to_be_focused()
    keyboard.type(QUESTION)
    keyboard.press("Enter")
    expect(visit.page.locator("#log")).to_contain_text("Sealed to key 0")


def test_the_evidence_that_is_saved_is_judged_alike_by_the_command_line(
    context: BrowserContext, site: PagedSite, tmp_path: Path
) -> None:
    visit = Visit(context, site.url)
    visit.is_in("unknown")
    visit.accept()
    for button, name in (("#export", "policy.json"), ("#save", "evidence.json")):
        visit.page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
        with visit.page.expect_download() as saving:
            visit.page.click(button)
        saving.value.save_as(tmp_path / name)
    words = visit.text("#command").split()
    assert words[:2] == ["attest", "appraise"]
    result = _appraised(words[2:], tmp_path)
    assert (result["outcome"], result["freshness"], result["simulated"]) == ("affirmed", "matched", True)


def _appraised(words: list[str], folder: Path) -> dict[str, Any]:
    from click.testing import CliRunner

    from attest.cli.appraise import appraise

    where = [str(folder / word) if word.endswith(".json") else word for word in words]
    done = CliRunner().invoke(appraise, [*where, "--json"], standalone_mode=False)
    found = json_value(done.stdout.encode(), what="result")
    assert isinstance(found, dict), done.output
    return dict(found)


def test_without_a_click_little_is_fetched_without_a_policy_and_with_one(in_browser: Verifier, site: PagedSite) -> None:
    load = measured_load(in_browser, site)
    assert 40 < kilobytes(load.plain) < kilobytes(load.policy) <= 55  # gzipped
    # What judges is there before the verdict; what is shown beside it comes after it.
    assert parts_of(load.plain) == {"first", "draft"}
    assert parts_of(load.policy) == {"first", "draft", "record"}
    # Without a click nothing else comes, and what a person decides and sends with comes by clicks.
    beside = {"first", "draft", "view", "seen", "trial"}
    assert parts_of(load.quiet["plain"]) == beside
    assert parts_of(load.quiet["policy"]) == beside | {"record"}
    assert kilobytes(load.quiet["plain"]) < kilobytes(load.quiet["policy"]) <= 60
    assert parts_of(load.quiet["refused"]) == beside | {"record", "failure", "rest", "later_style"}
    assert parts_of(load.everything) >= beside | {"trust", "rest", "documents", "question", "sending", "record"}


def parts_of(names: set[str]) -> set[str]:
    """Return what is fetched on demand, by the names of the sources."""
    return {name.partition("-")[0] for name in names if "-" in name} - {"chunk"}


def test_each_part_on_demand_is_as_small_as_it_is_meant_to_be() -> None:
    assert {what: size for what, size in on_demand_sizes().items() if not 0 < size <= 15} == {}


def test_the_first_load_has_neither_fonts_nor_pictures_and_is_small(context: BrowserContext, site: PagedSite) -> None:
    kinds: set[str] = set()
    visit = Visit(context, "about:blank")
    visit.page.on("request", lambda request: kinds.add(request.resource_type))
    visit.page.goto(site.url)
    visit.is_in("unknown")
    expect(visit.page.locator("#accept")).to_be_visible()
    assert kinds == {"document", "stylesheet", "script", "fetch"}
    paths = [one.removeprefix(f"GET {site.url.rstrip('/')}") for one in visit.asked]
    before = paths[: paths.index("/v1/state")]
    files = page_files()
    drawn = sum(len(gzip.compress(files[path].body, 9)) for path in set(before) & set(files))
    assert 40_000 < drawn <= 50_000


@pytest.mark.parametrize("missing", ["view", "seen"])
def test_a_page_without_its_second_part_says_so_and_offers_to_load_it_again(
    context: BrowserContext, site: PagedSite, missing: str
) -> None:
    visit = Visit(context, "about:blank")
    visit.page.route(f"**/{missing}-*.js", lambda route: route.abort("connectionreset"))
    visit.page.goto(site.url)
    visit.is_in("unknown")
    expect(visit.page.locator("#failure")).to_contain_text("Nothing can be accepted or sent.")
    expect(visit.page.locator("#fact-memory")).to_be_visible()
    assert not visit.page.locator("#accept").count()
    visit.is_closed()
    assert violations(visit.page) == []
    visit.picture(f"without-{missing}")
    visit.page.unroute(f"**/{missing}-*.js")
    visit.page.click("#reload")
    visit.accept()


def test_a_refusal_is_red_without_the_second_part_of_the_page(context: BrowserContext, site: PagedSite) -> None:
    visit = Visit(context, site.url)
    visit.accept()
    site.machine.with_microcode(-1)
    visit.page.route("**/rest-*.js", lambda route: route.abort("connectionreset"))
    visit.page.reload()
    visit.is_in("refused")
    expect(visit.page.locator("#verdict")).to_be_focused()
    expect(visit.page.locator("#word")).to_have_text("Refused")
    expect(visit.page.locator("#failure")).to_contain_text("Nothing can be accepted or sent.")
    visit.is_closed()


def test_a_second_part_that_was_changed_on_the_way_does_not_run(context: BrowserContext, site: PagedSite) -> None:
    def handle(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text() + "\n;globalThis.changed = true;")

    visit = Visit(context, "about:blank")
    visit.page.route("**/view-*.js", handle)
    visit.page.goto(site.url)
    expect(visit.page.locator("#reload")).to_be_visible()
    assert visit.page.evaluate("globalThis.changed") is None
    visit.is_closed()


def test_no_verdict_waits_for_the_second_part_of_the_page(context: BrowserContext, site: PagedSite) -> None:
    visit = Visit(context, site.url)
    visit.accept()
    let_go = held_back(visit, "**/seen-*.js")
    visit.page.reload()
    expect(visit.page.locator("#status[data-phase=trusted]")).to_be_attached()
    expect(visit.page.locator("#loading")).to_be_visible()
    visit.is_closed()
    let_go()
    expect(visit.page.locator("#question")).to_be_focused()
    expect(visit.page.locator("#obstacle")).to_have_text("You may ask and upload.")


def test_the_second_part_of_the_page_does_not_take_the_focus_from_where_a_person_is(
    context: BrowserContext, site: PagedSite
) -> None:
    visit = Visit(context, site.url)
    visit.accept()
    let_go = held_back(visit, "**/seen-*.js")
    visit.page.reload()
    expect(visit.page.locator("#status[data-phase=trusted]")).to_be_attached()
    expect(visit.page.locator("#loading")).to_be_visible()
    visit.page.focus("#fact-chip summary")
    let_go()
    expect(visit.page.locator("#question")).to_be_enabled()
    expect(visit.page.locator("#fact-chip summary")).to_be_focused()


def test_the_page_is_as_small_as_it_is_meant_to_be() -> None:
    """The page's own script, style and text, without the verifier, the channel and the policies."""
    files = page_files()
    libraries = set().union(*(reached(f"{name}.js") for name in ("verifier", "channel", "policy")))
    own = {f"/{name}" for name in reached("page.js") - libraries} | {"/", "/style.css"}
    sizes = {path: len(gzip.compress(files[path].body, 9)) for path in own}
    spoken = {path: size for path, size in sizes.items() if re.match(r"/(?:first|seen|rest|alone)-", path)}
    assert sum(sizes.values()) - sum(spoken.values()) < 40_500, sizes
