"""A visit to the page in Chromium, and what a person does there."""

import os
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, FilePayload, Page

from tests.page.browser import REPOSITORY
from tests.page.threaded import expect

AXE = REPOSITORY / "page" / "node_modules" / "axe-core" / "axe.min.js"
SHOTS = Path(os.environ.get("ATTEST_PAGE_SHOTS", str(REPOSITORY / "build" / "screenshots")))
"""A folder for pictures of every state, for people to look at."""
WARD = b"The ward has forty beds. The pharmacy opens at eight."
QUESTION = "How many beds has the ward?"


class Visit:
    """A page, with everything that it asked for."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.page = context.new_page()
        self.asked: list[str] = []
        self.page.on("request", lambda request: self.asked.append(f"{request.method} {request.url}"))
        self.page.goto(url)

    @property
    def sealed(self) -> int:
        """How many encrypted requests went out."""
        return sum(one.startswith("POST ") for one in self.asked)

    def is_in(self, phase: str) -> None:
        expect(self.page.locator(f"#status[data-phase={phase}]")).to_be_attached()
        expect(self.page.locator("#again")).to_be_enabled()

    def agrees(self, word: str | None = None) -> None:
        """Press the primary button, type the word where one is wanted, and consent."""
        self.page.click("#accept")
        if word is not None:
            self.page.fill("#typed", word)
        self.page.click("#agree")

    def accept(self, word: str | None = None) -> None:
        self.agrees(word)
        self.is_in("trusted")

    @property
    def code(self) -> str:
        """The code of what went wrong, which stands behind a fold."""
        expect(self.page.locator("#failure code")).to_be_attached()
        return str(self.page.text_content("#failure code"))

    def again(self) -> None:
        self.page.click("#again")

    def is_closed(self) -> None:
        for name in ("#question", "#ask", "#file"):
            expect(self.page.locator(name)).to_be_disabled()

    def upload(self, name: str = "ward.txt", data: bytes = WARD) -> None:
        self.page.set_input_files("#file", files=[FilePayload(name=name, mimeType="text/plain", buffer=data)])

    def asks(self) -> None:
        self.page.fill("#question", QUESTION)
        self.page.press("#question", "Enter")

    def tries_all_the_same(self) -> None:
        """Reach past the disabled fields."""
        self.page.evaluate("document.querySelectorAll('[disabled]').forEach((one) => one.removeAttribute('disabled'))")
        self.asks()
        self.upload("tried.txt")
        expect(self.page.locator("#uploads .refused")).to_contain_text("The machine is not accepted now.")

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()

    def picture(self, name: str, *, whole: bool = False, at: str = "body") -> None:
        """Write a picture for people to look at, from an element on."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.page.evaluate("(place) => document.querySelector(place).scrollIntoView()", at)
        self.page.screenshot(path=str(SHOTS / f"{name}.png"), full_page=whole)


def load(visit: Visit, document: bytes, **others: bytes) -> None:
    files = {"p": document} | others
    visit.page.set_input_files(
        "#load",
        files=[
            FilePayload(name=f"{name}.json", mimeType="application/json", buffer=data) for name, data in files.items()
        ],
    )


def violations(page: Page) -> list[str]:
    """What axe finds."""
    page.evaluate(AXE.read_text())
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [f"{one['id']}: {node['html'][:160]}" for one in found["violations"] for node in one["nodes"]]
