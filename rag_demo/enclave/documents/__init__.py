"""Bytes of a file → pages of text, in a confined child process; pages → passages.

::

    document_pages.py   parse(): the pages of a document, one by one
    child.py            the child process: its start, its input, its checked output, its end
    worker.py           its program: imports, confines itself, reads one document, writes its pages
    confine.py          its confinement before the first byte of a document; seccomp.py has the filter
    detect.py           the kind of a document by its bytes; kinds.py by its name and media type
    readers/            one module a format
    normalisation.py    one spelling for each word, without invisible characters
    sentences.py        the ends of sentences
    passages.py         split(): sentences packed into passages

The worker imports this package too, before it confines itself. The names below are imported at their first use, which
keeps NumPy and the cryptography library out of the process that reads untrusted documents.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rag_demo.enclave.documents.document_pages import Reading, ReadingProgress, parse
    from rag_demo.enclave.documents.kinds import DocumentKind
    from rag_demo.enclave.documents.limits import DocumentLimits
    from rag_demo.enclave.documents.passages import split
    from rag_demo.enclave.errors import DocumentError, DocumentLimitError, DocumentReaderError

__all__ = [
    "DocumentError",
    "DocumentKind",
    "DocumentLimitError",
    "DocumentLimits",
    "DocumentReaderError",
    "Reading",
    "ReadingProgress",
    "parse",
    "split",
]

_HOMES = {
    "DocumentError": "rag_demo.enclave.errors",
    "DocumentLimitError": "rag_demo.enclave.errors",
    "DocumentReaderError": "rag_demo.enclave.errors",
    "DocumentKind": f"{__name__}.kinds",
    "DocumentLimits": f"{__name__}.limits",
    "ReadingProgress": f"{__name__}.document_pages",
    "Reading": f"{__name__}.document_pages",
    "parse": f"{__name__}.document_pages",
    "split": f"{__name__}.passages",
}


def __getattr__(name: str) -> object:
    """Import a public name at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_HOMES[name]), name)
    return found
