"""Rollback guard in a file, preferably on another disk than the database.

The file is JSON: schema, counter, log size and log root; the last three are null while it is empty. It has no secret
and no MAC, because a MAC does not prevent a writer from restoring an old copy: the permissions of the folder protect
it. A lock on the folder serialises processes.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from attest.encoding import JsonValue, json_value
from attest.errors import EvidenceError, OutputError
from attest.files import write_file
from kms.config.file_ownership import require_guarded_file
from kms.domain.rollback import StatePosition, guard_missing, require_written

SCHEMA: Final = "kms.rollback-guard/1"
MAX_GUARD_BYTES: Final = 4096
_EMPTY: Final[dict[str, JsonValue]] = {"schema": SCHEMA, "counter": None, "log_size": None, "log_root": None}
_ROOT_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGuard:
    """The guard in the file ``path``."""

    background_seconds: ClassVar[float] = 1.0
    path: Path

    @property
    def name(self) -> str:
        """``file:`` and the path."""
        return f"file:{self.path}"

    def make(self) -> None:
        """Create the file and its folder, private to their owner, if they are missing.

        Raises:
            ConfigurationError: ``rollback-guard-missing``.
        """
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            raise guard_missing(self.name, exc.strerror or str(exc)) from exc
        with self._locked():
            if not os.path.lexists(self.path):
                self._write(_EMPTY)

    def read(self) -> StatePosition | None:
        """Return the position in the file.

        Raises:
            ConfigurationError: ``rollback-guard-missing``, or ``file-writable-by-others``.
        """
        require_guarded_file("rollback_guard", self.path)
        try:
            with self.path.open("rb") as file:
                content = file.read(MAX_GUARD_BYTES + 1)
        except OSError as exc:
            raise guard_missing(self.name, exc.strerror or str(exc)) from exc
        return self._parsed(content)

    def advance(self, position: StatePosition) -> None:
        """Write a later position.

        Raises:
            ConfigurationError: ``rollback-guard-missing``, or ``file-writable-by-others``.
        """
        with self._locked():
            if position.is_after(require_written(self.name, self.read())):
                self._write(_members(position))

    def put(self, position: StatePosition) -> None:
        """Write a position.

        Raises:
            ConfigurationError: ``rollback-guard-missing``.
        """
        with self._locked():
            self._write(_members(position))

    def _parsed(self, content: bytes) -> StatePosition | None:
        if len(content) > MAX_GUARD_BYTES:
            raise guard_missing(self.name, f"it is longer than {MAX_GUARD_BYTES} bytes")
        try:
            document = json_value(content, what="rollback guard")
        except EvidenceError as exc:
            raise guard_missing(self.name, exc.message) from exc
        if document == _EMPTY:
            return None
        found = _position(document)
        if found is None:
            raise guard_missing(self.name, f"its content is not {SCHEMA}")
        return found

    def _write(self, members: dict[str, JsonValue]) -> None:
        try:
            write_file(self.path, json.dumps(members, sort_keys=True) + "\n", replace=True)
        except OutputError as exc:
            raise guard_missing(self.name, exc.reason) from exc

    def _locked(self) -> AbstractContextManager[None]:
        return locked(self.path.parent, guard=self.name)


@contextmanager
def locked(folder: Path, *, guard: str) -> Iterator[None]:
    """Exclude other processes of this service by a lock on a folder.

    Raises:
        ConfigurationError: ``rollback-guard-missing``: there is no such folder.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as exc:
        raise guard_missing(guard, exc.strerror or str(exc)) from exc
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_on_same_device(guard: Path, database: Path) -> bool:
    """Return True if both files are on one disk, and so in one snapshot."""
    try:
        return guard.parent.stat().st_dev == database.parent.stat().st_dev
    except OSError:
        return False  # one of them is missing, which is refused elsewhere


def _members(position: StatePosition) -> dict[str, JsonValue]:
    return {
        "schema": SCHEMA,
        "counter": position.counter,
        "log_size": position.log_size,
        "log_root": position.log_root.hex(),
    }


def _position(document: JsonValue) -> StatePosition | None:
    """Return the position in a canonical document; None for any other content."""
    if not isinstance(document, dict):
        return None
    counter, size, root = (document.get(name) for name in ("counter", "log_size", "log_root"))
    if type(counter) is not int or type(size) is not int or not isinstance(root, str):
        return None
    try:
        found = StatePosition(counter=counter, log_size=size, log_root=bytes.fromhex(root))
    except ValueError:
        return None
    sound = counter >= 0 and size > 0 and len(found.log_root) == _ROOT_BYTES
    return found if sound and _members(found) == document else None
