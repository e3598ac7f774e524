"""The child process that reads a document: its start, its input, its checked output, and its end.

It is started by ``exec`` and never by ``fork`` alone, so that it holds nothing of this process's memory, such as keys.
After the first byte of the document its output is untrusted: each frame is bounded and checked before it is used.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from rag_demo.enclave.documents import wire
from rag_demo.enclave.documents.kinds import DocumentKind
from rag_demo.enclave.documents.limits import DocumentLimits
from rag_demo.enclave.documents.refusals import crashed, misbehaved
from rag_demo.enclave.errors import DocumentError, DocumentLimitError, DocumentReaderError

_WORKER = Path(__file__).with_name("worker.py")
_ROOT = Path(__file__).resolve().parents[3]
_GIVE_UP_SECONDS = 2.0
"""After SIGKILL."""
_LOOK_SECONDS = 0.005
_PIECE = 256 << 10
_READ = 64 << 10

Source = Callable[[int, int], bytes]
"""Function that returns a number of bytes of the document from an offset; fewer only at its end."""


def command(*, limits: DocumentLimits, promised: DocumentKind | None, size: int, unconfined: str | None) -> list[str]:
    """Return what is started to read a document."""
    order = {
        "root": str(_ROOT),
        "limits": asdict(limits),
        "promised": promised,
        "size": size,
        "unconfined": unconfined,
    }
    # -I: no module of the working directory or of the user's, no PYTHON… variable.
    return [sys.executable, "-I", str(_WORKER), json.dumps(order)]


class Child:
    """A reader of one document.

    Args:
        limits: ``seconds`` is kept here; ``max_page_characters`` bounds a frame.

    Raises:
        DocumentReaderError: ``document-reader-unavailable``: it cannot be started.
    """

    def __init__(self, command: Sequence[str], *, source: Source, size: int, limits: DocumentLimits) -> None:
        self._source = source
        self._size = size
        self._sent = 0
        self._pending = memoryview(b"")
        self._limits = limits
        self._left = float(limits.seconds)
        self._heard = bytearray()
        self._silent = False
        try:
            self._process = subprocess.Popen(  # noqa: S603  our own program; no shell reads it
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
            )
        except OSError as exc:
            raise DocumentReaderError(
                f"the process that reads documents cannot be started: {exc.strerror}",
                code="document-reader-unavailable",
                got=exc.strerror,
            ) from exc
        self._in, self._out = self._pipes()

    def _pipes(self) -> tuple[int, int]:
        """Return the descriptors of both pipes, in non-blocking mode."""
        files = (self._process.stdin, self._process.stdout)
        said, heard = (file.fileno() for file in files if file is not None)
        for descriptor in (said, heard):
            os.set_blocking(descriptor, False)
        return said, heard

    def frame(self) -> tuple[bytes, bytes]:
        """Return the next frame: its kind and what it holds.

        Raises:
            DocumentLimitError: it took longer than allowed, or the process was killed at a limit.
            DocumentError: the process crashed, or sent an invalid frame.
        """
        kind, size = wire.HEAD.unpack(self._take(wire.HEAD.size))
        allowed = {
            wire.KIND: wire.MAX_KIND_BYTES,
            wire.TOTAL: wire.NUMBER.size,
            wire.PAGE: 4 * self._limits.max_page_characters * wire.NFC_GROWTH,
            wire.PART: 4 * self._limits.max_page_characters * wire.NFC_GROWTH,
            wire.PROBLEM: wire.MAX_PROBLEM_BYTES,
            wire.END: wire.NUMBER.size,
        }
        if kind not in allowed or size > allowed[kind] or (kind in {wire.TOTAL, wire.END} and size != allowed[kind]):
            raise misbehaved("a frame of an unknown kind, or of an impossible length")
        return kind, self._take(size)

    def finish(self) -> None:
        """Require that no bytes follow the last frame.

        Raises:
            DocumentError: something does.
        """
        while not self._silent:
            self._wait()
            if self._heard:
                raise misbehaved("more after its last frame")

    def close(self) -> None:
        """Kill the process, and wait for it; a second call has no effect."""
        if self._process.returncode is None:  # not waited for yet, so the number cannot belong to another process
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GIVE_UP_SECONDS)

    def _take(self, count: int) -> bytes:
        while len(self._heard) < count:
            if self._silent:
                raise self._ended()
            self._wait()
        taken = bytes(self._heard[:count])
        del self._heard[:count]
        return taken

    def _ended(self) -> DocumentError:
        """Return the error for a process that ended too early."""
        deadline = time.monotonic() + _GIVE_UP_SECONDS
        while time.monotonic() < deadline:
            try:
                ended, status, used = os.wait4(self._process.pid, os.WNOHANG)
            except ChildProcessError:  # this program waits for all of its children somewhere else
                self._process.returncode = 0
                return crashed(0, 0, self._limits)
            if ended:
                self._process.returncode = os.waitstatus_to_exitcode(status)
                # A process starts with its parent's peak: a value no greater than ours is not its own measurement.
                most = used.ru_maxrss if used.ru_maxrss > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss else 0
                return crashed(self._process.returncode, most * 1024, self._limits)
            time.sleep(_LOOK_SECONDS)
        return misbehaved("nothing more, and did not end")

    def _wait(self) -> None:
        """Wait until the process takes input or writes output, and transfer it."""
        poll = select.poll()
        poll.register(self._out, select.POLLIN)
        if self._sent < self._size or self._pending:
            poll.register(self._in, select.POLLOUT)
        begun = time.monotonic()
        ready = poll.poll(max(0.0, self._left) * 1000)
        self._left -= time.monotonic() - begun
        if not ready or self._left <= 0:
            raise DocumentLimitError(
                f"reading the document took longer than {self._limits.seconds:g} s",
                code="document-limit",
                field="seconds",
                expected=f"at most {self._limits.seconds:g} s",
                hint="split the document, or raise the limit",
            )
        for descriptor, _ in ready:
            if descriptor == self._in:
                self._feed()
            else:
                self._hear()

    def _hear(self) -> None:
        with suppress(BlockingIOError):
            said = os.read(self._out, _READ)
            self._heard += said
            self._silent = not said

    def _feed(self) -> None:
        if not self._pending:
            self._pending = memoryview(self._source(self._sent, min(_PIECE, self._size - self._sent)))
            self._sent += len(self._pending)
        try:
            self._pending = self._pending[os.write(self._in, self._pending) :]
        except BlockingIOError:
            return
        except BrokenPipeError:  # it refused early, or ended; its next frame shows which
            self._sent, self._pending = self._size, memoryview(b"")
