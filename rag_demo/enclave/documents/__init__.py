"""Bytes of a file → pages of text, in a child process that can do nothing else; pages → passages.

::

    reading.py      parse(): the pages of a document, as they come
    child.py        the child process: started, fed, listened to with suspicion, ended
    worker.py       its program: imports, confines itself, reads one document, says its pages
    confine.py      what it gives up before it sees a byte; seccomp.py has the filter
    detect.py       what a document is, by its bytes; kinds.py by its name and media type
    readers/        one module a format
    text.py         the same letters for the same words, and nothing invisible
    sentences.py    where sentences end
    packing.py      split(): sentences packed into passages

The worker imports this package too, before it confines itself. So the names below are looked up when they are used,
and neither NumPy nor the library for cryptography gets into a process that reads what strangers made.
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
    "ReadingProgress": f"{__name__}.reading",
    "Reading": f"{__name__}.reading",
    "parse": f"{__name__}.reading",
    "split": f"{__name__}.packing",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_HOMES[name]), name)
    return found
