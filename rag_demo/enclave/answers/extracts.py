"""What an answer is made of."""

from __future__ import annotations

from dataclasses import dataclass

from rag_demo.enclave.interfaces import Found

__all__ = ["UNKNOWN", "Cited", "Extract"]

UNKNOWN = "I don't know: nothing in your documents answers this."


@dataclass(frozen=True, slots=True, kw_only=True)
class Cited:
    """A passage that answers.

    Attributes:
        number: by which an answer names it, from 1.
        found: itself.
        sentences: those of it that answer, verbatim, in their order.
        score: how near the nearest of them is to the question, 0 to 1: their cosine, and more where it has what the
            question asks for by number or code.
    """

    number: int
    found: Found
    sentences: tuple[str, ...]
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Extract:
    """What the documents say to a question, in their own words.

    Attributes:
        known: whether they say anything.
        text: the answer; where nothing is known, that.
        passages: on which it rests, the best first; none where nothing is known.
    """

    known: bool
    text: str
    passages: tuple[Cited, ...]
