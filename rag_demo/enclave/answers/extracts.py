"""The contents of an answer."""

from __future__ import annotations

from dataclasses import dataclass

from rag_demo.enclave.interfaces import Found

UNKNOWN = "I don't know: nothing in your documents answers this."


@dataclass(frozen=True, slots=True, kw_only=True)
class Cited:
    """A passage that answers.

    Attributes:
        number: by which an answer names it, from 1.
        sentences: those of it that answer, verbatim, in their order.
        score: similarity of the nearest of them to the question, 0 to 1: their cosine, and more where it has what the
            question names by number or code.
    """

    number: int
    found: Found
    sentences: tuple[str, ...]
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Extract:
    """The documents' answer to a question, verbatim.

    Attributes:
        text: the answer, or a statement that there is none.
        passages: its sources, the best first; empty without an answer.
    """

    known: bool
    text: str
    passages: tuple[Cited, ...]
