"""The middleware: bodies pass unchanged, receipts are kept in bounds, and an aborted answer says so."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from attest.encoding import base64url_text
from attest.errors import BindingError, CollectionError
from attest.receipts import ReceiptChain, ReceiptFile, ReceiptMiddleware, ReceiptSigner, parse_receipt_file, record_of
from attest.receipts.asgi import MAX_PARAMETERS_BYTES
from tests.receipts.machine import CHALLENGE, REQUEST, Machine, checked
from tests.samples import AT

Message = dict[str, Any]
Application = Callable[[Any, Any, Any], Awaitable[None]]
EVENTS = tuple(f"data: {number}\n\n".encode() for number in range(5))


async def _stream(request: Request) -> Response:
    await request.body()
    return StreamingResponse(iter(EVENTS), media_type="text/event-stream")


async def _echo(request: Request) -> Response:
    return PlainTextResponse(await request.body(), status_code=201)


async def _fail(_request: Request) -> Response:
    msg = "the application broke"
    raise RuntimeError(msg)


INNER = Starlette(
    routes=[
        Route("/v1/stream", _stream, methods=["POST"]),
        Route("/v1/echo", _echo, methods=["POST", "GET"]),
        Route("/v1/fail", _fail, methods=["POST"]),
    ]
)


def wrapped(application: Application = INNER, **options: Any) -> ReceiptMiddleware:  # noqa: ANN401  the middleware's own
    machine = Machine()
    return ReceiptMiddleware(application, machine.recorder(), chain=lambda: machine.chain, **options)


def receipt_of(client: TestClient, answer: Any) -> ReceiptFile:  # noqa: ANN401  a response of httpx
    found = client.get(f"/receipts/{answer.headers['attest-receipt']}")
    assert found.headers["content-type"] == "application/vnd.attest.receipt-file+cbor"
    assert found.headers["cache-control"] == "no-store"
    return parse_receipt_file(found.content)


def test_a_streamed_answer_passes_unchanged_and_has_a_receipt() -> None:
    with TestClient(wrapped()) as client, TestClient(INNER) as plain:
        answer, without = (one.post("/v1/stream?a=1", content=REQUEST) for one in (client, plain))
        file = receipt_of(client, answer)
    assert answer.content == without.content == b"".join(EVENTS)
    assert {**answer.headers, "attest-receipt": ""} == {**without.headers, "attest-receipt": ""}
    claims = checked(file, request=REQUEST, response=answer.content).claims
    assert (claims.request.method, claims.request.target) == ("POST", "/v1/stream?a=1")
    assert claims.response.media_type.startswith("text/event-stream")
    assert claims.response.complete
    assert dict(claims.sampling)["seed"] == "42"


def test_the_status_and_the_challenge_are_in_the_receipt() -> None:
    with TestClient(wrapped()) as client:
        answer = client.post("/v1/echo", content=b"x", headers={"Attest-Challenge": base64url_text(CHALLENGE)})
        file = receipt_of(client, answer)
    claims = checked(file, request=b"x", response=b"x", challenge=CHALLENGE).claims
    assert claims.response.status == 201


@pytest.mark.parametrize("challenge", ["%%", "AA", ""])
def test_a_challenge_that_a_receipt_cannot_hold_gives_no_receipt(challenge: str) -> None:
    with TestClient(wrapped()) as client:
        answer = client.post("/v1/echo", content=b"x", headers={"Attest-Challenge": challenge})
    assert answer.content == b"x"
    assert "attest-receipt" not in answer.headers


def test_a_path_that_a_receipt_cannot_hold_gives_no_receipt() -> None:
    with TestClient(wrapped()) as client:
        answer = client.post("/v1/echo?" + "x" * 3000, content=b"x")
    assert answer.content == b"x"
    assert "attest-receipt" not in answer.headers


def test_only_the_named_methods_are_recorded() -> None:
    with TestClient(wrapped()) as client:
        assert "attest-receipt" not in client.get("/v1/echo").headers
    with TestClient(wrapped(methods=frozenset({"GET"}))) as client:
        assert "attest-receipt" in client.get("/v1/echo").headers
        assert "attest-receipt" not in client.post("/v1/echo").headers


def test_a_receipt_is_given_as_json_where_that_is_accepted() -> None:
    with TestClient(wrapped()) as client:
        answer = client.post("/v1/echo", content=b"x")
        path = f"/receipts/{answer.headers['attest-receipt']}"
        as_json = client.get(path, headers={"accept": "application/json"})
        assert as_json.headers["content-type"] == "application/json"
        assert parse_receipt_file(as_json.content).receipt == parse_receipt_file(client.get(path).content).receipt


def test_an_unknown_receipt_is_not_found() -> None:
    with TestClient(wrapped()) as client:
        answer = client.get(f"/receipts/{'00' * 16}")
    assert (answer.status_code, answer.json()["code"]) == (404, "receipt-unknown")


def test_a_machine_without_evidence_at_the_moment_answers_that() -> None:
    def unavailable() -> ReceiptChain:
        raise CollectionError("the device is busy", code="device-busy")

    with TestClient(ReceiptMiddleware(INNER, Machine().recorder(), chain=unavailable)) as client:
        answer = client.post("/v1/echo", content=b"x")
        found = client.get(f"/receipts/{answer.headers['attest-receipt']}")
    assert (found.status_code, found.json()["code"]) == (503, "evidence-unavailable")


def test_the_newest_receipts_are_kept_and_no_more() -> None:
    with TestClient(wrapped(kept=2)) as client:
        names = [client.post("/v1/echo").headers["attest-receipt"] for _ in range(3)]
        found = [client.get(f"/receipts/{name}").status_code for name in names]
    assert found == [404, 200, 200]


def test_an_exchange_with_an_exchanged_model_has_no_receipt() -> None:
    machine = Machine()
    changed = record_of(*machine.models, loader="another loader")
    application = ReceiptMiddleware(INNER, machine.recorder(current=lambda: changed), chain=lambda: machine.chain)
    with TestClient(application) as client:
        answer = client.post("/v1/echo", content=b"x")
    assert answer.content == b"x"
    assert "attest-receipt" not in answer.headers


def test_an_exchange_during_which_the_model_is_exchanged_has_no_receipt() -> None:
    machine = Machine()
    loaded = machine.record

    async def changes(_scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  ASGI's own
        nonlocal loaded
        await receive()
        await send(BEGIN)
        loaded = record_of(*machine.models, loader="another loader")
        await send({"type": "http.response.body", "body": b"x"})

    recorder = machine.recorder(current=lambda: loaded)
    application = ReceiptMiddleware(changes, recorder, chain=lambda: machine.chain)
    name = dict(through(application)[0]["headers"])[b"attest-receipt"].decode()
    assert through(application, method="GET", path=f"/receipts/{name}")[0]["status"] == 404


def test_an_application_that_fails_before_its_answer_has_no_receipt() -> None:
    application = wrapped()
    with TestClient(application, raise_server_exceptions=False) as client:
        answer = client.post("/v1/fail")
    assert answer.status_code == 500


# -- aborted answers, at the level of ASGI's messages


def scope(**changes: Any) -> Message:  # noqa: ANN401  members of a scope
    usual: Message = {
        "type": "http",
        "method": "POST",
        "path": "/v1",
        "raw_path": b"/v1",
        "query_string": b"",
        "headers": [],
    }
    return usual | changes


async def _through(application: ReceiptMiddleware, incoming: Iterable[Message], **changes: Any) -> list[Message]:  # noqa: ANN401
    sent: list[Message] = []
    waiting = iter(incoming)

    async def receive() -> Message:
        return next(waiting, {"type": "http.disconnect"})

    async def send(message: Any) -> None:  # noqa: ANN401  ASGI's own
        sent.append(dict(message))

    with suppress(RuntimeError, asyncio.CancelledError):
        await application(scope(**changes), receive, send)
    return sent


def through(application: ReceiptMiddleware, *incoming: Message, **changes: Any) -> list[Message]:  # noqa: ANN401
    return asyncio.run(_through(application, incoming or ({"type": "http.request", "body": b""},), **changes))


def kept(application: ReceiptMiddleware, sent: list[Message]) -> ReceiptFile:
    name = dict(sent[0]["headers"])[b"attest-receipt"].decode()
    found = through(application, method="GET", path=f"/receipts/{name}", raw_path=None)
    assert found[0]["status"] == 200
    return parse_receipt_file(found[1]["body"])


BEGIN: Message = {"type": "http.response.start", "status": 200, "headers": []}


@pytest.mark.parametrize(
    "end", [None, RuntimeError("broken"), asyncio.CancelledError()], ids=["stops", "fails", "ends"]
)
def test_an_answer_without_its_end_has_a_receipt_that_says_so(end: BaseException | None) -> None:
    async def half(_scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  ASGI's own
        await receive()
        await send(BEGIN)
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        if end is not None:
            raise end

    application = wrapped(half)
    file = kept(application, through(application))
    claims = checked(file, request=b"", response=b"half", allow_incomplete=True).claims
    assert not claims.response.complete


def test_a_client_that_is_gone_leaves_a_receipt_that_says_so() -> None:
    """The server's `send` fails with the last piece, so the answer has no end that anybody could have."""
    machine = Machine()

    async def whole(_scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  ASGI's own
        await receive()
        await send(BEGIN)
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        await send({"type": "http.response.body", "body": b"b"})

    application = ReceiptMiddleware(whole, machine.recorder(), chain=lambda: machine.chain)
    names: list[str] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:  # noqa: ANN401  ASGI's own
        names.extend(value.decode() for name, value in message.get("headers", ()) if name == b"attest-receipt")
        if message.get("body") == b"b":
            msg = "the client is gone"
            raise OSError(msg)

    async def run() -> None:
        with suppress(OSError):
            await application(scope(), receive, send)

    asyncio.run(run())
    found = through(application, method="GET", path=f"/receipts/{names[0]}")
    claims = parse_receipt_file(found[1]["body"]).receipt.claims
    assert (claims.response.complete, claims.response.size) == (False, 2)


def test_each_piece_is_passed_on_before_the_application_makes_the_next() -> None:
    sent: list[Message] = []
    seen: list[int] = []

    async def slow(_scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  ASGI's own
        await receive()
        await send(BEGIN)
        for event in EVENTS:
            await send({"type": "http.response.body", "body": event, "more_body": True})
            seen.append(sum(len(message.get("body", b"")) for message in sent))

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:  # noqa: ANN401  ASGI's own
        sent.append(dict(message))

    asyncio.run(wrapped(slow)(scope(), receive, send))
    assert seen == [len(b"".join(EVENTS[: at + 1])) for at in range(len(EVENTS))]


def test_a_disconnect_is_passed_on_and_adds_nothing_to_the_request() -> None:
    async def waits(_scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  ASGI's own
        await receive()
        await send(BEGIN)
        if (await receive())["type"] != "http.disconnect":
            await send({"type": "http.response.body", "body": b"more"})

    application = wrapped(waits)
    file = kept(application, through(application, {"type": "http.request", "body": b"x"}))
    claims = checked(file, request=b"x", response=b"", allow_incomplete=True).claims
    assert not claims.response.complete


def test_what_follows_the_end_of_an_answer_is_not_in_the_receipt() -> None:
    async def more(_scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  ASGI's own
        await receive()
        await send(BEGIN)
        await send({"type": "http.response.body", "body": b"all"})
        await send({"type": "http.response.body", "body": b"and more"})

    application = wrapped(more)
    file = kept(application, through(application))
    assert checked(file, request=b"", response=b"all").claims.response.complete


def test_a_request_in_pieces_is_hashed_as_a_whole_and_a_long_one_has_no_parameters() -> None:
    async def read(_scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  ASGI's own
        while (await receive()).get("more_body"):
            pass
        await send(BEGIN)
        await send({"type": "http.response.body"})

    application = wrapped(read)
    pieces = [REQUEST[at : at + 7] for at in range(0, len(REQUEST), 7)]
    messages: list[Message] = [{"type": "http.request", "body": one, "more_body": True} for one in pieces]
    file = kept(application, through(application, *messages, {"type": "http.request", "body": b"", "more_body": False}))
    assert dict(checked(file, response=b"").claims.sampling)["temperature"] == "0.7"
    long = REQUEST[:-1] + b" " * MAX_PARAMETERS_BYTES + b"}"
    halves: list[Message] = [
        {"type": "http.request", "body": long[:1000], "more_body": True},
        {"type": "http.request", "body": long[1000:-5], "more_body": True},
        {"type": "http.request", "body": long[-5:], "more_body": False},
    ]
    file = kept(application, through(application, *halves))
    claims = checked(file, request=long, response=b"").claims
    assert claims.sampling == ()
    assert claims.request.sha256 == sha256(long).digest()


def test_bytes_that_the_middleware_would_not_see_are_not_offered() -> None:
    seen: list[Message] = []

    async def look(inner: Any, _receive: Any, _send: Any) -> None:  # noqa: ANN401  ASGI's own
        seen.append(inner["extensions"])

    extensions: Message = {"http.response.pathsend": {}, "http.response.zerocopysend": {}, "http.response.trailers": {}}
    through(wrapped(look), extensions=extensions)
    assert seen == [{"http.response.trailers": {}}]


# -- what an application, a client or a server does to make a receipt say something else


async def _answers(_scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  ASGI's own
    await receive()
    await send(BEGIN)
    await send({"type": "http.response.body"})


def test_the_application_names_no_receipt_of_its_own() -> None:
    other = "00" * 16

    async def names(_scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  ASGI's own
        await receive()
        await send(BEGIN | {"headers": [(b"Attest-Receipt", other.encode()), (b"x-other", b"1")]})
        await send({"type": "http.response.body"})

    sent = through(wrapped(names))
    fields = [name.lower() for name, _ in sent[0]["headers"]]
    assert fields == [b"x-other", b"attest-receipt"]
    assert sent[0]["headers"][-1][1] != other.encode()


@pytest.mark.parametrize("form", ["twice", "comma"])
def test_two_challenges_give_no_receipt(form: str) -> None:
    one, two = base64url_text(CHALLENGE).encode(), base64url_text(bytes(16)).encode()
    values = (one, two) if form == "twice" else (one + b", " + two,)
    sent = through(wrapped(_answers), headers=[(b"attest-challenge", value) for value in values])
    assert sent[0]["headers"] == []


def test_two_media_types_are_both_in_the_receipt() -> None:
    application = wrapped(_answers)
    fields = [(b"content-type", b"application/json"), (b"Content-Type", b"text/plain")]
    claims = kept(application, through(application, headers=fields)).receipt.claims
    assert claims.request.media_type == "application/json, text/plain"


def test_a_server_without_raw_paths_gives_the_target_with_its_escapes() -> None:
    application = wrapped(_answers)
    sent = through(application, raw_path=None, path="/v1/a b?c/\u00e9", query_string=b"d=%20")
    assert kept(application, sent).receipt.claims.request.target == "/v1/a%20b%3Fc/%C3%A9?d=%20"


def test_an_answer_that_goes_on_after_its_client_left_is_not_complete() -> None:
    """Servers drop what they cannot send any more, without an error."""

    async def goes_on(_scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  ASGI's own
        await receive()
        await send(BEGIN)
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        assert (await receive())["type"] == "http.disconnect"
        await send({"type": "http.response.body", "body": b"b"})

    application = wrapped(goes_on)
    assert not kept(application, through(application)).receipt.claims.response.complete


def test_a_client_that_leaves_after_its_answer_got_all_of_it() -> None:
    async def looks(_scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  ASGI's own
        await receive()
        await send(BEGIN)
        await send({"type": "http.response.body", "body": b"all"})
        assert (await receive())["type"] == "http.disconnect"

    application = wrapped(looks)
    assert kept(application, through(application)).receipt.claims.response.complete


def test_a_body_that_the_application_did_not_read_is_not_in_the_receipt() -> None:
    async def blind(_scope: Any, _receive: Any, send: Any) -> None:  # noqa: ANN401  ASGI's own
        await send(BEGIN)
        await send({"type": "http.response.body", "body": b"no"})

    application = wrapped(blind)
    file = kept(application, through(application, {"type": "http.request", "body": REQUEST}))
    assert file.receipt.claims.request.size == 0
    with pytest.raises(BindingError) as refusal:
        checked(file, request=REQUEST, response=b"no")
    assert refusal.value.code == "receipt-request-mismatch"


def test_a_receipt_is_there_at_the_end_of_the_answer_although_the_application_works_on() -> None:
    found: list[Message] = []

    async def works_on(_scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  ASGI's own
        await receive()
        await send(BEGIN)
        await send({"type": "http.response.body", "body": b"all"})
        found.extend(await _through(application, (), method="GET", path=f"/receipts/{'00' * 16}"))
        msg = "a task after the answer broke"
        raise RuntimeError(msg)

    machine = Machine()
    application = ReceiptMiddleware(works_on, machine.recorder(random=bytes), chain=lambda: machine.chain)
    sent = through(application)
    assert parse_receipt_file(found[1]["body"]).receipt.claims.response.complete
    assert kept(application, sent).to_bytes() == found[1]["body"]


def test_the_reason_of_a_missing_receipt_is_reported() -> None:
    machine, reasons = Machine(), list[Exception]()
    application = ReceiptMiddleware(_answers, machine.recorder(), chain=lambda: machine.chain, missing=reasons.append)
    through(application)
    assert reasons == []
    through(application, headers=[(b"attest-challenge", b"x")])
    machine.now += timedelta(days=8)
    through(application)
    assert [getattr(one, "code", None) for one in reasons] == ["base64-invalid", "receipt-time-invalid"]


def test_new_keys_sign_what_begins_after_them_and_earlier_receipts_keep_their_chain() -> None:
    first, second = Machine(), Machine(seed="second")

    async def renews(_scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  ASGI's own
        await receive()
        application.renew(second.recorder(), chain=lambda: second.chain)
        await send(BEGIN)
        await send({"type": "http.response.body"})

    application = ReceiptMiddleware(renews, first.recorder(), chain=lambda: first.chain)
    files = [kept(application, sent) for sent in (through(application), through(application))]
    for file, machine in zip(files, (first, second), strict=True):
        verified = checked(file, request=b"", response=b"")
        assert verified.statement == machine.signer.statement
        assert verified.claims.sequence == 0


def test_a_forked_server_fails_instead_of_answers_without_receipts() -> None:
    machine = Machine()
    process = 1
    machine.signer = ReceiptSigner.born((machine.record,), random=machine.random, process=lambda: process, at=AT)
    application = ReceiptMiddleware(INNER, machine.recorder(), chain=lambda: machine.chain)
    with TestClient(application) as client:
        assert client.post("/v1/echo", content=b"x").status_code == 201
        process = 2
        with pytest.raises(RuntimeError, match="fork"):
            client.post("/v1/echo", content=b"x")


def test_a_large_request_is_not_kept_in_memory() -> None:
    body = bytes(32 * 1024 * 1024)
    application = wrapped(_answers)
    tracemalloc.start()
    try:
        sent = through(application, {"type": "http.request", "body": body})
        assert tracemalloc.get_traced_memory()[1] < 4 * 1024 * 1024
    finally:
        tracemalloc.stop()
    assert kept(application, sent).receipt.claims.request.size == len(body)


def test_receipts_are_served_below_the_root_path_of_the_server() -> None:
    application = wrapped(_answers)
    name = dict(through(application)[0]["headers"])[b"attest-receipt"].decode()
    found = through(application, method="GET", path=f"/prefix/receipts/{name}", root_path="/prefix")
    assert parse_receipt_file(found[1]["body"]).receipt.claims.receipt_id.hex() == name


def test_the_head_of_a_receipt_is_served_without_its_body() -> None:
    with TestClient(wrapped()) as client:
        path = f"/receipts/{client.post('/v1/echo', content=b'x').headers['attest-receipt']}"
        whole, head = client.get(path), client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers == whole.headers


def test_other_paths_below_receipts_belong_to_the_application() -> None:
    async def look(inner: Any, _receive: Any, send: Any) -> None:  # noqa: ANN401  ASGI's own
        seen.append(inner["path"])
        await send(BEGIN)

    seen: list[str] = []
    paths = ["/receipts/", "/receipts/of-sales", f"/receipts/{'00' * 16}/x", f"/receipts/{'AA' * 16}"]
    for path in paths:
        through(wrapped(look), method="GET", path=path)
    assert seen == paths


def test_what_makes_no_receipt_does_not_replace_one_of_another_client() -> None:
    application = wrapped(_answers, kept=1)
    sent = through(application)
    through(application, headers=[(b"attest-challenge", b"x")])
    through(application, method="GET")
    assert kept(application, sent).receipt.claims.sequence == 0


@pytest.mark.parametrize("kind", ["lifespan", "websocket"])
def test_other_connections_are_passed_on(kind: str) -> None:
    seen: list[str] = []

    async def look(inner: Any, _receive: Any, _send: Any) -> None:  # noqa: ANN401  ASGI's own
        seen.append(inner["type"])

    through(wrapped(look), type=kind)
    assert seen == [kind]
