"""Refusals of documents that cannot be read."""

from __future__ import annotations

import json
import re
import signal

from rag_demo.enclave.documents import wire
from rag_demo.enclave.documents.limits import DocumentLimits
from rag_demo.enclave.errors import DocumentError, DocumentLimitError, DocumentReaderError

_WHAT = re.compile(r"[A-Za-z0-9 ./+_-]{0,80}")
_READ_HERE = "PDF, DOCX, HTML, Markdown, or text in UTF-8 or UTF-16"
_GAVE_UP = frozenset({signal.SIGABRT, signal.SIGSEGV, signal.SIGILL, signal.SIGTRAP, signal.SIGBUS})
_LIMITS = frozenset(DocumentLimits.__dataclass_fields__)


def misbehaved(what: str) -> DocumentError:
    """Return the error for a reader with invalid output: a document may have taken it over."""
    return DocumentError(
        f"the process that read the document sent {what}; nothing of its output is used",
        code="document-reader-misbehaved",
        got=what,
        hint="treat the document as hostile",
    )


def crashed(code: int, used: int, limits: DocumentLimits) -> DocumentError:
    """Return the error for a reader that ended before its last frame.

    Args:
        code: its exit code; below zero the number of the signal that ended it, negated.
        used: bytes of memory that it had at most.
        limits: that it had.
    """
    if code == -signal.SIGXCPU:
        return DocumentLimitError(
            f"reading the document took more than {limits.cpu_seconds} s of processor time",
            code="document-limit",
            field="cpu_seconds",
            expected=f"at most {limits.cpu_seconds} s",
            hint="split the document, or raise the limit",
        )
    if code == -signal.SIGSYS:
        return DocumentError(
            "the process that read the document made a system call that no reader needs, and was ended",
            code="document-reader-forbidden-call",
            got="SIGSYS",
            hint="treat the document as hostile",
        )
    if -code in _GAVE_UP and used > limits.memory_bytes // 2:
        # PDFium ends its process without a message where an allocation fails.
        return DocumentLimitError(
            f"the document needs more memory than its reader may have: it gave up with {used} bytes in use",
            code="document-limit",
            field="memory_bytes",
            expected=f"at most {limits.memory_bytes} bytes of addresses",
            hint="split the document, or raise the limit",
        )
    name = signal.Signals(-code).name if -code in {one.value for one in signal.Signals} else f"exit code {code}"
    return DocumentError(
        f"the process that read the document ended unexpectedly ({name}): the document is malformed in a way that its "
        f"library does not survive, or needs more memory than {limits.memory_bytes} bytes of addresses",
        code="document-reader-crashed",
        got=name,
        hint="save the document anew with another program, or raise memory_bytes",
    )


def mismatch(*, name: str, promised: str, found: str) -> DocumentError:
    """Return the error for a document that is not of its declared kind."""
    return DocumentError(
        f"{name!r} is declared as {promised}, but holds {found}",
        code="document-type-mismatch",
        expected=promised,
        got=found,
        hint="give the file the name and media type of what it is",
    )


def problem(payload: bytes, *, name: str, promised: str | None) -> DocumentError:
    """Return the error for the refusal that a reader sent, which is checked first."""
    try:
        sent = json.loads(payload)
        reason, what, number = sent["reason"], sent["what"], sent["number"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return misbehaved("a refusal that cannot be read")
    if (
        not (isinstance(reason, str) and isinstance(what, str))
        or reason not in wire.REASONS
        or not _WHAT.fullmatch(what)
        or type(number) is not int
        or not 0 <= number < 1 << 63
    ):
        return misbehaved("an invalid refusal")
    if reason == "type-mismatch":
        return mismatch(name=name, promised=promised or "another", found=what)
    if reason == "limit":
        return _limit(name, what, number)
    return _REFUSALS[reason](name, what, number)


def _limit(name: str, what: str, number: int) -> DocumentLimitError:
    most = f" (at most {number})" if number else ""
    return DocumentLimitError(
        f"{name!r} goes beyond a limit: {what}{most}",
        code="document-limit",
        field=what,
        expected=f"at most {number}" if number else None,
        hint="split the document, or raise the limit" if what in _LIMITS else None,
    )


def _unknown(name: str, what: str, _number: int) -> DocumentError:
    return DocumentError(
        f"{name!r} holds {what}, which is not read here",
        code="document-type-unknown",
        expected=_READ_HERE,
        got=what,
        hint="save it as PDF or DOCX",
    )


def _encoding(name: str, what: str, number: int) -> DocumentError:
    return DocumentError(
        f"{name!r} holds {what} (offset {number})",
        code="document-encoding-unsupported",
        offset=number,
        expected="UTF-8, or UTF-16 with a byte order mark; for HTML what its first 1024 bytes say",
        got=what,
        hint="save it as UTF-8",
    )


def _encrypted(name: str, what: str, _number: int) -> DocumentError:
    return DocumentError(
        f"{name!r} is {what}",
        code="document-encrypted",
        got=what,
        hint="save it without a password: what is uploaded is encrypted on its way and where it lies",
    )


def _malformed(name: str, what: str, number: int) -> DocumentError:
    where = f"{what} {number}" if number else what
    return DocumentError(
        f"{name!r} cannot be read: {where}",
        code="document-malformed",
        field=where or None,
        hint="save the document anew with the program that made it",
    )


def _confinement(_name: str, what: str, _number: int) -> DocumentError:
    return DocumentReaderError(
        f"the process that reads documents cannot confine itself here: {what}; no document was read",
        code="document-reader-unconfined",
        got=what,
        expected="a kernel with seccomp filters, on x86-64 or aarch64",
        hint="run where seccomp is allowed; unconfined='reason' reads documents without it",
    )


def _library(_name: str, what: str, _number: int) -> DocumentError:
    return DocumentReaderError(
        f"a library that reads documents cannot be loaded: {what}",
        code="document-reader-unavailable",
        got=what,
        hint="install the extra 'rag'",
    )


def _defect(name: str, what: str, _number: int) -> DocumentError:
    return DocumentReaderError(
        f"{name!r} met a defect of its reader: {what}",
        code="document-reader-defect",
        got=what,
        hint="report it, if the document may be shown",
    )


_REFUSALS = {
    "type-unknown": _unknown,
    "encoding": _encoding,
    "encrypted": _encrypted,
    "malformed": _malformed,
    "confinement": _confinement,
    "library": _library,
    "defect": _defect,
}
