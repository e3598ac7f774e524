"""Inventory of the files to seal, with identities that reveal changes."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from attest.errors import ConfigurationError
from attest.sealed.names import MAX_FILES, names_problem
from attest.sealed.sources import file_identity
from attest.sealed.stores import LEFT_OUT, folder_entries


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file to seal; its ``path`` is relative to the model, and its identity is that of ``file_identity``."""

    path: str
    size: int
    identity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelScan:
    """The files of a folder in the order of their paths, and the folders in it that are outside the model."""

    files: tuple[SourceFile, ...]
    left_out: tuple[str, ...]

    @property
    def size(self) -> int:
        """Total bytes of all files."""
        return sum(one.size for one in self.files)


def scan_model(folder: Path, *, follow_symlinks: bool = False) -> ModelScan:
    """Find the files of a model.

    ``follow_symlinks`` seals the targets of links; links to folders are always refused.

    Raises:
        ConfigurationError: ``model-unsealable``: a link, pipe or device, an invalid name, no file
            or too many; ``file-unreadable``: a file or folder is unreadable.
    """
    try:
        files = sorted(_files(folder, follow_symlinks=follow_symlinks), key=lambda one: one.path)
    except OSError as exc:
        raise ConfigurationError(
            f"{exc.filename or folder} cannot be read: {exc.strerror}",
            code="file-unreadable",
            field=str(exc.filename or folder),
            hint="name the folder of a model with read access to all of it",
        ) from exc
    if not files:
        raise _unsealable(folder, "it has no file")
    problem = names_problem(one.path for one in files)
    if problem is not None:
        raise _unsealable(folder, problem)
    left_out = tuple(sorted(name for name in LEFT_OUT if (folder / name).is_dir() and not (folder / name).is_symlink()))
    return ModelScan(files=tuple(files), left_out=left_out)


def _files(folder: Path, *, follow_symlinks: bool) -> Iterator[SourceFile]:
    for count, (entry, path) in enumerate(folder_entries(folder), start=1):
        status = entry.stat(follow_symlinks=follow_symlinks)
        if not stat.S_ISREG(status.st_mode):
            raise _unsealable(folder, f"{path!r} {_kind(status.st_mode)}", links=stat.S_ISLNK(status.st_mode))
        if count >= MAX_FILES:
            raise _unsealable(folder, f"it has {MAX_FILES} files or more")
        yield SourceFile(path=path, size=status.st_size, identity=file_identity(status))


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "is a link"
    if stat.S_ISDIR(mode):
        return "leads to a folder"
    return "is neither a file nor a folder"


def _unsealable(folder: Path, problem: str, *, links: bool = False) -> ConfigurationError:
    follow = "--follow-symlinks seals the files that links lead to"
    return ConfigurationError(
        f"{folder} cannot be sealed: {problem}"[:600],
        code="model-unsealable",
        field=str(folder),
        expected="regular files in folders, with printable names that are different on every file system",
        hint=follow if links else "remove or rename it, or seal another folder",
    )
