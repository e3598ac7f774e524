"""Attacks on the availability of a service, each in a process of its own, from 127.0.0.2, until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.synchronize import Event

from benchmarks.sending import post
from benchmarks.tls_files import TlsFiles, client_context

__all__ = ["ATTACKS", "POLICIES", "Target", "attacked"]

_ADDRESS = "127.0.0.2"
_START_SECONDS = 60
"""For an attacker to start its process."""
_READY_SECONDS = 2.0
"""From the beginning of an attack until it has its full effect."""
POLICIES = "policies of 1 MB without a role"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The attacked service.

    Attributes:
        port: of the release plane.
        admin_port: of the administration API.
        files: with a client that the administration API knows, and that has no role.
    """

    port: int
    admin_port: int
    files: TlsFiles


Attack = Callable[[Target], Coroutine[None, None, None]]


@contextmanager
def attacked(name: str, target: Target, *, processors: frozenset[int]) -> Iterator[None]:
    """Attack a service, from these processors."""
    context = multiprocessing.get_context("spawn")
    begun = context.Event()
    process = context.Process(target=_attack, args=(name, target, processors, begun), daemon=True)
    process.start()
    try:
        if not begun.wait(_START_SECONDS):
            msg = f"the attacker did not start: {name}"
            raise RuntimeError(msg)
        time.sleep(_READY_SECONDS)
        yield
    finally:
        process.terminate()
        process.join()


def _attack(name: str, target: Target, processors: frozenset[int], begun: Event) -> None:
    os.sched_setaffinity(0, processors)
    begun.set()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(ATTACKS[name](target))


async def _connected(
    port: int, *, tls: bool = True, files: TlsFiles | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    context = client_context(files) if tls else None
    return await asyncio.open_connection("127.0.0.1", port, local_addr=(_ADDRESS, 0), ssl=context)


async def _again_and_again(one: Callable[[], Awaitable[None]], lanes: int) -> None:
    """Repeat an attack in so many lanes; a refused connection waits a moment."""

    async def lane() -> None:
        while True:
            try:
                await one()
            except (OSError, EOFError):
                await asyncio.sleep(0.02)

    await asyncio.gather(*(lane() for _ in range(lanes)))


async def _repeat(port: int, request: bytes, *, lanes: int, files: TlsFiles | None = None) -> None:
    """Send one request as often as the service answers it."""

    async def one() -> None:
        reader, writer = await _connected(port, files=files)
        try:
            while True:
                writer.write(request)
                await writer.drain()
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(head.partition(b"content-length:")[2].partition(b"\r\n")[0]))
        finally:
            writer.transport.abort()

    await _again_and_again(one, lanes)


def _posting(body: bytes) -> Attack:
    async def attack(target: Target) -> None:
        await _repeat(target.port, post("/v1/releases", body), lanes=4)

    return attack


async def _policies(target: Target) -> None:
    """Post documents of 1 MB that are slow to parse, as an identity without any role."""
    text = "[" * (1 << 19) + "]" * ((1 << 19) - 1)
    body = json.dumps({"tenant": "default", "key_id": "more", "policy": text}).encode()
    await _repeat(target.admin_port, post("/v1/keys", body), lanes=3, files=target.files)


async def _unfinished_bodies(target: Target) -> None:
    body = b"[" + b" " * ((2 << 20) - 2)

    async def one() -> None:
        reader, writer = await _connected(target.port)
        try:
            writer.write(post("/v1/releases", body + b"]")[:-1])
            await writer.drain()
            await reader.read(1)
        finally:
            writer.transport.abort()

    await _again_and_again(one, 60)


async def _unread_answers(target: Target) -> None:
    request = b"GET /v1/log/checkpoint HTTP/1.1\r\nHost: bench\r\n\r\n"

    async def one() -> None:
        _, writer = await _connected(target.port)
        try:
            while True:
                writer.write(request * 100)
                await asyncio.sleep(0)  # drain() alone may return at once for ever
                await writer.drain()  # it never reads
        finally:
            writer.transport.abort()

    await _again_and_again(one, 16)


async def _open_handshakes(target: Target) -> None:
    async def one() -> None:
        reader, writer = await _connected(target.port, tls=False)
        try:
            writer.write(b"\x16\x03\x01\x02\x00")
            await reader.read()
        finally:
            writer.transport.abort()

    await _again_and_again(one, 900)


async def _ambiguous_requests(target: Target) -> None:
    request = (
        b"POST /v1/releases HTTP/1.1\r\nHost: bench\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"
    )

    async def one() -> None:
        reader, writer = await _connected(target.port)
        try:
            writer.write(request)
            await reader.read()
        finally:
            writer.transport.abort()

    await _again_and_again(one, 4)


ATTACKS: Mapping[str, Attack] = {
    "many members, one twice": _posting(b"{" + b",".join(b'"%d":0' % number for number in range(25_000)) + b',"0":1}'),
    "a list of 2 MiB": _posting(b"[" + b"0," * ((1 << 20) - 2) + b"0]"),
    "bodies that never end": _unfinished_bodies,
    "answers that are not read": _unread_answers,
    "handshakes that never end": _open_handshakes,
    "requests of two lengths": _ambiguous_requests,
    POLICIES: _policies,
}
