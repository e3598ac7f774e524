"""The destination of a released key: a place that neither shows nor keeps it, checked before the release."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Final

from attest.errors import ConfigurationError
from attest.file_systems import file_system_of, is_in_memory
from attest.files import output_errors, require_absent, write_all, write_file

STDOUT: Final = "-"
_JOURNAL: Final = "JOURNAL_STREAM"
"""Device and inode of the descriptor that leads to the journal, in services of systemd; see systemd.exec(5)."""
_EXISTS_HINT: Final = "remove it, or name another file"


def write_key(place: Path | int, material: memoryview) -> None:
    """Write the key to a new file or an open descriptor: all of it, or nothing that has the file's name.

    Raises:
        ConfigurationError: ``output-exists`` or ``output-unwritable``.
    """
    if isinstance(place, Path):
        write_file(place, material, hint=_EXISTS_HINT)
    else:
        write_all(place, material, name=f"descriptor {place}")


def place_of(*, out: str | None, out_fd: int | None, allow_disk: bool) -> Path | int:
    """Check the destination of a key: a new file, or an open descriptor.

    Raises:
        ConfigurationError: no place, or two (``option-not-applicable``); a terminal (``output-terminal``); a file
            system that keeps what is written (``output-on-disk``); a file that is there (``output-exists``); a
            descriptor that is not open, or a directory that is not there (``output-unwritable``).
    """
    if (out is None) is (out_fd is None):
        raise ConfigurationError(
            "name exactly one destination of the key",
            code="option-not-applicable",
            field="--out",
            expected="--out FILE, --out - or --out-fd N",
            hint="--out FILE, --out - for a pipe, or --out-fd N",
        )
    if out is not None and out != STDOUT:
        return _file_place(Path(out), allow_disk=allow_disk)
    return _stream_place(out_fd, allow_disk=allow_disk)


def _stream_place(out_fd: int | None, *, allow_disk: bool) -> int:
    sys.stdout.flush()
    descriptor = sys.stdout.fileno() if out_fd is None else out_fd
    name = "standard output" if out_fd is None else f"descriptor {out_fd}"
    found = _status(descriptor, name)
    if os.isatty(descriptor):
        raise ConfigurationError(
            f"a key is not written to a terminal ({name})",
            code="output-terminal",
            hint="name a file with --out FILE, or write into a pipe",
        )
    if not allow_disk:
        _require_nothing_kept(found, name)
    return descriptor


def _status(descriptor: int, name: str) -> os.stat_result:
    with output_errors(name):
        return os.fstat(descriptor)


def _require_nothing_kept(found: os.stat_result, name: str) -> None:
    if stat.S_ISREG(found.st_mode):
        require_in_memory(found.st_dev, name)
    elif stat.S_ISBLK(found.st_mode):
        raise _kept(name, "a block device")
    elif os.environ.get(_JOURNAL) == f"{found.st_dev}:{found.st_ino}":
        raise _kept(name, "the system's journal")


def _file_place(file: Path, *, allow_disk: bool) -> Path:
    require_absent(file, hint=_EXISTS_HINT)
    with output_errors(str(file)):
        device = file.parent.stat().st_dev
    if not allow_disk:
        require_in_memory(device, str(file))
    return file


def require_in_memory(device: int, name: str) -> None:
    """Require a file system that keeps nothing when the machine is off. An unknown one may keep data.

    Raises:
        ConfigurationError: ``output-on-disk``.
    """
    if not is_in_memory(device):
        raise _kept(name, file_system_of(device))


def _kept(name: str, where: str) -> ConfigurationError:
    return ConfigurationError(
        f"{name} is on persistent storage ({where})",
        code="output-on-disk",
        field="--out",
        expected="tmpfs or ramfs",
        got=where,
        hint="write below /run or /dev/shm; --allow-disk permits this place",
    )
