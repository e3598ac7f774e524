"""The history of what a browser accepted, by service: shown, compared, deleted."""

import json

import pytest
from playwright.sync_api import BrowserContext

from attest.page import evidence_page_files
from tests.page.site import PagedSite
from tests.page.threaded import expect
from tests.page.visits import Visit, violations
from tests.rag_demo.service.support import machine

pytestmark = pytest.mark.loopback


def opened(context: BrowserContext, site: PagedSite) -> Visit:
    """Accept the machine, let it become an older one, and come back."""
    visit = Visit(context, site.url)
    visit.is_in("unknown")
    visit.accept()
    site.machine.with_microcode(-1)
    visit.again()
    visit.is_in("refused")
    site.machine.now = machine()
    visit.again()
    visit.is_in("trusted")
    return visit


def history_of(visit: Visit) -> list[str]:
    visit.page.click("#history-fold summary")
    expect(visit.page.locator("#history")).not_to_be_empty()
    return [str(text) for text in visit.page.locator("#history li.refused, #history ol > li").all_inner_texts()]


def test_each_change_of_a_machine_is_kept_with_what_is_different(context: BrowserContext, site: PagedSite) -> None:
    visit = opened(context, site)
    back, refused, accepted = history_of(visit)
    for line, outcome in ((accepted, "accepted"), (refused, "refused"), (back, "accepted")):
        assert f": {outcome}, simulated" in line
        assert "Policy accepted-in-the-page, version 1, SHA-256 " in line
    assert "Changed since" not in accepted
    assert "Firmware of the AMD processor: " in refused
    assert "Firmware of the AMD processor: " in back
    digest = visit.page.locator("#policy-shown code").inner_text()
    assert digest in accepted
    # A check that finds the same adds nothing.
    visit.again()
    visit.is_in("trusted")
    kept = visit.page.evaluate("JSON.parse(localStorage.getItem(`attest history ${location.origin}`)).length")
    assert kept == 3
    assert violations(visit.page) == []
    visit.picture("history-390", at="#history-fold")


def test_a_deleted_history_is_gone_and_the_policy_stays(context: BrowserContext, site: PagedSite) -> None:
    visit = opened(context, site)
    history_of(visit)
    visit.page.click("#history button")
    expect(visit.page.locator("#history")).to_contain_text("no longer notices that a machine is older")
    visit.page.get_by_text("Keep it").click()
    assert visit.page.locator("#history ol").count() == 1
    visit.page.click("#history button")
    visit.page.click(".delete-history")
    expect(visit.page.locator("#history")).to_contain_text("The history was deleted.")
    names = visit.page.evaluate("Object.keys(localStorage).map((name) => name.split(' ')[1])")
    assert not {"history", "accepted"} & set(names)
    assert {"policy", "token"} <= set(names) | {"token"}
    assert visit.page.locator("#policy-shown code").count() == 1


@pytest.mark.parametrize("kept", ["{", "[1, null, {}]", '[{"at": "x"}]', '[{"at": 1e400, "policy": {}, "values": 3}]'])
def test_a_history_that_cannot_be_read_is_none(kept: str, context: BrowserContext, site: PagedSite) -> None:
    visit = Visit(context, site.url)
    visit.page.evaluate("(kept) => localStorage.setItem(`attest history ${location.origin}`, kept)", kept)
    visit.page.reload()
    visit.is_in("unknown")
    visit.page.click("#history-fold summary")
    expect(visit.page.locator("#history")).to_contain_text("accepted nothing yet")


def test_a_browser_that_keeps_nothing_says_so_and_goes_on(context: BrowserContext, site: PagedSite) -> None:
    context.add_init_script(
        "const get = () => { throw new DOMException('no', 'SecurityError'); };"
        "Object.defineProperty(globalThis, 'localStorage', { get })"
    )
    visit = Visit(context, site.url)
    visit.is_in("unknown")
    visit.accept()
    visit.page.click("#history-fold summary")
    expect(visit.page.locator("#history")).to_contain_text("or keeps nothing")
    evidence = Visit(context, f"{site.url}evidence.html")
    expect(evidence.page.locator("#file")).to_be_enabled()
    expect(evidence.page.locator("#history")).to_contain_text("or keeps nothing")


def test_the_page_about_files_shows_the_history_of_every_service_of_its_origin(
    context: BrowserContext, site: PagedSite
) -> None:
    visit = Visit(context, f"{site.url}evidence.html")
    entry = {"at": 1_780_000_000_000, "accepted": True, "simulated": False, "values": {"snp.measurement": "<b>1</b>"}}
    for service, digest in (("https://a.example", "aa"), ("https://b.example", "bb")):
        kept = json.dumps([entry | {"policy": {"name": "<i>p</i>", "version": 2, "digest": digest}}])
        visit.page.evaluate("([name, kept]) => localStorage.setItem(name, kept)", [f"attest history {service}", kept])
    visit.page.reload()
    expect(visit.page.locator("#history h3")).to_have_text(["https://a.example", "https://b.example"])
    assert "Policy <i>p</i>, version 2, SHA-256 aa" in visit.text("#history")
    visit.page.click('button[aria-label="Delete history of https://a.example"]')
    visit.page.click(".delete-history")
    expect(visit.page.locator("#history h3")).to_have_text(["https://b.example"])
    # It asks nobody, although the service serves it.
    assert {one.split(" ")[0] for one in visit.asked} == {"GET"}
    assert not [one for one in visit.asked if "/v1/" in one or "well-known" in one]
    assert "/" in evidence_page_files()
