"""Files named on the command line: evidence, endorsements, policies. Every problem with a path is exit 2."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click

from attest.errors import ConfigurationError
from attest.files import write_result
from attest.secret_files import read_secret

STDIN = "-"
MAX_KEY_BYTES = 64 * 1024
"""Maximum size of a file with keys in PEM."""
_MAX_DEPTH = 32
"""Maximum depth of directories below the named one."""


def read_file(name: str, *, limit: int, what: str, secret: bool = False) -> bytes:
    """Read a file, or standard input for ``-``; of one that is larger than the limit, one byte more than the limit.

    Raises:
        ConfigurationError: ``file-unreadable``; or ``secret-file-exposed``: it is secret, and other users can read it.
    """
    try:
        if name == STDIN:
            return sys.stdin.buffer.read(limit + 1)
        if secret:
            return read_secret(name, limit + 1)
        with Path(name).open("rb") as file:
            return file.read(limit + 1)
    except OSError as exc:
        raise _unreadable(name, what, exc) from exc
    except ValueError as exc:  # a NUL in the name
        raise ConfigurationError(
            f"{what} {name!r} is not a file name", code="file-unreadable", hint="check the path"
        ) from exc


def read_inputs(names: Iterable[str], *, limit: int) -> list[tuple[str, bytes]]:
    """Read the files of one Attester, each with its name.

    Raises:
        ConfigurationError: ``file-unreadable``, or ``stdin-twice``.
    """
    listed = list(names)
    if listed.count(STDIN) > 1:
        raise ConfigurationError("standard input can be read once", code="stdin-twice", hint="give '-' once")
    return [("standard input" if n == STDIN else n, read_file(n, limit=limit, what="INPUT")) for n in listed]


def walk_endorsements(paths: Iterable[str], *, limit: int, warn: Callable[[str], None]) -> Iterator[tuple[str, bytes]]:
    """Yield every file below the paths, directories in the order of their names.

    A named path must be readable. Below a directory, an unreadable file is skipped with a warning, and
    is then missing; anything that is neither file nor directory (a pipe, a device) is skipped.

    Raises:
        ConfigurationError: ``file-unreadable``.
    """
    for path in paths:
        if not Path(path).is_dir():
            yield path, read_file(path, limit=limit, what="--endorsements")
            continue
        for name in _files_below(path, warn):
            try:
                yield name, read_file(name, limit=limit, what="--endorsements")
            except ConfigurationError as exc:
                warn(exc.message)


def _files_below(top: str, warn: Callable[[str], None]) -> Iterator[str]:
    """Yield the files of a directory tree. Links to directories are not followed, so that a loop has an end."""
    try:
        os.scandir(top).close()
    except OSError as exc:
        raise _unreadable(top, "--endorsements", exc) from exc
    failed: list[OSError] = []
    for folder, folders, files in os.walk(top, onerror=failed.append):
        folders.sort()
        if folder.removeprefix(top).count(os.sep) >= _MAX_DEPTH:
            warn(f"{folder}: nested deeper than {_MAX_DEPTH} directories")
            folders.clear()
        for file in sorted(files):
            name = str(Path(folder) / file)
            if _is_regular(name):
                yield name
    for failure in failed:
        warn(f"{failure.filename}: {failure.strerror}")


def _is_regular(name: str) -> bool:
    try:
        return stat.S_ISREG(Path(name).stat().st_mode)
    except OSError:
        return True  # reading it reports the problem


def write_output(name: str, data: bytes, *, force: bool = False, option: str = "--force") -> None:
    """Write a file, or standard output for ``-`` unless that is a terminal.

    ``force`` replaces an existing file; ``option`` is the name of that option in hints.

    Raises:
        ConfigurationError: ``output-exists``, ``output-unwritable``, or ``output-terminal``.
    """
    if name != STDIN:
        write_result(name, data, replace=force, hint=f"name another file, or replace it with {option}")
        return
    if sys.stdout.isatty():
        raise ConfigurationError(
            "binary data is not written to a terminal", code="output-terminal", hint="name a file with -o FILE"
        )
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def write_text(name: str, text: str, *, force: bool = False) -> None:
    """Write text to a file, or to standard output for ``-``, which may be a terminal.

    Raises:
        ConfigurationError: ``output-exists`` or ``output-unwritable``.
    """
    if name == STDIN:
        click.echo(text, nl=False)
    else:
        write_output(name, text.encode(), force=force)


def _unreadable(name: str, what: str, exc: OSError) -> ConfigurationError:
    evidence = "INPUT is a file; a directory of certificates is for --endorsements"
    hint = evidence if what == "INPUT" else "name a file, not a directory"
    return ConfigurationError(
        f"{what} {name} cannot be read: {exc.strerror or exc}",
        code="file-unreadable",
        field=name,
        hint=hint if isinstance(exc, IsADirectoryError) else "check the path",
    )
