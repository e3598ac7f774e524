"""Texts as the numbers of a model's tokens, whichever tokeniser makes them.

A tokeniser is built from the parts of ``tokenizer.json`` that were checked, not from the file itself, so that no other
setting in it can truncate, pad or change a text. Two deviations from the usual tokenisers are deliberate:

* Marks such as ``[SEP]`` or ``</s>`` are ordinary text when a text holds them. A document is untrusted, and must not
  use the model's own marks.
* Half of a surrogate pair, which is no character and which a JSON string may hold, is read as U+FFFD.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tokenizers import Tokenizer

FIRST_CHARACTERS: Final = 8192
"""First part of a long text; more is read where it has fewer tokens than the model reads."""
_GROWTH: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TextTokens:
    """Tokenizer of texts. ``parse_tokenizer`` makes it.

    Attributes:
        tokenizer: without truncation, padding or marks of its own.
        first: the mark before a text, as a number.
        last: the mark behind it.
        between: marks between two texts that are read together.
        multilingual: true for a tokeniser of the kind that models of many languages have.
        word_characters: a longer word is one unknown token, or several that depend on no more characters than these.
    """

    tokenizer: Tokenizer
    first: int
    last: int
    between: tuple[int, ...]
    word_characters: int
    multilingual: bool = False

    def count(self, text: str) -> int:
        """Return how many tokens a text is, all of it, without the two marks."""
        return len(self._numbers(_characters(text)))

    def encode(self, text: str, *, most: int) -> list[int]:
        """Return a text as the model reads it: the first mark, tokens, the last mark.

        Args:
            text: any; what is beyond is not looked at.
            most: maximum length of the result, 2 or more.
        """
        return [self.first, *self._beginning(text, most - 2), self.last]

    def encode_pair(self, question: str, text: str, *, most: int) -> tuple[list[int], int]:
        """Return a question and a text as a model reads them together, and where the text begins.

        Args:
            question: takes at most half of the room.
            text: any; what is beyond the room is not looked at.
            most: maximum length of the result.
        """
        room = most - 2 - len(self.between)
        asked = self._beginning(question, room // 2)
        start = 1 + len(asked) + len(self.between)
        return [self.first, *asked, *self.between, *self._beginning(text, room - len(asked)), self.last], start

    def _beginning(self, text: str, wanted: int) -> list[int]:
        text = _characters(text)
        end = FIRST_CHARACTERS
        while True:
            # The cut may change the last word of the part, and with it up to this many tokens.
            numbers = self._numbers(text[:end])
            if end >= len(text) or len(numbers) >= wanted + self.word_characters:
                return numbers[:wanted]
            end *= _GROWTH

    def _numbers(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids


def _characters(text: str) -> str:
    """Return a text of whole characters: halves that belong together are joined, others are U+FFFD."""
    if not isinstance(text, str):
        raise TypeError(f"a text must be str, not {type(text).__name__}")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
