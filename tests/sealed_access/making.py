"""Sealed files and models for tests: made in memory, under keys of this test alone."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors

from attest.sealed import FileHeader, SealedReader, SegmentCipher
from attest.sealed.layout import ciphertext_size, segment_count, segment_place

Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]
KEY = bytes(range(32))
ASSOCIATED = b"tests"


class MemorySource:
    """Bytes of a test as a source; counts what is asked for."""

    def __init__(self, content: bytes, name: str = "memory") -> None:
        self.content = content
        self._name = name
        self.asked: list[tuple[int, int]] = []
        self.closed = False

    @property
    def name(self) -> str:
        return self._name

    @property
    def size(self) -> int:
        return len(self.content)

    def read_into(self, offset: int, buffer: memoryview) -> None:
        assert offset + len(buffer) <= len(self.content)
        self.asked.append((offset, len(buffer)))
        buffer[:] = self.content[offset : offset + len(buffer)]

    def close(self) -> None:
        self.closed = True


class Plain:
    """Plaintext without a seal, where a test is about what is in it."""

    def __init__(self, content: bytes, name: str = "plain") -> None:
        self.content = content
        self.name = name
        self.asked: list[tuple[int, int]] = []
        self.closed = False

    @property
    def size(self) -> int:
        return len(self.content)

    def read_into(self, offset: int, buffer: memoryview) -> None:
        assert 0 <= offset <= offset + len(buffer) <= len(self.content)
        self.asked.append((offset, len(buffer)))
        buffer[:] = self.content[offset : offset + len(buffer)]

    def close(self) -> None:
        self.closed = True


def seal(content: bytes, *, key: bytes = KEY, associated_data: bytes = ASSOCIATED) -> bytes:
    """Seal bytes, with a header that is the same each time: no two contents of a test meet under one."""
    header = FileHeader.fresh(lambda size: bytes((len(content) + at) % 256 for at in range(size)))
    cipher = SegmentCipher(key, header, associated_data)
    size = ciphertext_size(len(content))
    out = bytearray(size)
    view = memoryview(out)
    view[:40] = bytes(header)
    for index in range(segment_count(size)):
        place = segment_place(index, size)
        part = content[place.plaintext_offset : place.plaintext_offset + place.plaintext_size]
        cipher.encrypt_into(index, place.last, part, view[place.offset : place.offset + place.size])
    return bytes(out)


def reader_of(content: bytes, *, threads: int | None = None) -> SealedReader:
    return SealedReader(MemorySource(seal(content)), key=KEY, associated_data=ASSOCIATED, threads=threads)


def safetensors_bytes(header: Mapping[str, Any] | bytes, data: bytes = b"", *, length: int | None = None) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def deserialize(content: bytes) -> list[tuple[str, dict[str, Any]]]:
    """Read a file with the library, which has no types here; it raises ``safetensors.SafetensorError``."""
    found: list[tuple[str, dict[str, Any]]] = safetensors.deserialize(content)  # type: ignore[no-untyped-call]
    return found
