"""Sealed bytes in memory, made a segment at a time, and a source that can be tampered with while it is open."""

import random
import threading

from attest.sealed import FileHeader, SegmentCipher, ciphertext_size
from attest.sealed.layout import HEADER_BYTES, SEGMENT_BYTES, segment_count, segment_place

KEY = bytes(range(32))
AAD = b"attest sealed v1\0model\0weights"


def content(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def sealed(plaintext: bytes, *, key: bytes = KEY, aad: bytes = AAD, seed: int = 2) -> bytearray:
    header = FileHeader.fresh(random.Random(seed).randbytes)
    cipher = SegmentCipher(key, header, aad)
    out = bytearray(ciphertext_size(len(plaintext)))
    out[:HEADER_BYTES] = bytes(header)
    for index in range(segment_count(len(out))):
        place = segment_place(index, len(out))
        piece = plaintext[place.plaintext_offset : place.plaintext_offset + place.plaintext_size]
        with memoryview(out)[place.offset : place.offset + place.size] as room:
            cipher.encrypt_into(index, place.last, piece, room)
    return out


def segments(raw: bytes | bytearray) -> list[bytes]:
    """The file in pieces of one MiB, the first with the header."""
    return [bytes(raw[at : at + SEGMENT_BYTES]) for at in range(0, len(raw), SEGMENT_BYTES)]


class MemorySource:
    """A source over bytes that a test may change; it counts what is read."""

    def __init__(self, raw: bytes | bytearray, *, size: int | None = None) -> None:
        self.raw = raw
        self.name = "memory"
        self.size = len(raw) if size is None else size
        self.reads: list[tuple[int, int]] = []
        self.closed = 0
        self._lock = threading.Lock()

    def read_into(self, offset: int, buffer: memoryview) -> None:
        with self._lock:
            self.reads.append((offset, len(buffer)))
        buffer[:] = self.raw[offset : offset + len(buffer)]

    def close(self) -> None:
        self.closed += 1
