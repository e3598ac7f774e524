"""Reading a sealed file from a web server that answers each request after 40 ms, against curl on the same bytes.

The server is a process of its own on the same processors. It sends from the page cache, once as fast as it can and
once at 125 MB/s for all connections together, as a network of 1 Gbit/s does. Without a limit the processors are the
bound, and curl does not decrypt: the reading is compared with curl, and with curl followed by bare AES-GCM on all
processors, which is the least work on the same bytes.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from attest.sealed import SealedReader, seal_file, source_of
from attest.sealed.layout import SEGMENT_BYTES
from benchmarks.measure import Figure

__all__ = ["remote_read"]

KEY, AAD = bytes(range(32)), b"benchmark"
_LATENCY_SECONDS = 0.040
_NETWORK_BYTES = 125_000_000
_REQUESTS = 64
_BLOCK = 256 << 10
_BAR = 1.2
_SEGMENTS_IN_MEMORY = 64


def remote_read(*, megabytes: int = 2000, rounds: int = 3) -> Figure:
    """Return the ratio of the times at 1 Gbit/s; the one without a limit and the number of requests are printed."""
    if shutil.which("curl") is None:
        raise RuntimeError("curl is missing; on Debian or Ubuntu: apt-get install curl")
    with tempfile.TemporaryDirectory() as scratch:
        sealed = Path(scratch, "sealed")
        _make(sealed, megabytes)
        lines, ratios, most = [f"{megabytes} MB, {_LATENCY_SECONDS * 1e3:.0f} ms a request"], [], 0
        for label, rate in (("1 Gbit/s", _NETWORK_BYTES), ("no limit", 0)):
            with _served(sealed, rate) as (url, requests):
                found = [_round(url, requests, sealed.stat().st_size) for _ in range(rounds)]
            most = max(most, *(one.requests for one in found))
            ratios.append(statistics.median(one.ours / one.curl for one in found))
            stages = statistics.median(one.ours / (one.curl + one.cipher) for one in found)
            curl, cipher, ours = (statistics.median(one[place] for one in found) for place in range(3))
            lines.append(
                f"{label}: curl {curl:.2f} s, AES-GCM alone {cipher:.2f} s, read and decrypted {ours:.2f} s, "
                f"ratio to curl {ratios[-1]:.2f}, to curl and then AES-GCM {stages:.2f}"
            )
    lines.append(f"at most {most} requests, bar {_REQUESTS}")
    value = ratios[0] if most <= _REQUESTS else float("inf")
    return Figure(id="sealed-remote-read", value=value, bar=_BAR, better="lower", detail="; ".join(lines))


class _Round(NamedTuple):
    """Seconds of each way, measured one after the other, and requests of ours."""

    curl: float
    cipher: float
    ours: float
    requests: int


def _round(url: str, requests: Synchronized[int], size: int) -> _Round:
    return _Round(_seconds(lambda: _curl(url)), _seconds(lambda: _decrypt(size)), *_ours(url, requests))


def _decrypt(size: int) -> None:
    """Decrypt so many bytes from memory, in segments, on all processors."""
    processors = len(os.sched_getaffinity(0))
    cipher, nonce = AESGCM(KEY), bytes(12)
    sealed = cipher.encrypt(nonce, bytes(SEGMENT_BYTES - 16), None)

    def share() -> None:
        # More than the caches hold, as what arrives from a network.
        segments = [bytearray(sealed) for _ in range(_SEGMENTS_IN_MEMORY)]
        out = bytearray(SEGMENT_BYTES - 16)
        for number in range(size // SEGMENT_BYTES // processors):
            cipher.decrypt_into(nonce, segments[number % len(segments)], None, out)

    threads = [threading.Thread(target=share) for _ in range(processors)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _make(sealed: Path, megabytes: int) -> None:
    block = os.urandom(1_000_000)
    plain = sealed.with_name("plain")
    with plain.open("wb") as file:
        for _ in range(megabytes):
            file.write(block)
    seal_file(plain, sealed, key=KEY, associated_data=AAD, random=os.urandom)
    plain.unlink()


def _seconds(work: object) -> float:
    begin = time.perf_counter()
    work()  # type: ignore[operator]  # a function without arguments
    return time.perf_counter() - begin


def _curl(url: str) -> None:
    subprocess.run(["curl", "--silent", "--fail", "--output", os.devnull, url], check=True)


def _ours(url: str, requests: Synchronized[int]) -> tuple[float, int]:
    before = requests.value
    begin = time.perf_counter()
    with SealedReader(source_of(url), key=KEY, associated_data=AAD) as reader:
        reader.scatter(lambda _, __: None)
    return time.perf_counter() - begin, requests.value - before


@contextmanager
def _served(path: Path, rate: int) -> Iterator[tuple[str, Synchronized[int]]]:
    context = multiprocessing.get_context("spawn")
    port, requests = context.Value("i", 0), context.Value("i", 0)
    ready = context.Event()
    process = context.Process(target=_serve, args=(str(path), rate, port, requests, ready), daemon=True)
    process.start()
    try:
        if not ready.wait(60):
            raise RuntimeError("the web server did not start")
        yield f"http://127.0.0.1:{port.value}/sealed", requests
    finally:
        process.terminate()
        process.join()


def _serve(path: str, rate: int, port: Synchronized[int], requests: Synchronized[int], ready: object) -> None:
    size = Path(path).stat().st_size
    allowance = _Allowance(rate)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            with requests.get_lock():
                requests.value += 1
            time.sleep(_LATENCY_SECONDS)
            match = re.fullmatch(r"bytes=([0-9]+)-([0-9]+)", self.headers.get("Range", ""))
            start, stop = (int(match[1]), min(size, int(match[2]) + 1)) if match else (0, size)
            self.send_response(206 if match else 200)
            self.send_header("ETag", '"one"')
            self.send_header("Content-Length", str(stop - start))
            if match:
                self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
            self.end_headers()
            with Path(path).open("rb") as file:
                while start < stop:
                    allowance.take(_BLOCK)
                    start += os.sendfile(self.connection.fileno(), file.fileno(), start, min(_BLOCK, stop - start))

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        port.value = server.server_port
        ready.set()  # type: ignore[attr-defined]  # an event
        server.serve_forever()


class _Allowance:
    """Bytes a second for all connections together; no limit where it is 0."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._lock = threading.Lock()
        self._free_at = time.monotonic()

    def take(self, size: int) -> None:
        if not self._rate:
            return
        with self._lock:
            now = time.monotonic()
            self._free_at = max(now, self._free_at) + size / self._rate
            pause = self._free_at - now
        if pause > 0:
            time.sleep(pause)
