"""Writer of the pages that a reader finds: normalised, counted, and written as frames."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import Literal

from rag_demo.enclave.documents import wire
from rag_demo.enclave.documents.kinds import DocumentKind
from rag_demo.enclave.documents.limits import DocumentLimits
from rag_demo.enclave.documents.normalisation import mended, normalised

PART_CHARACTERS = 10_000
"""Length of a part of a document without pages: about four sheets of paper."""
Line = Literal["item", "row"] | None
"""Kind of a block that is one line of several: an item of a list, a row of a table."""
_PLAIN = re.compile(r"[^A-Za-z0-9 ./+_-]")


class UnreadableDocumentError(Exception):
    """The document cannot be read.

    Attributes:
        reason: one of ``wire.REASONS``.
        what: the thing found, or the exceeded limit; plain letters.
        number: the page, the limit, or 0.
    """

    def __init__(self, reason: str, what: str = "", number: int = 0) -> None:
        super().__init__(reason, what, number)
        self.reason = reason
        self.what = _PLAIN.sub("", what)[:80]
        self.number = number


class Out:
    """Collector of the pages of one document, in order."""

    def __init__(self, limits: DocumentLimits, promised: DocumentKind | None, write: Callable[[bytes], None]) -> None:
        self.limits = limits
        self.promised = promised
        self._write = write
        self._pages = 0
        self._characters = 0

    def kind(self, kind: DocumentKind) -> None:
        """Write the kind of the document."""
        self._write(wire.frame(wire.KIND, kind.value.encode()))

    def total(self, pages: int) -> None:
        """Write the number of pages."""
        if pages > self.limits.max_pages:
            raise UnreadableDocumentError("limit", "max_pages", self.limits.max_pages)
        self._write(wire.frame(wire.TOTAL, wire.NUMBER.pack(pages)))

    def page(self, text: str, *, lines_of_paper: bool = False, is_part: bool = False) -> None:
        """Take the text of the next page.

        Args:
            text: as the format has it.
            lines_of_paper: its lines end where paper did, not where its author ended them.
            is_part: it is a part of a document whose format has no pages.
        """
        if self._pages == self.limits.max_pages:
            raise UnreadableDocumentError("limit", "max_pages", self.limits.max_pages)
        if len(text) > self.limits.max_page_characters:
            raise UnreadableDocumentError("limit", "max_page_characters", self.limits.max_page_characters)
        text = normalised(text)
        if lines_of_paper:
            text = mended(text)
        self._pages += 1
        self._characters += len(text)
        if self._characters > self.limits.max_characters:
            raise UnreadableDocumentError("limit", "max_characters", self.limits.max_characters)
        self._write(wire.frame(wire.PART if is_part else wire.PAGE, text.encode()))

    def end(self) -> None:
        """Write the end of the document."""
        self._write(wire.frame(wire.END, wire.NUMBER.pack(self._pages)))

    def problem(self, problem: UnreadableDocumentError) -> None:
        """Write the reason why the document cannot be read."""
        frame = {"reason": problem.reason, "what": problem.what, "number": problem.number}
        self._write(wire.frame(wire.PROBLEM, json.dumps(frame).encode()))


class Parts:
    """Divider of a document without pages into parts: one at each large heading, and where a part gets long."""

    def __init__(self, out: Out, *, lines_of_paper: bool = False) -> None:
        self._out = out
        self._lines_of_paper = lines_of_paper
        self._blocks = Blocks()
        self._size = 0

    def block(self, text: str, *, line: Line = None) -> None:
        """Take a paragraph, or a similar block: it stays in one part, unless it is very long.

        Args:
            text: of the block.
            line: of a list or a table; between it and the line before there is no empty line.
        """
        while len(text) > PART_CHARACTERS:
            cut = _near(text, PART_CHARACTERS)
            self._add(text[:cut], line=line)
            text = text[cut:]
        self._add(text, line=line)

    def _add(self, text: str, *, line: Line) -> None:
        if not text.strip():
            return
        if self._size + len(text) > PART_CHARACTERS:
            self.end()
        self._blocks.append(text, line=line)
        self._size += len(text) + 2

    def end(self) -> None:
        """End the part, if there is anything in it."""
        if text := self._blocks.taken():
            self._size = 0
            self._out.page(text, lines_of_paper=self._lines_of_paper, is_part=True)


class Blocks:
    """Blocks of a text, with an empty line between them, and none between the lines of a list or table."""

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._line: Line = None

    def append(self, text: str, *, line: Line) -> None:
        """Add a block, or the next line of one."""
        if line is not None and line == self._line:
            self._blocks.append("\n")
        elif self._blocks:
            self._blocks.append("\n\n")
        self._blocks.append(text)
        self._line = line

    def taken(self) -> str:
        """Return the text, and begin the next one."""
        text = "".join(self._blocks)
        self._blocks, self._line = [], None
        return text


def _near(text: str, limit: int) -> int:
    """Return the place to cut a text above the given length: after a sentence or line, else a word, else there."""
    for mark in ("\n", ". ", "\u3002", " "):
        found = text.rfind(mark, limit // 2, limit)
        if found >= 0:
            return found + len(mark)
    return limit


def write_to(descriptor: int) -> Callable[[bytes], None]:
    """Return a function that writes all of some bytes to a descriptor."""

    def write(data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]

    return write
