"""A lexer of Rego, for the checks of a policy's shape before an engine reads it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r]+|\#[^\n]*)
    |(?P<line>\n)
    |(?P<text>"(?:[^"\\\n]|\\[^\n])*")
    |(?P<raw>`[^`]*`)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>[0-9][0-9A-Za-z.]*)
    |(?P<mark>:=|==|!=|<=|>=|[^\w\s"`])""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """One token.

    Attributes:
        kind: ``line``, ``text``, ``name``, ``number`` or ``mark``.
        value: as it is written; of a text, what it says.
        depth: how many brackets are open before it.
    """

    kind: str
    value: str
    depth: int


def tokens_of(source: str) -> tuple[Token, ...]:
    """Split a Rego text.

    Raises:
        ValueError: a character or a text that no Rego has, or brackets that do not close.
    """
    found: list[Token] = []
    place = depth = 0
    while place < len(source):
        match = _TOKEN.match(source, place)
        if match is None:
            raise ValueError(f"line {source.count(chr(10), 0, place) + 1}: {source[place]!r} begins no word of Rego")
        place = match.end()
        kind, value = str(match.lastgroup), match.group()
        if kind == "blank":
            continue
        depth -= kind == "mark" and value in ")]}"
        if depth < 0:
            raise ValueError(f"line {source.count(chr(10), 0, place) + 1}: {value} closes nothing")
        found.append(Token("text" if kind == "raw" else kind, _value(kind, value), depth))
        depth += kind == "mark" and value in "([{"
    if depth:
        raise ValueError("a bracket is not closed")
    return tuple(found)


def _value(kind: str, value: str) -> str:
    if kind == "raw":
        return value[1:-1]
    return str(json.loads(value)) if kind == "text" else value
