"""Journal of an interrupted operation: a file of authenticated lines, the last of which may be incomplete.

::

    line = HMAC-SHA256 (64 hex digits) SP JSON in canonical form LF
    the HMAC covers that of the previous line (nothing for the first) ‖ the JSON; its key is derived from the data key

A writer of the disk without the key can cause work to be repeated, but cannot cause other files to be signed.
"""

from __future__ import annotations

import fcntl
import hmac
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import rfc8785
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from attest.context_managers import ClosedOnExit
from attest.encoding import JsonValue, json_value
from attest.errors import ConfigurationError, EvidenceError, SealedTamperError
from attest.files import OWNER_ONLY
from attest.sealed.atomic_file import unwritable

_MAX_BYTES: Final = 1 << 28
_MAC_DIGITS: Final = 64
_INFO: Final = b"attest sealed journal v1"


class Journal(ClosedOnExit):
    """An open journal, locked against other processes; a missing one is created.

    Raises:
        ConfigurationError: ``sealed-work-in-use``: another process has locked it.
        SealedSourceError: ``sealed-target-unwritable``.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mac = b""
        self._key = b""
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, OWNER_ONLY)
        except OSError as exc:
            raise unwritable(path, exc) from exc
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            self.close()
            raise ConfigurationError(
                f"another process works in {path.parent}",
                code="sealed-work-in-use",
                field=str(path.parent),
                hint="wait until it has ended; its finished work is kept",
            ) from exc

    def head(self) -> Mapping[str, JsonValue] | None:
        """Return the first line, not authenticated yet; None without a complete one."""
        lines = self._lines()
        return self._record(lines[0]) if lines else None

    def begin(self, head: Mapping[str, JsonValue], *, data_key: bytes) -> None:
        """Start over, with this first line.

        Raises:
            SealedSourceError: ``sealed-target-unwritable``.
        """
        self._key, self._mac = _mac_key(data_key), b""
        self._truncate(0)
        self.append(head)

    def resume(self, *, data_key: bytes) -> tuple[Mapping[str, JsonValue], ...]:
        """Authenticate every complete line, drop an incomplete one, and return the lines after the first.

        Raises:
            SealedTamperError: ``sealed-journal-invalid``: a line was altered.
        """
        self._key, self._mac = _mac_key(data_key), b""
        found = []
        lines = self._lines()
        for line in lines:
            self._mac = self._next(line[_MAC_DIGITS + 1 :])
            if not hmac.compare_digest(self._mac.hex().encode() + b" ", line[: _MAC_DIGITS + 1]):
                raise self._invalid()
            found.append(self._record(line))
        self._truncate(sum(len(line) + 1 for line in lines))
        return tuple(found[1:])

    def append(self, record: Mapping[str, JsonValue]) -> None:
        """Write a line, and wait until it is on the disk.

        Raises:
            SealedSourceError: ``sealed-target-unwritable``.
        """
        content = rfc8785.dumps(cast("dict[str, Any]", dict(record)))  # Any: JSON
        self._mac = self._next(content)
        line = self._mac.hex().encode() + b" " + content + b"\n"
        try:
            while line:
                line = line[os.write(self._fd, line) :]
            os.fdatasync(self._fd)
        except OSError as exc:
            raise unwritable(self._path, exc) from exc

    def close(self) -> None:
        """Close and unlock it; repeated calls are harmless."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _lines(self) -> list[bytes]:
        size = os.fstat(self._fd).st_size
        if size > _MAX_BYTES:
            raise self._invalid()
        return os.pread(self._fd, size, 0).split(b"\n")[:-1]

    def _record(self, line: bytes) -> Mapping[str, JsonValue]:
        try:
            record = json_value(line[_MAC_DIGITS + 1 :], what="journal")
        except EvidenceError as exc:
            raise self._invalid() from exc
        if not isinstance(record, dict):
            raise self._invalid()
        return record

    def _next(self, content: bytes) -> bytes:
        return hmac.digest(self._key, self._mac + content, "sha256")

    def _truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._fd, size)
            os.lseek(self._fd, size, os.SEEK_SET)
        except OSError as exc:
            raise unwritable(self._path, exc) from exc

    def _invalid(self) -> SealedTamperError:
        return SealedTamperError(
            f"{self._path} was altered since it was written",
            code="sealed-journal-invalid",
            field=str(self._path),
            hint=f"remove {self._path.parent} to begin again",
        )


def _mac_key(data_key: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=_INFO).derive(data_key)
