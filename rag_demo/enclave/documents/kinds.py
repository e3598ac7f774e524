"""The kinds of documents, by name and media type."""

from __future__ import annotations

from enum import StrEnum


class DocumentKind(StrEnum):
    """A kind of document that is read here."""

    PDF = "pdf"
    DOCX = "docx"
    HTML = "html"
    MARKDOWN = "markdown"
    TEXT = "text"

    @property
    def media_type(self) -> str:
        """Its media type, as registered with IANA."""
        return _MEDIA_TYPES[self]

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The endings of file names that promise it."""
        return tuple(suffix for suffix, kind in SUFFIXES.items() if kind is self)


_MEDIA_TYPES = {
    DocumentKind.PDF: "application/pdf",
    DocumentKind.DOCX: "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    DocumentKind.HTML: "text/html",
    DocumentKind.MARKDOWN: "text/markdown",
    DocumentKind.TEXT: "text/plain",
}
_BY_MEDIA_TYPE = {value: kind for kind, value in _MEDIA_TYPES.items()} | {
    "application/x-pdf": DocumentKind.PDF,
    "application/xhtml+xml": DocumentKind.HTML,
    "text/x-markdown": DocumentKind.MARKDOWN,
}
SAYS_NOTHING = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/x-download"})
"""Media types that browsers and programs send for an unknown file."""

SUFFIXES = {
    ".pdf": DocumentKind.PDF,
    ".docx": DocumentKind.DOCX,
    ".html": DocumentKind.HTML,
    ".htm": DocumentKind.HTML,
    ".xhtml": DocumentKind.HTML,
    ".md": DocumentKind.MARKDOWN,
    ".markdown": DocumentKind.MARKDOWN,
    ".txt": DocumentKind.TEXT,
    ".text": DocumentKind.TEXT,
}
_OTHERS = frozenset(
    """
    .bmp .csv .doc .docm .dotx .epub .exe .gif .gz .jpeg .jpg .json .mp3 .mp4 .odp .ods .odt .pages .png .ppt
    .pptx .ps .rtf .svg .tar .tif .tiff .tsv .webp .xls .xlsm .xlsx .xml .zip
    """.split()  # noqa: SIM905  words in quotes are harder to read
)
"""Endings of file names that promise another kind. Any further ending promises nothing: ``minutes.2026``."""


def kind_of_name(name: str) -> DocumentKind | None:
    """Return the kind that a file's name promises; None where it promises none.

    Raises:
        LookupError: it promises a kind that is not read here; the argument is its ending.
    """
    _, dot, ending = name.rpartition(".")
    suffix = (dot + ending).lower()
    if suffix in _OTHERS:
        raise LookupError(suffix)
    return SUFFIXES.get(suffix)


def kind_of_media_type(media_type: str) -> DocumentKind | None:
    """Return the kind that a media type promises, its parameters left aside; None where it promises none.

    Raises:
        LookupError: it promises a kind that is not read here; the argument is the media type.
    """
    essence = media_type.split(";", 1)[0].strip().lower()
    if essence in SAYS_NOTHING:
        return None
    if essence not in _BY_MEDIA_TYPE:
        raise LookupError(essence[:80])
    return _BY_MEDIA_TYPE[essence]
