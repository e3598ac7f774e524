"""A text → its search terms.

The words are cut here and not by the database, so that no part of a question can be an operator of the database's
query language: a term holds letters and digits alone.

Han, Hiragana, Katakana and Hangul are written without spaces, or with few; each two neighbours make a word, so that a
question finds part of what stands there. Thai, Lao and Khmer have no spaces either and are found by meaning alone.

Stems are those of Snowball, by its makers' own library, before accents are folded: "Medikamente" and "Medikaments" are
one term, and so are "maladie" and "maladies". A text of a language without a stemmer keeps its words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Final

import Stemmer

MAX_QUESTION_WORDS = 64
"""Different words of a question that are looked up; what comes after is not."""
MAX_WORD_CHARACTERS = 64
"""A longer one is found by its beginning."""

_RUN = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(
    "([\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+)"
)

_STEMMERS: Final[Mapping[str, str]] = {
    "ar": "arabic",
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "et": "estonian",
    "eu": "basque",
    "fa": "persian",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "ne": "nepali",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
}
"""Language to Snowball's algorithm, as far as the installed library has it."""
_KNOWN: Final = frozenset(Stemmer.algorithms())


def words_of(text: str) -> Iterator[str]:
    """Give the words of a text in order: folded to small letters, without accents."""
    for run in _RUN.findall(_folded(text)):
        for at, part in enumerate(_UNSPACED.split(run)):
            if at % 2:
                yield from _pairs(part)
            elif part:
                yield part[:MAX_WORD_CHARACTERS]


def stems_of(text: str, language: str) -> Iterator[str]:
    """Give the stems of the words of a text, in order, folded as `words_of` folds.

    Args:
        text: any.
        language: ISO 639-1; one without a stemmer, and the empty one, give the words themselves.
    """
    algorithm = _STEMMERS.get(language)
    if algorithm not in _KNOWN:
        yield from words_of(text)
        return
    # Its cache would keep words of documents after they are deleted. It is not safe for threads, and quick to make.
    stemmer = Stemmer.Stemmer(algorithm, 0)
    plain = unicodedata.normalize("NFC", text.encode(errors="replace").decode()).casefold()
    yield from words_of(" ".join(stemmer.stemWords(_RUN.findall(plain))))


def question_words(question: str, language: str = "") -> tuple[str, ...]:
    """Return the different words of a question as stems, in order, the first ``MAX_QUESTION_WORDS`` of them."""
    found: dict[str, None] = {}
    for word in stems_of(question, language):
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
