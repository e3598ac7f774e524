"""The benchmarks of receipts measure what they say. No time is judged."""

import asyncio
from typing import Any

from attest.receipts import ReceiptMiddleware, parse_receipt_file
from benchmarks.receipts import EVENTS, TOKEN, application
from tests.receipts.machine import REQUEST, Machine, checked


def test_the_measured_stream_has_a_mebibyte_and_a_receipt_that_holds() -> None:
    machine, sent = Machine(), bytearray()
    recorded = ReceiptMiddleware(application, machine.recorder(), chain=lambda: machine.chain)
    names: list[str] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": REQUEST}

    async def send(message: Any) -> None:  # noqa: ANN401  ASGI's own
        names.extend(value.decode() for name, value in message.get("headers", ()) if name == b"attest-receipt")
        sent.extend(message.get("body", b""))

    scope = {"type": "http", "path": "/v1", "query_string": b"", "headers": []}
    asyncio.run(recorded({**scope, "method": "POST"}, receive, send))
    answer = bytes(sent)
    assert 1 << 20 <= len(answer) == EVENTS * len(TOKEN) < (1 << 20) + len(TOKEN)
    sent.clear()
    asyncio.run(recorded({**scope, "method": "GET", "path": f"/receipts/{names[0]}"}, receive, send))
    assert checked(parse_receipt_file(bytes(sent)), response=answer).claims.response.complete
