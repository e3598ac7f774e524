"""What tests of uploads share: a model that waits, files of every kind, and a look at what was shown on the way."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import FilePayload

from tests.page.site import PagedSite
from tests.page.threaded import expect
from tests.page.visits import WARD, Visit
from tests.rag_demo.service.parts import WordEmbedder

PATIENCE_SECONDS = 60
STORED_MS = 30_000
WATCH = """() => {
    globalThis.shown = [];
    const look = () => globalThis.shown.push(document.querySelector("#uploads").innerText);
    new MutationObserver(look).observe(document.querySelector("#uploads"), {
        subtree: true, childList: true, characterData: true,
    });
}"""
DROP = """([place, type, name]) => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File(["The ward has forty beds."], name, { type: "text/plain" }));
    const event = new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true });
    return document.querySelector(place).dispatchEvent(event);
}"""
"""Returns true where the browser itself takes what is dropped."""


class Model:
    """The model of a served site, which works at once, or whenever a test lets it."""

    def __init__(self, site: PagedSite) -> None:
        embedder = site.site.workshop.opened[-1].embedder
        assert isinstance(embedder, WordEmbedder)
        self._embedder = embedder
        self._free = threading.Event()
        self.reached = threading.Event()

    def stops(self) -> None:
        """Let it stop at its next passage."""
        self._free.clear()
        self.reached.clear()
        self._embedder.during = self._wait

    def works(self, during: Callable[[], object] = lambda: None) -> None:
        """Let it work on."""
        self._embedder.during = during
        self._free.set()

    def is_at_work(self) -> None:
        assert self.reached.wait(PATIENCE_SECONDS)

    def _wait(self) -> None:
        self.reached.set()
        assert self._free.wait(PATIENCE_SECONDS)


@contextmanager
def model_of(site: PagedSite) -> Iterator[Model]:
    """Give the model, and let it work on in the end."""
    model = Model(site)
    try:
        yield model
    finally:
        model.works()


def text_file(name: str, text: bytes = WARD, kind: str = "text/plain") -> FilePayload:
    return FilePayload(name=name, mimeType=kind, buffer=text)


def choose(visit: Visit, *files: FilePayload) -> None:
    visit.page.set_input_files("#file", files=list(files))


def row(visit: Visit, name: str) -> Any:  # noqa: ANN401  a stand-in
    """The row of an upload."""
    return visit.page.locator("#uploads > li", has_text=name)


def is_stored(visit: Visit, name: str) -> None:
    """Wait until a document is stored; the first one of a process loads what tells languages."""
    expect(row(visit, name)).to_contain_text("stored", timeout=STORED_MS)


def comes_to_list(visit: Visit) -> None:
    """Move the pointer to the list of documents, which the page reads then."""
    visit.page.hover("#documents h2")


def lists(visit: Visit, *names: str) -> None:
    """Come to the list, and wait until it has these documents."""
    comes_to_list(visit)
    expect(visit.page.locator(".stock bdi")).to_have_text(list(names), timeout=STORED_MS)


def names_stored(site: PagedSite, visit: Visit) -> list[str]:
    """The names of the documents that the service has of the person, as the page's list shows them."""
    kept = {one.name for held in site.site.workshop.store.kept.values() for one, _ in held.values()}
    shown = list(visit.page.locator(".stock bdi").all_inner_texts())
    assert set(shown) <= kept
    return shown
