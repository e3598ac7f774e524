"""The gateway's adapter, spoken to as a server speaks to it: strange applications, connections that end, limits."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from attest.channel import MessageForm, MessageLimits, Response
from attest.channel.asgi import GATEWAY_PATH, MAX_REFUSED_BYTES, MAX_WAITING_BYTES, ChannelGateway
from attest.channel.client import RequestSealer
from attest.channel.fields import refusal_code
from tests.channel.support import ASK, Service, opened, opener_of, sealed
from tests.samples import AT

Message = Any  # of ASGI
Application = Callable[[Message, Message, Message], Awaitable[None]]
START = {"type": "http.response.start", "status": 200, "headers": [(b"X-Name", b" value ")]}


def body_of(data: bytes, *, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def answering(scope: Message, receive: Message, send: Message) -> None:
    await send(START)
    await send(body_of(b"hello"))


def run(
    application: Application,
    *messages: Message,
    service: Service | None = None,
    tick: float = 60,
    scope: Message = None,
) -> list[Message]:
    """Give the gateway these messages, and return what it sends."""
    gateway = ChannelGateway(application, (service or SERVICE).gateway, clock=lambda: AT, tick_seconds=tick)
    given, sent = list(messages), []

    async def receive() -> Message:
        return given.pop(0) if given else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    usual = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "method": "POST",
        "path": GATEWAY_PATH,
        "query_string": b"",
        "headers": [(b"Content-Type", MessageForm.CHUNKED.request_type.encode())],
    }
    asyncio.run(gateway(usual | (scope or {}), receive, send))
    return sent


def request_of(body: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def asked(application: Application, request: object = ASK, **options: Any) -> tuple[RequestSealer, list[Message]]:  # noqa: ANN401
    body, sealer = sealed((options.get("service") or SERVICE).record(), request)  # type: ignore[arg-type]
    half = len(body) // 2
    return sealer, run(application, request_of(body[:half], more=True), request_of(body[half:]), **options)


def whole(sealer: RequestSealer, sent: list[Message]) -> Response:
    return opened(opener_of(sealer), [message["body"] for message in sent if "body" in message])


SERVICE = Service()


def test_an_answer_is_sealed_and_names_are_written_in_lower_case() -> None:
    sealer, sent = asked(answering)
    assert whole(sealer, sent) == Response(status=200, fields=((b"x-name", b"value"),), content=b"hello")
    assert dict(sent[0]["headers"])[b"cache-control"] == b"no-store"


def test_an_application_hears_of_its_server_and_of_the_end_of_the_connection() -> None:
    heard: list[Message] = []

    async def listening(scope: Message, receive: Message, send: Message) -> None:
        heard.extend((scope, await receive(), await receive()))
        await answering(scope, receive, send)

    asked(listening, scope={"state": {"db": 1}, "client": ("192.0.2.1", 5), "root_path": "/outside"})
    scope, request, end = heard
    assert scope["state"] == {"db": 1}
    assert (scope["client"], scope["root_path"], scope["scheme"]) == (None, "", "https")
    assert (scope["path"], scope["raw_path"], scope["query_string"]) == ("/v1/ask", b"/v1/ask", b"k=5")
    assert request == request_of(ASK.content)
    assert end == {"type": "http.disconnect"}


def test_lines_of_cookies_are_joined_and_others_stay_apart() -> None:
    heard: list[tuple[bytes, bytes]] = []

    async def listening(scope: Message, receive: Message, send: Message) -> None:
        heard.extend(scope["headers"])
        await answering(scope, receive, send)

    fields = ((b"cookie", b"a=1"), (b"x", b"1"), (b"cookie", b"b=2"), (b"x", b"2"))
    asked(listening, replace(ASK, fields=fields))
    assert [value for name, value in heard if name == b"cookie"] == [b"a=1; b=2"]
    assert [value for name, value in heard if name == b"x"] == [b"1", b"2"]
    assert heard[0] == (b"host", b"rag.example")


def test_a_connection_that_ends_before_its_request_reaches_nothing() -> None:
    async def never(scope: Message, receive: Message, send: Message) -> None:
        raise AssertionError

    body, _ = sealed(SERVICE.record())
    assert run(never, request_of(body, more=True)) == []


def test_a_path_that_is_none_is_refused_inside() -> None:
    sealer, sent = asked(answering, replace(ASK, path="*"))
    assert refusal_code(whole(sealer, sent).fields) == "request-malformed"


@pytest.mark.parametrize("path", ["/..%2fadmin", "//x", "/a?b?c", "/%00"])
def test_a_strange_path_is_the_applications_to_judge(path: str) -> None:
    seen: list[tuple[bytes, bytes]] = []

    async def looking(scope: Message, receive: Message, send: Message) -> None:
        seen.append((scope["raw_path"], scope["query_string"]))
        await answering(scope, receive, send)

    asked(looking, replace(ASK, path=path))
    raw, _, query = path.encode().partition(b"?")
    assert seen == [(raw, query)]


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [START],
        [body_of(b"x")],
        [{"type": "http.response.start", "status": 99, "headers": []}],
        [{"type": "http.response.start", "status": 200, "headers": [(b"a b", b"x")]}],
    ],
)
def test_an_application_without_a_proper_answer_is_told_as_failed(messages: list[Message]) -> None:
    async def failing(scope: Message, receive: Message, send: Message) -> None:
        for message in messages:
            await send(message)

    sent: list[Message] = []
    body, sealer = sealed(SERVICE.record())
    gateway = ChannelGateway(failing, SERVICE.gateway, clock=lambda: AT)

    async def receive() -> Message:
        return request_of(body)

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "asgi": {}, "method": "POST", "path": GATEWAY_PATH, "query_string": b""}
    scope["headers"] = [(b"content-type", MessageForm.CHUNKED.request_type.encode())]
    with pytest.raises(RuntimeError, match="application behind the channel failed: ChannelError"):
        asyncio.run(gateway(scope, receive, send))
    answer = whole(sealer, sent)
    assert (answer.status, refusal_code(answer.fields)) == (502, "service-failed")


def test_what_an_application_raises_is_not_repeated() -> None:
    async def failing(scope: Message, receive: Message, send: Message) -> None:
        raise ValueError(ASK.content)

    with pytest.raises(RuntimeError) as raised:
        asked(failing)
    assert "contract" not in str(raised.value)
    assert raised.value.__suppress_context__


def test_an_application_that_goes_on_behind_its_end_is_told_off() -> None:
    async def chatty(scope: Message, receive: Message, send: Message) -> None:
        await answering(scope, receive, send)
        await send(body_of(b"more"))

    with pytest.raises(RuntimeError, match="failed"):
        asked(chatty)


def test_messages_of_other_kinds_are_passed_over() -> None:
    async def modern(scope: Message, receive: Message, send: Message) -> None:
        await send({"type": "http.response.debug"})
        await answering(scope, receive, send)

    sealer, sent = asked(modern)
    assert whole(sealer, sent).content == b"hello"


def test_what_an_application_sends_by_and_by_waits_for_the_clock_or_until_it_is_much() -> None:
    async def much(scope: Message, receive: Message, send: Message) -> None:
        await send(START)
        for _ in range(9):
            await send(body_of(bytes(MAX_WAITING_BYTES // 4), more=True))
        await send(body_of(b"", more=True))
        await send(body_of(b"the end"))

    sealer, sent = asked(much)
    assert 3 <= len(sent) <= 6
    assert dict(sent[0]["headers"])[b"incremental"] == b"?1"
    answer = whole(sealer, sent)
    assert answer.content == bytes(9 * MAX_WAITING_BYTES // 4) + b"the end"


def test_an_event_stream_is_sent_on_when_the_clock_ticks() -> None:
    ticked = asyncio.Event()

    async def slow(scope: Message, receive: Message, send: Message) -> None:
        await send({**START, "headers": [(b"content-type", b"text/event-stream; charset=utf-8")]})
        await send(body_of(b"data: 1\n\n", more=True))
        await ticked.wait()
        await send(body_of(b"data: 2", more=True))
        await send(body_of(b"\n\n"))

    SENT.clear()
    body, sealer = sealed(SERVICE.record())
    gateway = ChannelGateway(slow, SERVICE.gateway, clock=lambda: AT, tick_seconds=0.001)

    async def receive() -> Message:
        return request_of(body)

    async def send(message: Message) -> None:
        SENT.append(message)
        if "body" in message:
            ticked.set()

    scope = {"type": "http", "asgi": {}, "method": "POST", "path": GATEWAY_PATH, "query_string": b""}
    scope["headers"] = [(b"content-type", MessageForm.CHUNKED.request_type.encode())]
    asyncio.run(gateway(scope, receive, send))
    text = whole(sealer, SENT).content.decode()
    assert [line for line in text.splitlines() if line.startswith("data")] == ["data: 1", "data: 2"]
    assert ":   " in text


SENT: list[Message] = []


def test_a_stream_is_collected_for_who_takes_single_messages() -> None:
    async def streaming(scope: Message, receive: Message, send: Message) -> None:
        await send(START)
        await send(body_of(b"one ", more=True))
        await send(body_of(b"two"))

    body, sealer = sealed(SERVICE.record(), form=MessageForm.SINGLE)
    headers = [(b"content-type", MessageForm.SINGLE.request_type.encode())]
    sent = run(streaming, request_of(body), scope={"headers": headers})
    assert opened(opener_of(sealer, MessageForm.SINGLE), sent[1]["body"]).content == b"one two"


def test_a_refused_request_is_read_to_its_end_but_not_for_ever() -> None:
    service = Service(options={"limits": MessageLimits(content=10)})
    body, sealer = sealed(service.record(), replace(ASK, content=bytes(100_000)))
    endless = [request_of(bytes(1 << 20), more=True) for _ in range(MAX_REFUSED_BYTES // (1 << 20) + 10)]
    sent = run(answering, request_of(body, more=True), *endless, service=service)
    assert refusal_code(whole(sealer, sent).fields) == "body-too-large"


def test_requests_that_never_end_make_room_for_those_that_do() -> None:
    """The bytes of all of them together have a bound; the one that has been arriving for longest is answered 503."""

    async def scenario() -> None:
        gateway = ChannelGateway(answering, SERVICE.gateway, clock=lambda: AT, bodies_bytes=100_000)
        headers = [(b"content-type", MessageForm.SINGLE.request_type.encode())]
        scope = {
            "type": "http",
            "asgi": {},
            "method": "POST",
            "path": GATEWAY_PATH,
            "query_string": b"",
            "headers": headers,
        }
        sent: list[list[Message]] = []

        def ask(*pieces: Message) -> asyncio.Task[None]:
            given, answer = list(pieces), list[Message]()
            sent.append(answer)

            async def receive() -> Message:
                return given.pop(0) if given else await asyncio.Future()

            async def send(message: Message) -> None:
                answer.append(message)

            return asyncio.create_task(gateway(scope, receive, send))

        held = [ask(request_of(os.urandom(40_000), more=True)) for _ in range(4)]
        await asyncio.wait(held[:2])
        assert [answer[0]["status"] if answer else None for answer in sent] == [503, 503, None, None]
        assert (b"retry-after", b"1") in sent[0][0]["headers"]
        body, sealer = sealed(SERVICE.record(), form=MessageForm.SINGLE)
        await ask(request_of(body))
        assert opened(opener_of(sealer, MessageForm.SINGLE), sent[-1][1]["body"]).content == b"hello"
        for one in held:
            one.cancel()

    asyncio.run(scenario())


def test_what_is_no_http_is_closed_or_passed_on() -> None:
    assert run(answering, scope={"type": "websocket"}) == [{"type": "websocket.close"}]
    heard: list[str] = []

    async def living(scope: Message, receive: Message, send: Message) -> None:
        heard.append(scope["type"])

    run(living, scope={"type": "lifespan"})
    assert heard == ["lifespan"]
