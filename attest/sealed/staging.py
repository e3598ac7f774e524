"""A folder that is not there until it is whole: made beside its place, and given its name at the end.

::

    .NAME.sealing/journal     what is done
    .NAME.sealing/model/      what becomes NAME

Killed at any moment, NAME is not there, and the next run goes on.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Final

from attest.errors import ConfigurationError, SealedSourceError
from attest.files import flush_folder, require_absent
from attest.sealed.atomic_file import whole_file
from attest.sealed.journal import Journal

_MODEL: Final = "model"
_EXISTS_HINT: Final = "a model overwrites nothing: name another folder, or remove that one yourself"
_OTHERS_WRITE: Final = 0o022
_TMPFS: Final = 0x01021994
_RAMFS: Final = 0x858458F6
_STATFS_BYTES: Final = 256
"""More than the kernel writes; the type stands first, as one machine word."""


class Workplace:
    """The folder beside a target in which it is made. Closing it leaves everything for the next run.

    Args:
        target: what shall become of it; must not be there.
        kind: ``sealing`` or ``unsealing``.

    Raises:
        ConfigurationError: ``output-exists``, ``sealed-work-in-use``, ``sealed-work-unsafe``, or ``output-unwritable``.
        SealedSourceError: ``sealed-target-unwritable``.
    """

    def __init__(self, target: Path, *, kind: str) -> None:
        self._target = target
        self._folder = workplace_of(target, kind=kind)
        self.model = self._folder / _MODEL
        require_new(target, kind=kind)
        try:
            make_own(self._folder)
            self.journal = Journal(self._folder / "journal")
            make_own(self.model)
        except OSError as exc:
            raise ConfigurationError(
                f"{target} cannot be made: {exc.strerror or exc}",
                code="output-unwritable",
                field=str(target),
                hint="name a folder below one that is there, that you may write to and that has room",
            ) from exc

    @property
    def folder(self) -> Path:
        """Where the work is done."""
        return self._folder

    def finish(self) -> None:
        """Give the folder its name, and remove what was only for the way.

        Raises:
            ConfigurationError: ``output-exists``.
            SealedSourceError: ``sealed-target-unwritable``.
        """
        require_absent(self._target, hint=_EXISTS_HINT)
        try:
            flush_folder(self.model)
            self.model.rename(self._target)
            flush_folder(self._target.parent)
        except OSError as exc:
            raise _unwritable(self._target, exc) from exc
        self.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def close(self) -> None:
        """Let others work here. Twice is allowed."""
        self.journal.close()


def make_own(folder: Path) -> None:
    """Make a folder that nobody else can write to, or take up one that is (``OSError``).

    Beside a target in ``/dev/shm`` anybody may make folders. One that is somebody else's would let him exchange what is
    written there.

    Raises:
        ConfigurationError: ``sealed-work-unsafe``.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE:
        return
    raise ConfigurationError(
        f"{folder} belongs to somebody else, or others may write to it",
        code="sealed-work-unsafe",
        field=str(folder),
        expected="a folder of this user, to which nobody else may write",
        hint=f"find out who made it; then remove {folder}, or name another target",
    )


def workplace_of(target: Path, *, kind: str) -> Path:
    """Return where a target is made: beside it.

    Raises:
        ConfigurationError: ``output-unwritable``: there is no place beside it.
    """
    named = target.resolve() if target.name in {"", ".."} else target
    if not named.name:
        raise ConfigurationError(
            f"nothing lies beside {target}",
            code="output-unwritable",
            field=str(target),
            hint="name a folder below another one",
        )
    return named.with_name(f".{named.name}.{kind}")


def require_new(target: Path, *, kind: str) -> None:
    """Require a target not to be there, and tidy up beside one that was made by a run that was killed right after.

    Raises:
        ConfigurationError: ``output-exists``.
    """
    work = workplace_of(target, kind=kind)
    if os.path.lexists(target) and work.is_dir() and not (work / _MODEL).exists():
        shutil.rmtree(work, ignore_errors=True)
    require_absent(target, hint=_EXISTS_HINT)


def remove_unlisted(folder: Path, keep: Collection[str]) -> None:
    """Remove every file below a folder whose name is not among these: half files, and files that are done again."""
    for top, _, names in os.walk(folder):
        for name in names:
            path = Path(top) / name
            if path.relative_to(folder).as_posix() not in keep:
                path.unlink()


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all.

    Raises:
        SealedSourceError: ``sealed-target-unwritable``.
    """
    with whole_file(path, mode=None) as file:
        file.write(data)


def require_room(folder: Path, size: int) -> None:
    """Require a file system to have room for so many bytes more.

    Raises:
        ConfigurationError: ``output-no-room``.
    """
    try:
        found = os.statvfs(folder)
    except OSError as exc:
        raise ConfigurationError(
            f"{folder} cannot be written to: {exc.strerror}", code="output-unwritable", field=str(folder)
        ) from exc
    free = found.f_bavail * found.f_frsize
    if free < size:
        raise ConfigurationError(
            f"{folder} has room for {free} bytes, and {size} are needed",
            code="output-no-room",
            field=str(folder),
            expected=f"{size} bytes",
            got=f"{free} bytes",
            hint="make room, or name a target elsewhere; what is done already is kept",
        )


def is_memory(folder: Path) -> bool:
    """Say whether a folder lies in memory: tmpfs or ramfs, by ``statfs``. What cannot be asked does not."""
    statfs = ctypes.CDLL(None, use_errno=True).statfs
    buffer = ctypes.create_string_buffer(_STATFS_BYTES)
    if statfs(os.fsencode(folder), buffer) != 0:
        return False
    kind = int.from_bytes(buffer.raw[: ctypes.sizeof(ctypes.c_long)], "little") & 0xFFFFFFFF
    return kind in {_TMPFS, _RAMFS}


def _unwritable(path: Path, exc: OSError) -> SealedSourceError:
    return SealedSourceError(
        f"{path} cannot be written: {exc.strerror or exc}", code="sealed-target-unwritable", field=str(path)
    )
