"""Detection of a document's kind by its first bytes, compared with the declared one."""

from __future__ import annotations

import re

from rag_demo.enclave.documents.kinds import DocumentKind
from rag_demo.enclave.documents.page_writer import UnreadableDocumentError
from rag_demo.enclave.documents.readers.plain import encoding_of
from rag_demo.enclave.documents.zips import is_docx

_PDF_WITHIN = 1024
"""Number of bytes in which readers of PDF look for ``%PDF-`` (PDF 1.7, appendix H, note 13)."""
_HTML = re.compile(
    r"(?:\s|<\?xml[^>]{0,200}\?>|<!--(?:(?!-->).){0,4000}-->)*+<(?:!doctype\s+html|html|head|body)[\s>/]",
    re.IGNORECASE | re.DOTALL,
)
_HEAD = 16 << 10
_OTHERS = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"II*\x00", "a TIFF image"),
    (b"MM\x00*", "a TIFF image"),
    (b"{\\rtf", "an RTF document"),
    (b"%!PS", "a PostScript document"),
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"Rar!", "a RAR archive"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"SQLite format 3", "a database"),
)
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")


def detect(data: bytes, promised: DocumentKind | None) -> DocumentKind:
    """Return the kind of a document.

    PDF, DOCX and whole HTML pages are known by their bytes. Other text has the declared kind, since any text is valid
    Markdown and the valid text of an HTML page.

    Raises:
        UnreadableDocumentError: ``type-unknown``, ``type-mismatch``, ``encrypted``, ``malformed`` or ``limit``.
    """
    found = _marked(data)
    if found is None:
        if promised in {DocumentKind.PDF, DocumentKind.DOCX}:
            raise UnreadableDocumentError("type-mismatch", "text" if _looks_like_text(data) else "something else")
        return promised or DocumentKind.TEXT
    if promised not in {found, None}:
        raise UnreadableDocumentError("type-mismatch", found.value)
    return found


def _marked(data: bytes) -> DocumentKind | None:
    """Return the kind with the mark that the bytes carry; None for possible text."""
    if data.startswith(b"PK\x03\x04"):
        if is_docx(data):
            return DocumentKind.DOCX
        raise UnreadableDocumentError("type-unknown", "a zip archive that is not a DOCX")
    if data.startswith(_OLE):
        if _ENCRYPTED_PACKAGE in data:
            raise UnreadableDocumentError("encrypted", "an encrypted Office document")
        raise UnreadableDocumentError("type-unknown", "a document of an old version of Office")
    for mark, name in _OTHERS:
        if data.startswith(mark) and not (mark == b"MZ" and _looks_like_text(data)):
            raise UnreadableDocumentError("type-unknown", name)
    if (place := data.find(b"%PDF-", 0, _PDF_WITHIN)) >= 0 and (place == 0 or not _looks_like_text(data)):
        return DocumentKind.PDF
    return DocumentKind.HTML if _HTML.match(_head(data)) else None


def _looks_like_text(data: bytes) -> bool:
    return encoding_of(data)[0] != "utf-8" or b"\0" not in data[:_HEAD]


def _head(data: bytes) -> str:
    """Return the beginning as letters, only to look for a mark in it."""
    encoding, mark = encoding_of(data)
    head = data[len(mark) : _HEAD]
    return head.decode("latin-1") if encoding == "utf-8" else head.decode(encoding, "replace")
