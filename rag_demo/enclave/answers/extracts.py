"""The contents of an answer."""

from __future__ import annotations

from dataclasses import dataclass

from rag_demo.enclave.interfaces import Found

UNKNOWN = "Found nothing near enough to the question in your documents."
"""It does not say that the documents have no answer: a search can miss one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """The language model that writes answers.

    Attributes:
        name: as its server is asked for it.
        where: where it runs, in words.
        weights: how its weights are known, in words.
    """

    name: str
    where: str
    weights: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cited:
    """A passage that answers.

    Attributes:
        number: by which an answer names it, from 1.
        sentences: stretches of it that answer, verbatim and in their order; with everything between their ends.
        shown: the same as one text, with a mark where something is left out between two.
        score: nearness of the nearest sentence to the question, 0 to 1.
    """

    number: int
    found: Found
    sentences: tuple[str, ...]
    shown: str
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
