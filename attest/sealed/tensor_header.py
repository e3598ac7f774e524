"""The header of a safetensors file: its tensors with type, shape and position.

::

    file   = length (8, little-endian, at most 100 MB) ‖ header (JSON, that many bytes, spaces behind it) ‖ data
    header = {"__metadata__": {text: text}?, name: {"dtype", "shape", "data_offsets": [begin, end]}…}

Tensors are contiguous in the data, from its first byte to its last: no gap, no overlap, no trailing bytes.
This parser refuses everything that the ``safetensors`` library refuses, and all forms that two parsers could interpret
differently: repeated members, unknown members, a header that begins with a blank or ends in anything but
spaces.

Spec: huggingface/safetensors, README, section "Format"; its library in version 0.8.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from types import MappingProxyType
from typing import Final, NoReturn

from attest.encoding import JsonValue, json_value
from attest.errors import EvidenceError, SealedFileError

LENGTH_BYTES: Final = 8
MAX_HEADER_BYTES: Final = 100_000_000
"""The library's own limit."""
_METADATA: Final = "__metadata__"

DTYPE_BITS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "BOOL": 8,
        "F4": 4,
        "F6_E2M3": 6,
        "F6_E3M2": 6,
        "U8": 8,
        "I8": 8,
        "F8_E5M2": 8,
        "F8_E4M3": 8,
        "F8_E8M0": 8,
        "F8_E4M3FNUZ": 8,
        "F8_E5M2FNUZ": 8,
        "I16": 16,
        "U16": 16,
        "F16": 16,
        "BF16": 16,
        "I32": 32,
        "U32": 32,
        "F32": 32,
        "C64": 64,
        "F64": 64,
        "I64": 64,
        "U64": 64,
    }
)
"""All types of the format, with the bits of one number."""

_WORD: Final = 1 << 64
"""The library computes sizes in 64 bits and refuses larger ones."""
_MAX_AXES: Final = 64
_MAX_ARRAY_BYTES: Final = 1 << 63
"""Limit of NumPy and PyTorch for axes, and for elements of non-empty axes."""
_MEMBERS: Final = frozenset({"dtype", "shape", "data_offsets"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorInfo:
    """One tensor of a file.

    Attributes:
        name: as in the header; any text.
        dtype: one of ``DTYPE_BITS``.
        shape: lengths of the axes; none for a scalar.
        begin: offset of its first byte in the data.
        end: offset after its last byte.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.end - self.begin

    @property
    def packed(self) -> bool:
        """True if several numbers share a byte, which prevents slicing."""
        return DTYPE_BITS[self.dtype] % 8 != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorHeader:
    """Tensors and metadata of a file.

    Attributes:
        tensors: by name, in the order of the data.
        metadata: the writer's free text, not used here.
        data_offset: of the data in the file.
    """

    tensors: Mapping[str, TensorInfo]
    metadata: Mapping[str, str] = field(default_factory=dict)
    data_offset: int

    @staticmethod
    def parse(raw: bytes, *, data_size: int) -> TensorHeader:
        """Parse a header: the JSON with trailing spaces, without its length, before ``data_size`` bytes.

        Raises:
            SealedFileError: ``safetensors-malformed`` or ``safetensors-dtype-unknown``.
        """
        members = _members(raw)
        metadata = _metadata(members.pop(_METADATA)) if _METADATA in members else {}
        infos = [_tensor(name, value) for name, value in members.items()]
        infos.sort(key=lambda info: (info.begin, info.end))
        _require_gapless(infos, data_size)
        return TensorHeader(
            tensors=MappingProxyType({info.name: info for info in infos}),
            metadata=MappingProxyType(metadata),
            data_offset=LENGTH_BYTES + len(raw),
        )


def header_length(raw: bytes, *, file_size: int) -> int:
    """Return the length of the header, from the first eight bytes of the file, or from a shorter file as a whole.

    Raises:
        SealedFileError: ``safetensors-malformed``.
    """
    if len(raw) != LENGTH_BYTES:
        _refuse("length", f"{LENGTH_BYTES} bytes", f"{len(raw)}")
    length = int.from_bytes(raw, "little")
    if length > MAX_HEADER_BYTES:
        _refuse("length", f"at most {MAX_HEADER_BYTES}", str(length))
    if length > file_size - LENGTH_BYTES:
        _refuse("length", f"at most the {file_size - LENGTH_BYTES} bytes that follow", str(length))
    return length


def _members(raw: bytes) -> dict[str, JsonValue]:
    if raw[:1] != b"{":
        _refuse("header", "a JSON object from its first byte", repr(raw[:1]))
    text = raw.rstrip(b" ")
    if text[-1:] != b"}":
        _refuse("header", "a JSON object with nothing but spaces behind it", repr(text[-1:]))
    try:
        value = json_value(text, what="safetensors header")
    except EvidenceError as exc:
        raise _malformed("header", "one strict JSON object", exc.message) from exc
    if not isinstance(value, dict):
        _refuse("header", "a JSON object", type(value).__name__)
    return dict(value)


def _metadata(value: JsonValue) -> dict[str, str]:
    if not isinstance(value, dict):
        _refuse(_METADATA, "an object", type(value).__name__)
    texts = {name: text for name, text in value.items() if isinstance(text, str)}
    if len(texts) != len(value):
        _refuse(_METADATA, "texts", "something else")
    return texts


def _tensor(name: str, value: JsonValue) -> TensorInfo:
    where = name if len(name) <= 200 else name[:200] + "…"
    if not isinstance(value, dict) or value.keys() != _MEMBERS:
        _refuse(where, "an object with dtype, shape and data_offsets", "something else")
    dtype = value["dtype"]
    if not isinstance(dtype, str):
        _refuse(f"{where}.dtype", "text", type(dtype).__name__)
    if dtype not in DTYPE_BITS:
        raise SealedFileError(
            f"safetensors: {where}.dtype: unknown type {dtype[:40]!r}",
            code="safetensors-dtype-unknown",
            field=f"{where}.dtype",
            expected=", ".join(DTYPE_BITS),
            got=dtype[:40],
        )
    shape = _numbers(value["shape"], f"{where}.shape")
    offsets = _numbers(value["data_offsets"], f"{where}.data_offsets")
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        _refuse(f"{where}.data_offsets", "[begin, end]", str(list(offsets)[:4]))
    size = _size(shape, DTYPE_BITS[dtype], where)
    if size != offsets[1] - offsets[0]:
        _refuse(f"{where}.data_offsets", f"{size} bytes, by shape and dtype", f"{offsets[1] - offsets[0]}")
    return TensorInfo(name=name, dtype=dtype, shape=shape, begin=offsets[0], end=offsets[1])


def _numbers(value: JsonValue, where: str) -> tuple[int, ...]:
    if not isinstance(value, list):
        _refuse(where, "a list", type(value).__name__)
    numbers = tuple(one for one in value if type(one) is int and 0 <= one < _WORD)  # bool is a subclass of int
    if len(numbers) != len(value):
        _refuse(where, "integers from 0", "something else")
    return numbers


def _size(axes: tuple[int, ...], bits: int, where: str) -> int:
    if len(axes) > _MAX_AXES:
        _refuse(f"{where}.shape", f"at most {_MAX_AXES} axes", str(len(axes)))
    if prod(filter(None, axes)) * bits >= 8 * _MAX_ARRAY_BYTES:
        _refuse(f"{where}.shape", "a size of less than 2^63 bytes", "more")
    count = 1
    for length in (*axes, bits):
        count *= length
        if count >= _WORD:
            _refuse(f"{where}.shape", "a size of less than 2^64 bits", "more")
    if count % 8:
        _refuse(f"{where}.shape", "whole bytes", f"{count} bits")
    return count // 8


def _require_gapless(infos: list[TensorInfo], data_size: int) -> None:
    if infos and infos[0].begin != 0:
        _refuse(f"{infos[0].name[:200]}.data_offsets", "a first tensor at 0", str(infos[0].begin))
    for before, after in pairwise(infos):
        if after.begin != before.end:
            _refuse(
                f"{after.name[:200]}.data_offsets", f"to begin at {before.end}, where another ends", str(after.begin)
            )
    end = infos[-1].end if infos else 0
    if end != data_size:
        _refuse("data", f"{end} bytes, by the header", str(data_size))


def _refuse(where: str, expected: str, got: str) -> NoReturn:
    raise _malformed(where, expected, got)


def _malformed(where: str, expected: str, got: str) -> SealedFileError:
    return SealedFileError(
        f"safetensors: {where}: expected {expected}, got {got[:200]}",
        code="safetensors-malformed",
        field=where,
        expected=expected,
        got=got[:200],
        clause="safetensors, section Format",
    )
