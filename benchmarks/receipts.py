"""Receipts for answers: what one costs the machine beside its stream, and what a check of one takes."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PrivateKey

from attest.receipts import (
    BodyDigest,
    ReceiptMiddleware,
    parse_receipt_file,
    verify_receipt,
)
from benchmarks.measure import Figure, interleaved_ratio
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

    ratio, bare, seconds = interleaved_ratio(_signatures(), work, rounds=21, times=20)
    return Figure(
        id="receipt-verify-ms",
        value=seconds * 1e3,
        bar=5.0,
        better="lower",
        detail=f"SNP report, policy, manifest of {len(machine.record.parts[0].files)} files, release with log proof, "
        f"{len(data)} bytes, warm; its signatures alone take {bare * 1e3:.2f} ms, {ratio:.0%} of it",
    )


def _signatures() -> Callable[[], None]:
    """Return what verifies the signatures that a check rests on: of report and model, receipt, release and log."""
    message = bytes(1200)
    p384, ed25519, ml_dsa_65 = (
        ec.derive_private_key(1, ec.SECP384R1()),
        Ed25519PrivateKey.from_private_bytes(bytes(32)),
        MLDSA65PrivateKey.from_seed_bytes(bytes(32)),
    )
    hashed = ec.ECDSA(hashes.SHA384())
    ecdsa, eddsa, lattice = p384.sign(message, hashed), ed25519.sign(message), ml_dsa_65.sign(message)
    p384_key, ed25519_key, ml_dsa_65_key = p384.public_key(), ed25519.public_key(), ml_dsa_65.public_key()

    def work() -> None:
        for _ in range(2):
            p384_key.verify(ecdsa, message, hashed)
        for _ in range(3):
            ed25519_key.verify(eddsa, message)
        ml_dsa_65_key.verify(lattice, message)

    return work
