"""PDF: the text of each page, by PDFium. No script of a page is run, and no resource fetched."""

# The library ships no types.
# pyright: basic

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from typing import NamedTuple

import pypdfium2
import pypdfium2.raw as pdfium

from rag_demo.enclave.documents.page_writer import Out, UnreadableDocumentError

_PARAGRAPH_GAP = 1.4
"""Gap of a paragraph: a multiple of the usual gap between two lines, or of the height of a letter if that is more."""
_SIZE_CHANGE = 1.25
_COLUMN_GAP = 1.5
"""As a multiple of the height of a letter; words of a line are nearer to each other, also in justified text."""
# PDFium puts U+FFFE in place of a removed hyphen and the end of its line.
_TAKEN_HYPHEN = re.compile("\ufffe(.?)", re.DOTALL)


def read(data: bytes, out: Out) -> None:
    """Read all pages."""
    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as exc:
        if exc.err_code in {pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY}:
            raise UnreadableDocumentError("encrypted", "a PDF with a password") from exc
        raise UnreadableDocumentError("malformed", "not a PDF that can be opened") from exc
    with document:
        count = len(document)
        if count < 1:
            raise UnreadableDocumentError("malformed", "a PDF without pages")
        out.total(count)
        for index in range(count):
            out.page(_page(document, index, out.limits.max_page_characters), lines_of_paper=True)


def _page(document: pypdfium2.PdfDocument, index: int, limit: int) -> str:
    try:
        page = document[index]
        try:
            text = page.get_textpage()
            try:
                return _text(text, limit)
            finally:
                text.close()
        finally:
            page.close()
    except pypdfium2.PdfiumError as exc:
        raise UnreadableDocumentError("malformed", "page", index + 1) from exc


def _text(page: pypdfium2.PdfTextPage, limit: int) -> str:
    count = page.count_chars()
    if count > limit:
        raise UnreadableDocumentError("limit", "max_page_characters", limit)
    if count < 1:
        return ""
    return _TAKEN_HYPHEN.sub(_mended, _paragraphs(page, _columns(page, page.get_text_range())))


def _mended(found: re.Match[str]) -> str:
    return found[1] if found[1].islower() else "-" + found[1]


def _paragraphs(page: pypdfium2.PdfTextPage, text: str) -> str:
    """Insert an empty line where the line distance grows, the letters change size, or a column begins."""
    lines = text.split("\r\n")
    steps = list(_steps(page, lines))
    gaps = sorted(step.gap for step in steps if step is not None and step.gap > 0)
    usual = gaps[len(gaps) // 4] if gaps else 0.0
    made = lines[:1]
    for line, step in zip(lines[1:], steps, strict=True):
        if step is not None and step.apart(usual):
            made.append("")
        made.append(line)
    return "\n".join(made)


def _columns(page: pypdfium2.PdfTextPage, text: str) -> str:
    """Put a tab in place of a blank between two words that are far apart: the cells of a row are placed, not spaced."""
    made, index = [], 0
    for line in text.split("\r\n"):
        several = " " in line and pdfium.FPDFText_CountRects(page, index, len(line)) > 1
        made.append("".join(_cells(page, line, index)) if several else line)
        index += len(line) + 2
    return "\r\n".join(made)


def _cells(page: pypdfium2.PdfTextPage, line: str, index: int) -> Iterator[str]:
    for at, letter in enumerate(line):
        yield "\t" if letter == " " and 0 < at < len(line) - 1 and _far(page, index + at) else letter


def _far(page: pypdfium2.PdfTextPage, blank: int) -> bool:
    """Return true if the letters before and behind a blank are far apart."""
    before, after = _box(page, blank - 1), _box(page, blank + 1)
    if before is None or after is None:
        return False
    gap: float = after.left - before.right
    height: float = before.top - before.bottom
    return gap > _COLUMN_GAP * height


class _Step(NamedTuple):
    """From the last letter of a line to the first of the next, in points; ``gap`` is downwards."""

    gap: float
    height_before: float
    height: float

    def apart(self, usual: float) -> bool:
        larger, smaller = max(self.height_before, self.height), min(self.height_before, self.height)
        if larger > _SIZE_CHANGE * smaller or self.gap < -smaller:
            return True
        return self.gap > _PARAGRAPH_GAP * max(usual, smaller)


def _steps(page: pypdfium2.PdfTextPage, lines: list[str]) -> Iterator[_Step | None]:
    """Yield the step to each line but the first; None to or from a letter that cannot be placed."""
    index = 0
    before: tuple[float, float] | None = None
    for number, line in enumerate(lines):
        first = _place(page, index + len(line) - len(line.lstrip())) if line.strip() else None
        if number:
            yield _Step(before[0] - first[0], before[1], first[1]) if before and first else None
        before = _place(page, index + len(line.rstrip()) - 1) if line.strip() else None
        index += len(line) + 2


def _place(page: pypdfium2.PdfTextPage, index: int) -> tuple[float, float] | None:
    """Return the baseline and the height of a letter, in points."""
    box = _box(page, index)
    return None if box is None else (box.bottom, box.top - box.bottom)


def _box(page: pypdfium2.PdfTextPage, index: int) -> pdfium.FS_RECTF | None:
    """Return the box of a letter; None without one."""
    box = pdfium.FS_RECTF()
    if not pdfium.FPDFText_GetLooseCharBox(page, index, ctypes.byref(box)) or box.top <= box.bottom:
        return None
    return box
