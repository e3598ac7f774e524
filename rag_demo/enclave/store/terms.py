"""A text → its search terms.

The words are cut here and not by the database, so that no part of a question can be an operator of the database's
query language: a term holds letters and digits alone.

Han, Hiragana, Katakana and Hangul are written without spaces, or with few; each two neighbours make a word, so that a
question finds part of what stands there. Thai, Lao and Khmer have no spaces either and are found by meaning alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

MAX_QUESTION_WORDS = 64
"""Different words of a question that are looked up; what comes after is not."""
MAX_WORD_CHARACTERS = 64
"""A longer one is found by its beginning."""

_RUN = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(
    "([\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+)"
)


def words_of(text: str) -> Iterator[str]:
    """Give the words of a text in order: folded to small letters, without accents."""
    for run in _RUN.findall(_folded(text)):
        for at, part in enumerate(_UNSPACED.split(run)):
            if at % 2:
                yield from _pairs(part)
            elif part:
                yield part[:MAX_WORD_CHARACTERS]


def question_words(question: str) -> tuple[str, ...]:
    """Return the different words of a question, in order, the first ``MAX_QUESTION_WORDS`` of them."""
    found: dict[str, None] = {}
    for word in words_of(question):
        found.setdefault(word)
        if len(found) == MAX_QUESTION_WORDS:
            break
    return tuple(found)


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    # Composed again after the accents are gone, so that a Hangul syllable is one character and not three.
    apart = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFC", "".join(c for c in apart if unicodedata.category(c) != "Mn"))


def _pairs(run: str) -> Iterator[str]:
    if len(run) == 1:
        yield run
    for at in range(len(run) - 1):
        yield run[at : at + 2]
