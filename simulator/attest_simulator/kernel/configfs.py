"""configfs-tsm as a file system: the directory in which a program creates requests for reports.

Binary attributes act when they are closed, as configfs does: a request is written in pieces and counts as one write.

Spec: Linux, Documentation/ABI/testing/configfs-tsm-report and Documentation/filesystems/configfs.rst.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any, Final

import mfusepy as fuse

from attest.collect.tsm import REPORT_DATA_BYTES, TsmReports

_FOLDERS: Final = (PurePosixPath("/"), PurePosixPath("/tsm"), PurePosixPath("/tsm/report"))
_WRITTEN: Final = frozenset({"inblob", "privlevel", "service_provider", "service_guid", "service_manifest_version"})
_BINARY: Final = "inblob"
_DIRECTORY: Final = stat.S_IFDIR | 0o755
_PAGE: Final = 4096
"""Size that configfs states for each attribute, whatever it holds."""


def serve_reports(reports: TsmReports, mountpoint: Path, ready: Callable[[], None]) -> None:
    """Mount the directory at ``mountpoint``, call ``ready``, and serve until it is unmounted."""
    fuse.FUSE(
        ReportFiles(reports, ready), str(mountpoint), foreground=True, nothreads=True, direct_io=True, allow_other=True
    )


class ReportFiles(fuse.Operations):  # type: ignore[misc]  # the library is not typed
    """Requests and their attributes, as paths below ``/tsm/report``."""

    use_ns = True

    def __init__(self, reports: TsmReports, ready: Callable[[], None]) -> None:
        """Start without requests."""
        self._reports = reports
        self._ready = ready
        self._requests: set[str] = set()
        self._handles = count(1)
        self._writing: dict[int, bytearray] = {}
        self._reading: dict[int, bytes] = {}

    def init(self, path: str) -> None:
        """Report that the file system is mounted."""
        del path
        self._ready()

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        """Return mode and size; attributes have one size, as configfs states them."""
        del fh
        owner = {"st_uid": os.getuid(), "st_gid": os.getgid()}
        found = PurePosixPath(path)
        if found in _FOLDERS or (found.parent == _FOLDERS[-1] and found.name in self._requests):
            return {"st_mode": _DIRECTORY, "st_nlink": 2, **owner}
        _, attribute = self._attribute(path)
        mode = 0o200 if attribute in _WRITTEN else 0o400
        return {"st_mode": stat.S_IFREG | mode, "st_nlink": 1, "st_size": _PAGE, **owner}

    def readdir(self, path: str, fh: int) -> list[str]:
        """List a directory."""
        del fh
        found = PurePosixPath(path)
        names = {"/": ["tsm"], "/tsm": ["report"], "/tsm/report": sorted(self._requests)}
        listed = names.get(path)
        return [".", "..", *(sorted(self._reports.attributes(found.name)) if listed is None else listed)]

    def mkdir(self, path: str, mode: int) -> None:
        """Create a request."""
        del mode
        found = PurePosixPath(path)
        if found.parent != _FOLDERS[-1]:
            raise fuse.FuseOSError(errno.EPERM)
        self._reports.make(found.name)
        self._requests.add(found.name)

    def rmdir(self, path: str) -> None:
        """Remove a request."""
        found = PurePosixPath(path)
        if found.parent != _FOLDERS[-1] or found.name not in self._requests:
            raise fuse.FuseOSError(errno.EPERM)
        self._reports.remove(found.name)
        self._requests.remove(found.name)

    def create(self, path: str, mode: int, fi: object = None) -> int:
        """Refuse a file, for the kernel alone makes attributes."""
        del path, mode, fi
        raise fuse.FuseOSError(errno.EACCES)

    def open(self, path: str, flags: int) -> int:
        """Open an attribute; what it holds is read, or a write begins."""
        name, attribute = self._attribute(path)
        writes = flags & os.O_ACCMODE != os.O_RDONLY
        if writes != (attribute in _WRITTEN):
            raise fuse.FuseOSError(errno.EACCES)
        handle = next(self._handles)
        if writes:
            self._writing[handle] = bytearray()
        else:
            self._reading[handle] = self._content(name, attribute)
        return handle

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """Read a part of what the attribute held when it was opened."""
        del path
        return self._reading[fh][offset : offset + size]

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        """Write a text attribute, or keep a piece of a binary one until it is closed."""
        name, attribute = self._attribute(path)
        if attribute != _BINARY:
            self._reports.write(name, attribute, data)
            return len(data)
        if offset + len(data) > REPORT_DATA_BYTES:
            raise fuse.FuseOSError(errno.EFBIG)
        written = self._writing[fh]
        written[offset : offset + len(data)] = data
        return len(data)

    def truncate(self, path: str, length: int, fh: int | None = None) -> None:
        """Accept what a shell does before it writes; an attribute has no length."""
        del path, length, fh

    def release(self, path: str, fh: int) -> None:
        """Close an attribute for the last time, which hands over what was written."""
        self._reading.pop(fh, None)
        written = self._writing.pop(fh, None)
        if written:
            self._reports.write(*self._attribute(path), bytes(written))

    def _attribute(self, path: str) -> tuple[str, str]:
        found = PurePosixPath(path)
        name = found.parent.name
        if found.parent.parent != _FOLDERS[-1] or name not in self._requests:
            raise fuse.FuseOSError(errno.ENOENT)
        if found.name not in self._reports.attributes(name):
            raise fuse.FuseOSError(errno.ENOENT)
        return name, found.name

    def _content(self, name: str, attribute: str) -> bytes:
        try:
            return self._reports.read(name, attribute)
        except ValueError:  # nothing, or too little, to commit to
            raise fuse.FuseOSError(errno.EINVAL) from None
