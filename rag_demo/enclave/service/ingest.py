"""One document on its way into the store: read, split, embedded, and stored as a whole or not at all.

It runs in a thread. The text is taken page by page and split, which is quick and has a bound; then it is embedded and
stored batch by batch. Between any two steps it looks whether its user has left, its time is over or the service has
lost a lease; then an exception stops the store, which keeps nothing of it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from http import HTTPStatus
from itertools import islice
from typing import Final

from attest.errors import AttestError
from rag_demo.enclave.documents import ReadingProgress
from rag_demo.enclave.errors import RefusedError, StoreConflictError
from rag_demo.enclave.interfaces import IndexedDocument, IndexedPassage, Page, Vectors
from rag_demo.enclave.languages import language_of
from rag_demo.enclave.service.concurrency import busy
from rag_demo.enclave.service.events import event, refused_event
from rag_demo.enclave.service.lifecycle import Life, stopped
from rag_demo.enclave.service.models import DocumentModel, ProgressEvent, StoredEvent
from rag_demo.enclave.service.refusals import defect
from rag_demo.enclave.service.settings import ServiceLimits

BATCH: Final = 16
"""Passages that are embedded at a time: some tenths of a second, after which a question has its turn."""
SAMPLE_PASSAGES: Final = 20
"""Passages that show the language of a document."""
PROGRESS_SECONDS: Final = 0.2
_HALF_ID: Final = 8
"""Bytes of a document's id that are derived from the id of its upload; as many are derived from its content."""
_log = logging.getLogger("rag.enclave")


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """An uploaded document.

    Attributes:
        is_named: the client gave the upload an id, with which it may be sent again.
    """

    collection: bytes
    document: IndexedDocument
    data: bytes
    is_named: bool = False

    def under(self, upload_id: bytes) -> Upload:
        """Return the same under an id of the client, which it sends again with the same bytes.

        The id of the document is made of both, so that it shows a repetition for as long as the document is stored.
        """
        name = sha256(b"upload\0" + self.collection + upload_id).digest()[:_HALF_ID]
        content = sha256(b"content\0" + upload_id + self.data).digest()[:_HALF_ID]
        return replace(self, document=replace(self.document, id=(name + content).hex()), is_named=True)

    def stored_before(self, documents: Sequence[IndexedDocument]) -> IndexedDocument | None:
        """Return the document that an earlier try stored; None if there is none.

        Raises:
            RefusedError: ``rag-upload-id-reused``.
        """
        name = self.document.id[: 2 * _HALF_ID]
        found = next((one for one in documents if self.is_named and one.id.startswith(name)), None)
        if found is not None and found.id != self.document.id:
            raise RefusedError(
                "another document was uploaded under this id",
                code="rag-upload-id-reused",
                status=HTTPStatus.CONFLICT,
                field="id",
                expected="the same bytes as before",
                hint="give each document an id of its own",
            )
        return found


@dataclass(slots=True, kw_only=True, eq=False)
class Ingest:
    """The work on one upload.

    Attributes:
        embedding: one upload's turn with the model at a time.
        send: receives each event, from the thread; None comes last.
    """

    upload: Upload
    life: Life
    limits: ServiceLimits
    embedding: threading.Lock
    ticks: Callable[[], float]
    send: Callable[[bytes | None], object]
    _left: threading.Event = field(default_factory=threading.Event, init=False)
    _end: float = field(default=0.0, init=False)
    _read: ReadingProgress = field(default=ReadingProgress(pages=0, of=None), init=False)
    _passages: int = field(default=0, init=False)
    _of_passages: int | None = field(default=None, init=False)
    _reported: float = field(default=-PROGRESS_SECONDS, init=False)

    def __post_init__(self) -> None:
        self._end = self.ticks() + self.limits.upload_seconds

    def leave(self) -> None:
        """Note that the client has left."""
        self._left.set()

    def run(self) -> None:
        """Do all of it, and send the final event."""
        try:
            self.send(self._stored())
        except _LeftError:
            _log.info("an upload was aborted: its user disconnected")
        except AttestError as exc:
            # A part that was closed meanwhile reports only that.
            error = stopped() if self.life.over else exc
            _log.info("an upload was refused", extra={"code": error.code})
            self.send(refused_event(error))
        except Exception as exc:  # noqa: BLE001  a defect ends this upload, and its text may quote the document
            if self.life.over:
                self.send(refused_event(stopped()))
            else:
                _log.error("an upload ended with an internal error", exc_info=exc)
                self.send(refused_event(defect("the service failed; nothing of the document was stored")))
        finally:
            self.send(None)

    def _stored(self) -> bytes:
        store = self.life.bench.store
        documents = store.documents(self.upload.collection)
        before = self.upload.stored_before(documents)
        return event("stored", StoredEvent(document=DocumentModel.of(before or self._added(len(documents)))))

    def _added(self, count: int) -> IndexedDocument:
        self._require_room(count)
        store = self.life.bench.store
        passages = self._split()
        language = language_of(" ".join(one.text for one in passages[:SAMPLE_PASSAGES]))
        document = replace(self.upload.document, language=language)
        try:
            return store.add(self.upload.collection, document, self._embedded(passages))
        except StoreConflictError as exc:
            if exc.code != "rag-document-exists":
                raise
            raise busy("an earlier try of this upload is in progress") from exc

    def _require_room(self, count: int) -> None:
        if count >= self.limits.documents_per_user:
            raise RefusedError(
                f"{count} documents are stored, which is the maximum",
                code="rag-documents-full",
                status=HTTPStatus.CONFLICT,
                expected=f"at most {self.limits.documents_per_user} documents",
                got=str(count),
                hint="delete one of them first",
            )

    def _split(self) -> list[IndexedPassage]:
        """Read all of it first: what is too long is refused before anything expensive is done for it."""
        bench, most = self.life.bench, self.limits.passages_per_document
        with closing(self._pages()) as pages:
            passages = list(islice(bench.split(pages, bench.embedder), most + 1))
        if len(passages) > most:
            raise RefusedError(
                f"the document has more than {most} passages",
                code="rag-document-too-long",
                status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                expected=f"at most {most} passages",
                hint="split it into several documents",
            )
        if not passages:
            raise RefusedError(
                "the document has no text",
                code="rag-document-empty",
                status=HTTPStatus.UNPROCESSABLE_ENTITY,
                expected="text that can be read",
                hint="run text recognition on scanned pages first",
            )
        self._of_passages = len(passages)
        return passages

    def _pages(self) -> Generator[Page, None, None]:
        upload = self.upload
        pages = self.life.bench.read(
            upload.data, name=upload.document.name, media_type=upload.document.media_type, progress=self._progress
        )
        with closing(pages):
            for page in pages:
                self._go_on()
                yield page

    def _vectors(self, batch: Sequence[IndexedPassage]) -> Vectors:
        with self.embedding:
            self._go_on()
            return self.life.bench.embedder.embed([one.text for one in batch])

    def _embedded(self, passages: Sequence[IndexedPassage]) -> Iterator[tuple[Sequence[IndexedPassage], Vectors]]:
        """Hand parts over as they come; what is raised here makes the store forget the document."""
        for first in range(0, len(passages), BATCH):
            batch = passages[first : first + BATCH]
            yield batch, self._vectors(batch)
            self._passages += len(batch)
            self._go_on()
        self._reported = -PROGRESS_SECONDS  # the final progress is sent without a delay
        self._go_on()

    def _progress(self, read: ReadingProgress) -> None:
        """Note the progress of the reader; a document whose pages have no text is refused here as well."""
        self._read = read
        self._go_on()

    def _go_on(self) -> None:
        """Require a reason to continue, and send the progress."""
        if self.life.over:
            raise stopped()
        if self._left.is_set():
            raise _LeftError
        now = self.ticks()
        if now > self._end:
            raise RefusedError(
                f"the document took longer than {self.limits.upload_seconds:g} s",
                code="rag-upload-too-slow",
                status=HTTPStatus.SERVICE_UNAVAILABLE,
                hint="split it into several documents",
            )
        if now - self._reported >= PROGRESS_SECONDS:
            self._reported = now
            far = ProgressEvent(**asdict(self._read), passages=self._passages, of_passages=self._of_passages)
            self.send(event("progress", far))


class _LeftError(Exception):
    """The client of the upload has left."""


def sending_to(loop: asyncio.AbstractEventLoop, queue: asyncio.Queue[bytes | None]) -> Callable[[bytes | None], object]:
    """Return what puts events into a loop's queue from another thread; none are missed where the loop has ended."""

    def send(one: bytes | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(queue.put_nowait, one)

    return send
