"""Markdown: the words without the marks (CommonMark, and tables)."""

from __future__ import annotations

from markdown_it import MarkdownIt
from markdown_it.token import Token

from rag_demo.enclave.documents.page_writer import Out, Parts, UnreadableDocumentError
from rag_demo.enclave.documents.readers.html import text_of
from rag_demo.enclave.documents.readers.plain import decoded

MAX_NESTING = 60
"""Limit for the depth of nested quotes and lists. Beyond it the library drops text silently; here it is refused."""
MAX_MARKS = 400
"""Brackets, stars and ticks of a paragraph. With more of them it stays as it is: pairing them takes time that grows
with the square of their number."""
_LARGE_HEADINGS = frozenset({"h1", "h2"})


def read(data: bytes, out: Out) -> None:
    """Read blocks into parts, one for each large heading."""
    blocks = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING}).enable("table").disable("inline")
    inlines = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING})
    known: dict[str, object] = {}  # the targets of links
    parts = Parts(out)
    row: list[str] | None = None
    item = ""
    for token in blocks.parse(decoded(data), known):
        if token.level >= MAX_NESTING - 2:
            raise UnreadableDocumentError("limit", "quotes and lists in each other", MAX_NESTING)
        if token.type == "heading_open" and token.tag in _LARGE_HEADINGS:
            parts.end()
        elif token.type == "list_item_open":
            item = f"{token.info}{token.markup} " if token.info else "- "
        elif token.type == "tr_open":
            row = []
        elif token.type == "tr_close":
            parts.block("\t".join(row or []), line="row")
            row = None
        elif text := _text(inlines, token, known):
            if row is not None:
                row.append(text)
            else:
                parts.block(item + text, line="item" if item else None)
                item = ""
    parts.end()


def _text(parser: MarkdownIt, token: Token, known: dict[str, object]) -> str:
    """Return the text of a block."""
    if token.type == "inline":
        if sum(map(token.content.count, "[]*_`<!~")) > MAX_MARKS:
            return token.content
        children = [child for inline in parser.parseInline(token.content, known) for child in inline.children or ()]
        return "".join(_words(child) for child in children)
    if token.type in {"fence", "code_block"}:
        return token.content
    return text_of(token.content) if token.type == "html_block" else ""


def _words(token: Token) -> str:
    if token.type in {"text", "code_inline", "text_special"}:
        return token.content
    if token.type == "image":
        return "".join(_words(child) for child in token.children or ())
    return "\n" if token.type in {"softbreak", "hardbreak"} else ""
