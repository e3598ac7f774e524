"""The page without a service in Chromium, files for it, and what a person does there."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from playwright.sync_api import BrowserContext, FilePayload

from attest.evidence.binding import Binding
from attest.page import evidence_page_files
from attest.page.server import page_server
from attest_simulator.machines import SimulatedMachine
from tests.page.browser import Verifier
from tests.page.served import served
from tests.page.threaded import expect
from tests.page.visits import Visit

AT = datetime(2026, 6, 10, tzinfo=UTC)
MOMENT = "2026-06-10T00:00:00Z"
NONCE = bytes(range(32))
BINDING = Binding(context="channel/v1", role="service", audience="a page", nonce=NONCE, key=b"k" * 32)
OTHER = Binding(context="channel/v1", role="service", audience="a page", nonce=bytes(32), key=b"k" * 32)


def files_of(machine: SimulatedMachine, binding: Binding = BINDING) -> dict[str, bytes]:
    """The evidence of a machine with the maker's statements for it."""
    return {"evidence.json": machine(binding).to_json(), **machine.endorsement_files(at=AT)}


@contextmanager
def open_page(in_browser: Verifier, **options: Any) -> Iterator[tuple[BrowserContext, str]]:  # noqa: ANN401  as the driver takes them
    """Serve the page and give a browser for it, and fail on errors that a page would only log."""
    browser = in_browser.page.context.browser
    assert browser is not None
    with served(page_server(evidence_page_files(), port=0)) as url:
        made = browser.new_context(**options)
        errors: list[str] = []
        made.on("weberror", lambda error: errors.append(str(error.error)))
        made.on("console", lambda told: errors.append(told.text) if "Content Security" in told.text else None)
        yield made, url
        made.close()
        assert not errors, errors


class FilesVisit(Visit):
    """A visit to the page without a service."""

    def ready(self) -> None:
        expect(self.page.locator("#file")).to_be_enabled()

    def add(self, files: Mapping[str, bytes], *, at: str = "#file") -> None:
        self.ready()
        payloads = [
            FilePayload(name=name, mimeType="application/octet-stream", buffer=data) for name, data in files.items()
        ]
        self.page.set_input_files(at, files=payloads)

    def asks_for(self, *, nonce: str = "", at: str = MOMENT, recorded: bool = False) -> None:
        self.ready()
        self.page.evaluate("document.querySelector('#asking').open = true")
        self.page.fill("#nonce", nonce)
        self.page.fill("#at", at)
        self.page.set_checked("#recorded", recorded)
        self.page.click("#asked button")
        expect(self.page.locator("#asked-told")).not_to_be_empty()

    def shows(self, phase: str) -> None:
        expect(self.page.locator(f"#status:not([hidden])[data-phase={phase}]")).to_be_attached()

    def accept(self, word: str | None = None) -> None:
        self.agrees(word)
        self.shows("trusted")

    def judges(self, files: Mapping[str, bytes], phase: str = "unknown") -> None:
        """Ask for the nonce at the moment of the files, and add them."""
        self.asks_for(nonce=NONCE.hex())
        self.add(files)
        self.shows(phase)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
