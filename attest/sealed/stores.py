"""Stores of sealed directories: untrusted listing and access by name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from attest.errors import SealedFileError
from attest.sealed.names import MAX_FILES
from attest.sealed.sources import FileSource, Source, read_at_most, unreadable

_MAX_ENTRIES: Final = 4 * MAX_FILES
"""Largest number of files in a folder, subfolders included; sealed models have fewer."""
LEFT_OUT: Final = frozenset({".git", ".github"})
"""Top-level folders outside the model, by the format of its signature."""


def folder_entries(folder: Path) -> Iterator[tuple[os.DirEntry[str], str]]:
    """Walk a folder without git's folders at its top; yield each entry that is no folder, and its relative path.

    Links are not followed: one to a folder is yielded as a link.
    """
    pending = [(folder, "")]
    while pending:
        top, prefix = pending.pop()
        with os.scandir(top) as entries:
            for entry in entries:
                path = prefix + entry.name
                if not entry.is_dir(follow_symlinks=False):
                    yield entry, path
                elif path not in LEFT_OUT:
                    pending.append((Path(entry.path), f"{path}/"))


@runtime_checkable
class FileStore(Protocol):
    """Files by name; any object with these members implements it."""

    @property
    def name(self) -> str:
        """Its name in messages, without secrets such as the query of a signed URL."""
        ...

    def sizes(self) -> Mapping[str, int] | None:
        """Return the size of every file by name, with ``/`` between parts; None without a listing.

        Raises:
            SealedSourceError: listing fails.
            SealedFileError: ``sealed-folder-unsafe``: links, devices or other non-files.
        """
        ...

    def read_small(self, name: str, limit: int) -> bytes:
        """Return a whole file, or at most limit + 1 bytes of a larger one.

        Raises:
            SealedSourceError: missing or unreadable.
        """
        ...

    def open(self, name: str) -> Source:
        """Open a file for random access.

        Raises:
            SealedSourceError: missing or unreadable.
        """
        ...


class FolderStore:
    """A local folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.name = str(self.folder)

    def sizes(self) -> Mapping[str, int]:
        """List the folder; see ``FileStore``. Git's files at its top are left out."""
        found: dict[str, int] = {}
        try:
            for entry, path in folder_entries(self.folder):
                if path in LEFT_OUT:
                    continue
                if not entry.is_file(follow_symlinks=False):
                    raise self._unsafe(f"{path!r} is not a regular file")
                if len(found) >= _MAX_ENTRIES:
                    raise self._unsafe(f"it has more than {_MAX_ENTRIES} files")
                found[path] = entry.stat(follow_symlinks=False).st_size
        except OSError as exc:
            raise unreadable(str(exc.filename or self.folder), exc) from exc
        return found

    def _unsafe(self, problem: str) -> SealedFileError:
        return SealedFileError(
            f"{self.name}: {problem}",
            code="sealed-folder-unsafe",
            field=self.name,
            expected="folders and regular files",
            hint="a sealed model contains no links or devices; get it again from its owner",
        )

    def read_small(self, name: str, limit: int) -> bytes:
        """Read a whole file; see ``FileStore``."""
        with self.open(name) as source:
            return read_at_most(source, limit)

    def open(self, name: str) -> FileSource:
        """Open a file; see ``FileStore``."""
        return FileSource(self.folder / name)

    def close(self) -> None:
        """Do nothing; remote stores close their connections here."""
