"""A load generator: a number of connections, each sending its next request after the answer to the last one.

Requests are ready bytes, sent once each over connections that stay open. Small on purpose: it shares the processors
with what it measures.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Load", "post", "send_all"]

_ANSWER_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Results of a series of requests.

    Attributes:
        seconds: from the first byte sent to the last byte received.
        times: of each answer, seconds, ascending.
        statuses: number of answers by status; 0 where there was none.
    """

    seconds: float
    times: tuple[float, ...]
    statuses: Counter[int]

    @property
    def errors(self) -> int:
        """Number of requests without status 200."""
        return self.statuses.total() - self.statuses[200]

    @property
    def rate(self) -> float:
        """Successful answers a second."""
        return self.statuses[200] / self.seconds

    def percentile(self, part: float) -> float:
        """Return the time that this part of the answers came within, seconds."""
        return self.times[min(len(self.times) - 1, int(part * len(self.times)))]


def post(path: str, body: bytes) -> bytes:
    """Return a whole request."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def send_all(requests: Sequence[bytes], *, port: int, connections: int, tls: ssl.SSLContext | None = None) -> Load:
    """Send every request once, over this many connections to this port of 127.0.0.1."""
    return asyncio.run(_send_all(iter(requests), port, connections, tls))


async def _send_all(left: Iterator[bytes], port: int, connections: int, tls: ssl.SSLContext | None) -> Load:
    times: list[float] = []
    statuses: Counter[int] = Counter()
    opened = [await asyncio.open_connection("127.0.0.1", port, ssl=tls) for _ in range(connections)]

    async def lane(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for request in left:
            begin = time.perf_counter()
            try:
                writer.write(request)
                statuses[await asyncio.wait_for(_answer(reader), _ANSWER_SECONDS)] += 1
            except (OSError, asyncio.IncompleteReadError, TimeoutError):
                statuses[0] += 1
                return
            times.append(time.perf_counter() - begin)

    begin = time.perf_counter()
    await asyncio.gather(*(lane(*one) for one in opened))
    seconds = time.perf_counter() - begin
    statuses[0] += sum(1 for _ in left)
    for _, writer in opened:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    return Load(seconds=seconds, times=tuple(sorted(times)), statuses=statuses)


async def _answer(reader: asyncio.StreamReader) -> int:
    """Read one answer with a Content-Length, and return its status."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)
    return int(head.split(b" ", 2)[1])
