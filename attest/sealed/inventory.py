"""Inventory of the files to seal, with identities that reveal changes."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from attest.errors import ConfigurationError
from attest.sealed.names import MAX_FILES, names_problem

LEFT_OUT: Final = frozenset({".git", ".github"})
"""Top-level folders outside the model, by the format of its signature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file to seal.

    Attributes:
        path: its name in the model.
        size: bytes.
        identity: changes with the file: device, inode, size, and the times of its last changes.
    """

    path: str
    size: int
    identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelScan:
    """The files of a folder.

    Attributes:
        files: in the order of their paths.
        left_out: folders outside the model.
    """

    files: tuple[SourceFile, ...]
    left_out: tuple[str, ...]

    @property
    def size(self) -> int:
        """Total bytes of all files."""
        return sum(one.size for one in self.files)


def scan_model(folder: Path, *, follow_symlinks: bool = False) -> ModelScan:
    """Find the files of a model.

    Args:
        folder: the model.
        follow_symlinks: seal the targets of links; links to folders are always refused.

    Raises:
        ConfigurationError: ``model-unsealable``: a link, pipe or device, an invalid name, no file
            or too many; ``file-unreadable``: a file or folder is unreadable.
    """
    left_out: list[str] = []
    files: list[SourceFile] = []
    try:
        for entry, path in _entries(folder, "", left_out):
            status = entry.stat(follow_symlinks=follow_symlinks)
            if not stat.S_ISREG(status.st_mode):
                raise _unsealable(folder, f"{path!r} {_kind(status.st_mode)}", links=stat.S_ISLNK(status.st_mode))
            files.append(SourceFile(path=path, size=status.st_size, identity=_identity(status)))
            if len(files) >= MAX_FILES:
                raise _unsealable(folder, f"it has {MAX_FILES} files or more")
    except OSError as exc:
        raise ConfigurationError(
            f"{exc.filename or folder} cannot be read: {exc.strerror}",
            code="file-unreadable",
            field=str(exc.filename or folder),
            hint="name the folder of a model, all of which you may read",
        ) from exc
    if not files:
        raise _unsealable(folder, "it holds no file")
    problem = names_problem(one.path for one in files)
    if problem is not None:
        raise _unsealable(folder, problem)
    return ModelScan(files=tuple(sorted(files, key=lambda one: one.path)), left_out=tuple(sorted(left_out)))


def _entries(folder: Path, above: str, left_out: list[str]) -> Iterator[tuple[os.DirEntry[str], str]]:
    """Walk a folder; links to folders appear as links, and are refused."""
    pending = [(folder, above)]
    while pending:
        top, prefix = pending.pop()
        with os.scandir(top) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    yield entry, prefix + entry.name
                elif not prefix and entry.name in LEFT_OUT:
                    left_out.append(entry.name)
                else:
                    pending.append((Path(entry.path), f"{prefix}{entry.name}/"))


def _identity(status: os.stat_result) -> str:
    facts = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return ":".join(map(str, facts))


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "is a link"
    if stat.S_ISDIR(mode):
        return "leads to a folder"
    return "is neither file nor folder"


def _unsealable(folder: Path, problem: str, *, links: bool = False) -> ConfigurationError:
    follow = "--follow-symlinks seals the files that links lead to"
    return ConfigurationError(
        f"{folder} cannot be sealed: {problem}"[:600],
        code="model-unsealable",
        field=str(folder),
        expected="regular files in folders, with printable names that no file system takes for one another",
        hint=follow if links else "remove or rename it, or seal another folder",
    )
