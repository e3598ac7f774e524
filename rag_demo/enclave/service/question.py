"""The answer to one question: search, the documents' own sentences, and optionally the words of a language model."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Executor
from dataclasses import asdict
from typing import Final

from rag_demo.enclave.answers.extractive import NOTHING_FOUND
from rag_demo.enclave.answers.extracts import Cited, Extract, Writer
from rag_demo.enclave.service.concurrency import in_thread
from rag_demo.enclave.service.events import event
from rag_demo.enclave.service.lifecycle import Life, stopped
from rag_demo.enclave.service.models import AnswerEvent, CitationModel, PassageEvent, TextEvent, WriterModel

FOUND: Final = 12
"""Number of passages that the search returns."""
_MARK: Final = re.compile(r"\[(\d{1,3})\]")


async def answered(
    life: Life, collection: bytes, question: str, *, threads: Executor, left: Callable[[], bool]
) -> AsyncGenerator[bytes, None]:
    """Yield the events of an answer from one user's collection, the only one searched.

    Nothing is searched once ``left`` is true: the client has left.

    Raises:
        AttestError: of a part; ``rag-stopped``.
    """
    extract = await life.during(in_thread(threads, lambda: _extract(life, collection, question, left)))
    for one in extract.passages:
        _require(life)
        yield event("passage", _passage(one))
    _require(life)
    answerer = life.bench.answerer
    if answerer.writer is None or not extract.known:
        yield event("answer", _answer(extract, None, extract.text))
        return
    text = ""
    words = answerer.generate(question, extract)
    try:
        while (piece := await life.during(anext(words, None))) is not None:
            text += piece
            yield event("text", TextEvent(delta=piece, kind="written"))
    finally:
        if isinstance(words, AsyncGenerator):  # the language model stops at once when the client leaves
            await words.aclose()
    yield event("answer", _answer(extract, answerer.writer, text))


def _require(life: Life) -> None:
    """End the stream with the life: a slow reader must not get it after the lease was lost."""
    if life.over:
        raise stopped()


def _extract(life: Life, collection: bytes, question: str, left: Callable[[], bool]) -> Extract:
    if left() or life.over:
        return NOTHING_FOUND
    bench = life.bench
    found = bench.store.search(collection, question, bench.embedder.embed([question])[0], limit=FOUND)
    return bench.answerer.extract(question, found, bench.embedder, reranker=bench.reranker)


def _passage(one: Cited) -> PassageEvent:
    return PassageEvent(
        number=one.number,
        document=one.found.document,
        name=one.found.name,
        page=one.found.passage.page,
        section=one.found.passage.section,
        score=round(float(one.score), 6),
        text=one.found.passage.text,
        sentences=one.sentences,
    )


def _answer(extract: Extract, writer: Writer | None, text: str) -> AnswerEvent:
    """Return the whole answer; a mark that names no given passage is dropped."""
    named = {int(mark) for mark in _MARK.findall(text)} if writer is not None else None
    cited = [one for one in extract.passages if named is None or one.number in named]
    return AnswerEvent(
        known=extract.known,
        kind="quoted" if writer is None else "written",
        model=None if writer is None else WriterModel(**asdict(writer)),
        text=text,
        citations=tuple(
            CitationModel(
                number=one.number,
                document=one.found.document,
                name=one.found.name,
                page=one.found.passage.page,
                section=one.found.passage.section,
            )
            for one in cited
        ),
    )
