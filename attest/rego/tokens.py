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
_OPENS = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True, slots=True)
class Token:
    """One token.

    Attributes:
        kind: ``line``, ``text``, ``name``, ``number`` or ``mark``.
        value: as it is written; of a text, what it says.
        depth: how many brackets are open before it.
        place: characters before it.
    """

    kind: str
    value: str
    depth: int
    place: int


class TokenError(ValueError):
    """A text that is not made of tokens, or not of those that it needs.

    Attributes:
        place: of the fault, in characters.
    """

    def __init__(self, problem: str, place: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.place = place


def tokens_of(source: str) -> tuple[Token, ...]:
    """Split a Rego text.

    Raises:
        TokenError: a character or a text that no Rego has, or brackets that do not close.
    """
    found: list[Token] = []
    opened: list[int] = []
    place = 0
    while place < len(source):
        match = _TOKEN.match(source, place)
        if match is None:
            raise TokenError(f"{source[place]!r} begins no word of Rego", place)
        start, place = place, match.end()
        kind, value = str(match.lastgroup), match.group()
        if kind == "blank":
            continue
        if kind == "mark" and value in ")]}":
            if not opened or source[opened[-1]] != _OPENS[value]:
                raise TokenError(f"{value} closes nothing", start)
            opened.pop()
        token = Token("text" if kind == "raw" else kind, _value(kind, value, start), len(opened), start)
        found.append(token)
        if kind == "mark" and value in "([{":
            opened.append(start)
    if opened:
        raise TokenError("a bracket is not closed", opened[-1])
    return tuple(found)


def _value(kind: str, value: str, place: int) -> str:
    if kind == "raw":
        return value[1:-1]
    if kind != "text":
        return value
    try:
        return str(json.loads(value))
    except ValueError as exc:
        raise TokenError(str(exc), place) from exc
