"""Answers worded by a language model, on the passages that would have been the answer."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass

import httpx

from rag_demo.enclave.answers.citations import Marks
from rag_demo.enclave.answers.extractive import PassagesAnswerer
from rag_demo.enclave.answers.extracts import Extract, Writer
from rag_demo.enclave.answers.language import LanguageModel
from rag_demo.enclave.answers.prompt import messages_of
from rag_demo.enclave.interfaces import Embedder, Found, Reranker


def _fence() -> str:
    return secrets.token_hex(16)


@dataclass(frozen=True, slots=True)
class GeneratedAnswerer:
    """Answers in the words of a language model. It gets no request where no passage is near enough.

    Attributes:
        fence: makes a mark for one request that no document can contain.
    """

    passages: PassagesAnswerer
    model: LanguageModel
    _: KW_ONLY
    transport: httpx.AsyncBaseTransport | None = None
    fence: Callable[[], str] = _fence

    @property
    def writer(self) -> Writer:
        """The language model, for the readers of its answers."""
        return self.model.writer

    def extract(
        self, question: str, found: Sequence[Found], embedder: Embedder, *, reranker: Reranker | None = None
    ) -> Extract:
        """Return what the passages say, as `PassagesAnswerer` does; blocks."""
        return self.passages.extract(question, found, embedder, reranker=reranker)

    async def generate(self, question: str, extract: Extract) -> AsyncIterator[str]:
        """Yield an answer as it is worded, with citations ``[n]`` of passages that were given, and what was amiss.

        Raises:
            LanguageModelError: there is no answer, or not to its end.
        """
        if not extract.known or not extract.passages:
            yield extract.text
            return
        marks = Marks([one.number for one in extract.passages])
        messages = messages_of(question, extract.passages, fence=self.fence())
        finish, any_text = None, False
        async with aclosing(self.model.stream(messages, transport=self.transport)) as chunks:
            async for chunk in chunks:
                finish = chunk.finish
                if text := marks.feed(chunk.text):
                    any_text = any_text or not text.isspace()
                    yield text
        if rest := marks.finish():
            any_text = True
            yield rest
        if notes := _notes(marks, any_text=any_text, cut=finish == "length"):
            yield f"\n\n({'; '.join(notes)})"


def _notes(marks: Marks, *, any_text: bool, cut: bool) -> list[str]:
    """Return the note to the reader about the text above."""
    if not any_text:
        return ["the language model returned no text"]
    notes = []
    if cut:
        notes.append("the answer was cut at its maximum length")
    if marks.dropped:
        notes.append(f"{marks.dropped} citation(s) of passages that were not given were removed")
    if not marks.cited:
        notes.append("the language model cited none of the passages")
    return notes
