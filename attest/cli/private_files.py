"""Files with secrets: their owner's alone, whole or not there, and never in the place of another."""

from __future__ import annotations

import os
from pathlib import Path

from attest.errors import ConfigurationError

__all__ = ["there_already", "write_private"]


def write_private(name: str, data: bytes) -> None:
    """Write a new file that its owner alone can read.

    Raises:
        ConfigurationError: ``output-exists`` or ``output-unwritable``.
    """
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError as exc:
        raise there_already(name) from exc
    except OSError as exc:
        raise _unwritable(name, exc) from exc
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException as exc:
        Path(name).unlink(missing_ok=True)
        if isinstance(exc, OSError):
            raise _unwritable(name, exc) from exc
        raise


def there_already(name: str) -> ConfigurationError:
    """Say that a file is there."""
    return ConfigurationError(
        f"{name} is there already", code="output-exists", hint="a key overwrites nothing; name another file"
    )


def _unwritable(name: str, exc: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"{name} cannot be written: {exc.strerror}",
        code="output-unwritable",
        field=name,
        hint="name a file in a directory that is there, that you may write to and that has room",
    )
