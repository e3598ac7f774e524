"""Citations in the text of a language model: those that name no passage which was given are taken out, and counted."""

from __future__ import annotations

import re
from collections.abc import Collection

_MARK = re.compile(r"\[[ ]*\d{1,6}(?:[ ]*,[ ]*\d{1,6})*[ ]*\]")
_BEGUN = re.compile(r"\[[\d, ]{0,40}\Z")
"""A text that the next piece may complete to a mark."""
# Control characters but tab and line feed; characters that turn the direction of text; halves of characters.
_UNPRINTED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Marks:
    """Reader of a text in pieces of any length.

    Attributes:
        cited: the passages that it named so far.
        dropped: number of dropped citations of passages that were not given.
    """

    def __init__(self, given: Collection[int]) -> None:
        self._given = frozenset(given)
        self._held = ""
        self.cited: set[int] = set()
        self.dropped = 0

    def feed(self, piece: str) -> str:
        """Return what of the text is certain by now."""
        text = _MARK.sub(self._checked, self._held + _UNPRINTED.sub("", piece))
        begun = _BEGUN.search(text)
        self._held = text[begun.start() :] if begun else ""
        return text[: begun.start()] if begun else text

    def finish(self) -> str:
        """Return what was held back: it has become no mark."""
        held, self._held = self._held, ""
        return held

    def _checked(self, found: re.Match[str]) -> str:
        kept = []
        for number in re.findall(r"\d+", found[0]):
            if int(number) in self._given:
                self.cited.add(int(number))
                kept.append(f"[{int(number)}]")
            else:
                self.dropped += 1
        return "".join(kept)
