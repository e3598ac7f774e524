"""Files that a setting, an argument or an option names."""

from __future__ import annotations

from pathlib import Path

from attest.errors import ConfigurationError


def read_named(path: Path, name: str, *, limit: int | None = None, hint: str | None = None) -> bytes:
    """Read a file; of one that is longer than ``limit`` bytes, one byte more, so that its parser refuses it.

    Raises:
        ConfigurationError: ``file-unreadable``.
    """
    try:
        with path.open("rb") as file:
            return file.read(-1 if limit is None else limit + 1)
    except OSError as exc:
        raise unreadable(path, name, exc, hint=hint) from exc


def read_bounded(path: Path, limit: int) -> bytes:
    """Read a file of at most ``limit`` bytes.

    Raises:
        OSError: it cannot be read, or is longer.
    """
    with path.open("rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(f"more than {limit} bytes")
    return content


def unreadable(path: Path, name: str, reason: OSError | str, *, hint: str | None = None) -> ConfigurationError:
    """Return the error for a file that cannot be read, with the system's reason."""
    problem = reason if isinstance(reason, str) else reason.strerror or str(reason)
    return ConfigurationError(
        f"{name}: {path} cannot be read: {problem}", code="file-unreadable", field=name, got=problem, hint=hint
    )
