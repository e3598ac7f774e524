"""The real parts: the sealed model, the encrypted store, the confined reader of documents, the answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Final

from attest.agent import read_guarded
from attest.sealed import read_trusted_key
from rag_demo.enclave.answers import GeneratedAnswerer, LanguageModel, PassagesAnswerer
from rag_demo.enclave.answers.language import WEIGHTS_UNKNOWN
from rag_demo.enclave.documents import DocumentLimits, parse, split
from rag_demo.enclave.documents.sentences import sentences
from rag_demo.enclave.embedding import open_sealed_models
from rag_demo.enclave.interfaces import Embedder, IndexedPassage, Page
from rag_demo.enclave.languages import language_of
from rag_demo.enclave.service.resources import Answerer, OpenBench, ReadyResources, ReleasedKeys
from rag_demo.enclave.service.settings import EnclaveSettings
from rag_demo.enclave.store import SqliteStore, StoreLimits

MAX_PEM_BYTES: Final = 64 * 1024
ROOM_FOR_MARKS: Final = 2
"""Number of the model's own tokens among those that it reads."""


def bench_of(settings: EnclaveSettings) -> OpenBench:
    """Return a function that opens model and store with the released keys.

    Raises:
        ConfigurationError: ``model-key-invalid``, ``file-unreadable`` or ``file-writable-by-others``: the trusted
            keys cannot be read, or others may write them; ``rag-llm-url`` or ``rag-llm-outside``: the
            language model may be outside of the TEE.
    """
    trusted = tuple(
        read_trusted_key(read_guarded(path, what="model.trust", limit=MAX_PEM_BYTES)) for path in settings.model.trust
    )
    answerer = _answerer(settings)
    limits = DocumentLimits(max_bytes=settings.limits.document_bytes)
    reading = partial(parse, limits=limits, unconfined=settings.unconfined_documents)

    def opened(keys: ReleasedKeys) -> ReadyResources:
        with ExitStack() as undo:
            embedder, reranker = open_sealed_models(
                settings.model.place,
                key=bytes(keys.model),
                trusted=trusted,
                model=settings.model.model_id,
            )
            undo.callback(embedder.close)
            if reranker is not None:
                undo.callback(reranker.close)
            store = SqliteStore.open(
                settings.database,
                keys.database,
                dimensions=embedder.dimensions,
                model=embedder.fingerprint,
                limits=StoreLimits(documents=settings.limits.documents_per_user),
            )
            undo.pop_all()
        return ReadyResources(
            model_name=settings.model.name,
            embedder=embedder,
            reranker=reranker,
            store=store,
            read=reading,
            split=_passages,
            answerer=answerer,
        )

    return opened


def _passages(pages: Iterator[Page], embedder: Embedder) -> Iterator[IndexedPassage]:
    """Split pages into what the model reads at once."""
    most = embedder.max_tokens - ROOM_FOR_MARKS
    return split(
        pages, count_tokens=embedder.count_tokens, max_tokens=min(PASSAGE_TOKENS, most), language_of=language_of
    )


PASSAGE_TOKENS: Final = 200
"""Size with the best answers to the labelled questions (docs/rag-store.md)."""


def _answerer(settings: EnclaveSettings) -> Answerer:
    passages, model = PassagesAnswerer(sentences), language_model_of(settings)
    return passages if model is None else GeneratedAnswerer(passages, model)


def language_model_of(settings: EnclaveSettings) -> LanguageModel | None:
    """Return the language model that words answers; None without one.

    Raises:
        ConfigurationError: ``rag-llm-url`` or ``rag-llm-outside``.
    """
    llm = settings.llm
    if llm is None:
        return None
    return LanguageModel(
        url=llm.url,
        model=llm.model,
        inside_boundary=llm.inside_boundary,
        weights=llm.weights or WEIGHTS_UNKNOWN,
    )
