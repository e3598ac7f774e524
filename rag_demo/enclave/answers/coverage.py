"""The share of a question's words that a text covers.

For languages that the embedding model does not know, this is nearly all that there is; for others it tells a sentence
about the subject from one that is only similar.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from rag_demo.enclave.interfaces import Found
from rag_demo.enclave.languages import is_function_word, language_of, stems_of, words_of

PREFIX_CHARACTERS: Final = 5
"""Words with a beginning of this length in common are related: ``Medikamente``, ``Medikation``."""
RELATED: Final = 0.5
ELSEWHERE: Final = 0.4
"""Share of a word that is not in the text, but in the name of its document or in another passage of it."""
_UNSEEN: Final = 0.5


class Coverage:
    """The words of a question, weighed by how rare they are in the passages found.

    A word that is in none of them weighs most: a question about it has no answer there.
    """

    def __init__(self, question: str, found: Sequence[Found]) -> None:
        language = language_of(question)
        self._words = [word for word in dict.fromkeys(words_of(question)) if not is_function_word(word, language)]
        self._found = found
        self._of_passages = [_stems(f"{one.passage.section}\n{one.passage.text}", one.language) for one in found]
        self._weights = {one: self._weighed(one) for one in {one.language for one in found}}

    def share(self, place: int, text: str) -> float:
        """Return the share of the question that a text covers, 0 to 1.

        Args:
            place: of the passage that the text is part of, among those found.
            text: a part of the passage; the heading above it counts as part of it.
        """
        passage = self._found[place]
        weights = self._weights[passage.language]
        whole = sum(weights.values())
        if not whole:
            return 0.0
        here = _stems(f"{passage.passage.section}\n{text}", passage.language)
        around = self._document(passage)
        return sum(weight * _match(stem, here, around) for stem, weight in weights.items()) / whole

    def _document(self, passage: Found) -> frozenset[str]:
        """Return what is known of the document of a passage: its name, and its passages that were found."""
        same = [
            stems for one, stems in zip(self._found, self._of_passages, strict=True) if one.document == passage.document
        ]
        return _stems(passage.name, passage.language).union(*same)

    def _weighed(self, language: str) -> Mapping[str, float]:
        stems = dict.fromkeys(stem for word in self._words for stem in stems_of(word, language))
        return {
            stem: math.log(1 + len(self._found) / (_UNSEEN + sum(stem in one for one in self._of_passages)))
            for stem in stems
        }


def _stems(text: str, language: str) -> frozenset[str]:
    return frozenset(stems_of(text, language))


def _match(stem: str, here: Collection[str], around: Collection[str]) -> float:
    if stem in here:
        return 1.0
    if len(stem) >= PREFIX_CHARACTERS and any(one.startswith(stem[:PREFIX_CHARACTERS]) for one in here):
        return RELATED
    return ELSEWHERE if stem in around else 0.0
