"""HTML: the text that a browser would show, by the standard library's parser, which has no tree and no recursion."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from html.parser import HTMLParser

from rag_demo.enclave.documents.page_writer import Line, Out, Parts, UnreadableDocumentError
from rag_demo.enclave.documents.readers.plain import decoded, encoding_of

_DROPPED = frozenset(
    """
    script style template noscript iframe object svg select textarea canvas
    """.split()  # noqa: SIM905  words in quotes are harder to read
)
_BLOCKS = frozenset(
    """
    address article aside blockquote body caption center dd details dialog div dl dt fieldset figcaption figure
    footer form h1 h2 h3 h4 h5 h6 header hr html legend li main menu nav ol p pre section summary table tbody
    tfoot thead title tr ul
    """.split()  # noqa: SIM905  words in quotes are harder to read
)
_LARGE_HEADINGS = frozenset({"h1", "h2"})
_LINES: Mapping[str, Line] = {"li": "item", "tr": "row"}
_SPACE = re.compile(r"[ \t\n\r\f]+")
_SPACES = re.compile(r" {2,}")
_AROUND_LINE_END = re.compile(r" ?\n ?")
MAX_BLOCK_CHARACTERS = 2_000_000

_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_:-]{1,40})""", re.IGNORECASE)
_XML_ENCODING = re.compile(rb"""\s*<\?xml[^>]{0,100}?encoding\s*=\s*["']([A-Za-z0-9_:-]{1,40})["']""")
_CHARSET_WITHIN = 1024
"""Number of bytes in which HTML demands the declaration of the encoding."""
ENCODINGS = {
    "utf-8": "utf-8",
    "utf8": "utf-8",
    # For the Web these three are one (WHATWG Encoding Standard, section 4.2).
    "us-ascii": "cp1252",
    "iso-8859-1": "cp1252",
    "windows-1252": "cp1252",
    "iso-8859-2": "iso8859-2",
    "iso-8859-15": "iso8859-15",
    "windows-1250": "cp1250",
    "windows-1251": "cp1251",
    "koi8-r": "koi8-r",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "gb18030": "gb18030",
    "big5": "big5",
    "shift_jis": "cp932",
    "euc-jp": "euc_jp",
    "euc-kr": "cp949",
}
"""Encodings that a page may declare, and their codecs."""
for _codec in ENCODINGS.values():
    codecs.lookup(_codec)  # loads it: no file can be opened later, when it is used


class _Text(HTMLParser):
    """Hands on blocks of text with white space as a browser shows it.

    Args:
        block: takes a block, whether it begins a large heading, and of what it is a line.
    """

    def __init__(self, block: Callable[[str, bool, Line], None]) -> None:
        super().__init__(convert_charrefs=True)
        self._block = block
        self._words: list[str] = []
        self._size = 0
        self._dropped: str | None = None
        self._depth = 0  # of elements of the dropped one's name in it
        self._preformatted = 0
        self._heading = False
        self._line: Line = None

    def parse_html_declaration(self, i: int) -> int:
        """Take ``<![…>`` for a comment, as browsers do; office programs write it, and the library gives up on most."""
        if self.rawdata.startswith("<![", i):
            return self.parse_bogus_comment(i)
        return super().parse_html_declaration(i)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if self._dropped is not None:
            self._depth += tag == self._dropped
        elif tag in _DROPPED:
            self._dropped, self._depth = tag, 1
        else:
            self._shown(tag)

    def _shown(self, tag: str) -> None:
        if tag == "br":
            self._word("\n")
        elif tag in {"td", "th"}:
            self._word("\t")
        elif tag in _BLOCKS:
            self.flush()
            self._heading, self._line = tag in _LARGE_HEADINGS, _LINES.get(tag)
            self._preformatted += tag == "pre"
            if tag == "li":
                self._word("- ")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        # The slash has no meaning in HTML, but XHTML is written with it.
        if self._dropped is None and tag not in _DROPPED:
            self._shown(tag)
            self._preformatted -= tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        if self._dropped is not None:
            self._depth -= tag == self._dropped
            if self._depth <= 0:
                self._dropped = None
        elif tag in _BLOCKS:
            self.flush()
            self._preformatted = max(0, self._preformatted - (tag == "pre"))

    def handle_data(self, data: str) -> None:
        if self._dropped is None:
            self._word(data if self._preformatted else _SPACE.sub(" ", data))

    def _word(self, text: str) -> None:
        self._words.append(text)
        self._size += len(text)
        if self._size > MAX_BLOCK_CHARACTERS:
            self.flush()

    def flush(self) -> None:
        """Hand on what there is."""
        text = "".join(self._words)
        self._words, self._size = [], 0
        if text.strip(" \t\n-"):
            if not self._preformatted:
                text = _AROUND_LINE_END.sub("\n", _SPACES.sub(" ", text)).strip()
            self._block(text, self._heading, self._line)
            self._heading, self._line = False, None


def text_of(html: str) -> str:
    """Return the text of a piece of HTML."""
    found: list[str] = []
    _run(html, lambda text, _heading, _line: found.append(text))
    return "\n\n".join(found)


def _run(html: str, block: Callable[[str, bool, Line], None]) -> None:
    parser = _Text(block)
    try:
        parser.feed(html)
        parser.close()
    except AssertionError as exc:  # the standard library's parser raises this for an invalid declaration
        raise UnreadableDocumentError("malformed", "a declaration in HTML") from exc
    parser.flush()


def read(data: bytes, out: Out) -> None:
    """Read blocks into parts, one for each large heading."""
    parts = Parts(out)

    def block(text: str, heading: bool, line: Line) -> None:  # noqa: FBT001  called by the parser alone
        if heading:
            parts.end()
        parts.block(text, line=line)

    _run(_letters(data), block)
    parts.end()


def _letters(data: bytes) -> str:
    """Decode a page by its mark, by what it says, or else as UTF-8."""
    head = data[:_CHARSET_WITHIN]
    _, mark = encoding_of(data)
    said = None if mark else _CHARSET.search(head) or _XML_ENCODING.match(head)
    if said is None:
        return decoded(data)
    name = said[1].decode("ascii").lower()
    if name not in ENCODINGS:
        raise UnreadableDocumentError("encoding", f"HTML in {name}")
    if ENCODINGS[name] == "utf-8":
        return decoded(data)
    try:
        return data.decode(ENCODINGS[name])
    except UnicodeDecodeError as exc:
        raise UnreadableDocumentError("encoding", f"bytes that are not {name}", exc.start) from exc
