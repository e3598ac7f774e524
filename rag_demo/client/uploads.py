"""The upload of a document: its content in pieces, and its progress until the service has stored it."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from mimetypes import guess_type
from pathlib import Path
from typing import Final, TypeAlias

from attest.errors import ConfigurationError
from rag_demo.client.answers import Document, UploadProgress, document_of, progress_of
from rag_demo.client.errors import RagAnswerError, RagRefusedError, refused
from rag_demo.client.events import Event, malformed

_PIECE: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """Progress of sealing and sending an upload, in bytes of its file."""

    sent: int
    of: int


Progress: TypeAlias = Callable[[Sent | UploadProgress], object]
"""Receives each step of an upload."""


def document_name(text: str) -> str:
    """Return the name of a document, checked for transmission.

    Raises:
        ConfigurationError: ``rag-name-invalid``.
    """
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise ConfigurationError(
            "the document's name is not text",
            code="rag-name-invalid",
            field="name",
            got=ascii(text)[:120],
            hint="give it another name with --name",
        ) from exc
    return text


def media_type_of(name: str) -> str:
    """Return the media type that a name implies; the service checks the content."""
    kind, coding = guess_type(name, strict=True)
    known = {"md": "text/markdown", "markdown": "text/markdown"}.get(name.rpartition(".")[2].lower())
    return known or (kind if kind is not None and coding is None else "application/octet-stream")


def size_of(file: Path) -> int:
    """Return the length of a file in bytes.

    Raises:
        ConfigurationError: ``file-unreadable``.
    """
    try:
        facts = file.stat()
    except OSError as exc:
        raise _unreadable(file, exc.strerror or str(exc)) from exc
    if not stat.S_ISREG(facts.st_mode):
        raise _unreadable(file, "not a regular file")
    return facts.st_size


def pieces_of(file: Path, size: int, progress: Progress) -> Iterator[bytes]:
    """Yield a file in pieces, and report the progress; errors as ``size_of``."""
    sent = 0
    try:
        with file.open("rb") as stream:
            while data := stream.read(_PIECE):
                yield data
                sent += len(data)
                progress(Sent(sent=sent, of=max(size, sent)))
    except OSError as exc:
        raise _unreadable(file, exc.strerror or str(exc)) from exc


def _unreadable(file: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(f"{file} cannot be read: {problem}", code="file-unreadable", field=str(file), got=problem)


def stored_by(events: Iterable[Event], progress: Progress) -> Document:
    """Return the stored document, after the whole stream was read.

    Raises:
        RagRefusedError: the service does not take it.
        AttestError: the stream is cut or malformed.
    """
    document: Document | None = None
    for event in events:
        if document is not None:
            raise malformed("events behind the last one")
        match event.name:
            case "progress":
                progress(progress_of(event))
            case "stored":
                document = document_of(event.members.get("document"))
            case "refused":
                raise refused_by(event)
            case _:
                raise malformed(f"an event {ascii(event.name)[:40]} in an upload")
    if document is None:
        raise incomplete("the outcome of the upload")
    return document


def refused_by(event: Event) -> RagRefusedError:
    """Return the error for the event of a refusal; its status is 422 where the problem details have none."""
    problem = event.members.get("problem")
    status = problem.get("status") if isinstance(problem, dict) else None
    return refused(problem, status if isinstance(status, int) and not isinstance(status, bool) else 422)


def incomplete(what: str) -> RagAnswerError:
    """Return the error for a well-formed answer without its end."""
    return RagAnswerError(
        f"the answer of the service ended without {what}",
        code="rag-answer-incomplete",
        hint="the service may have been stopped; check its state, and try again",
        retryable=True,
    )
