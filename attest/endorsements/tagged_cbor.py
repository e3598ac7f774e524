"""Bounded reader of tagged CBOR in foreign documents: no conversion, and any order of keys.

``attest.encoding`` reads the project's own documents, in one encoding. CoRIM comes from any encoder, so keys may
stand in any order, integers and lengths may be longer than need be, and arrays, maps and strings may be of indefinite
length. Duplicate keys, floats, unknown simple values, text that is not UTF-8 and bytes left over are refused.

NOTE: cbor2 is not used: it turns some tags into objects of its own (dates, UUIDs, fractions, shared references), and
ignores bytes after the first item. The tests hold this reader and cbor2 to the same outcomes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from attest.errors import EvidenceError

TaggedKey: TypeAlias = "int | str | bytes"
TaggedValue: TypeAlias = (
    "bool | int | str | bytes | tuple[TaggedValue, ...] | Mapping[TaggedKey, TaggedValue] | Tagged | None"
)

MAX_DEPTH = 24
"""A signed CoRIM nests 14 levels, those of byte strings inside it not counted."""
MAX_ITEMS = 200_000
_SIMPLE = {20: False, 21: True, 22: None}
_BREAK = 0xFF


@dataclass(frozen=True, slots=True)
class Tagged:
    """A value under a tag that is not interpreted."""

    tag: int
    value: TaggedValue


def read_tagged(data: bytes, *, what: str) -> TaggedValue:
    """Decode one item that takes all bytes.

    Raises:
        EvidenceError: ``cbor-invalid``.
    """
    reader = _Reader(data)
    try:
        value = reader.only_item()
    except _Malformed as exc:
        message = f"{what} is not CBOR that is understood here: {exc} (offset {reader.at})"
        raise EvidenceError(message, code="cbor-invalid", field=what, offset=reader.at) from exc
    return value


class _Malformed(ValueError):  # noqa: N818  never leaves this module
    pass


class _Reader:
    """A place in bytes. Recursion is bounded by ``MAX_DEPTH``, work by ``MAX_ITEMS``."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0
        self._items = 0

    def only_item(self) -> TaggedValue:
        """Read the one item that takes all bytes."""
        value = self.item(0)
        if self.at != len(self._data):
            raise _Malformed(f"{len(self._data) - self.at} bytes are left over")
        return value

    def item(self, depth: int) -> TaggedValue:
        """Read one item."""
        if depth > MAX_DEPTH:
            raise _Malformed(f"nested deeper than {MAX_DEPTH}")
        self._items += 1
        if self._items > MAX_ITEMS:
            raise _Malformed(f"more than {MAX_ITEMS} items")
        first = self._take(1)[0]
        major, minor = first >> 5, first & 31
        if major == 7:
            if minor not in _SIMPLE:
                raise _Malformed("a float or an unknown simple value")
            return _SIMPLE[minor]
        size = self._argument(minor)
        if size is None and major in (0, 1, 6):
            raise _Malformed("an integer or tag without a number")
        return self._value(major, size, depth)

    def _value(self, major: int, size: int | None, depth: int) -> TaggedValue:
        match major:
            case 0:
                return size
            case 1:
                return -1 - (size or 0)
            case 2:
                return self._string(2, size)
            case 3:
                return _text(self._string(3, size))
            case 4:
                return tuple(self._members(size, depth))
            case 5:
                return self._map(size, depth)
            case _:  # 6: item() has dealt with 7
                pass
        return Tagged(size or 0, self.item(depth + 1))

    def _members(self, size: int | None, depth: int) -> list[TaggedValue]:
        found: list[TaggedValue] = []
        while not self._ends(size, len(found)):
            found.append(self.item(depth + 1))
        return found

    def _map(self, size: int | None, depth: int) -> Mapping[TaggedKey, TaggedValue]:
        found: dict[TaggedKey, TaggedValue] = {}
        while not self._ends(size, len(found)):
            key = self.item(depth + 1)
            if isinstance(key, bool) or not isinstance(key, int | str | bytes):
                raise _Malformed("a key that is not an integer, text or byte string")
            if key in found:
                raise _Malformed(f"the key {str(key)[:40]} occurs twice in one map")
            found[key] = self.item(depth + 1)
        return found

    def _ends(self, size: int | None, read: int) -> bool:
        """Return True if an array or map is complete; one of indefinite length ends with a break."""
        if size is not None:
            return read == size
        if self._data[self.at : self.at + 1] == bytes([_BREAK]):
            self.at += 1
            return True
        return False

    def _string(self, major: int, size: int | None) -> bytes:
        if size is not None:
            return self._take(size)
        parts: list[bytes] = []
        while not self._ends(None, 0):
            first = self._take(1)[0]
            length = self._argument(first & 31)
            if first >> 5 != major or length is None:
                raise _Malformed("a part of another kind in a string of indefinite length")
            parts.append(self._take(length))
        return b"".join(parts)

    def _argument(self, minor: int) -> int | None:
        """Return the number after a head's first byte; None for indefinite length."""
        if minor < 24:
            return minor
        if minor == 31:
            return None
        if minor > 27:
            raise _Malformed("a reserved head")
        return int.from_bytes(self._take(1 << minor - 24), "big")

    def _take(self, size: int) -> bytes:
        if size > len(self._data) - self.at:
            raise _Malformed("the bytes end too early")
        self.at += size
        return self._data[self.at - size : self.at]


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise _Malformed("text that is not UTF-8") from exc
