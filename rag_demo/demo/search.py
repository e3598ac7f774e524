"""Search for many secrets in many bytes at once, and inside compressed data.

A table of the first two bytes of every pattern leaves a few places of a haystack; the first eight bytes leave almost
none; there the whole pattern is compared. So the time hardly depends on how many patterns there are.
"""

from __future__ import annotations

import bz2
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rag_demo.demo.secret_forms import MIN_BYTES, Needle

_CHUNK: Final = 4 * 1024 * 1024
MAX_INFLATED_BYTES: Final = 64 * 1024 * 1024
"""Limit for one compressed stream."""
MAX_DEPTH: Final = 3
MAX_STREAMS: Final = 200_000
"""Places in one haystack that look like the beginning of a compressed stream. Beyond it the search fails."""
_LEAST_INFLATED: Final = 16
_MAGIC: Final = re.compile(rb"\x1f\x8b\x08|\x78[\x01\x5e\x9c\xda]|BZh[1-9]1AY&SY|\xfd7zXZ\x00|\r\n\r\n")
_Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Haystack:
    """Bytes that a party can see."""

    name: str
    read: Callable[[], bytes]

    @staticmethod
    def files(folder: Path, *, without: Iterable[Path] = ()) -> Iterator[Haystack]:
        """Yield every regular file below a folder, and the names of all that is in it."""
        left_out = {path.resolve() for path in without}
        names: list[str] = []
        for path in sorted(folder.rglob("*")):
            if any(one == path.resolve() or one in path.resolve().parents for one in left_out):
                continue
            names.append(str(path.relative_to(folder)))
            if path.is_file() and not path.is_symlink():
                yield Haystack(name=str(path), read=path.read_bytes)
        yield Haystack(name=f"the names of files in {folder}", read="\n".join(names).encode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A visible secret.

    Attributes:
        where: name of the haystack, and the compressed streams around it.
    """

    where: str
    offset: int
    needle: Needle

    def __str__(self) -> str:
        """Describe the place, without the secret."""
        return f"{self.needle.what} ({self.needle.form}) in {self.where} at {self.offset}"


class Searcher:
    """Searcher for needles.

    Raises:
        ValueError: no needle, or one that is too short: a search that cannot fail is none.
    """

    def __init__(self, needles: Iterable[Needle]) -> None:
        self.needles = tuple(needles)
        if not self.needles or any(len(one.pattern) < MIN_BYTES for one in self.needles):
            raise ValueError(f"expected needles of at least {MIN_BYTES} bytes")
        self._by_head: dict[int, list[Needle]] = {}
        self._table = np.zeros(1 << 16, dtype=np.bool_)
        for needle in self.needles:
            head = needle.pattern[:MIN_BYTES]
            self._table[int.from_bytes(head[:2], "little")] = True
            self._by_head.setdefault(int.from_bytes(head, "little"), []).append(needle)
        self._heads = np.array(sorted(self._by_head), dtype=np.uint64)
        self.searched_bytes = 0

    def search(self, haystack: Haystack) -> Iterator[Hit]:
        """Yield each needle in a haystack, and in its compressed parts.

        Raises:
            ValueError: more places look compressed than can be searched.
        """
        yield from self._search(haystack.name, haystack.read(), depth=0)

    def _search(self, name: str, data: bytes, *, depth: int) -> Iterator[Hit]:
        self.searched_bytes += len(data)
        yield from self._plain(name, data)
        if depth == MAX_DEPTH:
            return
        for place, inflated in self._inflated(data, name):
            yield from self._search(f"{name}, inflated at {place}", inflated, depth=depth + 1)

    def _plain(self, name: str, data: bytes) -> Iterator[Hit]:
        whole: _Bytes = np.frombuffer(data, dtype=np.uint8)
        for begin in range(0, len(data), _CHUNK):
            part = whole[begin : begin + _CHUNK + MIN_BYTES - 1]
            for place in self._places(part):
                offset = begin + place
                head = int.from_bytes(data[offset : offset + MIN_BYTES], "little")
                for needle in self._by_head[head]:
                    if data.startswith(needle.pattern, offset):
                        yield Hit(where=name, offset=offset, needle=needle)

    def _places(self, part: _Bytes) -> list[int]:
        """Return the offsets of the first eight bytes of any pattern."""
        if len(part) < MIN_BYTES:
            return []
        starts = len(part) - MIN_BYTES + 1
        pairs = part[:starts].astype(np.uint16) | (part[1 : starts + 1].astype(np.uint16) << np.uint16(8))
        candidates = np.flatnonzero(self._table[pairs])
        heads = np.zeros(len(candidates), dtype=np.uint64)
        for number in range(MIN_BYTES):
            heads |= part[candidates + number].astype(np.uint64) << np.uint64(8 * number)
        return [int(one) for one in candidates[np.isin(heads, self._heads)]]

    @staticmethod
    def _inflated(data: bytes, name: str) -> Iterator[tuple[int, bytes]]:
        """Yield what can be inflated: streams by their marks, and raw ones where a file or a body begins."""
        if found := _inflate(data, 0, wbits=-zlib.MAX_WBITS):
            yield 0, found
        for number, match in enumerate(_MAGIC.finditer(data)):
            if number >= MAX_STREAMS:
                raise ValueError(f"{name}: more than {MAX_STREAMS} places look compressed")
            mark, place = match.group(), match.start()
            if mark == b"\r\n\r\n":
                place, found = match.end(), _inflate(data, match.end(), wbits=-zlib.MAX_WBITS)
            elif mark.startswith((b"BZh", b"\xfd7z")):
                found = _decompressed(data, place, is_bzip2=mark.startswith(b"BZh"))
            else:
                found = _inflate(data, place, wbits=zlib.MAX_WBITS | (16 if mark[0] == 0x1F else 0))
            if found:
                yield place, found


def _inflate(data: bytes, place: int, *, wbits: int) -> bytes:
    """Return the inflated bytes, even of a stream that is truncated or followed by other data."""
    found = bytearray()
    stream = zlib.decompressobj(wbits)
    step = 4096
    try:
        while place < len(data) and not stream.eof and len(found) < MAX_INFLATED_BYTES:
            found += stream.decompress(data[place : place + step], MAX_INFLATED_BYTES)
            place += step
            step = min(2 * step, _CHUNK)
    except zlib.error:
        pass
    return bytes(found) if len(found) >= _LEAST_INFLATED else b""


def _decompressed(data: bytes, place: int, *, is_bzip2: bool) -> bytes:
    stream = bz2.BZ2Decompressor() if is_bzip2 else lzma.LZMADecompressor()
    try:
        return stream.decompress(data[place:], MAX_INFLATED_BYTES)
    except (OSError, EOFError, lzma.LZMAError):
        return b""


def process_haystacks(pids: Iterable[int]) -> Iterator[Haystack]:
    """Yield the arguments and the environment of processes, as the kernel shows them to this user.

    The enclave's own process lets only root look at its environment; what is not shown is empty here.
    """
    for pid in pids:
        for kind in ("cmdline", "environ"):
            file = Path(f"/proc/{pid}/{kind}")
            yield Haystack(name=str(file), read=partial(_shown, file))


def _shown(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except PermissionError:
        return b""
