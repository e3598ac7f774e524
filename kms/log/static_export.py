"""The log as a directory that any web server can serve: checkpoint, tiles and entries (C2SP tlog-tiles)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from attest.errors import ConfigurationError, OutputError
from attest.files import write_file
from attest.release import Checkpoint, VerifierKey, read_checkpoint
from kms.domain.errors import LogBrokenError
from kms.domain.log_tiles import TileSource, read_tile, tiles_of
from kms.domain.log_tree import root

_CHECKPOINT = "checkpoint"
_EVERYBODY_READS = 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """Numbers of entries in the directory after and before an export, and of the tiles and bundles written."""

    size: int
    before: int
    files: int


def export_log(source: TileSource, directory: Path, *, checkpoint: Checkpoint, log: VerifierKey) -> Exported:
    """Write the entries of a checkpoint that the directory lacks, and then the checkpoint; make a missing directory.

    Raises:
        ConfigurationError: ``directory-unusable``.
        LogBrokenError: ``log-forked``: the directory has a different log; or as ``read_tile``.
        SignatureError: ``note-signature-invalid``: the directory has a checkpoint by another key.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        before = _before(source, directory, checkpoint, log)
        tiles = tuple(tiles_of(checkpoint.size, old=before))
        for tile in tiles:
            _write(directory / "tile" / tile.path, read_tile(source, tile))
        _write(directory / _CHECKPOINT, checkpoint.note.encode())
    except OSError as exc:
        raise _unusable(directory, exc.strerror or str(exc)) from exc
    except OutputError as exc:
        raise _unusable(directory, exc.reason) from exc
    return Exported(size=checkpoint.size, before=before, files=len(tiles))


def _unusable(directory: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(f"{directory} cannot be used: {problem}", code="directory-unusable", field="directory")


def _before(source: TileSource, directory: Path, checkpoint: Checkpoint, log: VerifierKey) -> int:
    """Return the number of entries in the directory."""
    path = directory / _CHECKPOINT
    if not path.exists():
        return 0
    shown = read_checkpoint(path.read_bytes().decode("utf-8", errors="replace"), log=log)
    if shown.size > checkpoint.size or root(shown.size, source.nodes) != shown.root:
        raise LogBrokenError(
            f"{directory} has {shown.size} entries that differ from this log",
            code="log-forked",
            expected=f"{shown.size}:{shown.root.hex()}",
            got=f"{checkpoint.size}:{checkpoint.root.hex()}",
            hint="the database was replaced by an older one, or rewritten; keep the directory, it has the original log",
        )
    return shown.size


def _write(path: Path, content: bytes) -> None:
    """Write a file atomically, readable by all users, because a web server serves it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, content, mode=_EVERYBODY_READS, replace=True)
