"""Access tokens for services of others: from a file, or from a command that prints one. Never from an argument."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from typing import Final

from attest.errors import ConfigurationError
from attest.secret_files import read_secret

_MAX_BYTES: Final = 64 * 1024
_SECONDS: Final = 60.0


def bearer_of(file: str | None, command: str | None) -> Callable[[], str]:
    """Return the source of an access token; it is read for each request, since tokens expire.

    Raises:
        ConfigurationError: ``option-not-applicable``: none, or both; ``bearer-unreadable``: a command that cannot be
            read as words.
    """
    if (file is None) is (command is None):
        raise ConfigurationError(
            "name exactly one source of the access token for the vault",
            code="option-not-applicable",
            field="--bearer-file",
            expected="--bearer-file FILE or --bearer-command COMMAND",
            hint="give either --bearer-file FILE or --bearer-command COMMAND",
        )
    if file is not None:
        return lambda: _of_file(file)
    try:
        words = shlex.split(command or "")
    except ValueError as exc:
        raise _unreadable("--bearer-command", f"the command cannot be read: {exc}") from exc
    if not words:
        raise _unreadable("--bearer-command", "the command is empty")
    return lambda: _of_command(words)


def _of_file(file: str) -> str:
    try:
        content = read_secret(file, _MAX_BYTES + 1)
    except OSError as exc:
        raise _unreadable(file, exc.strerror or str(exc)) from exc
    return _text(content, file)


def _of_command(words: list[str]) -> str:
    """Run a command, without a shell; what it writes to standard error is for the user."""
    try:
        ran = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=_SECONDS, check=False)  # noqa: S603  the user's own command
    except subprocess.TimeoutExpired as exc:
        raise _unreadable(words[0], f"the command did not end within {_SECONDS:.0f} s") from exc
    except OSError as exc:
        raise _unreadable(words[0], exc.strerror or str(exc)) from exc
    if ran.returncode != 0:
        raise _unreadable(words[0], f"exit code {ran.returncode}")
    return _text(ran.stdout, words[0])


def _text(content: bytes, source: str) -> str:
    if len(content) > _MAX_BYTES:
        raise _unreadable(source, f"more than {_MAX_BYTES} bytes")
    try:
        return content.decode("ascii").strip()
    except UnicodeDecodeError as exc:
        raise _unreadable(source, "other characters than ASCII") from exc


def _unreadable(source: str, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"no access token from {source}: {problem}",
        code="bearer-unreadable",
        field=source,
        expected="an access token for the vault",
        got=problem,
    )
