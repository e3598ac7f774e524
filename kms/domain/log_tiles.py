"""The log as static resources (C2SP tlog-tiles): hashes in tiles of 256, entries in bundles of 256.

::

    tile/<level>/<number>            256 hashes of 32 bytes of the tree's level 8 · level
    tile/entries/<number>            256 entries, each as length (2 bytes, big-endian) ‖ entry
    ….p/<width>                      the first <width> of them, 1 to 255, while there are no more
    number                           decimal in groups of three digits, all but the last with an x: x001/x234/067
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from kms.domain.errors import LogBrokenError, LogTileUnknownError
from kms.domain.log_entries import LogEntry
from kms.domain.log_tree import Node, ReadNodes

TILE_WIDTH = 256
TILE_LEVELS = 8
"""Levels of the tree between one level of tiles and the next."""
_MAX_ENTRY_BYTES = 0xFFFF
_PATH = re.compile(r"(entries|0|[1-9][0-9]?)/((?:x[0-9]{3}/){0,6}[0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?")
_MAX_LEVEL = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One static resource.

    Attributes:
        level: 0 to 63; None for a bundle of entries.
        number: from 0.
        width: 1 to 256; 256 is a full tile.
    """

    level: int | None
    number: int
    width: int = TILE_WIDTH

    @property
    def path(self) -> str:
        """The path under the log's prefix, without ``tile/``."""
        digits = f"{self.number:03}"
        digits = digits.zfill(-(-len(digits) // 3) * 3)
        *front, last = (digits[at : at + 3] for at in range(0, len(digits), 3))
        number = "".join(f"x{group}/" for group in front) + last
        head = "entries" if self.level is None else str(self.level)
        return f"{head}/{number}" if self.width == TILE_WIDTH else f"{head}/{number}.p/{self.width}"


class TileSource(Protocol):
    """One state of a log, from which tiles are made."""

    def size(self) -> int:
        """Return the number of leaves."""

    def nodes(self, wanted: Sequence[Node]) -> dict[Node, bytes]:
        """Return the hashes of these nodes."""

    def entries(self, *, after: int = 0, limit: int | None = None) -> Iterator[LogEntry]:
        """Iterate over entries."""


def parse_tile(path: str) -> Tile:
    """Read a path as ``Tile.path`` writes it; there is one spelling for each tile.

    Raises:
        LogTileUnknownError: ``log-tile-unknown``.
    """
    match = _PATH.fullmatch(path) if path.isascii() else None
    if match is None:
        raise _unknown(path)
    level = None if match[1] == "entries" else int(match[1])
    number = int(match[2].replace("x", "").replace("/", ""))
    tile = Tile(level=level, number=number, width=int(match[3]) if match[3] else TILE_WIDTH)
    if tile.path != path or (level or 0) > _MAX_LEVEL:
        raise _unknown(path)
    return tile


def read_tile(source: TileSource, tile: Tile) -> bytes:
    """Return the content of a tile.

    Raises:
        LogTileUnknownError: ``log-tile-unknown``: the log is not that long.
        LogBrokenError: ``log-tree-broken``, ``log-gap`` or ``log-entry-invalid``.
    """
    shift = TILE_LEVELS * (tile.level or 0)
    start = tile.number * TILE_WIDTH
    if start + tile.width > source.size() >> shift:
        raise _unknown(tile.path)
    if tile.level is None:
        return _bundle(source.entries(after=start, limit=tile.width), tile)
    return _hashes([(shift, start + at) for at in range(tile.width)], source.nodes)


def tiles_of(size: int, *, old: int = 0) -> Iterator[Tile]:
    """Yield the tiles and bundles that a log of this size has, and that it did not have at its ``old`` size."""
    yield from _of_level(None, size, old)
    level = 0
    while size >> TILE_LEVELS * level:
        shift = TILE_LEVELS * level
        yield from _of_level(level, size >> shift, old >> shift)
        level += 1


def _of_level(level: int | None, count: int, old: int) -> Iterator[Tile]:
    for number in range(old // TILE_WIDTH, count // TILE_WIDTH):
        yield Tile(level=level, number=number)
    if count % TILE_WIDTH and count != old:
        yield Tile(level=level, number=count // TILE_WIDTH, width=count % TILE_WIDTH)


def _hashes(nodes: Sequence[Node], read: ReadNodes) -> bytes:
    stored = read(nodes)
    if len(stored) != len(nodes):
        raise LogBrokenError("the tree of the log has no hashes for a tile", code="log-tree-broken", field="log_nodes")
    return b"".join(stored[node] for node in nodes)


def _bundle(entries: Iterable[LogEntry], tile: Tile) -> bytes:
    found = list(entries)
    start = tile.number * TILE_WIDTH + 1
    if [entry.seq for entry in found] != list(range(start, start + tile.width)):
        raise LogBrokenError(f"entries are missing in the bundle {tile.path}", code="log-gap", field="log_entries")
    raws = [entry.raw for entry in found]
    if any(len(raw) > _MAX_ENTRY_BYTES for raw in raws):
        raise LogBrokenError(f"an entry of the bundle {tile.path} is too long", code="log-entry-invalid")
    return b"".join(len(raw).to_bytes(2, "big") + raw for raw in raws)


def _unknown(path: str) -> LogTileUnknownError:
    return LogTileUnknownError(
        f"the log has no tile {path[:100]!r}",
        code="log-tile-unknown",
        field="path",
        hint="read the checkpoint again, which has the size of the log",
    )
