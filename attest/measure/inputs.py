"""The files that a measurement is computed from: read once, up to a limit."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from attest.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDigest:
    """The digests and the size of a file that is too large to be kept in memory."""

    sha256: bytes
    sha384: bytes
    size: int


def read_input(path: Path, *, limit: int) -> bytes:
    """Read at most one byte more than the limit.

    Raises:
        ConfigurationError: ``measure-file-unreadable``.
    """
    try:
        with path.open("rb") as file:
            return file.read(limit + 1)
    except OSError as exc:
        raise unreadable(path, exc) from exc


def read_whole(path: Path, *, limit: int) -> bytes:
    """Read a file of at most ``limit`` bytes.

    Raises:
        ConfigurationError: ``measure-file-unreadable``, also for a file that is larger.
    """
    data = read_input(path, limit=limit)
    if len(data) > limit:
        raise ConfigurationError(
            f"{path} is larger than {limit} bytes",
            code="measure-file-unreadable",
            expected=f"at most {limit} bytes",
            hint="check the path",
        )
    return data


def digest_file(path: Path) -> FileDigest:
    """Hash a file piece by piece.

    Raises:
        ConfigurationError: ``measure-file-unreadable``.
    """
    sha256, sha384, size = hashlib.sha256(), hashlib.sha384(), 0
    try:
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                sha256.update(piece)
                sha384.update(piece)
                size += len(piece)
    except OSError as exc:
        raise unreadable(path, exc) from exc
    return FileDigest(sha256=sha256.digest(), sha384=sha384.digest(), size=size)


def unreadable(path: Path, exc: OSError) -> ConfigurationError:
    """Return the refusal of a file that the system does not let us read."""
    return ConfigurationError(
        f"{path} cannot be read: {exc.strerror or exc}", code="measure-file-unreadable", hint="check the path"
    )
