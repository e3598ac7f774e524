"""Files with secrets in a shared volume: written when the secrets are there, renewed with them, removed with a lease.

The rules, for each file:

(1) Each write is whole: the file appears, and changes, in one step under its final mode and group.
(2) It is there only while every lease that it rests on is held. A lost lease removes it before the key is overwritten.
(3) A file that an agent before left behind is removed at the start, before the service is asked, and all files are
    removed at the end. A killed agent leaves its files, in memory, until the next one starts.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from attest.agent.files_config import RenderedFile
from attest.agent.keys import RETRY_SECONDS, AgentKeys
from attest.agent.program import SupervisedProgram, run_after_change
from attest.agent.trusted_files import others_may_write
from attest.errors import AttestError, ConfigurationError
from attest.file_systems import file_system_of, is_in_memory
from attest.files import PART_SUFFIX, new_file
from attest.release.names import KeyReference

_log = logging.getLogger("attest.agent")
_STEP: Final = 0.05
"""Smallest wait before another attempt, in seconds."""


class RenderedFiles:
    """The files of an agent, written by the thread that calls ``run``.

    Args:
        files: of the configuration.
        keyring: the agent's keys.
        program: restarted or signalled after changes; None means no program.
    """

    def __init__(
        self, files: tuple[RenderedFile, ...], *, keyring: AgentKeys, program: SupervisedProgram | None = None
    ) -> None:
        self._files = files
        self._keyring = keyring
        self._program = program
        self._lock = threading.RLock()
        self._written: dict[str, bytes] = {}  # digests: no further copy of a secret stays in memory
        self._told: dict[str, str] = {}
        self._known: set[str] = set()
        self._due = False
        self._wake = threading.Event()
        self._ending = threading.Event()
        self.whole = threading.Event()
        """Set once every file has been there at the same time."""

    def prepare(self) -> None:
        """Check the folders, and remove what an agent before left in them.

        Raises:
            ConfigurationError: ``file-writable-by-others``, ``output-on-disk``, ``output-unwritable``.
        """
        for one in self._files:
            _require_folder(one)
            for path in _left_behind(one.path):
                _log.warning("%s was left by an earlier agent and is removed", path)
                _remove(path)

    def run(self) -> None:
        """Render until ``close``: at once, after each renewal, and again after a pause while a file is missing."""
        while not self._ending.is_set():
            self._wake.clear()
            self._render_all()
            self._wake.wait(self._pause() if self._told or not self.all_written else None)

    def renewed(self, reference: KeyReference) -> None:
        """Render the files of a key again, which may have another version now."""
        if any(reference in one.secrets for one in self._files):
            self._wake.set()

    def lost(self, reference: KeyReference) -> None:
        """Remove the files of a key, and stop the program, which needs them. The session calls this first."""
        with self._lock:
            gone = [one for one in self._files if reference in one.secrets and one.name in self._written]
            for one in gone:
                self._take_away(one)
        if gone and self._program is not None:
            self._program.stop()
        self._wake.set()

    @property
    def all_written(self) -> bool:
        """True while every file is there."""
        with self._lock:
            return len(self._written) == len(self._files)

    def states(self) -> dict[str, str]:
        """Return ``written`` or ``missing`` by the names of files."""
        with self._lock:
            return {one.name: "written" if one.name in self._written else "missing" for one in self._files}

    def close(self) -> None:
        """Stop the program, then remove every file. Repeated calls are harmless."""
        self._ending.set()
        self._wake.set()
        if self._program is not None:
            self._program.close()
        with self._lock:
            for one in self._files:
                if one.name in self._written:
                    self._take_away(one)

    # -- inside

    def _render_all(self) -> None:
        changed = [one for one in self._files if self._rendered(one)]
        for one in changed:
            if one.run and one.name in self._known and not self._ending.is_set():
                run_after_change(one.run, seconds=one.run_seconds, what=f"files.{one.name}")
            self._known.add(one.name)
        self._due = self._due or bool(changed)
        if self.all_written and not self._ending.is_set():
            self.whole.set()
        if self._program is not None:
            self._tell_program(self._program)

    def _tell_program(self, program: SupervisedProgram) -> None:
        """Run the program while all files exist, and apply the changes since the last call to it."""
        if not self.all_written:
            program.stop()
        elif self._due:
            program.changed()
            self._due = False
        else:
            program.start()

    def _rendered(self, one: RenderedFile) -> bool:
        """Write a file if its content has changed; return True if so."""
        try:
            keys = {reference: self._keyring.get(reference) for reference in one.secrets}
            # Under the lock a lost lease either is seen here, or removes what is written here.
            with self._lock:
                secrets = {reference: key.export() for reference, key in keys.items()}
                content = _content(one, secrets)
                digest = sha256(content).digest()
                if self._ending.is_set() or self._is_written(one, digest):
                    return False
                _write(one, content)
                self._written[one.name] = digest
        except AttestError as exc:
            self._tell(one, exc)
            return False
        except ValueError:  # the session was closed in the meantime
            return False
        self._told.pop(one.name, None)
        _log.info("files.%s is written", one.name)
        return True

    def _is_written(self, one: RenderedFile, digest: bytes) -> bool:
        return self._written.get(one.name) == digest and os.path.lexists(one.path)

    def _tell(self, one: RenderedFile, error: AttestError) -> None:
        """Log a problem once, until it is another one."""
        if self._told.get(one.name) != error.code:
            self._told[one.name] = error.code
            _log.error("files.%s: %s", one.name, error.message, extra={"code": error.code})

    def _take_away(self, one: RenderedFile) -> None:
        self._written.pop(one.name, None)
        _remove(one.path)
        _log.warning("files.%s is removed", one.name)

    def _pause(self) -> float:
        """Return the seconds until a file that is missing, or could not be renewed, is tried again."""
        waits = [
            self._keyring.seconds_until_retry(reference)
            for one in self._files
            if self.states()[one.name] == "missing"
            for reference in one.secrets
            if not self._keyring.is_held(reference)
        ]
        return max(_STEP, min(waits, default=RETRY_SECONDS))


def _content(one: RenderedFile, secrets: dict[KeyReference, bytes]) -> bytes:
    if one.template is not None:
        return one.template.render(secrets)
    (content,) = secrets.values()
    return content


def _write(one: RenderedFile, content: bytes) -> None:
    with new_file(one.path, mode=one.mode, replace=True) as file:
        if one.group is not None:  # before the content: until then the file is of the agent's own group
            _give_to_group(file.fileno(), one)
        file.write(content)


def _give_to_group(descriptor: int, one: RenderedFile) -> None:
    try:
        os.fchown(descriptor, -1, one.group if one.group is not None else -1)
    except OSError as exc:
        raise ConfigurationError(
            f"files.{one.name}: {one.path} cannot be given to group {one.group}: {exc.strerror}",
            code="file-not-rendered",
            field=f"files.{one.name}.group",
            got=exc.strerror,
            hint="name a group that the agent's user is in",
        ) from exc


def _require_folder(one: RenderedFile) -> None:
    folder, where = one.path.parent, f"files.{one.name}.path"
    try:
        problem = None if one.unchecked_folder is not None else others_may_write(folder)
        device = folder.stat().st_dev
    except OSError as exc:
        raise ConfigurationError(
            f"{where}: {folder}: {exc.strerror}",
            code="output-unwritable",
            field=where,
            got=exc.strerror,
            hint="make the folder first; the agent makes none",
        ) from exc
    if problem is not None:
        raise ConfigurationError(
            f"{where}: {folder} {problem}, who could replace the file",
            code="file-writable-by-others",
            field=where,
            got=problem,
            hint="name a folder of the agent's own, or state the reason in unchecked_folder",
        )
    if one.unchecked_disk is None and not is_in_memory(device):
        raise ConfigurationError(
            f"{where}: {folder} is on a file system that stores data permanently",
            code="output-on-disk",
            field=where,
            expected="tmpfs or ramfs",
            got=file_system_of(device),
            hint="mount a tmpfs there, such as an emptyDir with medium: Memory, or state in unchecked_disk why not",
        )


def _left_behind(path: Path) -> Iterator[Path]:
    if os.path.lexists(path):
        yield path
    # Of a write that was interrupted, where the file system has no files without a name.
    yield from path.parent.glob(f".{path.name}.*{PART_SUFFIX}")


def _remove(path: Path) -> None:
    with suppress(FileNotFoundError):
        try:
            path.unlink()
        except OSError as exc:
            _log.error("%s cannot be removed: %s", path, exc.strerror)
