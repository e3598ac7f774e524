"""Security-relevant files, read only if no user but root and the agent's can have written them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from attest.errors import ConfigurationError
from attest.named_files import unreadable

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_HINT: Final = "check the path"


def read_guarded(path: Path, *, what: str, limit: int) -> bytes:
    """Read a file that only root and this process's user can write, in a folder with the same property.

    A link counts as its target, and its own folder is checked too. A file system mounted read-only counts as not
    writable. ``what`` is the file's name in errors, ``limit`` its largest size in bytes.

    Raises:
        ConfigurationError: ``file-unreadable``, ``file-writable-by-others`` or ``agent-config-invalid``: too long.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise unreadable(path, what, "it is not a regular file", hint=_HINT)
            _require(what, path, _problem(status, os.fstatvfs(descriptor)))
            for folder in {path.absolute().parent, path.resolve(strict=True).parent}:
                _require(what, folder, others_may_write(folder))
            text = file.read(limit + 1)
    except OSError as exc:
        raise unreadable(path, what, exc, hint=_HINT) from exc
    if len(text) > limit:
        raise ConfigurationError(
            f"{what}: {path} is longer than {limit} bytes",
            code="agent-config-invalid",
            field=what,
            expected=f"at most {limit} bytes",
        )
    return text


def others_may_write(folder: Path) -> str | None:
    """Return how another user could replace files in a folder, or None. The sticky bit makes a folder safe.

    Raises:
        OSError: the folder cannot be examined.
    """
    status = folder.stat()
    if status.st_mode & stat.S_ISVTX and status.st_uid in {0, os.geteuid()}:
        return None
    return _problem(status, os.statvfs(folder))


def _problem(status: os.stat_result, system: os.statvfs_result) -> str | None:
    if system.f_flag & os.ST_RDONLY:
        return None
    if status.st_uid not in {0, os.geteuid()}:
        return f"belongs to user {status.st_uid}"
    if status.st_mode & _OTHERS_WRITE:
        return f"can be written by others (mode {stat.S_IMODE(status.st_mode):04o})"
    return None


def _require(what: str, path: Path, problem: str | None) -> None:
    if problem is None:
        return
    raise ConfigurationError(
        f"{what}: {path} {problem}, who could change it",
        code="file-writable-by-others",
        field=what,
        expected="write access only for root and the user of this program",
        got=problem,
        hint=f"chown it to the user of this program, and chmod go-w {path}",
    )
