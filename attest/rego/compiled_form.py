"""The engine's compiled form of a policy, with the data of one question in the place of other data.

The engine compiles data together with the policy. To compile for each question would take longer than to answer it, so
the data of a question is put into the compiled form, which has it as its last part: a BSON document after a byte 4.
The head has the checksum and the size of all four parts. A form of any other shape is refused here, and the policy then
compiled for each question.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

_HEAD = struct.Struct("<8sBBb5xIIQQQQQ")
_MAGIC, _VERSIONS, _DATA = b"REGOBUND", (1, 1), 4
_TEXT, _OBJECT, _LIST, _BINARY, _BOOLEAN = 2, 3, 4, 5, 8
_INTEGER = 128  # kind of a binary value: digits


def bson(value: dict[str, Any] | list[Any]) -> bytes:
    """Write an object or a list as the engine does: texts escaped as in JSON, integers as digits."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    body = b"".join(_element(str(name), member) for name, member in items)
    return struct.pack("<i", len(body)) + body + b"\0"


def _element(name: str, value: Any) -> bytes:
    match value:
        case bool():
            kind, written = _BOOLEAN, bytes([value])
        case int():
            digits = str(value).encode()
            kind, written = _BINARY, struct.pack("<iB", len(digits), _INTEGER) + digits
        case str():
            text = _escaped(value) + b"\0"
            kind, written = _TEXT, struct.pack("<i", len(text)) + text
        case list():
            kind, written = _LIST, bson(value)
        case _:
            kind, written = _OBJECT, bson(value)
    return bytes([kind]) + _escaped(name) + b"\0" + written


def _escaped(text: str) -> bytes:
    return json.dumps(text)[1:-1].encode()


class CompiledForm:
    """The parts of a compiled policy before its data.

    Raises:
        ValueError: the form is not the one that this module knows.
    """

    def __init__(self, form: bytes, data: dict[str, Any]) -> None:
        magic, *head = _HEAD.unpack_from(form)
        self.head, self.places = tuple(head[:4]), tuple(head[6:])
        start = self.places[-1]
        if magic != _MAGIC or self.head[:2] != _VERSIONS or form[start : start + 1] != bytes([_DATA]):
            raise ValueError("the compiled form is of another version")
        self.body = form[_HEAD.size : start + 1]
        if self.with_data(data) != form:
            raise ValueError("the compiled form has other data")

    def with_data(self, data: dict[str, Any]) -> bytes:
        """Return the form with other data."""
        body = self.body + bson(data)
        return _HEAD.pack(_MAGIC, *self.head, zlib.crc32(body), len(body), *self.places) + body
