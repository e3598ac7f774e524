"""The ends of sentences: where Wikimedia's ``sentencex``, by the language, and the rules below both see one.

The library knows the abbreviations of many languages, and is asked about full stops. Made for quoting, so two sentences
are rather left together than one cut in two: what follows with a small letter never begins a sentence, and neither does
what follows a title, an initial, or an ordinal number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sentencex import get_sentence_boundaries

from rag_demo.enclave.documents.blocks import ITEM

Span = tuple[int, int]

# A sentence may end at one of: an empty line; a line that begins an item of a list; a mark of the East, which needs no
# space behind it; a full stop, question or exclamation mark with a space behind it. Closing quotes and brackets
# go along.
_CLOSERS = "\"'\u2019\u201d\u00bb\u203a)\\]}\u300d\u300f\u3009\u300b\uff09"
_STOPS = ".!?\u2026\u203d\u061f\u06d4\u0964\u0965"
# No backtracking: a run of marks is matched as a whole or not at all.
_END = re.compile(
    rf"(?P<paragraph>\n[ \t]*\n\s*)"
    rf"|(?P<item>\n(?={ITEM}))"
    rf"|(?P<east>[\u3002\uff01\uff1f\uff61]+[{_CLOSERS}]*)"
    rf"|(?P<stop>(?<![{_STOPS}])[{_STOPS}]++[{_CLOSERS}]*+(?=\s))"
)
_BEFORE = 40
"""Characters before a full stop in which the word that it belongs to begins."""
_WORD_BEFORE = re.compile(r"[^\s(\[\"'\u201c\u2018\u00ab]+\Z")
_NEXT = re.compile(r"\s+[\"'\u201c\u2018\u00ab(\[]*(\w*)")

# Never at the end of a sentence, or seldom enough.
_BEFORE_NAMES = frozenset(
    """
    mr mrs ms mx dr prof rev hon fr sr st messrs mme mlle gen col maj capt cmdr lt sgt gov sen rep pres hr frau
    herr dipl ing
    """.split()  # noqa: SIM905  words in quotes are harder to read
)
_BEFORE_NUMBERS = frozenset(
    """
    no nos nr fig figs eq eqs sec sect ch chap vol p pp art para tab ref refs abs ziff bd s cf ca approx est ver
    v
    """.split()  # noqa: SIM905  words in quotes are harder to read
)
_MIDWAY = frozenset(
    """
    vs e.g i.e eg ie viz al z.b d.h u.a v.a bzw ggf vgl evtl resp incl excl max min dept univ assn bros p.ex
    c.-à-d
    """.split()  # noqa: SIM905  words in quotes are harder to read
)
_MONTHS = frozenset(
    """
    jan feb mar apr jun jul aug sep sept oct nov dec
    """.split()  # noqa: SIM905  words in quotes are harder to read
)
# With a stop of their own at the end of a sentence, too; then what follows is a word that begins sentences.
_STARTERS = frozenset(
    """
    the a an this that these those he she it we they i you his her its our their there here in on at as if when
    while for but and or so however after before although because since then thus no not der die das ein eine le
    la les un
    """.split()  # noqa: SIM905  words in quotes are harder to read
)


_WITH_ORDINALS = frozenset({"cs", "da", "de", "et", "fi", "hr", "hu", "lv", "no", "pl", "sk", "sl", "sr"})
"""Languages that write an ordinal number with a full stop."""
_ORDINAL_DIGITS = 2
_UNKNOWN = "en"


def sentences(text: str, language: str = "") -> Iterator[Span]:
    """Yield where each sentence begins and ends, without the white space around it. Together they hold all words.

    Args:
        text: any.
        language: ISO 639-1; empty where it is not known.
    """
    begins = _begins(text, language or _UNKNOWN)
    start = 0
    for found in _END.finditer(text):
        if found.lastgroup == "stop" and not _ends(text, found, begins, language):
            continue
        if found.lastgroup == "east" and found[0][-1] in _CLOSERS and text[found.end() : found.end() + 1].isalnum():
            continue  # a quotation, and its speaker
        yield from _trimmed(text, start, found.start() if found.lastgroup in {"paragraph", "item"} else found.end())
        start = found.end()
    yield from _trimmed(text, start, len(text))


def _begins(text: str, language: str) -> frozenset[int]:
    """Return where sentences begin, as the library sees it."""
    whole = text if text.isascii() else "".join("?" if "\ud800" <= c <= "\udfff" else c for c in text)
    return frozenset(
        one["start_index"] + len(one["text"]) - len(one["text"].lstrip())
        for one in get_sentence_boundaries(language, whole)
    )


def _next_place(text: str, found: re.Match[str]) -> int:
    place = found.end()
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _trimmed(text: str, start: int, end: int) -> Iterator[Span]:
    piece = text[start:end]
    left, right = len(piece) - len(piece.lstrip()), len(piece.rstrip())
    if left < right:
        yield start + left, start + right


def _ends(text: str, found: re.Match[str], begins: frozenset[int], language: str) -> bool:
    """Return true if a sentence ends at this mark, which white space follows."""
    following = _NEXT.match(text, found.end())
    word = following[1] if following else ""
    if word[:1].islower():
        return False
    marks = found[0]
    if not marks.startswith(".") or marks.startswith(".."):
        return True
    if _next_place(text, found) not in begins:
        return False
    before = _word_before(text, found.start())
    if before.isdigit() and _begins_line(text, found.start() - len(before)):
        return False  # the number of a heading, or of an item of a list
    if before.isdigit() and len(before) <= _ORDINAL_DIGITS and language in _WITH_ORDINALS:
        return False
    return not _belongs(before, word)


def _begins_line(text: str, place: int) -> bool:
    return not text[max(0, text.rfind("\n", 0, place) + 1, place - _BEFORE) : place].strip()


def _word_before(text: str, end: int) -> str:
    found = _WORD_BEFORE.search(text[max(0, end - _BEFORE) : end])
    return found[0] if found else ""


def _belongs(before: str, after: str) -> bool:
    """Return true if a full stop belongs to the word before it, and ends no sentence."""
    word = before.lower()
    if word in _BEFORE_NAMES or word in _MIDWAY:
        return True
    if word in _BEFORE_NUMBERS:
        return after[:1].isdigit() or word in {"cf", "ca", "approx"}
    if word in _MONTHS:
        return after[:1].isdigit()
    initial = len(before) == 1 and before.isupper() and before != "I"
    acronym = "." in before and all(len(part) <= 2 and part.isalpha() for part in before.split("."))
    return (initial or acronym) and after.lower() not in _STARTERS
