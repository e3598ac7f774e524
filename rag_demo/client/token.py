"""The user's token: 32 random bytes in a file of the user's own. It grants access to the user's documents."""

from __future__ import annotations

import hmac
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from attest.encoding import base64url_bytes, base64url_text
from attest.errors import AttestError, ConfigurationError, OutputError
from attest.files import write_file

TOKEN_BYTES: Final = 32
_MAX_FILE_BYTES: Final = 256
_EXPECTED: Final = "a file that its owner can read and write"
_SHOWN: Final = b"rag token v1\0"


class UserToken:
    r"""A user's secret. Each service sees a different value derived from it, in the header of sealed requests alone.

    ::

        shown = HMAC-SHA-256( the 32 bytes, "rag token v1\0" ‖ the service's name )

    So the operator of one service cannot use its users' tokens at another one.

    Raises:
        ValueError: another length.
    """

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        if len(value) != TOKEN_BYTES:
            raise ValueError(f"a token has {TOKEN_BYTES} bytes")
        self._value = value

    def header(self, service: str) -> str:
        """Return the value of ``authorization`` for a service, by the name in its evidence."""
        shown = hmac.digest(self._value, _SHOWN + service.encode(), "sha256")
        return f"Bearer {base64url_text(shown)}"

    def __repr__(self) -> str:
        return "UserToken(…)"

    def __reduce__(self) -> str:
        raise TypeError("a token is not pickled")


def default_token_file(environ: Mapping[str, str]) -> Path:
    """Return the default path of the token, after the XDG base directory specification."""
    base = environ.get("XDG_STATE_HOME", "")
    folder = Path(base) if base.startswith("/") else Path(environ.get("HOME", "/")) / ".local" / "state"
    return folder / "attest-rag" / "token"


def token_in(file: Path, *, random: Callable[[int], bytes]) -> UserToken:
    """Return the token in a file, which is made if it does not exist.

    Raises:
        ConfigurationError: ``rag-token-unusable``: it cannot be read or written, others can read it, or it is invalid.
    """
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            return _read(file)
        except FileNotFoundError:
            return _make(file, random)
    except OSError as exc:
        raise _unusable(file, exc.strerror or str(exc), _EXPECTED) from exc


def _make(file: Path, random: Callable[[int], bytes]) -> UserToken:
    """Write a new token; if another process was first, return its token."""
    value = random(TOKEN_BYTES)
    try:
        write_file(file, f"{base64url_text(value)}\n")
    except OutputError as exc:
        if exc.code == "output-exists":
            return _read(file)
        raise _unusable(file, exc.reason, _EXPECTED) from exc
    return UserToken(value)


def _read(file: Path) -> UserToken:
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise _unusable(file, "not a regular file", "a regular file")
        if facts.st_mode & 0o077 or facts.st_uid != os.geteuid():
            got = f"mode {facts.st_mode & 0o777:04o} of user {facts.st_uid}, expected mode 0600 and your own"
            raise _unusable(file, got, "mode 0600, your own")
        text = stream.read(_MAX_FILE_BYTES + 1)
    try:
        value = base64url_bytes(text.decode("ascii").strip(), what="token")
    except (AttestError, UnicodeDecodeError):
        value = b""
    if len(value) != TOKEN_BYTES:
        raise _unusable(file, "something else", f"base64url of {TOKEN_BYTES} bytes")
    return UserToken(value)


def _unusable(file: Path, got: str, expected: str) -> ConfigurationError:
    return ConfigurationError(
        f"the token in {file} cannot be used: {got}",
        code="rag-token-unusable",
        field="token",
        expected=expected,
        got=got,
        hint="your documents need this token: repair the file, or name another with --token to start without them",
    )
