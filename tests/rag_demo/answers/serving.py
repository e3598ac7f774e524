"""A server on the loopback address that says what a test tells it to, piece by piece."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"


@dataclass
class Asked:
    """What came: the heads and bodies of requests."""

    heads: list[str] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""


def delta(text: str | None, finish: str | None = None, **more: object) -> bytes:
    choice = {"index": 0, "delta": {} if text is None else {"content": text}, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "x", "choices": [choice], **more}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


@asynccontextmanager
async def serving(
    *pieces: bytes | float, head: bytes = HEAD, chunked: bool = True, cut: bool = False
) -> AsyncIterator[Asked]:
    """Answer every request with the pieces; a number is a pause. ``cut``: the connection ends without an end."""
    asked = Asked()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            raw = (await reader.readuntil(b"\r\n\r\n")).decode()
            asked.heads.append(raw)
            (length,) = [line.split(":")[1] for line in raw.lower().splitlines() if line.startswith("content-length")]
            asked.bodies.append(json.loads(await reader.readexactly(int(length))))
            await _say(writer, pieces, head=head, chunked=chunked, cut=cut)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    asked.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield asked
    finally:
        server.close()


async def _say(
    writer: asyncio.StreamWriter, pieces: Sequence[bytes | float], *, head: bytes, chunked: bool, cut: bool
) -> None:
    writer.write(head + (b"transfer-encoding: chunked\r\n\r\n" if chunked else b"connection: close\r\n\r\n"))
    for piece in pieces:
        if isinstance(piece, float):
            await asyncio.sleep(piece)
        else:
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
            await writer.drain()
    if chunked and not cut:
        writer.write(b"0\r\n\r\n")
    await writer.drain()
