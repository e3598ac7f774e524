"""The agent's socket: created under a temporary name, renamed once it is complete, and unique.

The order: (1) no other user can write the directory, (2) no other process holds the lock beside the socket,
(3) an existing file of that name is a socket without a listener, (4) the socket is created with mode 0600, listens,
gets its mode and group, (5) and replaces the stale one. The kernel releases the lock when the process ends.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import socket
import stat
from pathlib import Path
from typing import Final

from attest.agent.config import SocketConfig
from attest.agent.trusted_files import others_may_write
from attest.context_managers import ClosedOnExit
from attest.errors import ConfigurationError

BACKLOG: Final = 128
MAX_PATH_BYTES: Final = 90
"""The kernel allows 107 bytes; the temporary name is up to 13 longer."""
_PROBE_SECONDS: Final = 2.0


class AgentSocket(ClosedOnExit):
    """A listening socket with a name in the file system, in an existing directory.

    Raises:
        ConfigurationError: ``agent-socket-unsafe``, ``agent-socket-unusable``, ``agent-running`` or
            ``agent-socket-in-use``.
    """

    def __init__(self, path: Path, config: SocketConfig) -> None:
        self.path = path.absolute()
        if len(os.fsencode(self.path)) > MAX_PATH_BYTES:
            raise _unusable(self.path, f"its path is longer than {MAX_PATH_BYTES} bytes")
        self._made: tuple[int, int] | None = None
        try:
            # (1)
            _require_directory(self.path, config.unchecked_directory)
            # (2)
            self._lock = _locked(self.path)
            try:
                # (3)
                _require_free(self.path)
                # (4) and (5)
                self.sock = self._made_whole(config)
            except BaseException:
                os.close(self._lock)
                raise
        except OSError as exc:
            raise _unusable(self.path, exc.strerror or str(exc)) from exc

    def _made_whole(self, config: SocketConfig) -> socket.socket:
        beside = self.path.with_name(f".{secrets.token_hex(5)}.new")
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            before = os.umask(0o177)
            try:
                sock.bind(os.fspath(beside))
            finally:
                os.umask(before)
            sock.listen(BACKLOG)
            if config.group is not None:
                os.chown(beside, -1, config.group)
            beside.chmod(config.mode)
            status = beside.lstat()
            beside.replace(self.path)
        except BaseException:
            sock.close()
            with contextlib.suppress(OSError):
                beside.unlink()
            raise
        self._made = (status.st_dev, status.st_ino)
        return sock

    def close(self) -> None:
        """Stop listening; remove the name if it still is this socket's. Repeated calls are harmless."""
        made, self._made = self._made, None
        if made is None:
            return
        with contextlib.suppress(OSError):
            status = self.path.lstat()
            if (status.st_dev, status.st_ino) == made:
                self.path.unlink()
        self.sock.close()
        os.close(self._lock)


def _require_directory(path: Path, unchecked: str | None) -> None:
    folder = path.parent
    if folder.resolve(strict=True) != folder:
        raise _unsafe(path, f"there is a link or '..' on the way to {folder}", "name the directory itself")
    if unchecked is not None:
        return
    for one in (folder, *folder.parents):
        problem = others_may_write(one)
        if problem is not None:
            raise _unsafe(
                path,
                f"{one} {problem}, who could put another socket in its place",
                "name a directory of the agent's own, or state the reason in socket.unchecked_directory",
            )


def _locked(path: Path) -> int:
    """Return a descriptor that holds the lock. The file stays: removing it would void the locks of others."""
    name = path.with_name(f".{path.name}.lock")
    try:
        lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as exc:
        if exc.errno not in {errno.ELOOP, errno.ENXIO}:
            raise
        raise _unsafe(path, f"{name} is not a regular file", f"check it, and remove {name}") from exc
    try:
        _take(lock, path, name)
    except BaseException:
        os.close(lock)
        raise
    return lock


def _take(lock: int, path: Path, name: Path) -> None:
    if not stat.S_ISREG(os.fstat(lock).st_mode):
        raise _unsafe(path, f"{name} is not a regular file", f"check it, and remove {name}")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as exc:
        raise ConfigurationError(
            f"another agent serves {path}",
            code="agent-running",
            field="--socket",
            hint="end that one first, or name another socket",
        ) from exc


def _require_free(path: Path) -> None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise _unsafe(path, f"{path} exists and is not a socket", f"check it, and remove {path}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            return  # stale: its process is gone
        except FileNotFoundError:
            return
        except (BlockingIOError, TimeoutError):
            pass  # a busy listener
    raise ConfigurationError(
        f"another program listens at {path}",
        code="agent-socket-in-use",
        field="--socket",
        hint="end that one first, or name another socket",
    )


def _unsafe(path: Path, problem: str, hint: str) -> ConfigurationError:
    return ConfigurationError(
        f"no socket is made at {path}: {problem}", code="agent-socket-unsafe", field="--socket", got=problem, hint=hint
    )


def _unusable(path: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"no socket can be made at {path}: {problem}",
        code="agent-socket-unusable",
        field="--socket",
        got=problem,
        hint="name an existing directory that the agent can write to; the group must be one of its own",
    )
