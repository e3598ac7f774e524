"""The process of the Rego engine for one policy: it compiles the policy, and forks a process for each question.

Started by ``zygotes.py`` with the arguments MEMORY SECONDS OWNER CONTROL in an empty folder with an empty environment;
standard input is the policy, CONTROL is a socket of packets. It imports the standard library and the engine only,
decides nothing, and limits itself before it reads any input.

A packet on CONTROL is a question: its limits, the socket on which the question comes and its answer goes, and a pipe
for the exit code. This process does not read the question. The forked process does, gives up what is left to give up,
answers one question and ends; so no question can see another. All of them end with their owner.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import threading
import time
from contextlib import suppress
from typing import Any, NoReturn

from attest.rego.engine import CompiledPolicy, FaultError, fault

MAX_POLICY_BYTES = 8 << 20  # the policy, its reference values beside it
MAX_REQUEST_BYTES = 4 << 20
MAX_ANSWER_BYTES = 64 << 10
MAX_WRITTEN_BYTES = 16 << 20  # the compiled policy, its data beside it
MAX_FILES = 64
MAX_AT_ONCE = 16  # questions; more wait in the socket
WATCH_SECONDS = 0.005
EXIT_MEMORY = 9
EXIT_LATE = 1000  # no exit code of a process: it was killed at the end of its time
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_LIBC = ctypes.PyDLL(None)  # keeps the interpreter's lock, which a fork needs


def main() -> None:
    """Compile the policy on standard input, then serve questions until the owner ends."""
    memory, seconds, owner, control = (int(argument) for argument in sys.argv[1:5])
    packets = socket.socket(fileno=control)
    lift = confine(seconds)
    with Watch(memory):
        try:
            policy: CompiledPolicy | None = CompiledPolicy(json.loads(read_all(0, MAX_POLICY_BYTES)))
            reply: dict[str, Any] = {"ready": True}
        except BaseException as exc:  # noqa: BLE001  any failure is the reply
            policy, reply = None, fault(exc)
    packets.send(json.dumps(reply).encode()[:MAX_ANSWER_BYTES])
    if policy is None:
        os._exit(0)  # no clean-up of the engine's, which may be in any state
    lift()
    gc.collect()
    gc.freeze()
    gc.disable()  # a collection in a forked process would copy the memory of this one
    Server(policy, packets, owner).serve()
    os._exit(0)


def read_all(descriptor: int, limit: int) -> bytes:
    """Read up to the end of the input.

    Raises:
        FaultError: it is longer than the limit.
    """
    parts: list[bytes] = []
    left = limit
    while part := os.read(descriptor, min(left + 1, 1 << 20)):
        parts.append(part)
        left -= len(part)
        if left < 0:
            raise FaultError({"error": f"the request has more than {limit} bytes"})
    return b"".join(parts)


# ---------------------------------------------------------------- limits


def confine(seconds: int) -> Any:
    """Set limits that cannot be lifted again, and return a function that lifts the two that forking needs lifted.

    The engine's allocator reserves 256 GiB of addresses before it does anything, so RLIMIT_AS and RLIMIT_DATA cannot
    bound what it uses. A thread reads what is resident instead; the engine runs without the interpreter's lock.
    """
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123  few imports
        file.write("1000")  # when the machine runs short of memory, the kernel ends this process first
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)  # the engine prints to standard output
    os.dup2(nowhere, 2)
    os.close(nowhere)
    for kind, limit in (
        (resource.RLIMIT_FSIZE, MAX_WRITTEN_BYTES),
        (resource.RLIMIT_NOFILE, MAX_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        limit_for_good(kind, limit)
    lifted = [(kind, resource.getrlimit(kind)) for kind in (resource.RLIMIT_CPU, resource.RLIMIT_NPROC)]
    for (kind, (_, hard)), limit in zip(lifted, (seconds, 0), strict=True):
        resource.setrlimit(kind, (least(limit, hard), hard))

    def lift() -> None:
        for kind, limits in lifted:
            resource.setrlimit(kind, limits)

    return lift


def confine_for_good(seconds: int) -> None:
    """Set the limits of a process for one question: no processes, and little processor time."""
    limit_for_good(resource.RLIMIT_CPU, seconds)
    limit_for_good(resource.RLIMIT_NPROC, 0)


def limit_for_good(kind: int, limit: int) -> None:
    """Set a limit, or keep the lower one, so that it cannot be lifted again."""
    lowest = least(limit, resource.getrlimit(kind)[1])
    resource.setrlimit(kind, (lowest, lowest))


def least(limit: int, ceiling: int) -> int:
    """Return the lower of two limits."""
    return limit if ceiling == resource.RLIM_INFINITY else min(limit, ceiling)


def prctl(option: int, value: int) -> None:
    """Set an option of this process that every kernel knows."""
    _LIBC.prctl(option, value, 0, 0, 0)


def fork() -> int:
    """Fork this process, which has one thread, without the handlers of libraries, each of which copies pages.

    Nothing in the forked process needs them: it starts no thread, and draws no random numbers.
    """
    try:
        return int(_LIBC._Fork())  # noqa: SLF001  the name in POSIX
    except AttributeError:  # not in every C library
        return os.fork()


class Watch:
    """A thread that ends the process when more than so many bytes are resident."""

    def __init__(self, memory: int) -> None:
        self.pages = memory // resource.getpagesize()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        """End the thread: a process with several must not fork."""
        self.over.set()
        self.thread.join()

    def run(self) -> None:
        """Look at the number of pages every few milliseconds."""
        with open("/proc/self/statm", "rb", buffering=0) as file:  # noqa: PTH123  few imports
            while int(os.pread(file.fileno(), 200, 0).split()[1]) <= self.pages:
                if self.over.wait(WATCH_SECONDS):
                    return
        os._exit(EXIT_MEMORY)


# ---------------------------------------------------------------- processes


class Forked:
    """A process for one question.

    Args:
        pages: that may be resident.
        end: of its time.
        code: pipe for its exit code.
    """

    def __init__(self, pages: int, end: float, code: int) -> None:
        self.pages = pages
        self.end = end
        self.code = code
        self.killed = 0
        """The code to report in the place of its own."""
        self.statm: int | None = None
        """Its file ``statm``, once it was looked at."""

    def resident(self, pid: int) -> int:
        """Return the number of resident pages; none once it ended."""
        if self.statm is None:
            self.statm = os.open(f"/proc/{pid}/statm", os.O_RDONLY)
        try:
            return int(os.pread(self.statm, 200, 0).split()[1])
        except (OSError, IndexError):
            return 0

    def close(self) -> None:
        """Close its files."""
        os.close(self.code)
        if self.statm is not None:
            os.close(self.statm)


class Server:
    """The loop that forks a process for each question, and ends those that take too much memory or time."""

    def __init__(self, policy: CompiledPolicy, packets: socket.socket, owner: int) -> None:
        self.policy = policy
        self.packets = packets
        self.forked: dict[int, Forked] = {}
        self.poll = select.poll()
        self.wake, woken = os.pipe()
        for descriptor in (self.wake, woken):
            os.set_blocking(descriptor, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        self.poll.register(self.wake, select.POLLIN)
        self.owner = -1
        with suppress(OSError, AttributeError):  # Linux before 5.3: then the end of the socket is the only sign
            self.owner = os.pidfd_open(owner)
            self.poll.register(self.owner, select.POLLIN)
        self.ended = os.getppid() != owner
        self.looked = time.monotonic()

    def serve(self) -> None:
        """Serve until the owner ends or closes the socket."""
        while not self.ended:
            self.poll.register(self.packets, select.POLLIN if len(self.forked) < MAX_AT_ONCE else 0)
            for descriptor, _ in self.poll.poll(WATCH_SECONDS * 1000 if self.forked else None):
                self.handle(descriptor)
            if time.monotonic() - self.looked >= WATCH_SECONDS:
                self.look()

    def handle(self, descriptor: int) -> None:
        """Take note of the end of a process, the end of the owner, or a question."""
        if descriptor == self.wake:
            with suppress(BlockingIOError):
                os.read(self.wake, 4096)
            self.reap()
        elif descriptor == self.owner:
            self.ended = True
        else:
            self.take_question()

    def take_question(self) -> None:
        """Fork a process for a question; the end of the socket is the end of the owner."""
        packet, descriptors, _, _ = socket.recv_fds(self.packets, 64, 2)
        if not packet:
            self.ended = True
            return
        memory, seconds, milliseconds = (int(part) for part in packet.split())
        question, code = descriptors
        parent = os.getpid()
        try:
            pid = fork()
        except OSError:
            pid = -1
        if pid < 0:
            self.report(code, 1)
            os.close(code)
        else:
            if not pid:
                answer_and_exit(self.policy, question, parent, seconds)
            pages, end = memory // resource.getpagesize(), time.monotonic() + milliseconds / 1000
            self.forked[pid] = Forked(pages=pages, end=end, code=code)
        os.close(question)

    def reap(self) -> None:
        """Report the exit codes of processes that ended."""
        for pid, one in list(self.forked.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self.forked[pid]
                self.report(one.code, one.killed or os.waitstatus_to_exitcode(status))
                one.close()

    def look(self) -> None:
        """Kill the processes that take too much."""
        for pid, one in self.forked.items():
            if not one.killed and (killed := self.too_much(pid, one)):
                one.killed = killed
                os.kill(pid, signal.SIGKILL)
        self.looked = time.monotonic()

    @staticmethod
    def too_much(pid: int, one: Forked) -> int:
        """Return the code to report for a process that takes too much, or zero."""
        if time.monotonic() >= one.end:
            return EXIT_LATE
        return EXIT_MEMORY if one.resident(pid) > one.pages else 0

    @staticmethod
    def report(pipe: int, code: int) -> None:
        """Write an exit code for the owner, which may have stopped waiting."""
        with suppress(OSError):
            os.write(pipe, struct.pack("<i", code))


def answer_and_exit(policy: CompiledPolicy, question: int, parent: int, seconds: int) -> NoReturn:
    """Answer one question in a process of its own, which ends with its parent."""
    try:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        signal.set_wakeup_fd(-1)
        os.dup2(question, 0)
        os.closerange(3, MAX_FILES)  # the packets, and the pipes of other questions
        confine_for_good(seconds)
        try:
            reply = {"results": policy.results(json.loads(read_all(0, MAX_REQUEST_BYTES)))}
        except BaseException as exc:  # noqa: BLE001  any failure is the answer
            reply = fault(exc)
        written = json.dumps(reply).encode()
        if len(written) > MAX_ANSWER_BYTES:
            written = b'{"error": "the answer is too long"}'
        while written:
            written = written[os.write(0, written) :]
        os._exit(0)  # no clean-up of the engine's, which may be in any state
    finally:
        os._exit(1)
