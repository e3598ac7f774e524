"""A mount namespace of this process, and files in it that stand over those of the real machine."""

from __future__ import annotations

import ctypes
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

# Linux, include/uapi/linux/mount.h and sched.h.
_MS_BIND: Final = 0x1000
_MS_MOVE: Final = 0x2000
_MS_REC: Final = 0x4000
_MS_PRIVATE: Final = 0x40000
_CLONE_NEWNS: Final = 0x00020000
_CLONE_NEWUSER: Final = 0x10000000
_PLACES: Final = ("/tmp", "/var/tmp")  # noqa: S108  each folder made in them is for one user
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def enter_mount_namespace() -> None:
    """Give this process a mount namespace of its own; what it mounts is seen by it and its children alone.

    Without privileges, it also gets a user namespace with the same user and group.

    Raises:
        OSError: the kernel, a container or a security module forbids it.
    """
    if os.geteuid() == 0:
        _called("unshare", _LIBC.unshare(_CLONE_NEWNS))
    else:
        user, group = os.geteuid(), os.getegid()
        _called("unshare", _LIBC.unshare(_CLONE_NEWNS | _CLONE_NEWUSER))
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _mount("none", Path("/"), _MS_REC | _MS_PRIVATE)


def cover(path: Path, source: Path) -> None:
    """Show ``source``, a file or directory, at ``path``; directories above it that do not exist appear.

    Raises:
        OSError: the kernel refuses a mount.
    """
    if not path.exists():
        above = next(folder for folder in path.parents if folder.exists())
        _make_writable(above)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if source.is_dir() else path.touch()
    _mount(str(source), path, _MS_BIND | _MS_REC)


def keep_in_memory(folder: Path) -> None:
    """Put an empty file system in memory over a directory, for files that are to vanish with the namespace.

    Raises:
        OSError: the kernel refuses the mount.
    """
    _mount("tmpfs", folder, 0, kind="tmpfs")


def _make_writable(folder: Path) -> None:
    """Put a file system in memory over a directory, with the directory's entries in it."""
    staged = Path(tempfile.mkdtemp(prefix="attest-simulated-", dir=_outside(folder)))
    keep_in_memory(staged)
    for entry in folder.iterdir():
        _show_again(entry, staged / entry.name)
    _mount(str(staged), folder, _MS_MOVE)
    staged.rmdir()


def _outside(folder: Path) -> Path | None:
    """Return a place for temporary files that a mount over this directory does not hide; None if there is none.

    TMPDIR may be below it: ``/dev/shm`` is a usual choice.
    """
    places = (Path(tempfile.gettempdir()), *map(Path, _PLACES))
    return next((place for place in places if folder not in place.parents and os.access(place, os.W_OK)), None)


def _show_again(entry: Path, place: Path) -> None:
    mode = entry.lstat().st_mode
    if stat.S_ISLNK(mode):
        place.symlink_to(entry.readlink())
        return
    place.mkdir() if stat.S_ISDIR(mode) else place.touch()
    _mount(str(entry), place, _MS_BIND | _MS_REC)


def _mount(source: str, target: Path, flags: int, *, kind: str | None = None) -> None:
    name = None if kind is None else kind.encode()
    _called(str(target), _LIBC.mount(source.encode(), os.fsencode(target), name, ctypes.c_ulong(flags), None))


def _called(what: str, status: int) -> None:
    if status != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
