"""The real parts: the sealed model, the encrypted store, the confined reader of documents, the answers.

They are imported when they are opened, so that a process that only starts, or only fails, loads none of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from attest.errors import ConfigurationError, EvidenceError
from attest.sealed.signing_keys import read_trusted_key
from rag_demo.enclave.parts import Embedder, Found, Page, Passage
from rag_demo.enclave.service.bench import Bench, Cited, Extract, KeyMaterial, OpenBench, Progress
from rag_demo.enclave.service.settings import EnclaveSettings

__all__ = ["bench_of"]

MAX_PEM_BYTES: Final = 64 * 1024
MODEL_NAME: Final = "all-MiniLM-L6-v2"


def bench_of(settings: EnclaveSettings) -> OpenBench:
    """Return what opens model and store with the keys that were released.

    Raises:
        ConfigurationError: ``model-key-invalid`` or ``file-unreadable``: whose signatures count cannot be read.
    """
    trusted = tuple(read_trusted_key(_read(path)) for path in settings.model.trust)

    def opened(keys: KeyMaterial) -> Bench:
        from rag_demo.enclave.embedding import open_sealed_embedder  # noqa: PLC0415
        from rag_demo.enclave.store import SqliteStore  # noqa: PLC0415

        with ExitStack() as undo:
            embedder = open_sealed_embedder(
                settings.model.place,
                key=bytes(keys.model),
                trusted=trusted,
                model=settings.model.model_id,
                backend=settings.model.backend,
            )
            undo.callback(embedder.close)
            store = SqliteStore.open(settings.database, keys.database, dimensions=embedder.dimensions, model=MODEL_NAME)
            undo.callback(store.close)
            bench = Bench(
                model_name=MODEL_NAME,
                embedder=embedder,
                store=store,
                read=_read_pages,
                split=_split,
                answerer=_Answers(),
            )
            undo.pop_all()
        return bench

    return opened


def _read_pages(data: bytes, *, name: str, media_type: str, progress: Progress) -> Iterator[Page]:
    """Read plain text, until documents of every kind are read."""
    del name, media_type
    try:
        text = data.decode()
    except UnicodeDecodeError as exc:
        raise EvidenceError("the document is no text in UTF-8", code="evidence-unrecognised") from exc
    progress(1, 1)
    yield Page(number=1, text=text)


def _split(pages: Iterator[Page], embedder: Embedder) -> Iterator[Passage]:
    del embedder
    ordinal = 0
    for page in pages:
        for text in filter(None, map(str.strip, page.text.split("\n\n"))):
            yield Passage(page=page.number, ordinal=ordinal, text=text)
            ordinal += 1


class _Answers:
    """Answers with the passages that are near enough, until answers are chosen sentence by sentence."""

    generates = False

    def extract(self, question: str, found: Sequence[Found], embedder: Embedder) -> Extract:
        del question, embedder
        near = [one for one in found if one.similarity >= _NEAR][:3]
        cited = tuple(
            Cited(number=number, found=one, sentences=(one.passage.text,), score=one.similarity)
            for number, one in enumerate(near, 1)
        )
        return Extract(known=bool(cited), text=cited[0].sentences[0] if cited else "I don't know.", passages=cited)

    async def generate(self, question: str, extract: Extract) -> AsyncIterator[str]:
        del question
        yield extract.text


_NEAR: Final = 0.4


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_PEM_BYTES)
    except OSError as exc:
        problem = exc.strerror or str(exc)
        raise ConfigurationError(
            f"model.trust: {path} cannot be read: {problem}", code="file-unreadable", field="model.trust", got=problem
        ) from exc
