"""The files of a sealed model, each whole or not there: ``attest.files`` with the errors of this package."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from attest.errors import OutputError, SealedSourceError
from attest.files import OWNER_ONLY, NewFile, new_file


@contextmanager
def whole_file(
    target: str | os.PathLike[str], *, random: Callable[[int], bytes] = os.urandom, mode: int | None = OWNER_ONLY
) -> Iterator[NewFile]:
    """Make a file that takes the target's place when the block ends without an exception.

    An existing target is replaced; a link in its place is replaced and not followed. ``mode`` is as for ``new_file``.

    Raises:
        SealedSourceError: ``sealed-target-unwritable``.
    """
    try:
        with new_file(target, mode=mode, replace=True, random=random) as file:
            yield file
    except OutputError as exc:
        raise SealedSourceError(
            exc.message, code="sealed-target-unwritable", field=exc.field, got=exc.got, hint=exc.hint
        ) from exc


def write_whole(path: Path, data: bytes) -> None:
    """Write a whole file or none; errors as ``whole_file``."""
    with whole_file(path, mode=None) as file:
        file.write(data)


def unwritable(path: Path, exc: OSError) -> SealedSourceError:
    """Return the error for an output that cannot be written, with the system's reason."""
    return SealedSourceError(
        f"{path} cannot be written: {exc.strerror or exc}", code="sealed-target-unwritable", field=str(path)
    )
