"""Firefox and WebKitGTK (Safari's engine): they verify what Python verifies, and the page's story runs in them.

Neither has ML-KEM in WebCrypto (Firefox 153, WebKitGTK 2.50), so that the channel in them is sealed by X25519 alone,
where a service offers that.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_socket

from attest.channel import KEM_HYBRID, KEM_X25519, ChannelKey
from attest.page import PageFile, page_files
from attest.page.server import page_server
from attest.policy import load_policy
from tests.channel.support import Service
from tests.page.browser import PREPARE, Verifier, serving
from tests.page.engines import Engine, EngineName, driven, missing, promised, verifier_of
from tests.page.reference import answer, differences
from tests.page.served import served
from tests.page.site import PagedSite, machine_with_gpu, paged_site
from tests.page.test_channel import PREPARE_CHANNEL, channel_site, send
from tests.page.test_conformance import KINDS, Cases
from tests.page.test_fixtures import CASES, held, question_of
from tests.rag_demo.service.support import NAME, machine
from tests.samples import AT

pytestmark = [pytest.mark.loopback, pytest.mark.apart]
WARD = "The ward has forty beds. The pharmacy opens at eight."
REASON = "browsers without ML-KEM"
_WATCH = b"""
globalThis.watched = [];
for (const name of ["error", "unhandledrejection", "securitypolicyviolation"]) {
    addEventListener(name, (event) => {
        const { message, reason, violatedDirective, blockedURI, target } = event;
        watched.push([name, message ?? reason ?? violatedDirective ?? target?.outerHTML, blockedURI ?? ""].join(" "));
    }, true);
}
"""


@pytest.fixture(scope="module", params=["firefox", "webkit"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    name: EngineName = request.param
    lack = missing(name)
    if lack and not promised(name):
        pytest.skip(lack)
    assert lack is None
    pytest_socket.enable_socket()
    with driven(name, tmp_path_factory.mktemp(name)) as found:
        yield found


@pytest.fixture(scope="module")
def in_engine(engine: Engine) -> Iterator[Verifier]:
    """The verifier in a page of this engine."""
    with serving() as url:
        engine.go(url)
        found = verifier_of(engine)
        found.page.evaluate(PREPARE)
        found.page.evaluate(PREPARE_CHANNEL)
        yield found


# -- the verifier


def test_every_case_of_the_simulator_ends_as_in_python(in_engine: Verifier) -> None:
    questions, files = [question_of(case) for case in CASES], held(CASES)
    in_engine.hold(files)
    failed = [
        f"{case['id']}: {text}"
        for case, question, got in zip(CASES, questions, in_engine.ask_all(questions), strict=True)
        for text in differences(answer(question, files), got)
    ]
    assert failed == []
    assert {case["expected"] for case in CASES} > {"verified", "quote-signature-invalid", "gpu-signature-invalid"}


@pytest.mark.parametrize("kind", KINDS)
def test_recorded_evidence_ends_as_in_python(kind: str, in_engine: Verifier, vectors_dir: Path, tmp_path: Path) -> None:
    cases = Cases(vectors_dir, tmp_path, kind)
    in_engine.hold(cases.files)
    asked = [question for _, question in cases.questions]
    failed = [
        f"{name}: {text}"
        for (name, question), got in zip(cases.questions, in_engine.ask_all(asked), strict=True)
        for text in differences(answer(question, cases.files), got)
    ]
    assert failed == []
    assert asked


# -- the channel


def _service(*kems: int) -> Service:
    return Service(key=ChannelKey.born(random=os.urandom, at=AT, kems=kems))


def test_the_channel_runs_by_the_kem_that_the_engine_has(engine: Engine, in_engine: Verifier) -> None:
    spoken = engine.run("return window.eval('import(\"/channel.js\")').then(({ spokenKems }) => [...spokenKems()])")
    assert KEM_X25519 in spoken
    kems = [KEM_HYBRID] if KEM_HYBRID in spoken else [KEM_X25519]
    with channel_site(_service(KEM_HYBRID, KEM_X25519)) as where:
        (told,) = send(in_engine, where, kems=kems)["answers"]
        assert (told["status"], told["key"]["id"]) == (201, kems[0] == KEM_X25519)
        where.wire.alter = lambda body: body if b'"evidence"' in body else body[:-30]
        assert send(in_engine, where, kems=kems)["code"] in {"channel-truncated", "channel-not-opened"}
    with channel_site(_service(KEM_HYBRID)) as where:
        found = send(in_engine, where, kems=kems)
        assert found.get("code") == (None if KEM_HYBRID in spoken else "channel-keys-unsupported")


# -- the page


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PagedSite]:
    pytest_socket.enable_socket()
    with paged_site(tmp_path_factory.mktemp("page"), x25519=REASON) as found:
        yield found


@dataclass
class Visit:
    """The page in an engine; where it is watched, its errors are collected by a script that runs before its own."""

    engine: Engine

    def text(self, selector: str) -> str:
        self.engine.wait("!document.querySelector('html.fetching')")
        found: str = self.engine.run("return document.querySelector(arguments[0]).innerText", selector)
        return found

    def is_in(self, phase: str) -> None:
        idle = "!document.querySelector('#again').disabled && !document.querySelector('#loading')"
        self.engine.wait(f"document.querySelector('#status').dataset.phase === arguments[0] && {idle}", phase)

    def says(self, selector: str, text: str) -> None:
        self.engine.wait("document.querySelector(arguments[0])?.innerText.includes(arguments[1])", selector, text)

    def accept(self) -> None:
        self.engine.click("#accept")
        self.engine.click("#agree")
        self.is_in("trusted")

    @property
    def code(self) -> str:
        """The code of what went wrong, which stands behind a fold."""
        return str(self.engine.wait("document.querySelector('#failure code')?.textContent"))

    def is_closed(self) -> bool:
        fields = "['#question', '#ask', '#file'].every((name) => document.querySelector(name).disabled)"
        return bool(self.engine.run(f"return {fields}"))

    @property
    def sealed(self) -> int:
        """How many encrypted requests went out, by the browser's own account."""
        asked = "performance.getEntriesByType('resource').filter(({ name }) => name.includes('ohttp-gateway')).length"
        return int(self.engine.run(f"return {asked}"))

    @property
    def watched(self) -> list[str]:
        """What went wrong, but that the page has no picture for the tab, which both ask for and its policy refuses."""
        found: list[str] = self.engine.run("return [...watched]")
        return [one for one in found if not (one.startswith("securitypolicyviolation img-src") and "favicon" in one)]


def _watching(files: dict[str, PageFile]) -> dict[str, PageFile]:
    first = files["/"]
    html = first.body.replace(b'<link rel="stylesheet"', b'<script src="watch.js"></script>\n<link rel="stylesheet"', 1)
    assert html != first.body
    script = PageFile(media_type="text/javascript", body=_WATCH, headers=first.headers)
    return files | {"/": replace(first, body=html), "/watch.js": script}


def test_the_story_from_amber_to_an_answer_to_red(engine: Engine, site: PagedSite, tmp_path: Path) -> None:
    site.machine.now = machine()
    file = tmp_path / "ward.txt"
    file.write_text(WARD)
    pages = _watching(dict(page_files(service=site.url, name=NAME)))
    with served(page_server(pages, port=0)) as url:
        engine.go(url)
        visit = Visit(engine)
        visit.is_in("unknown")
        assert visit.is_closed()
        assert "Simulated, and not yet accepted by you" in visit.text("#status")
        visit.accept()
        engine.click("#export")
        assert load_policy(engine.saved("policy.json"), name="policy.json").name == "accepted-in-the-page"
        hybrid = engine.run("return 'encapsulateBits' in SubtleCrypto.prototype")
        told = "also against quantum computers" if hybrid else "by X25519 alone: this browser has no ML-KEM"
        assert told in visit.text("#key")
        engine.type("#file", str(file))
        visit.says("#uploads", "ward.txt: stored")
        engine.type("#question", "How many beds has the ward?")
        engine.click("#ask")
        visit.says("#log", "The ward has forty beds.")
        assert visit.text("#log").count(f"Sealed to key {0 if hybrid else 1}") == 1
        sealed = visit.sealed
        assert sealed >= 2

        site.machine.with_microcode(-1)
        engine.click("#again")
        visit.is_in("refused")
        assert visit.is_closed()
        assert "Firmware of the AMD processor (Genoa)" in visit.text("#why")
        # Whoever reaches past the disabled fields sends nothing either.
        engine.run("document.querySelectorAll('[disabled]').forEach((one) => one.removeAttribute('disabled'))")
        engine.type("#file", str(file))
        visit.says("#uploads .refused", "The machine is not accepted now.")
        assert visit.sealed == sealed
        assert visit.watched == []


def test_the_page_of_the_service_itself_loads_whole_and_remembers(engine: Engine, site: PagedSite) -> None:
    site.machine.now = machine()
    visit = Visit(engine)
    engine.go(site.url)
    visit.is_in("unknown")
    visit.accept()
    engine.go(site.url)
    visit.is_in("trusted")
    engine.click("#forget")
    visit.is_in("unknown")
    assert visit.sealed == 0


def test_no_part_that_was_changed_on_the_way_runs(engine: Engine, site: PagedSite) -> None:
    files = _watching(dict(page_files(service=site.url)))
    imported = re.findall(r'(?:from|import)\s*"\.(/[^"]+)"', files["/page.js"].body.decode())
    for path in ("/page.js", max(imported, key=lambda path: len(files[path].body))):
        _is_refused(engine, files, path)


def test_a_format_that_was_changed_on_the_way_does_not_run(engine: Engine, site: PagedSite) -> None:
    site.machine.now = machine_with_gpu()
    files = _watching(dict(page_files(service=site.url)))
    [path] = [path for path in files if path.startswith("/gpu-")]
    changed = replace(files[path], body=files[path].body + b"\n;globalThis.changed = true;")
    with served(page_server(files, port=0)) as url:
        engine.go(url)
        visit = Visit(engine)
        visit.is_in("refused")
        # The code ran: the service has no endorsements of a GPU.
        assert visit.code == "ocsp-missing"
    with served(page_server(files | {path: changed}, port=0)) as url:
        engine.go(url)
        visit = Visit(engine)
        visit.is_in("refused")
        assert visit.code == "page-incomplete"
        assert engine.run("return globalThis.changed") is None
        assert visit.is_closed()
    site.machine.now = machine()


def _is_refused(engine: Engine, files: dict[str, PageFile], path: str) -> None:
    script = files[path]
    changed = replace(script, body=script.body + b"\n;globalThis.changed = true;")
    with served(page_server(files | {path: changed}, port=0)) as url:
        engine.go(url)
        engine.wait("watched.some((one) => one.startsWith('error <script'))")
        assert engine.run("return globalThis.changed") is None
        assert Visit(engine).is_closed()


def test_html_is_refused_by_the_browser_where_it_has_trusted_types(engine: Engine, site: PagedSite) -> None:
    with served(page_server(page_files(service=site.url), port=0)) as url:
        engine.go(url)
        told = engine.run(
            """const has = "trustedTypes" in globalThis;
            try { document.createElement("div").innerHTML = "<b>x</b>"; } catch { return [has, false]; }
            return [has, true];"""
        )
    assert told == [True, False]


def test_the_badge_says_the_state(engine: Engine, site: PagedSite) -> None:
    site.machine.now = machine()
    files = dict(page_files(service=site.url))
    html = f"""<!doctype html><html lang="en"><title>Somebody</title><link rel="stylesheet" href="style.css">
    <attestation-badge src="{site.url}" name="{NAME}" policy="/policy.json"></attestation-badge>
    <script type="module" src="/badge.js"></script>"""
    policies: list[tuple[Any, str]] = [(machine(), "trusted"), (machine().with_other_image(), "refused")]
    for owner, phase in policies:
        page = replace(files["/"], body=html.encode())
        policy = PageFile(media_type="application/json", body=owner.policy(), headers=page.headers)
        with served(page_server(_watching(files | {"/": page, "/policy.json": policy}), port=0)) as url:
            engine.go(url)
            engine.wait(
                f"document.querySelector('attestation-badge').shadowRoot?.querySelector('details[data-phase={phase}]')"
            )
            assert Visit(engine).watched == []
