"""Result of the last scheduled examination, in memory shared by the workers of one machine.

It is not in the database, where a writer who alters the state could also alter the result.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from typing import Final
from zlib import crc32

_FORMAT: Final = struct.Struct("<dQd")
_CHECKSUM: Final = struct.Struct("<I")
_BYTES: Final = _FORMAT.size + _CHECKSUM.size
_ATTEMPTS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FsckVerdict:
    """End of an examination in seconds since 1970, number of differences found, and duration."""

    ended_at: float
    findings: int
    seconds: float


class SharedVerdict:
    """The last result. Create it before the workers are forked; one of them writes it, and all read it."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _BYTES)

    def put(self, verdict: FsckVerdict) -> None:
        """Replace the result."""
        values = _FORMAT.pack(verdict.ended_at, verdict.findings, verdict.seconds)
        self._memory[:_BYTES] = values + _CHECKSUM.pack(crc32(values))

    def get(self) -> FsckVerdict | None:
        """Return the result, or None before the first one."""
        for _ in range(_ATTEMPTS):  # a read during a write has another checksum
            content = self._memory[:_BYTES]
            ended_at, findings, seconds = _FORMAT.unpack_from(content)
            if ended_at and _CHECKSUM.pack(crc32(content[: _FORMAT.size])) == content[_FORMAT.size :]:
                return FsckVerdict(ended_at=ended_at, findings=findings, seconds=seconds)
        return None
