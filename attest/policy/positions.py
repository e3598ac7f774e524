"""Positions in a policy's text: line and column of each value, for error messages.

Only a refused policy is read a second time for this; a position decides nothing.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPosition:
    """A place in a text; both count from 1, columns in characters."""

    line: int
    column: int


_START = TextPosition(line=1, column=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """A value with its place.

    Attributes:
        key: where its key stands; of a member of a list, and of the document itself, where it starts.
        value: where it starts; of a mapping or list that starts on a line of its own, where its key stands.
        members: of a mapping.
        items: of a list.
        repeated: where the first key of the document stands that is there twice in one mapping.
    """

    key: TextPosition = _START
    value: TextPosition = _START
    members: Mapping[str, Located] = field(default_factory=dict[str, "Located"])
    items: tuple[Located, ...] = ()
    repeated: TextPosition | None = None

    def find(self, path: str, *, key: bool) -> TextPosition:
        """Return the place of a path such as ``snp.vmpl[0]``, or of the part of it that is there.

        With ``key`` it is that of the key, not of its value. Keys may have dots in them: the longest one is meant.
        """
        here, rest = self, path
        while rest:
            step = here._step(rest)
            if step is None:
                return here.key
            here, rest = step
        return here.key if key else here.value

    def _step(self, path: str) -> tuple[Located, str] | None:
        if path.startswith("["):
            number, _, rest = path[1:].partition("]")
            return (self.items[int(number)], rest) if number.isdecimal() and int(number) < len(self.items) else None
        path = path.removeprefix(".")
        names = [name for name in self.members if path == name or path.startswith((f"{name}.", f"{name}["))]
        if not names:
            return None
        name = max(names, key=len)
        return self.members[name], path[len(name) :]


# -- YAML


def yaml_places(compose: Callable[[bytes], Any], data: bytes) -> Located:  # Any: the library's nodes are untyped
    """Return the places of a YAML document that has been read before, by the library's composer."""
    root = compose(data)
    return Located() if root is None else _yaml(root, _START)


def _mark(node: Any) -> TextPosition:  # noqa: ANN401  see above
    return TextPosition(line=node.start_mark.line + 1, column=node.start_mark.column + 1)


def _yaml(node: Any, key: TextPosition) -> Located:  # noqa: ANN401  see above
    start = key if getattr(node, "flow_style", None) is False else _mark(node)
    if node.id == "sequence":
        items: list[Any] = node.value
        return Located(key=key, value=start, items=tuple(_yaml(item, _mark(item)) for item in items))
    if node.id == "mapping":
        members: list[tuple[Any, Any]] = node.value
        return Located(key=key, value=start, members={str(k.value): _yaml(v, _mark(k)) for k, v in members})
    return Located(key=key, value=start)


# -- JSON

_TOKEN = re.compile(r'[{}\[\],:]|"(?:[^"\\]|\\.)*"|[^\s{}\[\],:"]+')


def json_places(text: str) -> Located:
    """Return the places of a JSON document that is well formed, except for duplicate keys in one object."""
    return _Json(text).document()


class _Json:
    """A reader of tokens that keeps places and drops values."""

    def __init__(self, text: str) -> None:
        self._lines = [-1, *(match.start() for match in re.finditer("\n", text))]
        self._tokens: Iterator[re.Match[str]] = _TOKEN.finditer(text)
        self._repeated: TextPosition | None = None

    def document(self) -> Located:
        found = self._value(next(self._tokens), None)
        return replace(found, repeated=self._repeated)

    def _place(self, token: re.Match[str]) -> TextPosition:
        line = bisect_left(self._lines, token.start())
        return TextPosition(line=line, column=token.start() - self._lines[line - 1])

    def _value(self, token: re.Match[str], key: TextPosition | None) -> Located:
        start = self._place(token)
        if token.group() == "{":
            return Located(key=key or start, value=start, members=self._members())
        if token.group() == "[":
            return Located(key=key or start, value=start, items=self._items())
        return Located(key=key or start, value=start)

    def _members(self) -> dict[str, Located]:
        members: dict[str, Located] = {}
        while (token := next(self._tokens)).group() != "}":
            if token.group() == ",":
                continue
            key, name = self._place(token), json.loads(token.group())
            if name in members and self._repeated is None:
                self._repeated = key
            next(self._tokens)  # the colon
            members[name] = self._value(next(self._tokens), key)
        return members

    def _items(self) -> tuple[Located, ...]:
        items: list[Located] = []
        while (token := next(self._tokens)).group() != "]":
            if token.group() != ",":
                items.append(self._value(token, None))
        return tuple(items)
