"""DOCX: the text of the document, its footnotes and endnotes, from WordprocessingML (ECMA-376, part 1).

The XML is read as events, without a tree. A document type declaration ends the reading, as the format demands; so
there are no entities but XML's own. Relationships are not read at all, so nothing outside the file is ever named.
"""

# The library ships no types.
# pyright: basic

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree  # type: ignore[import-untyped]  # it ships no types

from rag_demo.enclave.documents.page_writer import Blocks, Line, Out, Parts, UnreadableDocumentError
from rag_demo.enclave.documents.zips import MAX_TYPES_BYTES, TYPES, Package

_MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
_NOTES = {
    "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml": "footnote",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.endnotes+xml": "endnote",
}
_W = (
    "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}",
    "{http://purl.oclc.org/ooxml/wordprocessingml/main}",  # "strict"
)
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_TWICE = frozenset({_FALLBACK, *(space + "moveFrom" for space in _W)})
"""Elements with repeated content: the same for older programs, and text before it was moved."""
_CT = "{http://schemas.openxmlformats.org/package/2006/content-types}"
_LARGE_HEADINGS = frozenset({"title", "heading1", "heading2"})
MAX_PARAGRAPH_CHARACTERS = 1_000_000


def read(data: bytes, out: Out) -> None:
    """Read the document: its pages where it has page breaks, else a part for each large heading."""
    package = Package(data)
    types = _Types()
    _feed(package.unpack(TYPES, MAX_TYPES_BYTES), types)
    main = types.named(_MAIN)
    if len(main) != 1:
        raise UnreadableDocumentError("malformed", "the content types of the archive")
    limit = out.limits.max_unpacked_bytes
    breaks = _Breaks()
    _feed(package.unpack(main[0], limit), breaks)
    if not breaks.is_document:
        raise UnreadableDocumentError("malformed", "the main part of the document")
    parts = Parts(out)
    if breaks.any:
        _feed(package.unpack(main[0], limit), _Text(_Pages(out)))
    else:
        _feed(package.unpack(main[0], limit), _Text(parts))
        parts.end()
    for media_type in _NOTES:
        for name in types.named(media_type):
            _feed(package.unpack(name, limit), _Text(parts))
    parts.end()


class _Target:
    """The base of lxml's parser targets: it receives a document piece by piece."""

    def doctype(self, _name: str | None, _public: str | None, _system: str | None) -> None:
        raise UnreadableDocumentError("malformed", "a document type declaration in XML")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Take the beginning of an element."""

    def end(self, tag: str) -> None:
        """Take the end of an element."""

    def data(self, text: str) -> None:
        """Take text."""

    def close(self) -> None:
        """Take the end of the document."""


def _feed(pieces: Iterator[bytes], target: _Target) -> None:
    parser = etree.XMLParser(
        target=target,
        resolve_entities=False,
        load_dtd=False,
        dtd_validation=False,
        no_network=True,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        for piece in pieces:
            parser.feed(piece)
        parser.close()
    except (etree.XMLSyntaxError, etree.ParserError, ValueError) as exc:
        raise UnreadableDocumentError("malformed", "XML in the archive") from exc


class _Types(_Target):
    """Target for the content types of the parts."""

    def __init__(self) -> None:
        self._named: dict[str, list[str]] = {}

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == f"{_CT}Override":
            name = attributes.get("PartName", "").removeprefix("/")
            self._named.setdefault(attributes.get("ContentType", ""), []).append(name)

    def named(self, media_type: str) -> list[str]:
        return self._named.get(media_type, [])


def _local(tag: str) -> str:
    """Return the local name of a WordprocessingML element; of any other, the empty string."""
    for namespace in _W:
        if tag.startswith(namespace):
            return tag[len(namespace) :]
    return ""


def _attribute(attributes: dict[str, str], name: str) -> str:
    return next((attributes[space + name] for space in _W if space + name in attributes), "")


def _is_break(tag: str, attributes: dict[str, str]) -> bool:
    return tag == "lastRenderedPageBreak" or (tag == "br" and _attribute(attributes, "type") == "page")


class _Breaks(_Target):
    """Target that looks for page breaks."""

    def __init__(self) -> None:
        self.any = False
        self.is_document = False
        self._begun = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = _local(tag)
        if not self._begun:
            self._begun, self.is_document = True, name == "document"
        self.any = self.any or _is_break(name, attributes)


class _Pages:
    """Collector of paragraphs, divided at page breaks."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self._blocks = Blocks()
        self._size = 0

    def block(self, text: str, *, line: Line = None) -> None:
        if not text.strip():
            return
        self._blocks.append(text, line=line)
        self._size += len(text) + 2
        if self._size > self._out.limits.max_page_characters:
            raise UnreadableDocumentError("limit", "max_page_characters", self._out.limits.max_page_characters)

    def end(self) -> None:
        self._out.page(self._blocks.taken())
        self._size = 0


class _Text(_Target):
    """Paragraphs, with what is struck out, hidden in alternatives, or an instruction of a field left out."""

    def __init__(self, into: _Pages | Parts) -> None:
        self._into = into
        self._words: list[str] = []
        self._size = 0
        self._in_text = False
        self._twice = 0
        self._heading = False
        self._row: list[str] | None = None
        self._tables = 0
        self._fresh = True  # the page is still empty
        self._hard = False  # …and it began with a break that its author made

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._twice += tag in _TWICE
        name = _local(tag)
        if self._twice or not name:
            return
        if name == "t":
            self._in_text = True
        elif name == "tbl":
            self._tables += 1
        elif name == "tr" and self._tables == 1:
            self._row = []
        elif name == "pStyle":
            self._heading = _attribute(attributes, "val").replace(" ", "").lower() in _LARGE_HEADINGS
        elif name in {"tab", "br", "cr", "noBreakHyphen", "lastRenderedPageBreak"}:
            self._mark(name, attributes)

    def _mark(self, name: str, attributes: dict[str, str]) -> None:
        if not _is_break(name, attributes):
            self._word({"tab": "\t", "noBreakHyphen": "-"}.get(name, "\n"))
        elif isinstance(self._into, _Pages) and self._tables == 0:
            # Word notes where it broke pages when it last showed them, behind the author's breaks too.
            if not (name == "lastRenderedPageBreak" and self._fresh and self._hard):
                self._paragraph()
                self._into.end()
            self._fresh, self._hard = True, name == "br"

    def data(self, text: str) -> None:
        if self._in_text:
            self._word(text)

    def _word(self, text: str) -> None:
        self._words.append(text)
        self._size += len(text)
        self._fresh = self._fresh and not text.strip()
        if self._size > MAX_PARAGRAPH_CHARACTERS:
            raise UnreadableDocumentError("limit", "characters of a paragraph", MAX_PARAGRAPH_CHARACTERS)

    def end(self, tag: str) -> None:
        self._twice -= tag in _TWICE
        name = _local(tag)
        if self._twice:
            return
        if name == "t":
            self._in_text = False
        elif name == "p":
            self._paragraph()
        elif name == "tr" and self._tables == 1:
            cells, self._row = self._row or [], None
            self._into.block("\t".join(cells), line="row")
        elif name == "tbl":
            self._tables -= 1

    def _paragraph(self) -> None:
        text = "".join(self._words)
        self._words, self._size = [], 0
        if self._row is not None:
            if text.strip():
                self._row.append(text.strip())
            return
        if self._heading and text.strip() and isinstance(self._into, Parts):
            self._into.end()
        self._heading = False
        self._into.block(text)

    def close(self) -> None:
        self._paragraph()
        if isinstance(self._into, _Pages):
            self._into.end()
