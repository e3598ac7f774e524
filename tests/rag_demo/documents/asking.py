"""Documents handed to the reader, in its process or in this one."""

import pytest

from rag_demo.enclave.documents import DocumentError, DocumentKind, DocumentLimits, parse
from rag_demo.enclave.documents.detect import detect
from rag_demo.enclave.documents.page_writer import Out, UnreadableDocumentError
from rag_demo.enclave.documents.readers import docx, html, markdown, pdf, plain

READERS = {
    DocumentKind.PDF: pdf.read,
    DocumentKind.DOCX: docx.read,
    DocumentKind.HTML: html.read,
    DocumentKind.MARKDOWN: markdown.read,
    DocumentKind.TEXT: plain.read,
}
SMALL = DocumentLimits(max_bytes=1 << 20, seconds=20, cpu_seconds=10, memory_bytes=256 << 20)


def refusal(document: bytes, name: str, limits: DocumentLimits | None = None) -> DocumentError:
    with pytest.raises(DocumentError) as caught, parse(document, name=name, limits=limits) as reading:
        list(reading)
    assert caught.value.code != "document-reader-defect"
    return caught.value


def texts(document: bytes, name: str, limits: DocumentLimits | None = None) -> list[str]:
    with parse(document, name=name, limits=limits) as reading:
        return [page.text for page in reading]


def here(document: bytes, promised: DocumentKind | None) -> str:
    """Read a document in this process, where a thousand of them take a second; return how it was refused."""
    out = Out(SMALL, promised, lambda _frame: None)
    try:
        READERS[detect(document, promised)](document, out)
    except UnreadableDocumentError as exc:
        return exc.reason
    return ""
