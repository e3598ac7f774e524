"""Secret files: owned by this user, inaccessible to all others, and checked on the open descriptor."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from attest.errors import ConfigurationError
from kms.domain.secret import SecretBytes

MAX_CREDENTIAL_BYTES: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateFile:
    """A secret file, with the texts of its errors.

    Attributes:
        codes: for a file that is missing, unusable, or readable by other users.
        exposed: hint for a secret that other users may have read.
    """

    path: Path
    noun: str
    codes: tuple[str, str, str]
    field: str
    hint: str
    exposed: str

    def read(self, limit: int) -> bytes:
        """Read at most so many bytes.

        Raises:
            ConfigurationError: missing; unusable (a directory, a link, another owner); or accessible to other users.
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError as exc:
            raise ConfigurationError(
                f"there is no {self.noun} {self.path}", code=self.codes[0], field=self.field, hint=self.hint
            ) from exc
        except OSError as exc:
            raise unusable(self, exc.strerror or str(exc)) from exc
        try:
            self._require_private(os.fstat(descriptor))
            return os.read(descriptor, limit)
        finally:
            os.close(descriptor)

    def _require_private(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise unusable(self, "it is not a regular file")
        if status.st_uid != os.geteuid():
            raise unusable(self, f"it belongs to user {status.st_uid}, not to user {os.geteuid()}")
        if status.st_mode & 0o077:
            mode = f"{stat.S_IMODE(status.st_mode):04o}"
            raise ConfigurationError(
                f"other users can access the {self.noun} {self.path} (mode {mode})",
                code=self.codes[2],
                field=self.field,
                expected="mode 0600 or 0400",
                got=mode,
                hint=f"chmod 600 {self.path}; {self.exposed}",
            )


def read_credential(path: Path, *, noun: str, field: str) -> SecretBytes:
    """Read a PIN or a token, one line of printable ASCII, from a file that is private to its owner.

    Raises:
        ConfigurationError: ``kek-credential-missing``, ``kek-credential-unusable`` or ``kek-credential-exposed``.
    """
    file = PrivateFile(
        path=path,
        noun=noun,
        codes=("kek-credential-missing", "kek-credential-unusable", "kek-credential-exposed"),
        field=field,
        hint="write it to this file, in one line, with mode 0600",
        exposed="if another user may have read it, replace it",
    )
    content = file.read(MAX_CREDENTIAL_BYTES + 1)
    line = content.removesuffix(b"\n")
    if not line or len(content) > MAX_CREDENTIAL_BYTES or not all(0x20 < byte < 0x7F for byte in line):
        raise unusable(file, "expected one line of printable ASCII without spaces")
    return SecretBytes(line)


def unusable(file: PrivateFile, problem: str) -> ConfigurationError:
    """Return the error for a file that cannot be used."""
    return ConfigurationError(
        f"the {file.noun} {file.path} cannot be used: {problem}",
        code=file.codes[1],
        field=file.field,
        got=problem,
        hint="its owner must be the user that runs the service, its mode 0600",
    )
