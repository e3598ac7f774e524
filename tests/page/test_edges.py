"""The page where something is missing, refuses, stalls or changes: algorithms, storage, time, keys and networks."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import pytest_socket
from playwright.sync_api import BrowserContext, Error, Page, Route

from attest.page import page_files
from attest.page.server import page_server
from tests.page.browser import Verifier
from tests.page.served import served
from tests.page.site import PagedSite, errorless, paged_site
from tests.page.threaded import expect
from tests.page.visits import Visit
from tests.rag_demo.service.parts import WordEmbedder
from tests.rag_demo.service.support import NAME, machine

pytestmark = pytest.mark.loopback
OFFER = "**/.well-known/attest-channel*"
GATEWAY = "**/.well-known/ohttp-gateway"
MINUTE = 60_000

# Only pages of a secure origin have WebCrypto, and an empty one comes before each of them.
WITHOUT_ML_KEM = "if (globalThis.SubtleCrypto) delete SubtleCrypto.prototype.encapsulateBits;"
WITHOUT_X25519 = """
for (const name of globalThis.SubtleCrypto ? ["generateKey", "importKey", "deriveBits"] : []) {
    const real = SubtleCrypto.prototype[name];
    SubtleCrypto.prototype[name] = function (...given) {
        if (given.some((one) => one?.name === "X25519")) throw new DOMException("Unrecognized", "NotSupportedError");
        return real.apply(this, given);
    };
}
"""
WITHOUT_STORAGE = """
Object.defineProperty(globalThis, "localStorage", { get() { throw new DOMException("denied", "SecurityError"); } });
"""
WITH_FULL_STORAGE = """
Storage.prototype.setItem = () => { throw new DOMException("full", "QuotaExceededError"); };
"""
# Time-outs in real time: a stopped clock would wait with them.
IN_A_HURRY = """
globalThis.patience = [];
globalThis.hurried = false;
const real = AbortSignal.timeout;
AbortSignal.timeout = (milliseconds) => {
    patience.push(milliseconds);
    return real.call(AbortSignal, hurried ? milliseconds / 60 : milliseconds);
};
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagedSite]:
    pytest_socket.enable_socket()
    with paged_site(tmp_path_factory.mktemp("page"), x25519="browsers without ML-KEM") as found:
        yield found


@pytest.fixture
def context(in_browser: Verifier, site: PagedSite) -> Iterator[BrowserContext]:
    with errorless(in_browser, site) as made:
        yield made


def visit_of(context: BrowserContext, url: str, *scripts: str) -> Visit:
    """Open the page after scripts that run before its own."""
    for script in scripts:
        context.add_init_script(script)
    return Visit(context, url)


def accepted(visit: Visit) -> Visit:
    visit.is_in("unknown")
    visit.accept()
    return visit


def stores_and_asks(visit: Visit) -> None:
    visit.upload()
    expect(visit.page.locator("#uploads")).to_contain_text("ward.txt: stored")
    visit.asks()
    expect(visit.page.locator("#log")).to_contain_text("The ward has forty beds.")


# -- what a browser may lack


def test_with_ml_kem_the_hybrid_is_taken_though_x25519_is_offered_too(context: BrowserContext, site: PagedSite) -> None:
    visit = accepted(visit_of(context, site.url))
    assert "sealed to key 0" in visit.text("#key")
    assert "also against quantum computers" in visit.text("#key")
    stores_and_asks(visit)


def test_without_ml_kem_messages_are_sealed_by_x25519_and_the_page_says_so(
    context: BrowserContext, site: PagedSite
) -> None:
    visit = accepted(visit_of(context, site.url, WITHOUT_ML_KEM))
    assert "sealed to key 1" in visit.text("#key")
    assert "by X25519 alone: this browser has no ML-KEM" in visit.text("#key")
    stores_and_asks(visit)
    assert "Sealed to key 1" in visit.text("#log")


def test_html_is_refused_by_the_browser(context: BrowserContext, site: PagedSite) -> None:
    visit = visit_of(context, site.url)
    assert visit.page.evaluate("'trustedTypes' in globalThis")
    with pytest.raises(Error, match="TrustedHTML"):
        visit.page.evaluate("document.createElement('div').innerHTML = '<b>x</b>'")


@pytest.mark.parametrize("lacks", [WITHOUT_X25519, WITHOUT_X25519 + WITHOUT_ML_KEM], ids=["X25519", "both"])
def test_without_x25519_the_page_says_that_nothing_can_be_sealed(
    lacks: str, context: BrowserContext, site: PagedSite
) -> None:
    visit = visit_of(context, site.url, lacks)
    visit.is_in("unknown")
    visit.agrees()
    visit.is_in("refused")
    visit.is_closed()
    assert visit.code == "channel-keys-unsupported"
    assert "X25519" in str(visit.page.text_content("#failure"))
    assert visit.sealed == 0


def test_without_tls_there_is_no_cryptography_and_the_page_says_so(context: BrowserContext, site: PagedSite) -> None:
    def from_far_away(route: Route) -> None:
        route.fulfill(response=route.fetch(url=route.request.url.replace("http://rag.example", site.site.url)))

    context.route("http://rag.example/**", from_far_away)
    visit = visit_of(context, "http://rag.example/")
    visit.is_in("refused")
    visit.is_closed()
    assert visit.page.evaluate("crypto.subtle") is None
    assert visit.code == "webcrypto-missing"
    assert visit.sealed == 0
    script = '<!doctype html><script type="module" src="badge.js"></script>'
    badge = f'{script}<attestation-badge src="{site.site.url}"></attestation-badge>'
    context.route("http://rag.example/other", lambda route: route.fulfill(body=badge, content_type="text/html"))
    visit.page.goto("http://rag.example/other")
    expect(visit.page.locator("attestation-badge div p").first).to_contain_text(
        "Browsers check signatures only for pages that came by HTTPS."
    )


@pytest.mark.parametrize("refusing", [WITHOUT_STORAGE, WITH_FULL_STORAGE], ids=["none", "full"])
def test_where_nothing_may_be_stored_a_policy_lasts_as_long_as_the_page(
    refusing: str, context: BrowserContext, site: PagedSite
) -> None:
    visit = accepted(visit_of(context, site.url, refusing))
    stores_and_asks(visit)
    visit.again()
    visit.is_in("trusted")
    visit.page.reload()
    visit.is_in("unknown")
    visit.is_closed()


def test_a_policy_is_for_one_service_and_one_address_of_the_page(context: BrowserContext, site: PagedSite) -> None:
    files = dict(page_files(service=site.site.url, name=NAME))
    with served(page_server(files, port=0)) as url:
        accepted(visit_of(context, url))
        Visit(context, url).is_in("trusted")
        # The same page under another name is another one to the browser, and so is its memory.
        Visit(context, url.replace("127.0.0.1", "localhost")).is_in("unknown")
        # The same address leads to another service: what was accepted of the one is not said of the other.
        files.update(page_files(service=site.site.url.replace("127.0.0.1", "localhost"), name=NAME))
        visit = Visit(context, url)
        visit.is_in("unknown")
        visit.is_closed()
    Visit(context, site.url).is_in("unknown")


# -- time, and what changes in it


def offers(visit: Visit) -> int:
    """How often the machine was asked for proof."""
    return sum("attest-channel" in one for one in visit.asked)


def test_the_machine_is_checked_again_every_minute_by_itself(context: BrowserContext, site: PagedSite) -> None:
    context.clock.install()
    visit = accepted(visit_of(context, site.url))
    visit.stops_clock()
    asked = offers(visit)
    visit.lets_pass(MINUTE)
    visit.is_in("trusted")
    assert offers(visit) == asked + 1
    site.machine.with_microcode(-1)
    visit.lets_pass(MINUTE // 2)
    visit.is_in("trusted")
    assert offers(visit) == asked + 1
    visit.lets_pass(MINUTE // 2)
    visit.is_in("refused")
    assert offers(visit) == asked + 2
    visit.is_closed()


def test_a_service_that_stays_away_is_asked_less_and_less(context: BrowserContext, site: PagedSite) -> None:
    context.clock.install()
    visit = accepted(visit_of(context, site.url))
    visit.stops_clock()
    visit.page.route(OFFER, lambda route: route.fulfill(status=503, body="{}"))
    visit.lets_pass(MINUTE)
    counts = []
    for _ in range(20):
        visit.lets_pass(MINUTE // 2)
        visit.is_in("unreachable")
        counts.append(offers(visit))
    # In two minutes: twice by the clock of the checks, and twice by that of the pauses.
    assert counts[-1] - counts[-5] <= 5, counts
    visit.page.unroute_all(behavior="ignoreErrors")
    visit.lets_pass(MINUTE)
    visit.is_in("trusted")


def test_what_is_believed_ends_where_nothing_checks_it_any_more(context: BrowserContext, site: PagedSite) -> None:
    context.clock.install()
    visit = accepted(visit_of(context, site.url))
    # A computer that slept: no timer ran, and five minutes are over.
    site.machine.now = machine().with_other_image()
    context.clock.set_system_time(visit.now() + 6 * MINUTE / 1000)
    visit.asks()
    expect(visit.page.locator("#log .refused")).to_contain_text("[not-affirmed]")
    visit.is_in("refused")
    assert visit.sealed == 0


def held_back(page: Page, where: str) -> list[Route]:
    """Let nothing come of requests to a place."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(where, hold)
    return held


@pytest.mark.parametrize("silent", ["**/v1/state", OFFER])
def test_a_service_that_says_nothing_for_thirty_seconds_is_too_slow(
    silent: str, context: BrowserContext, site: PagedSite
) -> None:
    visit = accepted(visit_of(context, site.url, IN_A_HURRY))
    held = held_back(visit.page, silent)
    visit.page.evaluate("hurried = true")
    visit.again()
    visit.is_in("unreachable")
    visit.is_closed()
    assert held
    assert visit.code == "service-too-slow"
    assert set(visit.page.evaluate("patience")) == {30_000}
    visit.page.evaluate("hurried = false")  # the answers come, as fast as this machine gives them
    visit.page.unroute_all(behavior="ignoreErrors")
    visit.again()
    visit.is_in("trusted")


def test_an_upload_on_its_way_is_broken_off_when_the_machine_turns_red(
    context: BrowserContext, site: PagedSite
) -> None:
    visit = accepted(visit_of(context, site.url))
    held = held_back(visit.page, GATEWAY)
    with visit.page.expect_event("requestfailed", lambda request: "ohttp-gateway" in request.url) as failing:
        with visit.page.expect_request(GATEWAY):
            visit.upload("secret.txt", b"for nobody")
        site.machine.with_microcode(-1)
        visit.again()
    assert failing.value.failure == "net::ERR_ABORTED"
    visit.is_in("refused")
    expect(visit.page.locator("#uploads")).to_contain_text("nothing of it is sent now: the machine was refused.")
    assert len(held) == 1


@contextmanager
def embedding_held(site: PagedSite) -> Iterator[threading.Event]:
    """Let the service begin with a document, and stop in the middle of it; the event says that it has."""
    begun, goes_on = threading.Event(), threading.Event()
    embedder = site.site.workshop.opened[-1].embedder
    assert isinstance(embedder, WordEmbedder)

    def hold() -> None:
        begun.set()
        goes_on.wait(60)

    before, embedder.during = embedder.during, hold
    try:
        yield begun
    finally:
        embedder.during = before
        goes_on.set()


def test_an_answer_on_its_way_is_broken_off_too(context: BrowserContext, site: PagedSite) -> None:
    visit = accepted(visit_of(context, site.url))
    with embedding_held(site) as begun:
        visit.upload()
        assert begun.wait(60)
        expect(visit.page.locator("#uploads")).to_contain_text("page 1 of 1")
        site.machine.with_microcode(-1)
        visit.again()
        visit.is_in("refused")
        expect(visit.page.locator("#uploads")).to_contain_text("nothing of it is sent now: the machine was refused.")


def test_what_is_forgotten_in_one_tab_counts_in_another(context: BrowserContext, site: PagedSite) -> None:
    visit = accepted(visit_of(context, site.url))
    other = Visit(context, site.url)
    other.is_in("trusted")
    other.page.click("#forget")
    other.is_in("unknown")
    visit.upload()
    expect(visit.page.locator("#uploads")).to_contain_text("nothing of it is sent now: you accept no machine.")
    visit.is_in("unknown")
    assert visit.sealed == 0


def test_a_tab_that_comes_back_after_a_minute_is_checked_at_once(context: BrowserContext, site: PagedSite) -> None:
    context.clock.install()
    visit = accepted(visit_of(context, site.url))
    asked = offers(visit)
    shown = "document.dispatchEvent(new Event('visibilitychange'))"
    visit.page.evaluate(shown)
    context.clock.set_system_time(visit.now() + (MINUTE + 1000) / 1000)
    site.machine.with_microcode(-1)
    visit.page.evaluate(shown)
    visit.is_in("refused")
    assert offers(visit) == asked + 1


def test_another_key_of_the_service_is_noticed_checked_and_named(context: BrowserContext, site: PagedSite) -> None:
    visit = accepted(visit_of(context, site.url))
    stores_and_asks(visit)
    before = visit.text("#key")
    site.site.call(site.site.service.channel.wipe)
    visit.asks()
    expect(visit.page.locator("#log .refused")).to_contain_text("[channel-keys-refused]")
    expect(visit.page.locator("#key")).not_to_have_text(before)
    visit.is_in("trusted")
    visit.asks()
    expect(visit.page.locator("#log")).to_contain_text("Sealed to key 2")


def test_without_a_network_it_closes_and_goes_on_by_itself_when_there_is_one_again(
    context: BrowserContext, site: PagedSite
) -> None:
    context.clock.install()
    visit = accepted(visit_of(context, site.url))
    visit.stops_clock()
    context.set_offline(True)
    visit.lets_pass(MINUTE)
    visit.is_in("unreachable")
    visit.is_closed()
    assert visit.code == "service-unreachable"
    asked = len(visit.asked)
    context.set_offline(False)
    visit.is_in("trusted")
    assert {one.split("?")[0].rpartition("/")[2] for one in visit.asked[asked:]} == {"state", "attest-channel"}
