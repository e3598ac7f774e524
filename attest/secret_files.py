"""Secret files on a command line: a key in one that other users can read is refused before it is used."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from attest.errors import ConfigurationError

_OTHERS: Final = 0o077


def read_secret(path: str | os.PathLike[str], limit: int) -> bytes:
    """Read a file that its owner alone can read; of one that is larger than the limit, only so many bytes.

    The open file is examined, not its name. A pipe or a terminal has no readers of its own and is taken as it is.

    Raises:
        ConfigurationError: ``secret-file-exposed``.
        OSError: it cannot be read.
    """
    with Path(path).open("rb") as file:
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode) and status.st_mode & _OTHERS:
            raise _exposed(os.fspath(path), mode=f"{stat.S_IMODE(status.st_mode):04o}")
        return file.read(limit)


def _exposed(shown: str, *, mode: str) -> ConfigurationError:
    return ConfigurationError(
        f"the secret in {shown} is open to other users (mode {mode})",
        code="secret-file-exposed",
        field=shown,
        expected="mode 0600 or 0400",
        got=mode,
        hint=f"chmod 600 {shown}; if another user may have read it, replace the secret",
    )
