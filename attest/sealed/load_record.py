"""The record of a load: the files of a sealed model that were opened, and how much of each was decrypted.

The reader counts as it verifies, so nothing is read or hashed a second time. The header of a file, which the owner
signed, determines the key of each of its segments: a decrypted segment is one that the owner sealed, at this place of
this file of this model.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedFile:
    """A file that was opened.

    Attributes:
        header: first 40 bytes of the sealed file, which identify its encryption.
        decrypted: number of its segments that were verified and decrypted, each counted once.
    """

    path: str
    header: bytes
    decrypted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """Content of one sealed model that was decrypted.

    Attributes:
        manifest: SHA-256 of ``sealed.json``, which the owner signed.
        model: identity of the sealing, 16 bytes.
        files: those that were opened, in the order of their paths.
    """

    manifest: bytes
    model: bytes
    files: tuple[LoadedFile, ...]


class SegmentCount:
    """Number of different segments of one file that were decrypted; safe from any thread."""

    __slots__ = ("_lock", "_seen", "header", "total")

    def __init__(self, header: bytes, segments: int) -> None:
        self._lock = threading.Lock()
        self._seen = bytearray(segments)
        self.header = header
        self.total = 0

    def add(self, index: int) -> None:
        """Count a segment, the first time."""
        with self._lock:
            if not self._seen[index]:
                self._seen[index] = 1
                self.total += 1


class LoadMeter:
    """Counts of all files of one model, also of readers that are closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[str, SegmentCount] = {}

    def count(self, path: str, header: bytes, segments: int) -> SegmentCount:
        """Return the count of a file, the same for each reader of it."""
        with self._lock:
            return self._files.setdefault(path, SegmentCount(header, segments))

    def files(self) -> tuple[LoadedFile, ...]:
        """Return the files of which something was decrypted so far, in the order of their paths."""
        with self._lock:
            counts = sorted(self._files.items())
        return tuple(LoadedFile(path=path, header=one.header, decrypted=one.total) for path, one in counts if one.total)
