"""The bounds-checked byte reader, and the tables that describe fixed binary structures.

A ``Layout`` is written once per structure and serves the parser, the encoder, the documentation and the mutation
tests. It refuses to exist with a hole, an overlap or another size than it states.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from attest.errors import EvidenceError

Kind = Literal["u8", "u16", "u32", "u64", "bytes", "reserved"]
_UNSIGNED: Mapping[str, tuple[str, int]] = {"u8": ("B", 1), "u16": ("H", 2), "u32": ("I", 4), "u64": ("Q", 8)}


class ByteReader:
    """Take bytes from the front of a buffer; never past its end."""

    __slots__ = ("_data", "_offset", "_what")

    def __init__(self, data: bytes, *, what: str) -> None:
        self._data = data
        self._offset = 0
        self._what = what

    @property
    def offset(self) -> int:
        """Bytes taken so far."""
        return self._offset

    @property
    def remaining(self) -> int:
        """Bytes not taken yet."""
        return len(self._data) - self._offset

    def take(self, length: int, field: str) -> bytes:
        """Take exactly ``length`` bytes.

        Raises:
            EvidenceError: ``truncated``, fewer bytes are left.
        """
        if length > self.remaining:
            raise EvidenceError(
                f"{self._what} ends inside {field}: expected {length} bytes at offset {self._offset:#x}, "
                f"got {self.remaining}",
                code="truncated",
                field=field,
                offset=self._offset,
                expected=f"{length} bytes",
                got=f"{self.remaining} bytes",
            )
        start = self._offset
        self._offset += length
        return self._data[start : self._offset]

    def unsigned(self, size: int, field: str, *, byteorder: Literal["little", "big"] = "little") -> int:
        """Take an unsigned integer of ``size`` bytes."""
        return int.from_bytes(self.take(size, field), byteorder)

    def finish(self) -> None:
        """Refuse bytes that nothing has taken.

        Raises:
            EvidenceError: ``trailing-bytes``.
        """
        if self.remaining:
            raise EvidenceError(
                f"{self._what} is {self.remaining} bytes longer than its format",
                code="trailing-bytes",
                offset=self._offset,
                expected=f"{self._offset} bytes",
                got=f"{len(self._data)} bytes",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One row of a structure's table.

    Attributes:
        name: the specification's name; reserved spans are named ``reserved``.
        offset: bytes from the start of the structure.
        size: bytes.
        kind: ``u8`` … ``u64`` are little-endian; ``reserved`` must be zero.
    """

    name: str
    offset: int
    size: int
    kind: Kind
    note: str = ""


def _require_whole(name: str, size: int, fields: tuple[Field, ...]) -> None:
    """Require rows that follow one another up to the size of the structure."""
    at = 0
    for field in fields:
        width = _UNSIGNED.get(field.kind, ("", field.size))[1]
        if field.offset != at or field.size != width:
            raise ValueError(
                f"{name}.{field.name}: row at {field.offset:#x} of {field.size} bytes does not follow {at:#x}"
            )
        at += field.size
    if at != size:
        raise ValueError(f"{name}: rows end at {at:#x}, the structure at {size:#x}")


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class Layout:
    """A fixed little-endian structure.

    Attributes:
        size: total bytes.
        fields: rows in order of offset, without holes.

    Raises:
        ValueError: the rows leave a hole, overlap, or do not add up.
    """

    name: str
    size: int
    fields: tuple[Field, ...]
    clause: str
    _struct: struct.Struct
    _reserved: struct.Struct
    _zeros: tuple[bytes, ...]

    def __init__(self, *, name: str, size: int, fields: tuple[Field, ...], clause: str) -> None:
        _require_whole(name, size, fields)
        form = "<" + "".join(
            f"{f.size}x" if f.kind == "reserved" else _UNSIGNED.get(f.kind, (f"{f.size}s",))[0] for f in fields
        )
        spans = "".join(f"{f.size}{'s' if f.kind == 'reserved' else 'x'}" for f in fields)
        for attribute, value in (
            ("name", name),
            ("size", size),
            ("fields", fields),
            ("clause", clause),
            ("_struct", struct.Struct(form)),
            ("_reserved", struct.Struct(spans)),
            ("_zeros", struct.unpack(spans, bytes(size))),
        ):
            object.__setattr__(self, attribute, value)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fields that carry a value, in order."""
        return tuple(field.name for field in self.fields if field.kind != "reserved")

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def decode(self, data: bytes) -> tuple[int | bytes, ...]:
        """Return the values in the order of ``names``.

        Raises:
            EvidenceError: ``size-wrong``, or ``reserved-not-zero`` with the first such span.
        """
        if len(data) != self.size:
            raise EvidenceError(
                f"{self.name} has {len(data)} bytes, expected {self.size}",
                code="size-wrong",
                expected=f"{self.size} bytes",
                got=f"{len(data)} bytes",
                clause=self.clause,
            )
        reserved = self._reserved.unpack(data)
        if reserved != self._zeros:
            raise self._not_zero(reserved)
        return self._struct.unpack(data)

    def _not_zero(self, reserved: tuple[bytes, ...]) -> EvidenceError:
        rows = (field for field in self.fields if field.kind == "reserved")
        offset, found = next((row.offset, span) for row, span in zip(rows, reserved, strict=True) if any(span))
        return EvidenceError(
            f"{self.name} has reserved bytes that are not zero at offset {offset:#x}",
            code="reserved-not-zero",
            offset=offset,
            expected="zero",
            got=found.hex(),
            clause=self.clause,
        )

    def encode(self, values: Mapping[str, int | bytes]) -> bytes:
        """Return the bytes of a structure with these values; reserved spans are zero.

        Raises:
            ValueError: a name is missing or unknown, or a value does not fit its row.
        """
        if set(values) != set(self.names):
            raise ValueError(f"{self.name}: expected the fields {self.names}, got {tuple(values)}")
        for field in self.fields:
            value = values.get(field.name)
            if isinstance(value, bytes) and len(value) != field.size:
                raise ValueError(f"{self.name}.{field.name}: expected {field.size} bytes, got {len(value)}")
        try:
            return self._struct.pack(*(values[name] for name in self.names))
        except struct.error as exc:
            raise ValueError(f"{self.name}: {exc}") from exc
