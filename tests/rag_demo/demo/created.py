"""Every file that comes to be in some folders, as the kernel tells it, and what was in those that did not stay."""

import ctypes
import os
import select
import struct
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_CREATE, _MOVED_TO, _OVERFLOW = 0x100, 0x80, 0x4000
_HEAD: Final = struct.Struct("iIII")


class Created:
    """Watches folders, and keeps a link to each file that is made in them, so that deleting it does not hide it.

    Attributes:
        names: relative to the base, of all files that ever were.
        complete: whether the kernel told all of them.
    """

    def __init__(self, base: Path, folders: list[Path], *, keep: Path) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._base, self._keep = base, keep
        self._descriptor = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        assert self._descriptor >= 0
        self._folders: dict[int, Path] = {}
        for folder in folders:
            watch = self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), _CREATE | _MOVED_TO)
            assert watch >= 0, folder
            self._folders[watch] = folder
        self.names: set[str] = set()
        self.complete = True
        self._over, self._wakes = os.pipe()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._wakes)
        self._thread.join()
        os.close(self._over)
        os.close(self._descriptor)

    def _run(self) -> None:
        over = False
        while not over:
            ready, _, _ = select.select([self._descriptor, self._over], [], [])
            over = self._over in ready
            with suppress(BlockingIOError):
                while data := os.read(self._descriptor, 65536):
                    self._told(data)

    def _told(self, data: bytes) -> None:
        place = 0
        while place < len(data):
            watch, mask, _, length = _HEAD.unpack_from(data, place)
            name = os.fsdecode(data[place + _HEAD.size : place + _HEAD.size + length].rstrip(b"\0"))
            place += _HEAD.size + length
            if mask & _OVERFLOW:
                self.complete = False
            if not mask & (_CREATE | _MOVED_TO):  # that a folder is gone, say
                continue
            file = self._folders[watch] / name
            self.names.add(str(file.relative_to(self._base)))
            with suppress(OSError):  # gone already, or a folder; its name is known
                os.link(file, self._keep / f"{len(self.names)}-{file.stat().st_ino}")
