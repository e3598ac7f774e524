"""One spelling for the same words, and no invisible characters.

These characters are removed: control characters, marks that reverse the direction of writing and so disguise a text,
and characters without width, which hide text from people and show it to programs. Everything else is kept.
"""

from __future__ import annotations

import re
import unicodedata

MAX_MARKS = 30
"""In a row on one letter, as in Unicode's Stream-Safe Text Format (UAX 15, section 13)."""

# C0 and C1 without tab and line feed; soft hyphen; grapheme joiner; Arabic letter mark; Hangul fillers; Mongolian vowel
# separator; zero-width space; directional marks, embeddings, overrides and isolates; word joiner and invisible
# operators; byte order mark; interlinear annotation; half-width filler; surrogates; noncharacters; tags.
FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u180b-\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e00ff\U0001fffe\U0001ffff]"
)
_LINE_END = re.compile("\r\n|[\r\x0b\x0c\x85\u2028]")
# Zero-width joiner and non-joiner belong to the spelling of Persian, of the scripts of India and of emoji. So none is
# kept where the letter before it, its accents aside, is Latin, Greek, Cyrillic, Armenian or no letter; elsewhere one.
_IDLE_JOINERS = re.compile(
    "(?:\\A|[\x00-\u02ff\u0370-\u058f\u1e00-\u200b\u200e-\u25ff])[\u0300-\u036f]*[\u200c\u200d][\u0300-\u036f\u200c\u200d]*"
)
_JOINERS = re.compile("[\u200c\u200d]+")
_JOINERS_AGAIN = re.compile("[\u200c\u200d]+(?=[\u200c\u200d])")
# Variants of ideographs: one, after an ideograph. Rows of them carry hidden bytes.
_IDLE_VARIANT = re.compile("(?<![\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])[\U000e0100-\U000e01ef]")
_VARIANTS_AGAIN = re.compile("(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f]+")
_MAYBE_MARKS = re.compile(rf"[^\w\s\x00-\x7f]{{{MAX_MARKS + 1},}}")
_EMPTY_LINES = re.compile("\n{3,}")
_HYPHEN_AT_END = re.compile(r"(?<=[^\W\d_])(-|\u2010)\n(?=([^\W\d_]))")
_MAX_WORD = 60


def normalised(text: str) -> str:
    """Return a text in NFC, with line feeds for line ends, at most one empty line in a row, and nothing invisible."""
    text = _LINE_END.sub("\n", text).replace("\u2029", "\n\n")
    text = FORBIDDEN.sub("", text)
    if not text.isascii():
        text = _JOINERS_AGAIN.sub("", _VARIANTS_AGAIN.sub("", _IDLE_VARIANT.sub("", text)))
        text = _IDLE_JOINERS.sub(lambda found: _JOINERS.sub("", found[0]), text)
        text = unicodedata.normalize("NFC", _MAYBE_MARKS.sub(_fewer_marks, text))
    text = "\n".join(line.rstrip(" \t\xa0") for line in text.split("\n"))
    return _EMPTY_LINES.sub("\n\n", text).strip()


def _fewer_marks(found: re.Match[str]) -> str:
    """Cut rows of combining marks: putting them in order takes time that grows with the square of their number."""
    kept: list[str] = []
    row = 0
    for character in found[0]:
        row = row + 1 if unicodedata.combining(character) else 0
        if row <= MAX_MARKS:
            kept.append(character)
    return "".join(kept)


def mended(text: str) -> str:
    """Join words that were hyphenated at the end of a line; for formats whose lines are those of the paper.

    Only between letters, the second of them small, and only where the word has no other hyphen: ``state-of-`` stays.
    """
    return _HYPHEN_AT_END.sub(_joined, text)


def _joined(found: re.Match[str]) -> str:
    if not found[2].islower():
        return found[0]
    word = found.string[max(0, found.start() - _MAX_WORD) : found.start()].split()[-1]
    return found[1] if "-" in word or "\u2010" in word else ""
