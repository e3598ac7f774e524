"""The fact "software known" by provenance: green, grey and red, in words, and without anything fetched from Sigstore."""

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256

import pytest
from playwright.sync_api import BrowserContext

from tests.page.browser import Verifier
from tests.page.evidence_page import NONCE, FilesVisit, files_of, open_page
from tests.page.site import machine_with_gpu
from tests.page.test_policy_references import id_of, public_of, signed
from tests.page.threaded import expect
from tests.page.visits import AXE, Visit, violations
from tests.provenance.sigstore_made import BUILDER, COMMIT, IDENTITY, ISSUER, REPOSITORY, Json, MadeSigstore, statement_1
from tests.rag_demo.service.support import machine

pytestmark = pytest.mark.loopback
MADE = MadeSigstore()
ROOT = json.dumps(MADE.trusted_root()).encode()
SIGNER = json.dumps({"schema": "attest.provenance-signer/1", "identity": IDENTITY, "issuer": ISSUER}).encode()
MACHINE = machine()
ENTRY = "entry 7003 of a public log on 2026-06-01 12:00:00 UTC"


def policy_files(*, by: str = "digest", measurement: str | None = None) -> dict[str, bytes]:
    """A policy that knows its software by a document alone, which it accepts by its digest or by a signature."""
    policy = json.loads(MACHINE.policy(name="by-provenance"))
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


@pytest.fixture
def opened(in_browser: Verifier) -> Iterator[tuple[BrowserContext, str]]:
    with open_page(in_browser) as (context, url):
        yield context, url


@pytest.fixture
def visit(opened: tuple[BrowserContext, str]) -> FilesVisit:
    context, url = opened
    made = FilesVisit(context, url)
    made.judges(files_of(MACHINE))
    return made


def software(visit: Visit) -> tuple[str | None, str]:
    place = visit.page.locator("#fact-software")
    return place.get_attribute("class"), place.inner_text()


def says(visit: Visit, tone: str, *words: str) -> None:
    expect(visit.page.locator(f"#fact-software.{tone}")).to_be_attached()
    visit.page.evaluate("document.querySelectorAll('#facts details').forEach((one) => (one.open = true))")
    for word in words:
        expect(visit.page.locator("#fact-software")).to_contain_text(word)


def sound(visit: Visit) -> None:
    """Nothing was asked of anybody but the page's own origin, and axe finds nothing."""
    origin = visit.page.evaluate("location.origin")
    assert [one for one in visit.asked if not one.startswith(f"GET {origin}/")] == []
    if AXE.is_file():
        assert violations(visit.page) == []


def is_not_taken(visit: Visit, code: str) -> None:
    expect(visit.page.locator("#policy-told")).to_contain_text(code)
