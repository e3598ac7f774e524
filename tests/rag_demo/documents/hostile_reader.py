"""A program that reads a document as the worker does, in the same confinement, by a reader that means harm.

Started as ``python -I hostile_reader.py ORDER``; the document says what is tried.
"""

import ctypes
import json
import mmap
import os
import platform
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = str(Path(__file__).resolve().parents[3])


LIBC = ctypes.CDLL(None, use_errno=True)
PARENT = os.getppid()
X86 = platform.machine() == "x86_64"
NOWHERE = os.open(os.devnull, os.O_WRONLY)


def call(number: int, *arguments: object) -> None:
    if LIBC.syscall(number, *arguments) == -1:
        raise OSError(ctypes.get_errno(), "system call")


def hang() -> None:
    while True:
        pass


def wait() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def grow() -> None:
    held = []
    while True:
        held.append(bytearray(1 << 20))


def deep() -> None:
    deep()


def look_at_oneself() -> None:
    if LIBC.prctl(3, 0, 0, 0, 0) != 0:
        raise OSError(0, "other processes may look into this one")


ATTEMPTS: dict[str, Callable[[], object]] = {
    "read": lambda: os.open("/etc/passwd", os.O_RDONLY),
    "write": lambda: os.open("/tmp/attest-hostile", os.O_WRONLY | os.O_CREAT),  # noqa: S108  it must fail
    "list": lambda: os.scandir("/"),
    "stat": lambda: os.statvfs("/"),
    "unlink": lambda: os.rmdir("/nowhere"),  # noqa: PTH106  the call itself
    "inherited": lambda: os.write(NOWHERE, b"x"),
    "executable-memory": lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_EXEC | mmap.PROT_READ | mmap.PROT_WRITE),
    "pipe": os.pipe,
    "dup": lambda: os.dup(1),
    "dumpable": lambda: call(157 if X86 else 167, 4, 1, 0, 0, 0),
    "write-input": lambda: os.write(0, b"x"),
    "socket": lambda: socket.socket(socket.AF_INET),
    "unix-socket": lambda: socket.socket(socket.AF_UNIX),
    "fork": os.fork,
    "exec": lambda: os.execv("/bin/true", ["true"]),  # noqa: S606  it must fail
    "kill": lambda: os.kill(PARENT, 0),
    "signal-thread": lambda: call(234 if X86 else 131, PARENT, PARENT, 0),
    "ptrace": lambda: call(101 if X86 else 117, 16, PARENT, 0, 0),
    "other-memory": lambda: call(310 if X86 else 270, PARENT, 0, 0, 0, 0, 0),
    "x32": lambda: call(0x40000000 + 2, b"/etc/passwd", 0),
    "look-at-oneself": look_at_oneself,
    "hang": hang,
    "wait": wait,
    "grow": grow,
    "crash": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "exit": lambda: os._exit(0),
    "raise": lambda: 1 // 0,
    "deep": deep,
}


def problem(**told: object) -> bytes:
    payload = json.dumps(told).encode()
    return b"E" + len(payload).to_bytes(4, "big") + payload


LAST = b"Z\0\0\0\4\0\0\0\1"
RAW = {
    "raw-garbage": b"\xff" * 100,
    "raw-long": b"P\xff\xff\xff\xff",
    "raw-again": b"K\0\0\0\4text",
    "raw-utf-8": b"P\0\0\0\2\xff\xff" + LAST,
    "raw-control": b"P\0\0\0\1\x1b" + LAST,
    "raw-bidi": b"P\0\0\0\3" + "\u202e".encode() + LAST,
    "raw-count": b"P\0\0\0\1xZ\0\0\0\4\0\0\0\2",
    "raw-more": b"P\0\0\0\1xZ\0\0\0\4\0\0\0\1P\0\0\0\1x",
    "raw-total": b"N\0\0\0\4\0\0\0\0",
    "raw-totals": b"N\0\0\0\4\0\0\0\1N\0\0\0\4\0\0\0\1",
    "raw-total-late": b"P\0\0\0\1xN\0\0\0\4\0\0\0\2",
    "raw-total-large": b"N\0\0\0\4\x7f\xff\xff\xff",
    "raw-beyond": b"N\0\0\0\4\0\0\0\1P\0\0\0\1xP\0\0\0\1y",
    "raw-fewer": b"N\0\0\0\4\0\0\0\2P\0\0\0\1xZ\0\0\0\4\0\0\0\1",
    "raw-number": b"Z\0\0\0\1\0",
    "raw-problem": b"E\0\0\0\2{}",
    "raw-problem-text": b"E\0\0\0\4\xff\xff\xff\xff",
    "raw-problem-list": b"E\0\0\0\2[]",
    "raw-problem-reason": problem(reason="fine", what="", number=0),
    "raw-problem-hashless": problem(reason=["limit"], what="", number=0),
    "raw-problem-what": problem(reason="limit", what="\x1b[31m", number=0),
    "raw-problem-number": problem(reason="limit", what="", number=True),
    "raw-problem-deep": b"E\0\0\4\0" + b"[" * 1024,
    "raw-pages": b"P\0\0\0\1x" * 101,
    "raw-empty": b"",
    "raw-kind": b"Q\0\0\0\0",
    "raw-characters": (b"P\0\x06\0\0" + b"x" * 0x60000) * 4,
    "raw-cut": b"P\0\0\0\5xy",
}


def read(data: bytes, out: Any) -> None:  # noqa: ANN401  an Out, of a module imported later
    """Do what the document says, and tell how it went."""
    asked = data.decode()
    if asked in RAW:
        out._write(RAW[asked])  # noqa: SLF001  past all that an Out looks at
        os._exit(0)
    told = "done"
    try:
        ATTEMPTS[asked]()
    except OSError as exc:
        told = f"refused {exc.errno}"
    out.page(told)


if __name__ == "__main__":
    sys.path.insert(0, ROOT)
    module = ModuleType("hostile")
    module.__dict__["read"] = read
    sys.modules["hostile"] = module
    if sys.argv[2:] == ["another-machine"]:
        platform.machine = lambda: "vax"
    READER = "a_module_that_is_not_there" if sys.argv[2:] == ["without-library"] else "hostile"
    from rag_demo.enclave.documents.worker import main, run

    run(lambda: main(json.loads(sys.argv[1]), {"text": READER}))
