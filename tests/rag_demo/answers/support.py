"""Passages that a search could have found."""

import re
from collections.abc import Iterator

from rag_demo.enclave.answers import Cited, Extract
from rag_demo.enclave.interfaces import Found, IndexedPassage


def spans(text: str, language: str = "") -> Iterator[tuple[int, int]]:
    """Sentences that end in a full stop."""
    for match in re.finditer(r"[^.\s][^.]*\.?", text):
        yield match.start(), match.end()


def found(text: str, *, name: str = "notes.txt", page: int = 1, ordinal: int = 0) -> Found:
    return Found(
        document=f"{ordinal:032x}",
        name=name,
        passage=IndexedPassage(page=page, ordinal=ordinal, text=text),
        similarity=0.5,
        score=1 / (61 + ordinal),
    )


def extract_of(*texts: str) -> Extract:
    passages = tuple(
        Cited(number=at, found=found(text, page=at, ordinal=at), sentences=(text,), shown=text, score=0.7)
        for at, text in enumerate(texts, start=1)
    )
    return Extract(known=bool(passages), text=" ".join(texts), passages=passages)
