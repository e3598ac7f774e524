"""Typed members of a JSON object, each refused by its path: ``tcbInfo.tcbLevels[3].tcb.pcesvn: expected integer``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import TypeVar

from attest.encoding import JsonValue, hex_bytes, json_value, rfc3339
from attest.endorsements.intel import MAX_DOCUMENT_BYTES
from attest.endorsements.malformed import malformed
from attest.errors import EvidenceError, UnsupportedError

MAX_TEXTS = 256
"""Advisories of one level; the longest list seen has 21."""

_Choice = TypeVar("_Choice", bound=str)
_WORD = re.compile(r"[!-~]{1,64}")
_malformed = partial(malformed, code="collateral-malformed")
_TYPES: dict[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}


class JsonObject:
    """One object of a document; members that are not read are ignored.

    Attributes:
        path: its place (``tcbInfo.tcbLevels[3]``).
        members: name and value of each member.

    Every method raises:
        EvidenceError: ``collateral-malformed`` (absent, of another type, out of bounds), ``hex-invalid`` or
            ``time-invalid``, with the path of the member.
    """

    __slots__ = ("members", "path")

    def __init__(self, *, path: str, members: dict[str, JsonValue]) -> None:
        self.path = path
        self.members = members

    def has(self, name: str) -> bool:
        """Return True if there is a member of this name."""
        return name in self.members

    def integer(self, name: str, *, maximum: int) -> int:
        """Return an integer between 0 and ``maximum``."""
        value = self.members.get(name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._mistyped(name, "integer")
        if not 0 <= value <= maximum:
            raise self.refuse(name, f"0 to {maximum}", "a number outside")
        return value

    def text(self, name: str) -> str:
        """Return a string."""
        value = self.members.get(name)
        if not isinstance(value, str):
            raise self._mistyped(name, "string")
        return value

    def word(self, name: str) -> str:
        """Return a string of 1 to 64 printable ASCII characters without blanks."""
        text = self.text(name)
        if not _WORD.fullmatch(text):
            raise self._unprintable(text, name)
        return text

    def words(self, name: str) -> tuple[str, ...]:
        """Return an array of such strings; an absent one is empty."""
        if not self.has(name):
            return ()
        values = self._array(name, limit=MAX_TEXTS)
        found = tuple([value for value in values if isinstance(value, str) and _WORD.fullmatch(value)])
        if len(found) != len(values):
            raise self._no_word(values, name)
        return found

    def hex(self, name: str, *, length: int) -> bytes:
        """Return the bytes behind hex digits of either case."""
        return hex_bytes(self.text(name), what=self._path(name), length=length)

    def moment(self, name: str) -> datetime:
        """Return an RFC 3339 time."""
        return rfc3339(self.text(name), what=self._path(name))

    def choice(self, name: str, choices: Iterable[_Choice]) -> _Choice:
        """Return one of a closed set of words; another word is refused, never guessed."""
        text = self.text(name)
        for choice in choices:
            if choice == text:
                return choice
        raise self.refuse(name, f"one of {', '.join(choices)}", repr(text[:40]))

    def constant(self, name: str, value: int) -> int:
        """Return the one version or type that is read here.

        Raises:
            UnsupportedError: ``collateral-unsupported``, another number.
        """
        found = self.integer(name, maximum=0xFFFF_FFFF)
        if found != value:
            path = self._path(name)
            raise UnsupportedError(
                f"{path}: expected {value}, got {found}",
                code="collateral-unsupported",
                field=path,
                expected=str(value),
                got=str(found),
            )
        return found

    def object(self, name: str) -> JsonObject:
        """Return an object."""
        return _object(self._member(name), self._path(name))

    def objects(self, name: str, *, limit: int, at_least: int = 1) -> Iterator[JsonObject]:
        """Yield the objects of an array of ``at_least`` to ``limit``."""
        values = self._array(name, limit=limit)
        if len(values) < at_least:
            raise self.refuse(name, f"at least {at_least}", str(len(values)))
        path = self._path(name)
        for i, value in enumerate(values):
            yield _object(value, f"{path}[{i}]")

    def integers(self, name: str, member: str, *, count: int, maximum: int) -> tuple[int, ...]:
        """Return one member of each of exactly ``count`` objects of an array: integers between 0 and ``maximum``."""
        values = self._array(name, limit=count)
        found = [value.get(member) for value in values if isinstance(value, dict)]
        numbers = tuple([n for n in found if type(n) is int and 0 <= n <= maximum])
        if len(numbers) == len(values) == count:
            return numbers
        # Again, one object at a time, which names the wrong one.
        objects = self.objects(name, limit=count, at_least=count)
        return tuple(value.integer(member, maximum=maximum) for value in objects)

    def _array(self, name: str, *, limit: int) -> list[JsonValue]:
        value = self.members.get(name)
        if not isinstance(value, list):
            raise self._mistyped(name, "array")
        if len(value) > limit:
            raise self.refuse(name, f"at most {limit}", str(len(value)))
        return value

    def _member(self, name: str) -> JsonValue:
        if name not in self.members:
            raise self.refuse(name, "a member of this name", "none")
        return self.members[name]

    def _mistyped(self, name: str, expected: str) -> EvidenceError:
        """Describe a member that is absent or of another type."""
        return self.refuse(name, expected, _TYPES[type(self._member(name))])

    def _no_word(self, values: list[JsonValue], name: str) -> EvidenceError:
        """Describe the first of some values that is no word."""
        at, value = next((i, v) for i, v in enumerate(values) if not isinstance(v, str) or not _WORD.fullmatch(v))
        if not isinstance(value, str):
            return self.refuse(f"{name}[{at}]", "string", _TYPES[type(value)])
        return self._unprintable(value, f"{name}[{at}]")

    def _unprintable(self, text: str, name: str) -> EvidenceError:
        return self.refuse(name, "1 to 64 printable characters", f"{len(text)} others")

    def _path(self, name: str) -> str:
        return f"{self.path}.{name}"

    def refuse(self, name: str, expected: str, got: str) -> EvidenceError:
        """Return the error for a member; for the caller to raise."""
        return _malformed(self._path(name), expected, got)


def read_object(raw: bytes, *, path: str) -> JsonObject:
    """Read a document that is one JSON object.

    Raises:
        EvidenceError: ``json-invalid``, or ``collateral-malformed`` (too large, or no object).
    """
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise _malformed(path, f"at most {MAX_DOCUMENT_BYTES} bytes", str(len(raw)))
    return _object(json_value(raw, what=path), path)


def _object(value: JsonValue, path: str) -> JsonObject:
    if not isinstance(value, dict):
        raise _malformed(path, "object", _TYPES[type(value)])
    return JsonObject(path=path, members=value)
