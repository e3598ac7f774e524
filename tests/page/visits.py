"""A visit to the page in Chromium, and what a person does there."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, FilePayload, Page, Request, Route

from tests.page.browser import REPOSITORY
from tests.page.threaded import expect

AXE = REPOSITORY / "page" / "node_modules" / "axe-core" / "axe.min.js"
SHOTS = Path(os.environ.get("ATTEST_PAGE_SHOTS", str(REPOSITORY / "build" / "screenshots")))
"""A folder for pictures of every state, for people to look at."""
WARD = b"The ward has forty beds. The pharmacy opens at eight."
STEP_MS = 5_000
PATIENCE_SECONDS = 60
QUESTION = "How many beds has the ward?"


class Visit:
    """A page, with everything that it asked for."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.page = context.new_page()
        self.asked: list[str] = []
        self._under_way: set[Request] = set()
        self.page.on("request", self._starts)
        # A page need not read the rest of a refusal, so "requestfinished" may never come.
        self.page.on("response", lambda response: self._under_way.discard(response.request))
        self.page.on("requestfailed", self._fails)
        self.page.goto(url)

    def _starts(self, request: Request) -> None:
        self.asked.append(f"{request.method} {request.url}")
        self._under_way.add(request)

    def _fails(self, request: Request) -> None:
        self._under_way.discard(request)

    def stops_clock(self) -> None:
        """Stop a clock that is installed, a second from now."""
        self.page.context.clock.pause_at(self.now() + 1)

    def now(self) -> float:
        """The seconds of the page's clock."""
        return float(self.page.evaluate("Date.now()")) / 1000

    def lets_pass(self, milliseconds: int) -> None:
        """Let a stopped clock go on in steps, each after the answers to what the last one asked for.

        A fetch ends by this clock as well, after half a minute: where it goes on while a slow machine answers, the
        page believes that the service is slow.
        """
        for _ in range(milliseconds // STEP_MS):
            self.page.context.clock.run_for(STEP_MS)
            expect(self.page.locator("#again")).to_be_enabled()
            given_up = time.monotonic() + PATIENCE_SECONDS
            while self._under_way:
                assert time.monotonic() < given_up, self._under_way
                self.page.wait_for_timeout(10)

    @property
    def sealed(self) -> int:
        """How many encrypted requests went out."""
        return sum(one.startswith("POST ") for one in self.asked)

    def is_in(self, phase: str) -> None:
        expect(self.page.locator(f"#status[data-phase={phase}]")).to_be_attached()
        self.is_whole()
        expect(self.page.locator("#again")).to_be_enabled()

    def is_whole(self) -> None:
        """Wait for what is fetched after the first verdict."""
        expect(self.page.locator("#loading")).not_to_be_attached()

    def is_quiet(self) -> None:
        """Wait until the page asks for nothing more by itself, as far as the clock has gone."""
        expect(self.page.locator("#status:not([data-phase=checking])")).to_be_attached()
        self.is_whole()
        expect(self.page.locator("#again")).to_be_enabled()
        given_up = time.monotonic() + PATIENCE_SECONDS
        counted = -1
        while self._under_way or counted != len(self.asked):
            assert time.monotonic() < given_up, self._under_way
            counted = len(self.asked)
            # All that follows from the answers so far has begun when the page answers again.
            self.page.evaluate("() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)))")

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


def held_back(visit: Visit, pattern: str) -> Callable[[], None]:
    """Hold a request of the page back, and return what lets it go."""
    held: list[Route] = []

    def let_go(route: Route) -> None:
        held.pop().continue_()
        route.fulfill(status=204)

    visit.page.route(pattern, lambda route: held.append(route))  # noqa: PLW0108  the driver wants a function
    visit.page.route("**/let-go", let_go)
    return lambda: visit.page.evaluate("async () => { await fetch('/let-go'); }")


def parts_asked(visit: Visit, *, since: int = 0) -> set[str]:
    """Return which parts of the bundle a page asked for, by the names of their sources."""
    files = [one.split()[1].rpartition("/")[2] for one in visit.asked[since:]]
    return {file.partition("-")[0] for file in files if file.endswith(".js") and "-" in file} - {"chunk"}


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
