"""Files that are made once, and one kind that is replaced as a whole."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from attest.errors import ConfigurationError

__all__ = ["create_file", "replace_file"]


def create_file(path: Path, content: bytes, *, mode: int) -> None:
    """Write a file that is not there yet, and flush it to the disk.

    Raises:
        ConfigurationError: ``tls-file-exists`` (it is never overwritten) or ``tls-file-unusable``.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    except FileExistsError as exc:
        raise ConfigurationError(
            f"there is a file {path} already, and it is not overwritten",
            code="tls-file-exists",
            field=str(path),
            hint="name another file; a certificate is renewed, with the key it has, by --renew",
        ) from exc
    except OSError as exc:
        raise _unusable(path, exc) from exc
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException as exc:
        path.unlink(missing_ok=True)
        if isinstance(exc, OSError):
            raise _unusable(path, exc) from exc
        raise


def replace_file(path: Path, content: bytes) -> None:
    """Put a file that everybody may read in the place of the one that is there, in one step.

    Raises:
        ConfigurationError: ``tls-file-unusable``.
    """
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as exc:
        raise _unusable(path, exc) from exc


def _unusable(path: Path, exc: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"{path} cannot be written: {exc.strerror or exc}",
        code="tls-file-unusable",
        field=str(path),
        got=exc.strerror or str(exc),
    )
