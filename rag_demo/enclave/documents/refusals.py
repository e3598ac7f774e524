"""Refusals of documents that cannot be read."""

from __future__ import annotations

import json
import re
import signal
from dataclasses import dataclass

from rag_demo.enclave.documents import wire
from rag_demo.enclave.documents.limits import DocumentLimits
from rag_demo.enclave.errors import DocumentError, DocumentLimitError, DocumentReaderError

_WHAT = re.compile(r"[A-Za-z0-9 ./+_-]{0,80}")
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
        hint="save the document again with another program, or raise memory_bytes",
    )


def mismatch(*, name: str, promised: str, found: str) -> DocumentError:
    """Return the error for a document that is not of its declared kind."""
    return DocumentError(
        f"{name!r} is declared as {promised}, but holds {found}",
        code="document-type-mismatch",
        expected=promised,
        got=found,
        hint="use the name and media type of the file's real format",
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
    return _malformed(name, what, number) if reason == "malformed" else _REFUSALS[reason].of(name, what, number)


def _limit(name: str, what: str, number: int) -> DocumentLimitError:
    most = f" (at most {number})" if number else ""
    return DocumentLimitError(
        f"{name!r} goes beyond a limit: {what}{most}",
        code="document-limit",
        field=what,
        expected=f"at most {number}" if number else None,
        hint="split the document, or raise the limit" if what in _LIMITS else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    """A kind of refusal. In ``text``, ``name`` is the document's, and ``what`` and ``number`` are the reader's."""

    error: type[DocumentError] = DocumentError
    code: str
    text: str
    expected: str | None = None
    hint: str
    at_offset: bool = False

    def of(self, name: str, what: str, number: int) -> DocumentError:
        return self.error(
            self.text.format(name=name, what=what, number=number),
            code=self.code,
            offset=number if self.at_offset else None,
            expected=self.expected,
            got=what,
            hint=self.hint,
        )


_REFUSALS = {
    "type-unknown": _Refusal(
        code="document-type-unknown",
        text="{name!r} holds {what}, which is not supported",
        expected="PDF, DOCX, HTML, Markdown, or text in UTF-8 or UTF-16",
        hint="save it as PDF or DOCX",
    ),
    "encoding": _Refusal(
        code="document-encoding-unsupported",
        text="{name!r} holds {what} (offset {number})",
        expected="UTF-8, or UTF-16 with a byte order mark; for HTML what its first 1024 bytes say",
        hint="save it as UTF-8",
        at_offset=True,
    ),
    "encrypted": _Refusal(
        code="document-encrypted",
        text="{name!r} is {what}",
        hint="save it without a password: uploads are encrypted in transit and at rest",
    ),
    "confinement": _Refusal(
        error=DocumentReaderError,
        code="document-reader-unconfined",
        text="the process that reads documents cannot confine itself here: {what}; no document was read",
        expected="a kernel with seccomp filters, on x86-64 or aarch64",
        hint="run where seccomp is allowed; unconfined='reason' reads documents without it",
    ),
    "library": _Refusal(
        error=DocumentReaderError,
        code="document-reader-unavailable",
        text="a library that reads documents cannot be loaded: {what}",
        hint="install the extra 'rag'",
    ),
    "defect": _Refusal(
        error=DocumentReaderError,
        code="document-reader-defect",
        text="{name!r} met an internal error of its reader: {what}",
        hint="report it, if you may share the document",
    ),
}


def _malformed(name: str, what: str, number: int) -> DocumentError:
    where = f"{what} {number}" if number else what
    return DocumentError(
        f"{name!r} cannot be read: {where}",
        code="document-malformed",
        field=where or None,
        hint="save the document again with the program that made it",
    )
