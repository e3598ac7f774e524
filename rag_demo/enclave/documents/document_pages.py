"""The pages of a document, from the process that reads it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from attest.context_managers import ClosedOnExit
from rag_demo.enclave.documents import wire
from rag_demo.enclave.documents.child import Child, Source, command
from rag_demo.enclave.documents.kinds import DocumentKind, kind_of_media_type, kind_of_name
from rag_demo.enclave.documents.limits import DocumentLimits
from rag_demo.enclave.documents.normalisation import FORBIDDEN
from rag_demo.enclave.documents.refusals import misbehaved, mismatch, problem
from rag_demo.enclave.errors import DocumentError, DocumentLimitError
from rag_demo.enclave.interfaces import Page

MAX_NAME_BYTES = 255
"""Maximum length of a name, as for a file on Linux."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingProgress:
    """Progress of reading a document.

    Attributes:
        pages: that have been read, those without text counted too.
        of: total number of pages, where it is known.
    """

    pages: int
    of: int | None


def parse(
    document: bytes | bytearray | memoryview | int,
    *,
    name: str,
    media_type: str = "",
    limits: DocumentLimits | None = None,
    progress: Callable[[ReadingProgress], None] | None = None,
    unconfined: str | None = None,
) -> Reading:
    """Read a document in a process of its own.

    Its bytes determine its kind, which has to agree with its name and media type where they imply one.

    Args:
        document: its bytes; or a descriptor of a file, which is read from its beginning and not closed.
        name: of the file, without a path.
        media_type: as its sender gave it; empty for unknown.
        limits: for the document.
        progress: called after each page, in the thread that takes the pages.
        unconfined: why the document may be read where the kernel offers no filter of system calls; None refuses.

    Returns:
        the pages with text, in order, each as soon as it has been read. Close it, or take all of them.

    Raises:
        DocumentError: ``document-name-invalid``, ``document-empty``, ``document-unreadable``,
            ``document-type-unknown``, ``document-type-mismatch``. While pages are taken also
            ``document-encoding-unsupported``, ``document-encrypted``, ``document-malformed``,
            ``document-without-text``; and ``document-reader-crashed``, ``-forbidden-call`` and ``-misbehaved``, where
            it ended the reader or took it over.
        DocumentLimitError: ``document-too-large``; while pages are taken ``document-limit``, ``field`` says which.
        DocumentReaderError: ``document-reader-unavailable``; while pages are taken also
            ``document-reader-unconfined`` and ``document-reader-defect``. No document is to blame.
        ValueError: ``unconfined`` without a reason.
    """
    if unconfined is not None and not unconfined.strip():
        raise ValueError("unconfined: expected the reason, got none")
    limits = limits or DocumentLimits()
    _require_name(name)
    promised = _promised(name, media_type)
    source, size = _opened(document)
    if not size:
        raise DocumentError(f"{name!r} is empty", code="document-empty", field="document")
    if size > limits.max_bytes:
        raise DocumentLimitError(
            f"{name!r} has {size} bytes, more than {limits.max_bytes}",
            code="document-too-large",
            field="max_bytes",
            expected=f"at most {limits.max_bytes} bytes",
            got=f"{size} bytes",
            hint="split the document, or raise the limit",
        )
    child = Child(
        command(limits=limits, promised=promised, size=size, unconfined=unconfined),
        source=source,
        size=size,
        limits=limits,
    )
    return Reading(child, name=name, promised=promised, limits=limits, progress=progress)


class Reading(ClosedOnExit, Iterator[Page]):
    """The pages of one document, as they come.

    Made by ``parse``. A context manager; closing it ends the process, as do the last page and any error.

    Attributes:
        kind: the kind of the document; None before the first page was requested.
    """

    def __init__(
        self,
        child: Child,
        *,
        name: str,
        promised: DocumentKind | None,
        limits: DocumentLimits,
        progress: Callable[[ReadingProgress], None] | None = None,
    ) -> None:
        self.kind: DocumentKind | None = None
        self.progress = ReadingProgress(pages=0, of=None)
        self._child = child
        self._name = name
        self._promised = promised
        self._limits = limits
        self._tell = progress
        self._characters = 0
        self._ended = False

    def __del__(self) -> None:
        if not getattr(self, "_ended", True):  # an exception in the constructor leaves nothing to close
            self.close()

    def close(self) -> None:
        """End the process that reads; there are no more pages then."""
        self._ended = True
        self._child.close()

    def __next__(self) -> Page:
        """Return the next page with text; errors as ``parse``."""
        if self._ended:
            raise StopIteration
        try:
            page = self._next()
        except BaseException:
            self.close()
            raise
        if page is None:
            self.close()
            raise StopIteration
        return page

    def _next(self) -> Page | None:
        if self.kind is None:
            self._first()
        while True:
            kind, payload = self._child.frame()
            if kind == wire.PROBLEM:
                raise self._problem(payload)
            if kind == wire.END:
                self._end(payload)
                return None
            if kind == wire.TOTAL:
                self._total(payload)
            elif kind in {wire.PAGE, wire.PART}:
                if page := self._page(payload, is_part=kind == wire.PART):
                    return page
            else:
                raise misbehaved("the kind of the document twice")

    def _first(self) -> None:
        """Take the kind of the document, the first frame unless it is a refusal."""
        kind, payload = self._child.frame()
        if kind == wire.PROBLEM:
            raise self._problem(payload)
        known = {one.value.encode(): one for one in DocumentKind}
        if kind != wire.KIND or payload not in known or self._promised not in {known[payload], None}:
            raise misbehaved("no kind, or not the declared one")
        self.kind = known[payload]

    def _problem(self, payload: bytes) -> DocumentError:
        return problem(payload, name=self._name, promised=self._promised)

    def _total(self, payload: bytes) -> None:
        (total,) = wire.NUMBER.unpack(payload)
        if self.progress.pages or self.progress.of is not None or not 0 < total <= self._limits.max_pages:
            raise misbehaved("an invalid number of pages")
        self._report(ReadingProgress(pages=0, of=total))

    def _page(self, payload: bytes, *, is_part: bool) -> Page | None:
        number = self.progress.pages + 1
        if number > (self.progress.of or self._limits.max_pages):
            raise misbehaved("more pages than it declared")
        try:
            text = payload.decode()
        except UnicodeDecodeError as exc:
            raise misbehaved("a page that is not UTF-8") from exc
        self._characters += len(text)
        if self._characters > self._limits.max_characters or FORBIDDEN.search(text):
            raise misbehaved("an invalid page")
        self._report(ReadingProgress(pages=number, of=self.progress.of))
        return Page(number=number, text=text, is_part=is_part) if text.strip() else None

    def _end(self, payload: bytes) -> None:
        (pages,) = wire.NUMBER.unpack(payload)
        if pages != self.progress.pages or pages != (self.progress.of or pages):
            raise misbehaved("a number of pages that differs from its pages")
        self._child.finish()
        if not self._characters:
            raise DocumentError(
                f"{self._name!r} has no text in it",
                code="document-without-text",
                got=f"{pages} pages without text",
                hint="scanned images are not read; run text recognition first",
            )

    def _report(self, progress: ReadingProgress) -> None:
        self.progress = progress
        if self._tell is not None:
            self._tell(progress)


def _require_name(name: str) -> None:
    """Require a printable name that is not a path; it is never used to open a file."""
    wrong = None
    if not name.strip() or name in {".", ".."}:
        wrong = "an empty name"
    elif len(name.encode(errors="replace")) > MAX_NAME_BYTES:
        wrong = f"a name of more than {MAX_NAME_BYTES} bytes"
    elif "/" in name or "\\" in name:
        wrong = "a path"
    elif FORBIDDEN.search(name) or "\n" in name or "\t" in name:
        wrong = "characters that cannot be seen"
    if wrong:
        raise DocumentError(
            f"the name of a document: expected a file's name, got {wrong}",
            code="document-name-invalid",
            field="name",
            expected=f"1 to {MAX_NAME_BYTES} bytes without '/', '\\' and invisible characters",
            got=wrong,
        )


def _promised(name: str, media_type: str) -> DocumentKind | None:
    """Return the kind by name and media type; a name may be more precise than ``text/plain``."""
    try:
        by_name, by_type = kind_of_name(name), kind_of_media_type(media_type)
    except LookupError as exc:
        raise DocumentError(
            f"{name!r}: documents of the kind {exc.args[0]!r} are not supported",
            code="document-type-unknown",
            field="name or media type",
            expected=", ".join(DocumentKind),
            got=str(exc.args[0]),
            hint="save it as PDF or DOCX",
        ) from exc
    if by_type is DocumentKind.TEXT and by_name is DocumentKind.MARKDOWN:
        return by_name
    if None not in {by_name, by_type} and by_name is not by_type:
        raise mismatch(name=name, promised=f"{by_name} by its name", found=f"{by_type} by its media type")
    return by_name or by_type


def _opened(document: bytes | bytearray | memoryview | int) -> tuple[Source, int]:
    """Return where the bytes of a document come from, and how many there are."""
    if not isinstance(document, int):
        view = memoryview(document).cast("B")
        return (lambda offset, count: bytes(view[offset : offset + count])), len(view)
    try:
        size = os.fstat(document).st_size
        os.pread(document, 1, 0)
    except OSError as exc:
        raise _unreadable(str(exc.strerror)) from exc

    def source(offset: int, count: int) -> bytes:
        try:
            data = os.pread(document, count, offset)
        except OSError as exc:
            raise _unreadable(str(exc.strerror)) from exc
        if not data:
            raise _unreadable("it became shorter while it was read")
        return data

    return source, size


def _unreadable(why: str) -> DocumentError:
    return DocumentError(
        f"the document cannot be read from its descriptor: {why}", code="document-unreadable", field="document", got=why
    )
