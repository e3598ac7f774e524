"""Debian's Chromium with the page's verifier in it, and the questions that tests put to it."""

import base64
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

from playwright.sync_api import Browser, Page, sync_playwright

from tests.page.served import served
from tests.page.threaded import BrowserThread

REPOSITORY = Path(__file__).resolve().parents[2]
BUNDLE = REPOSITORY / "attest" / "page" / "bundle"
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium") or "/usr/bin/chromium"
"""The shell without windows, where there is one: the same engine, and a page takes a third of the time."""

_TYPES = {".js": "text/javascript", ".html": "text/html", ".css": "text/css"}
_TEST_PAGE = b"<!doctype html><meta charset=utf-8><title>verifier</title>"
PREPARE = """
async () => {
    const { verifyEvidence } = await import("/verifier.js");
    const files = new Map();
    const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    globalThis.attest = {
        verifyEvidence,
        bytesOf,
        hold: (more) => more.forEach(([name, text]) => files.set(name, bytesOf(text))),
        async ask({ input, inline, at, endorsements, eventLog, ...rest }) {
            const file = (name) => ({ name, bytes: files.get(name) });
            const options = { at: new Date(at), endorsements: endorsements.map(file), ...rest };
            if (eventLog) options.eventLog = files.get(eventLog);
            return verifyEvidence(inline ?? input.map(file), options);
        },
        async askAll(questions) {
            const answers = [];
            for (const question of questions) answers.push(await attest.ask(question));
            return JSON.stringify(answers);
        },
    };
}
"""


def browser_is_there() -> bool:
    """Say whether there is a browser; where one was promised, a missing one fails the tests instead."""
    return bool(shutil.which(CHROMIUM)) or os.environ.get("ATTEST_REQUIRE_BROWSER") == "1"


@dataclass(frozen=True, kw_only=True)
class Question:
    """One call of ``verifyEvidence``; files are named, and held by the page once."""

    input: Sequence[str]
    at: str
    endorsements: Sequence[str] = ()
    nonce: str | None = None
    report_data: str | None = None
    event_log: str | None = None
    unchecked: Mapping[str, str] = field(default_factory=dict[str, str])
    anchors: str = "vendors"
    binding: Mapping[str, str] | None = None
    tolerances: Mapping[str, Mapping[str, Any]] | None = None

    def document(self) -> dict[str, object]:
        """What the page is told."""
        told: dict[str, object] = {
            "input": list(self.input),
            "at": self.at,
            "endorsements": list(self.endorsements),
            "anchors": self.anchors,
            "unchecked": [{"check": name, "reason": reason} for name, reason in self.unchecked.items()],
        }
        optional = {
            "nonce": self.nonce,
            "reportData": self.report_data,
            "eventLog": self.event_log,
            "binding": self.binding,
            "tolerances": self.tolerances,
        }
        return told | {name: value for name, value in optional.items() if value is not None}


class Verifier:
    """The verifier in a page."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._held: dict[str, bytes] = {}

    def reload(self) -> None:
        """Begin anew: no code is loaded but the entry, no file is held, and nothing was verified."""
        self.page.reload()
        self.page.evaluate(PREPARE)
        self._held.clear()

    def hold(self, files: Mapping[str, bytes]) -> None:
        """Give files to the page; one that it has under this name, of the same content, is not sent again."""
        digests = {name: sha256(data).digest() for name, data in files.items()}
        more = [
            (name, base64.b64encode(data).decode())
            for name, data in files.items()
            if self._held.get(name) != digests[name]
        ]
        self._held |= digests
        self.page.evaluate("(files) => attest.hold(files)", more)

    def ask_all(self, questions: Iterable[Question]) -> list[dict[str, Any]]:
        """Verify several pieces of evidence, one after the other."""
        told = [question.document() for question in questions]
        answers: str = self.page.evaluate("(questions) => attest.askAll(questions)", told)
        return cast("list[dict[str, Any]]", json.loads(answers))

    def ask(self, question: Question) -> dict[str, Any]:
        """Verify one piece of evidence."""
        return self.ask_all([question])[0]


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path = BUNDLE / Path(self.path).name
        there = self.path != "/" and path.is_file()
        self.send_response(200 if there or self.path == "/" else 404)
        self.send_header("Content-Type", _TYPES.get(path.suffix, "text/html"))
        self.end_headers()
        self.wfile.write(path.read_bytes() if there else _TEST_PAGE)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name of the base class
        """Say nothing."""


@contextmanager
def serving() -> Iterator[str]:
    """Serve the bundle and an empty page that may do anything."""
    with served(ThreadingHTTPServer(("127.0.0.1", 0), _Handler)) as url:
        yield url


@contextmanager
def verifier() -> Iterator[Verifier]:
    """Start a browser with the bundle in a page of the loopback address, which is a secure context.

    ``Verifier.page`` is a stand-in: Playwright lives in a thread of its own.
    """
    thread = BrowserThread()
    try:
        with serving() as url, _chromium(thread) as browser:
            page = browser.new_page()
            page.goto(url)
            page.evaluate(PREPARE)
            yield Verifier(page)
    finally:
        thread.end()


@contextmanager
def _chromium(thread: BrowserThread) -> Iterator[Browser]:
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    playwright = thread.call(lambda: sync_playwright().start())
    try:
        browser = cast("Browser", playwright.chromium.launch(executable_path=CHROMIUM, args=arguments))
        try:
            yield browser
        finally:
            browser.close()
    finally:
        playwright.stop()
