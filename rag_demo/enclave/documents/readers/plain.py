"""Plain text: UTF-8, or UTF-16 with a byte order mark. Anything else would be guessing."""

from __future__ import annotations

import codecs
import re

from rag_demo.enclave.documents.page_writer import Out, Parts, UnreadableDocumentError

_PARAGRAPH_END = re.compile(r"\n[ \t]*\n\s*")
_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
for _, _codec in _MARKS:
    codecs.lookup(_codec)  # loads it: no file can be opened later, when it is used


def encoding_of(data: bytes) -> tuple[str, bytes]:
    """Return the encoding by the byte order mark, and the mark; UTF-8 without one."""
    return next(((name, mark) for mark, name in _MARKS if data.startswith(mark)), ("utf-8", b""))


def decoded(data: bytes) -> str:
    """Return text as letters, line ends as line feeds.

    Raises:
        UnreadableDocumentError: ``encoding``, ``type-unknown``.
    """
    encoding, mark = encoding_of(data)
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as exc:
        raise UnreadableDocumentError("encoding", f"bytes that are not {encoding.upper()}", exc.start) from exc
    if "\0" in text:
        raise UnreadableDocumentError("type-unknown", "bytes that are not text")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read(data: bytes, out: Out) -> None:
    """Read pages, which end at form feeds; without any, paragraphs into parts."""
    first, *more = decoded(data).split("\f")
    if more:
        for sheet in (first, *more):
            out.page(sheet, lines_of_paper=True)
        return
    parts = Parts(out, lines_of_paper=True)
    for paragraph in _PARAGRAPH_END.split(first):
        parts.block(paragraph)
    parts.end()
