"""The wire format of Protocol Buffers, as far as signed endorsements use it: varints and length-delimited fields.

Stricter than the format: a field number stands once unless it is taken as repeated, varints have no superfluous bytes,
and the deprecated wire types (groups) are refused.

Spec: Protocol Buffers, "Encoding".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from attest.errors import EvidenceError
from attest.evidence.reader import ByteReader

MAX_FIELDS = 4096
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}
_MAX_VARINT_BYTES = 10
_MAX_NUMBER = (1 << 64) - 1
_Item = TypeVar("_Item", int, bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufMessage:
    """The fields of a message by number, each occurrence in order; fixed-width numbers are kept as bytes."""

    what: str
    fields: Mapping[int, tuple[int | bytes, ...]]

    def number(self, field: int) -> int:
        """Return an unsigned number; 0 if absent, as proto3 has it."""
        return self._only(field, int, 0)

    def data(self, field: int) -> bytes:
        """Return bytes; empty if absent, as proto3 has it."""
        return self._only(field, bytes, b"")

    def message(self, field: int, what: str) -> ProtobufMessage | None:
        """Return a message within; None if absent."""
        return parse_protobuf(self.data(field), what=what) if field in self.fields else None

    def messages(self, field: int, what: str) -> tuple[ProtobufMessage, ...]:
        """Return every message of a repeated field."""
        return tuple(
            parse_protobuf(self._typed(field, value, bytes), what=what) for value in self.fields.get(field, ())
        )

    def _only(self, field: int, kind: Callable[..., _Item], absent: _Item) -> _Item:
        values = self.fields.get(field, ())
        if len(values) > 1:
            raise _malformed(self.what, f"field {field} stands {len(values)} times")
        return self._typed(field, values[0], kind) if values else absent

    def _typed(self, field: int, value: int | bytes, kind: Callable[..., _Item]) -> _Item:
        if type(value) is not kind:
            raise _malformed(self.what, f"field {field} is of another wire type")
        return value  # type: ignore[return-value]  # compared in the line before


def parse_protobuf(data: bytes, *, what: str) -> ProtobufMessage:
    """Read a message; its fields are not interpreted.

    Raises:
        EvidenceError: ``protobuf-malformed`` or ``truncated``.
    """
    reader = ByteReader(data, what=what)
    fields: dict[int, list[int | bytes]] = {}
    count = 0
    while reader.remaining:
        count += 1
        tag = _varint(reader, what)
        field, wire = tag >> 3, tag & 7
        if not 0 < field < 1 << 29 or count > MAX_FIELDS:
            raise _malformed(what, f"field number {field}, field {count} of at most {MAX_FIELDS}")
        fields.setdefault(field, []).append(_value(reader, wire, what))
    return ProtobufMessage(what=what, fields={field: tuple(values) for field, values in fields.items()})


def _value(reader: ByteReader, wire: int, what: str) -> int | bytes:
    if wire == _VARINT:
        return _varint(reader, what)
    if wire == _LENGTH:
        return reader.take(_varint(reader, what), "field")
    if wire in _FIXED:
        return reader.take(_FIXED[wire], "field")
    raise _malformed(what, f"wire type {wire}")


def _varint(reader: ByteReader, what: str) -> int:
    """Take a number of 7 bits a byte, the lowest first; the last byte has no high bit and is not superfluous."""
    number = 0
    for index in range(_MAX_VARINT_BYTES):
        byte = reader.unsigned(1, "varint")
        number |= (byte & 0x7F) << 7 * index
        if not byte & 0x80:
            if number > _MAX_NUMBER or (index and not byte):
                break
            return number
    raise _malformed(what, "a number that is too long")


def _malformed(what: str, problem: str) -> EvidenceError:
    return EvidenceError(
        f"{what} is no such message: {problem}", code="protobuf-malformed", clause="Protocol Buffers, Encoding"
    )
