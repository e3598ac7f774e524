"""Receipts for answers: what one costs the machine beside its stream, and what a check of one takes."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from attest.receipts import (
    BodyDigest,
    ReceiptMiddleware,
    parse_receipt_file,
    verify_receipt,
)
from benchmarks.measure import Figure, median_seconds
from tests.receipts.machine import REQUEST, Machine, expectation
from tests.samples import AT

__all__ = ["EVENTS", "TOKEN", "application", "cost", "verify"]

TOKEN = b'data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":" word"}}]}\n\n'
EVENTS = -(-(1 << 20) // len(TOKEN))
_TOKENS_A_SECOND = 2_000
"""Ten times what one stream of a fast model gives to one client; a slower stream makes the ratio smaller."""
_ROUNDS = 15


async def application(_scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  ASGI's own
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    for _ in range(EVENTS):
        await send({"type": "http.response.body", "body": TOKEN, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _streamed(streaming: Callable[[Any, Any, Any], Awaitable[None]]) -> Callable[[], None]:
    """Return what streams one answer of 1 MiB through an application, with nothing behind it."""
    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "query_string": b"", "headers": []}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": REQUEST}

    async def send(_message: Any) -> None:  # noqa: ANN401  ASGI's own
        pass

    return lambda: asyncio.run(streaming(dict(scope), receive, send))  # type: ignore[arg-type]  # a coroutine


def cost() -> Figure:
    """Measure what a receipt adds to a stream of 1 MiB, as a part of the time that the stream takes."""
    machine = Machine()
    recorded = ReceiptMiddleware(application, machine.recorder(), chain=lambda: machine.chain)
    bare, receipts = _streamed(application), _streamed(recorded)
    bare()
    receipts()
    added = []
    for _ in range(_ROUNDS):
        begin = time.perf_counter()
        bare()
        middle = time.perf_counter()
        receipts()
        added.append(time.perf_counter() - middle - (middle - begin))
    seconds, stream = statistics.median(added), EVENTS / _TOKENS_A_SECOND
    return Figure(
        id="receipt-cost",
        value=100 * seconds / stream,
        bar=1.0,
        better="lower",
        detail=f"% of the time of 1 MiB in {EVENTS} events at {_TOKENS_A_SECOND} a second ({stream:.1f} s): "
        f"{seconds * 1e3:.2f} ms for two hashes, the messages and two signatures",
    )


def verify() -> Figure:
    """Measure the check of a receipt with its whole chain: parsed, machine, model and release included."""
    machine = Machine()
    file = machine.file()
    data, expect = file.to_bytes(), expectation()
    request = BodyDigest(size=file.receipt.claims.request.size, sha256=file.receipt.claims.request.sha256)
    response = BodyDigest(size=file.receipt.claims.response.size, sha256=file.receipt.claims.response.sha256)

    def work() -> None:
        verify_receipt(parse_receipt_file(data), expect=expect, at=AT, request=request, response=response)

    milliseconds = median_seconds(work, rounds=21, times=20) * 1e3
    return Figure(
        id="receipt-verify-ms",
        value=milliseconds,
        bar=5.0,
        better="lower",
        detail=f"SNP report, policy, manifest of {len(machine.record.parts[0].files)} files, release with log proof, "
        f"{len(data)} bytes, warm: {milliseconds:.2f} ms",
    )
