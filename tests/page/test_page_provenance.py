"""The fact "software known" by provenance: green, grey and red, and nothing is fetched from Sigstore."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import pytest
from playwright.sync_api import FilePayload

from attest.page.server import page_server
from attest_simulator.machines import SimulatedMachine
from tests.page.browser import Verifier
from tests.page.evidence_page import FilesVisit, files_of, open_page
from tests.page.served import served
from tests.page.site import PagedSite, errorless
from tests.page.test_page_states import without_the_mark
from tests.page.test_policy_references import id_of, public_of, signed
from tests.page.threaded import expect
from tests.page.visits import AXE, Visit, violations
from tests.provenance.sigstore_made import (
    BUILDER,
    COMMIT,
    IDENTITY,
    ISSUER,
    REPOSITORY,
    Json,
    MadeSigstore,
    statement_1,
)
from tests.rag_demo.service.support import machine

pytestmark = pytest.mark.loopback
MADE = MadeSigstore()
OTHER_ROOT = json.dumps(MadeSigstore().trusted_root()).encode()
ROOT = json.dumps(MADE.trusted_root()).encode()
SIGNER = json.dumps({"schema": "attest.provenance-signer/1", "identity": IDENTITY, "issuer": ISSUER}).encode()
MACHINE = machine()
EVIDENCE_OF = SimulatedMachine.of("snp")
ENTRY = "entry 7003 of a public log on 2026-06-01 12:00:00 UTC"


def policy_files(
    *, by: str = "digest", measurement: str | None = None, of: SimulatedMachine = MACHINE
) -> dict[str, bytes]:
    """A policy that knows its software by a document alone, which it accepts by its digest or by a signature."""
    policy = json.loads(of.policy(name="by-provenance"))
    own = policy.pop("reference_values")["workload"]["values"]
    images: Json = {
        "schema": "attest.references/1",
        "name": "images",
        "version": 1,
        "origin": "the build",
        "issued": "2026-01-01T00:00:00Z",
        "expires": {"unchecked": "a test"},
        "values": {"workload": {"kind": "snp-measurement", "values": [measurement] if measurement else own}},
    }
    document = json.dumps(images, separators=(",", ":"), sort_keys=True).encode()
    accepted = {"sha256": sha256(document).hexdigest()} if by == "digest" else {"signers": [id_of("alice")]}
    policy["references"] = [{"document": "images", **accepted}]
    files = {"policy.json": json.dumps(policy).encode(), "images.json": document}
    if by == "digest":
        return files
    return files | {"images.sig": signed(images, "alice").encode(), "alice.pem": public_of("alice").encode()}


def provenance_files(document: bytes) -> dict[str, bytes]:
    subject = {"name": "images.json", "digest": {"sha256": sha256(document).hexdigest()}}
    bundle = json.dumps(MADE.bundle(statement_1(subject=[subject]))).encode()
    return {"images.sigstore.json": bundle, "trusted_root.json": ROOT, "signer.json": SIGNER}


@contextmanager
def visited(in_browser: Verifier, site: PagedSite, **options: Any) -> Iterator[Visit]:  # noqa: ANN401  as the driver takes them
    """Visit the page as genuine hardware shows it."""
    with served(page_server(without_the_mark(site), port=0)) as url, errorless(in_browser, site, **options) as context:
        visit = Visit(context, url)
        visit.is_in("unknown")
        yield visit


def give(visit: Visit, files: Mapping[str, bytes]) -> None:
    payloads = [FilePayload(name=name, mimeType="text/plain", buffer=data) for name, data in files.items()]
    visit.page.set_input_files("#load", files=payloads)


def shows(visit: Visit, tone: str, *words: str) -> None:
    """Require the colour of the fact, and these words in it or in its details."""
    place = visit.page.locator("#fact-software")
    expect(place).to_have_class(tone)
    for word in words:
        visit.page.wait_for_function(
            "(word) => document.querySelector('#fact-software').innerHTML.includes(word)", arg=word
        )


def is_sound(visit: Visit, origins: Collection[str]) -> None:
    """Require that nothing was fetched from elsewhere, and that axe finds nothing."""
    asked = {one.split(" ", 1)[1] for one in visit.asked}
    assert {one for one in asked if not one.startswith(tuple(origins))} == set()
    visit.page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    if AXE.is_file():
        assert violations(visit.page) == []


def test_software_whose_build_is_proved_is_known(in_browser: Verifier, site: PagedSite) -> None:
    with visited(in_browser, site) as visit:
        files = policy_files()
        give(visit, files | provenance_files(files["images.json"]))
        visit.is_in("trusted")
        shows(visit, "yes", f"images: built from {REPOSITORY} by {IDENTITY}, {ENTRY}.")
        shows(visit, "yes", BUILDER, COMMIT, "refs/tags/v1.2", ISSUER, sha256(ROOT).hexdigest())
        visit.picture("software-provenance")
        is_sound(visit, [visit.page.evaluate("location.origin"), site.site.url])
        visit.page.reload()
        visit.is_in("trusted")
        shows(visit, "yes", ENTRY)
        assert "provenance" not in visit.text("#command")


def test_a_signed_document_with_provenance_is_known_by_both(in_browser: Verifier, site: PagedSite) -> None:
    with visited(in_browser, site) as visit:
        files = policy_files(by="signature")
        give(visit, files | provenance_files(files["images.json"]))
        visit.is_in("trusted")
        shows(visit, "yes", "Vouched for by a signed reference document: images.", ENTRY)


def test_software_of_a_document_without_provenance_is_unknown_until_it_is_added(
    in_browser: Verifier, site: PagedSite
) -> None:
    with visited(in_browser, site) as visit:
        files = policy_files()
        give(visit, files)
        visit.is_in("trusted")
        shows(visit, "open", "Unknown to us")
        is_sound(visit, [visit.page.evaluate("location.origin"), site.site.url])
        give(visit, provenance_files(files["images.json"]))
        shows(visit, "yes", ENTRY)


def test_software_that_the_proved_document_does_not_name_is_refused(in_browser: Verifier, site: PagedSite) -> None:
    with visited(in_browser, site) as visit:
        files = policy_files(measurement="ab" * 48)
        give(visit, files | provenance_files(files["images.json"]))
        visit.is_in("refused")
        shows(visit, "no", "This is not the software that you accepted.")
        is_sound(visit, [visit.page.evaluate("location.origin"), site.site.url])
        assert visit.sealed == 0


def altered(files: dict[str, bytes], name: str, old: bytes, new: bytes) -> dict[str, bytes]:
    assert old in files[name]
    return files | {name: files[name].replace(old, new, 1)}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda files: altered(files, "images.sigstore.json", b'"7003"', b'"7004"'), "provenance-not-verified"),
        (
            lambda files: altered(files, "signer.json", b"issuer.invalid", b"other.invalid"),
            "provenance-issuer-mismatch",
        ),
        (lambda files: altered(files, "signer.json", b"build.yml", b"other.yml"), "provenance-identity-mismatch"),
        (lambda files: files | {"trusted_root.json": OTHER_ROOT}, "provenance-not-verified"),
        (lambda files: files | provenance_files(b"other"), "provenance-subject-mismatch"),
        (lambda files: {n: d for n, d in files.items() if n != "trusted_root.json"}, "provenance-root-invalid"),
        (lambda files: {n: d for n, d in files.items() if n != "signer.json"}, "provenance-signer-empty"),
    ],
    ids=["entry", "issuer", "identity", "root", "document", "no root", "no signer"],
)
def test_provenance_that_does_not_hold_is_not_taken_and_nothing_is_sent(
    change: Callable[[dict[str, bytes]], dict[str, bytes]], code: str, in_browser: Verifier, site: PagedSite
) -> None:
    with visited(in_browser, site) as visit:
        files = policy_files()
        give(visit, change(files | provenance_files(files["images.json"])))
        expect(visit.page.locator("#policy-told")).to_contain_text(f"[{code}]")
        visit.is_in("unknown")
        shows(visit, "open", "Unknown to us")
        assert visit.sealed == 0


@pytest.mark.parametrize(
    ("locale", "sentence", "refusal"),
    [
        ("en", "images: built from", "What was given of its build does not hold."),
        ("de", "images: aus", "Was über ihren Bau vorliegt, hält der Prüfung nicht stand."),
        ("fr", "images : construit de", "Ce qui est donné de sa construction ne résiste pas à la vérification."),
    ],
)
def test_provenance_that_was_altered_in_the_browser_turns_red_in_every_language(
    locale: str, sentence: str, refusal: str, in_browser: Verifier, site: PagedSite
) -> None:
    with visited(in_browser, site, locale=locale) as visit:
        files = policy_files()
        give(visit, files | provenance_files(files["images.json"]))
        visit.is_in("trusted")
        shows(visit, "yes", sentence, IDENTITY, "7003")
        visit.page.evaluate(
            """() => {
                for (const [name, value] of Object.entries(localStorage)) {
                    localStorage[name] = value.replaceAll('7003', '7004');
                }
            }"""
        )
        visit.page.reload()
        visit.is_in("refused")
        shows(visit, "no", refusal)
        assert visit.code == "provenance-not-verified"
        is_sound(visit, [visit.page.evaluate("location.origin"), site.site.url])


def test_a_link_contains_no_provenance(in_browser: Verifier, site: PagedSite) -> None:
    with visited(in_browser, site) as visit:
        files = policy_files()
        give(visit, files | provenance_files(files["images.json"]))
        visit.is_in("trusted")
        visit.page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
        visit.page.click("#share")
        link = visit.page.input_value("#link")
        visit.page.evaluate("localStorage.clear()")
        visit.page.goto("about:blank")
        visit.page.goto(link)
        visit.page.click("#use-link")
        visit.is_in("trusted")
        shows(visit, "open", "Unknown to us")


def test_files_that_are_dropped_without_a_service_prove_the_build(in_browser: Verifier) -> None:
    with open_page(in_browser) as (context, url):
        visit = FilesVisit(context, url)
        visit.judges(files_of(EVIDENCE_OF))
        files = policy_files(of=EVIDENCE_OF)
        visit.add(files)
        visit.shows("trusted")
        visit.add(provenance_files(files["images.json"]))
        # The evidence is a simulator's, so that the fact is not green; what was proved stands in its details.
        shows(visit, "simulated", BUILDER, COMMIT, IDENTITY, "7003, 2026-06-01 12:00:00 UTC")
        visit.add(altered(provenance_files(files["images.json"]), "images.sigstore.json", b'"7003"', b'"7004"'))
        expect(visit.page.locator("#policy-told")).to_contain_text("[provenance-not-verified]")
        shows(visit, "simulated", "7003, 2026-06-01 12:00:00 UTC")
        is_sound(visit, [url])
