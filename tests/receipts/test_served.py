"""The middleware behind a real server: a client that leaves in the middle of a stream."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from attest.receipts import ReceiptMiddleware, parse_receipt_file
from tests.channel.test_served import serving
from tests.receipts.machine import REQUEST, Machine, checked

EVENT = b"data: word\n\n"


async def _endless() -> AsyncIterator[bytes]:
    while True:
        yield EVENT
        await asyncio.sleep(0.01)


async def _stream(_request: Request) -> Response:
    return StreamingResponse(_endless(), media_type="text/event-stream")


async def _short(request: Request) -> Response:
    document = json.loads(await request.body())
    events = (EVENT for _ in range(len(document["messages"])))
    return StreamingResponse(events, media_type="text/event-stream")


@pytest.mark.loopback
def test_a_client_that_leaves_gets_a_receipt_that_says_where_the_answer_was_cut() -> None:
    machine = Machine()
    inner = Starlette(routes=[Route("/endless", _stream, methods=["POST"]), Route("/short", _short, methods=["POST"])])
    with serving(ReceiptMiddleware(inner, machine.recorder(), chain=lambda: machine.chain)) as port:
        url = f"http://127.0.0.1:{port}"
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"POST /endless HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
            head = b""
            while b"data:" not in head:
                head += connection.recv(4096)
        name = next(line.split(b": ")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"attest-receipt"))
        deadline = time.monotonic() + 30
        while (found := httpx.get(f"{url}/receipts/{name.decode()}")).status_code == 404:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        claims = parse_receipt_file(found.content).receipt.claims
        assert not claims.response.complete
        assert claims.response.size >= len(EVENT)
        # The next client gets a whole answer, with the next number.
        answer = httpx.post(f"{url}/short", content=REQUEST)
        whole = httpx.get(f"{url}/receipts/{answer.headers['attest-receipt']}")
    verified = checked(parse_receipt_file(whole.content), response=answer.content)
    assert verified.claims.response.complete
    assert verified.claims.sequence == claims.sequence + 1
