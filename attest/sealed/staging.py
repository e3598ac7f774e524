"""Folders that appear only when they are complete: made beside their place, and renamed at the end.

::

    .NAME.sealing/journal     the finished files
    .NAME.sealing/model/      becomes NAME

If the process is killed, NAME does not exist, and the next run resumes.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from attest.context_managers import ClosedOnExit
from attest.errors import ConfigurationError
from attest.files import flush_folder, require_absent
from attest.sealed.atomic_file import unwritable
from attest.sealed.journal import Journal

_MODEL: Final = "model"
_EXISTS_HINT: Final = "nothing is overwritten: name another folder, or remove that one yourself"
_OTHERS_WRITE: Final = 0o022
_TMPFS: Final = 0x01021994
_RAMFS: Final = 0x858458F6
_STATFS_BYTES: Final = 256
"""More than the kernel writes; the type comes first, as one machine word."""


class Workplace(ClosedOnExit):
    """The folder beside a target in which it is made. Closing it leaves everything for the next run.

    Args:
        target: must not exist.
        kind: ``sealing`` or ``unsealing``.

    Raises:
        ConfigurationError: ``output-exists``, ``sealed-work-in-use``, ``sealed-work-unsafe``, or ``output-unwritable``.
        SealedSourceError: ``sealed-target-unwritable``.
    """

    def __init__(self, target: Path, *, kind: str) -> None:
        self._target = target
        self.folder = workplace_of(target, kind=kind)
        self.model = self.folder / _MODEL
        require_new(target, kind=kind)
        try:
            make_own(self.folder)
            with ExitStack() as opened:
                self.journal = opened.enter_context(Journal(self.folder / "journal"))
                make_own(self.model)
                opened.pop_all()
        except OSError as exc:
            raise ConfigurationError(
                f"{target} cannot be made: {exc.strerror or exc}",
                code="output-unwritable",
                field=str(target),
                hint="name a folder below an existing one with write access and room",
            ) from exc

    def finish(self) -> None:
        """Rename the folder to its target, and remove the rest.

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
            raise unwritable(self._target, exc) from exc
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def close(self) -> None:
        """Unlock it for other processes; repeated calls are harmless."""
        self.journal.close()


def make_own(folder: Path) -> None:
    """Create a folder that no other user can write to, or accept an existing one with this property (``OSError``).

    Any user can create folders beside a target in ``/dev/shm``, and the owner of a folder can exchange its files.

    Raises:
        ConfigurationError: ``sealed-work-unsafe``.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE:
        return
    raise ConfigurationError(
        f"{folder} belongs to another user, or others can write to it",
        code="sealed-work-unsafe",
        field=str(folder),
        expected="a folder of this user that no other user can write to",
        hint=f"look at its owner; then remove {folder}, or name another target",
    )


def workplace_of(target: Path, *, kind: str) -> Path:
    """Return the folder beside a target in which it is made.

    Raises:
        ConfigurationError: ``output-unwritable``: nothing can be beside it.
    """
    named = target.resolve() if target.name in {"", ".."} else target
    if not named.name:
        raise ConfigurationError(
            f"{target} has no parent folder",
            code="output-unwritable",
            field=str(target),
            hint="name a folder below another one",
        )
    return named.with_name(f".{named.name}.{kind}")


def require_new(target: Path, *, kind: str) -> None:
    """Require a target that does not exist; remove the remains of a run that was killed after it was renamed.

    Raises:
        ConfigurationError: ``output-exists``.
    """
    work = workplace_of(target, kind=kind)
    if os.path.lexists(target) and work.is_dir() and not (work / _MODEL).exists():
        shutil.rmtree(work, ignore_errors=True)
    require_absent(target, hint=_EXISTS_HINT)


def remove_unlisted(folder: Path, keep: Collection[str]) -> None:
    """Remove all files below a folder except these: the incomplete ones, and those that are made again."""
    for top, _, names in os.walk(folder):
        for name in names:
            path = Path(top) / name
            if path.relative_to(folder).as_posix() not in keep:
                path.unlink()


def require_room(folder: Path, size: int) -> None:
    """Require a file system with room for this many bytes.

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
            f"{folder} has room for {free} bytes, and {size} are necessary",
            code="output-no-room",
            field=str(folder),
            expected=f"{size} bytes",
            got=f"{free} bytes",
            hint="make room, or name a target elsewhere; finished work is kept",
        )


def is_memory(folder: Path) -> bool:
    """Return True if a folder is in memory: tmpfs or ramfs, by ``statfs``. A folder that cannot be examined is not."""
    statfs = ctypes.CDLL(None, use_errno=True).statfs
    buffer = ctypes.create_string_buffer(_STATFS_BYTES)
    if statfs(os.fsencode(folder), buffer) != 0:
        return False
    kind = int.from_bytes(buffer.raw[: ctypes.sizeof(ctypes.c_long)], "little") & 0xFFFFFFFF
    return kind in {_TMPFS, _RAMFS}
