"""A gateway in front of an application on a real server, and httpx through the channel: uploads, streams, failures."""

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request as WebRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from attest.channel import (
    AttestedTrust,
    ChannelKey,
    HeldTrust,
    KeyDocument,
    KeyOffer,
    MessageForm,
    parse_key_document,
)
from attest.channel.asgi import GATEWAY_PATH, MAX_OFFERS, OFFER_PATH, ChannelGateway
from attest.channel.keys import OVERLAP
from attest.channel.server import WINDOW
from attest.channel.transport import MAX_OFFER_BYTES, AsyncChannelTransport, ChannelTransport
from attest.encoding import base64url_text
from attest.errors import (
    AttestError,
    ChannelError,
    ChannelRefusedError,
    ChannelTamperError,
    CollectionError,
    VerificationError,
)
from tests.channel.support import AUTHORITY, SECOND, Service, expectation, offer_of
from tests.samples import AT, NONCE

pytestmark = pytest.mark.loopback
SECRET = b"the contract ends in March"
BASE = f"https://{AUTHORITY}"
Message = Any  # of ASGI


@dataclass
class Clock:
    at: datetime = AT

    def __call__(self) -> datetime:
        return self.at


async def _ask(request: WebRequest) -> Response:
    return JSONResponse({"asked": (await request.body()).decode(), "k": request.query_params["k"]}, status_code=201)


async def _upload(request: WebRequest) -> Response:
    return PlainTextResponse(str(len(await request.body())))


async def _count(request: WebRequest) -> Response:
    async def words() -> AsyncIterator[bytes]:
        for number in range(int(request.query_params["n"])):
            yield b"data: " + SECRET + b" %d\n\n" % number
            await asyncio.sleep(0)

    return StreamingResponse(words(), media_type="text/event-stream")


READ = threading.Event()


async def _wait(request: WebRequest) -> Response:
    async def words() -> AsyncIterator[bytes]:
        yield SECRET * 100
        await asyncio.to_thread(READ.wait, 30)
        yield b"the end"

    return StreamingResponse(words())


async def _break(request: WebRequest) -> Response:
    async def words() -> AsyncIterator[bytes]:
        yield SECRET * 1000
        await asyncio.sleep(0.05)
        raise ValueError(SECRET)

    if "early" in request.query_params:
        raise ValueError(SECRET)
    return StreamingResponse(words())


async def _who(request: WebRequest) -> Response:
    return JSONResponse({"host": request.headers["host"], "client": request.client, "seen": dict(request.headers)})


ROUTES = [
    Route("/v1/ask", _ask, methods=["POST"]),
    Route("/v1/upload", _upload, methods=["PUT"]),
    Route("/v1/count", _count),
    Route("/v1/break", _break),
    Route("/v1/who", _who),
    Route("/v1/wait", _wait),
]


@dataclass
class Wire:
    """An ASGI application that keeps all bytes that pass through it, and can alter them."""

    inner: Callable[[Message, Message, Message], Awaitable[None]]
    seen: bytearray = field(default_factory=bytearray)
    alter: Callable[[bytes], bytes] = bytes

    async def __call__(self, scope: Message, receive: Message, send: Message) -> None:
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        self.seen += repr(scope["headers"]).encode() + scope["path"].encode() + scope["query_string"]

        async def reading() -> Message:
            message = await receive()
            self.seen += message.get("body", b"")
            return message

        async def writing(message: Message) -> None:
            body = message.get("body", b"")
            self.seen += body + repr(message.get("headers", "")).encode()
            if message["type"] == "http.response.body":
                message = {**message, "body": self.alter(body)}
            await send(message)

        await self.inner(scope, reading, writing)


@dataclass
class Site:
    """A service on a loopback port."""

    service: Service
    wire: Wire
    gateway: ChannelGateway
    clock: Clock
    port: int = 0
    offers: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def trust(self) -> AttestedTrust:
        return AttestedTrust(expectation(), random=os.urandom)

    def client(self, trust: AttestedTrust | HeldTrust | None = None, **options: Any) -> httpx.Client:  # noqa: ANN401
        clock = options.pop("clock", self.clock)
        transport = ChannelTransport(self.url, trust or self.trust(), clock=clock, **options)
        return httpx.Client(transport=transport, base_url=BASE, trust_env=False)


@contextmanager
def serving(application: Callable[..., Awaitable[None]]) -> Iterator[int]:
    """Serve on a free port in a thread of its own."""
    config = uvicorn.Config(application, host="127.0.0.1", port=0, log_level="critical", lifespan="on", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def site_of(*, tick: float = 0.01) -> Site:
    clock, service = Clock(), Service()

    def offer(document: KeyDocument, nonce: bytes) -> KeyOffer:
        site.offers += 1
        return offer_of(document, nonce)

    gateway = ChannelGateway(Starlette(routes=ROUTES), service.gateway, clock=clock, offer=offer, tick_seconds=tick)
    site = Site(service=service, wire=Wire(gateway), gateway=gateway, clock=clock)
    return site


@pytest.fixture(scope="module")
def shared() -> Iterator[Site]:
    """One site that no test changes."""
    site = site_of()
    with serving(site.wire) as site.port:
        yield site


@pytest.fixture
def own() -> Iterator[Site]:
    """A site of the test's own."""
    site = site_of()
    with serving(site.wire) as site.port:
        yield site


@pytest.mark.parametrize("form", list(MessageForm))
def test_a_question_is_answered_and_nobody_on_the_way_reads_it(shared: Site, form: MessageForm) -> None:
    with shared.client(form=form) as client:
        answer = client.post("/v1/ask", params={"k": "5"}, content=SECRET)
        assert (answer.status_code, answer.json()) == (201, {"asked": SECRET.decode(), "k": "5"})
        assert client.post("/v1/ask", params={"k": "6"}, content=SECRET).json()["k"] == "6"
        missing = client.get("/v1/nothing")
        assert missing.status_code == 404
    for word in (
        SECRET,
        b"/v1/ask",
        AUTHORITY.encode(),
        b"nothing",
        base64url_text(SECRET)[:30].encode(),
        SECRET.hex().encode(),
    ):
        assert word not in shared.wire.seen


def test_one_proof_is_enough_for_many_requests_until_it_ends(own: Site) -> None:
    trust = own.trust()
    with own.client(trust) as client:
        for _ in range(3):
            client.get("/v1/who")
        assert own.offers == 1
        assert trust.record is not None
        own.clock.at = trust.record.expires
        client.get("/v1/who")
    assert own.offers == 2


def test_the_application_hears_what_was_inside_and_nothing_of_who_sent_it_on(shared: Site) -> None:
    with shared.client() as client:
        heard = client.get("/v1/who", headers={"x-mine": "yes", "accept-encoding": "gzip"}).json()
    assert heard["host"] == AUTHORITY
    assert heard["client"] is None
    assert heard["seen"]["x-mine"] == "yes"
    assert "accept-encoding" not in heard["seen"]
    assert {"date", "attest-evidence"} <= heard["seen"].keys()


def test_an_upload_is_sealed_as_it_is_read(shared: Site) -> None:
    pieces = [os.urandom(70_000) for _ in range(10)]
    with shared.client() as client:
        assert client.put("/v1/upload", content=iter(pieces)).text == "700000"
        assert client.put("/v1/upload", content=b"".join(pieces)).text == "700000"
    assert pieces[3][:50] not in shared.wire.seen


def test_an_event_stream_arrives_with_its_filler_passed_over(own: Site) -> None:
    with own.client() as client, client.stream("GET", "/v1/count", params={"n": "500"}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in answer.iter_lines() if line.startswith("data")]
    assert lines == [f"data: {SECRET.decode()} {number}" for number in range(500)]
    assert SECRET not in own.wire.seen


def test_asynchronous_clients_do_the_same(shared: Site) -> None:
    async def upload() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield bytes(10_000)

    async def all_of_it() -> None:
        transport = AsyncChannelTransport(shared.url, shared.trust(), clock=shared.clock)
        async with httpx.AsyncClient(transport=transport, base_url=BASE, trust_env=False) as client:
            assert (await client.post("/v1/ask", params={"k": "1"}, content=SECRET)).json()["asked"] == SECRET.decode()
            assert (await client.put("/v1/upload", content=upload())).text == "50000"
            async with client.stream("GET", "/v1/count", params={"n": "20"}) as answer:
                text = b"".join([piece async for piece in answer.aiter_bytes()])
            assert text.count(SECRET) == 20
            with pytest.raises(TypeError, match="ChannelTransport"):
                await transport.handle_async_request(httpx.Request("PUT", BASE, content=iter([b"x"])))

    asyncio.run(all_of_it())
    blocking = ChannelTransport(shared.url, shared.trust(), clock=shared.clock)
    with pytest.raises(TypeError, match="AsyncChannelTransport"):
        blocking.handle_request(httpx.Request("PUT", BASE, content=upload()))
    blocking.close()


def test_text_is_read_before_the_answer_is_over(shared: Site) -> None:
    with shared.client() as client, client.stream("GET", "/v1/wait") as answer:
        parts = answer.iter_bytes()
        assert SECRET in next(parts)
        READ.set()
        assert b"".join(parts).endswith(b"the end")


# -- failures of the application


def test_an_application_that_fails_before_its_answer_is_told_inside(shared: Site) -> None:
    with shared.client() as client:
        answer = client.get("/v1/break", params={"early": "1"})
    assert answer.status_code in {500, 502}
    assert SECRET.decode() not in answer.text


def test_an_answer_that_breaks_off_is_never_taken_for_whole(shared: Site) -> None:
    with shared.client() as client, client.stream("GET", "/v1/break") as answer:
        parts = answer.iter_bytes()
        first = next(parts)
        assert SECRET in first
        with pytest.raises(ChannelTamperError) as refused:
            list(parts)
    assert refused.value.code == "channel-truncated"


def test_an_asynchronous_answer_that_breaks_off_is_never_taken_for_whole(shared: Site) -> None:
    async def read() -> None:
        transport = AsyncChannelTransport(shared.url, shared.trust(), clock=shared.clock)
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            await client.get("/v1/break")

    with pytest.raises(ChannelTamperError) as refused:
        asyncio.run(read())
    assert refused.value.code == "channel-truncated"


# -- somebody in between


def test_a_relay_that_alters_an_answer_is_noticed(own: Site) -> None:
    with own.client() as client:
        client.get("/v1/who")
        own.wire.alter = lambda body: body[:-1] + bytes((body[-1] ^ 1,)) if body else body
        with pytest.raises(ChannelTamperError):
            client.get("/v1/who")


def test_a_relay_that_answers_itself_is_not_believed(own: Site) -> None:
    async def forged(scope: Message, receive: Message, send: Message) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
        await send({"type": "http.response.body", "body": b"trust me"})

    with own.client() as client:
        client.get("/v1/who")
        own.wire.inner = forged
        with pytest.raises(ChannelRefusedError) as refused:
            client.get("/v1/who")
        assert "trust me" not in str(refused.value)
        own.clock.at += timedelta(minutes=10)
        with pytest.raises(AttestError):
            client.get("/v1/who")


def test_a_relay_with_keys_of_its_own_is_sent_nothing(own: Site) -> None:
    mine = ChannelKey.born(random=os.urandom, at=AT)

    def offer(document: KeyDocument, nonce: bytes) -> KeyOffer:
        return replace(offer_of(document, nonce), keys=mine.document.to_bytes())

    own.wire.inner = ChannelGateway(Starlette(), own.service.gateway, clock=own.clock, offer=offer)
    with own.client() as client, pytest.raises(VerificationError) as refused:
        client.post("/v1/ask", content=SECRET)
    assert refused.value.code == "channel-keys-mismatch"
    assert b"message/ohttp" not in own.wire.seen


def test_a_recorded_request_is_not_answered_again(own: Site) -> None:
    recorded: list[bytes] = []
    inner = own.wire.inner

    async def recording(scope: Message, receive: Message, send: Message) -> None:
        async def reading() -> Message:
            message = await receive()
            recorded.append(message.get("body", b""))
            return message

        await inner(scope, reading, send)

    with own.client() as client:
        client.get("/v1/who")
        own.wire.inner = recording
        client.get("/v1/who")
    own.wire.inner = inner
    headers = {"content-type": MessageForm.CHUNKED.request_type}
    again = httpx.post(own.url + GATEWAY_PATH, content=b"".join(recorded), headers=headers, trust_env=False)
    assert again.status_code == 200
    assert len(again.content) < 1200  # a refusal, and nothing of the answer
    assert again.headers["content-type"] == MessageForm.CHUNKED.answer_type


# -- clocks, keys, evidence


@pytest.mark.parametrize("off", [-WINDOW - SECOND, WINDOW + SECOND])
def test_a_client_whose_clock_is_off_asks_once_more_with_the_services_date(own: Site, off: timedelta) -> None:
    record = own.service.record(at=AT + off)
    trust = HeldTrust(replace(record, expires=AT + timedelta(days=1)))
    late = HeldTrust(replace(own.service.record(), expires=AT + timedelta(days=1)))
    with own.client(trust if off < timedelta(0) else late, clock=Clock(AT + off)) as client:
        assert client.get("/v1/who").status_code == 200
        upload = client.put("/v1/upload", content=iter([b"x"]))
        assert upload.status_code == 400  # an iterator cannot be read twice
        assert upload.json()["code"] == "date-refused"


def test_the_services_date_is_no_reason_to_go_on_with_a_record_that_ended(own: Site) -> None:
    late = Clock(AT + WINDOW + SECOND)
    trust = HeldTrust(replace(own.service.record(), expires=late.at))
    with own.client(trust, clock=late) as client, pytest.raises(VerificationError) as refused:
        client.get("/v1/who")
    assert refused.value.code == "channel-record-expired"


def test_more_evidence_than_the_machine_can_make_is_not_asked_of_it(own: Site) -> None:
    going, go_on = threading.Semaphore(0), threading.Event()

    def offer(document: KeyDocument, nonce: bytes) -> KeyOffer:
        going.release()
        go_on.wait(30)
        return offer_of(document, nonce)

    own.wire.inner = ChannelGateway(Starlette(), own.service.gateway, clock=own.clock, offer=offer)
    address = f"{own.url}{OFFER_PATH}?nonce={base64url_text(NONCE)}"
    with ThreadPoolExecutor(MAX_OFFERS) as pool:
        asked = [pool.submit(httpx.get, address, trust_env=False, timeout=30) for _ in range(MAX_OFFERS)]
        for _ in asked:
            going.acquire()
        assert httpx.get(address, trust_env=False).status_code == 503
        go_on.set()
        assert {one.result().status_code for one in asked} == {200}


def test_a_client_with_stale_evidence_is_told_and_asks_for_new(own: Site) -> None:
    with own.client() as client:
        client.get("/v1/who")
        old = own.service.key
        own.service.gateway.replace_key(ChannelKey.born(random=os.urandom, at=AT, first_id=1), at=AT)
        assert client.get("/v1/who").status_code == 200  # the older key is still accepted
        old.proofs.__init__()  # type: ignore[misc]  # as though it had given out too much since
        assert client.get("/v1/who").status_code == 200
        assert own.offers == 2


def test_after_the_overlap_a_client_has_to_prove_the_new_key_first(own: Site) -> None:
    trust = own.trust()
    with own.client(trust) as client:
        client.get("/v1/who")
        own.service.gateway.replace_key(ChannelKey.born(random=os.urandom, at=AT, first_id=1), at=AT - OVERLAP)
        with pytest.raises(ChannelRefusedError) as refused:
            client.get("/v1/who")
        assert refused.value.code == "channel-keys-refused"
        assert trust.record is None
        assert client.get("/v1/who").status_code == 200


def test_held_keys_are_not_given_up_because_somebody_says_so(own: Site) -> None:
    trust = HeldTrust(own.service.record())
    own.service.gateway.replace_key(ChannelKey.born(random=os.urandom, at=AT, first_id=1), at=AT - OVERLAP)
    with own.client(trust) as client, pytest.raises(ChannelRefusedError):
        client.get("/v1/who")
    assert trust.current(AT) is not None
    trust.drop()
    question = own.trust().question(AT)
    for ask in (lambda: trust.current(AT), lambda: trust.question(AT), lambda: trust.answered(question, b"{}")):
        with pytest.raises(VerificationError):
            ask()


def test_a_service_without_evidence_now_is_sent_nothing(own: Site) -> None:
    def offer(document: KeyDocument, nonce: bytes) -> KeyOffer:
        raise CollectionError("the machine gives none", code="tee-missing")

    own.wire.inner = ChannelGateway(Starlette(), own.service.gateway, clock=own.clock, offer=offer)
    with own.client() as client, pytest.raises(ChannelRefusedError) as refused:
        client.get("/v1/who")
    assert refused.value.retryable
    own.wire.inner = ChannelGateway(Starlette(), own.service.gateway, clock=own.clock)
    with own.client() as client, pytest.raises(ChannelRefusedError):
        client.get("/v1/who")


def test_asynchronous_clients_ask_once_more_where_the_gateway_says_so(own: Site) -> None:
    async def ask(trust: AttestedTrust | HeldTrust, clock: Clock) -> int:
        transport = AsyncChannelTransport(own.url, trust, clock=clock)
        async with httpx.AsyncClient(transport=transport, base_url=BASE, trust_env=False) as client:
            return (await client.get("/v1/who")).status_code

    trust = own.trust()
    assert asyncio.run(ask(trust, own.clock)) == 200
    own.service.key.proofs.__init__()  # type: ignore[misc]  # as though it had given out too much since
    assert asyncio.run(ask(trust, own.clock)) == 200
    assert own.offers == 2
    late = HeldTrust(replace(own.service.record(), expires=AT + timedelta(days=1)))
    assert asyncio.run(ask(late, Clock(AT + WINDOW + SECOND))) == 200
    own.service.gateway.replace_key(ChannelKey.born(random=os.urandom, at=AT, first_id=1), at=AT - OVERLAP)
    with pytest.raises(ChannelRefusedError):
        asyncio.run(ask(trust, own.clock))
    assert trust.record is None


def test_an_offer_without_end_is_not_read(own: Site) -> None:
    async def endless(scope: Message, receive: Message, send: Message) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(MAX_OFFER_BYTES // 100_000 + 1):
            await send({"type": "http.response.body", "body": bytes(100_000), "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    own.wire.inner = endless
    with own.client() as client, pytest.raises(ChannelRefusedError) as refused:
        client.get("/v1/who")
    assert refused.value.code == "channel-refused"


def test_a_proof_that_never_counts_is_none(own: Site) -> None:
    trust = AttestedTrust(expectation(max_age=timedelta(0)), random=os.urandom)
    with own.client(trust) as client, pytest.raises(ChannelRefusedError, match="ended before"):
        client.get("/v1/who")


def test_an_address_without_tls_in_its_name_is_refused(shared: Site) -> None:
    with shared.client() as client, pytest.raises(ChannelError) as refused:
        client.get(f"http://{AUTHORITY}/v1/who")
    assert refused.value.field == "scheme"


# -- what is served in the clear


def test_the_key_document_is_given_out_and_nothing_else_is_found_in_the_clear(shared: Site) -> None:
    with httpx.Client(base_url=shared.url, trust_env=False) as http:
        keys = http.get(GATEWAY_PATH)
        assert parse_key_document(keys.content) == shared.service.key.document
        assert (keys.headers["content-type"], keys.headers["cache-control"]) == (
            "application/ohttp-keys",
            "max-age=300",
        )
        assert http.post("/v1/ask", content=b"x").status_code == 404
        assert http.get("/v1/who").status_code == 404
        assert http.post(GATEWAY_PATH, content=b"x").status_code == 415
        assert http.put(GATEWAY_PATH, content=b"x").status_code == 405
        bad = http.post(GATEWAY_PATH, content=b"x", headers={"content-type": MessageForm.SINGLE.request_type})
        assert bad.status_code == 422
        assert bad.json()["type"].endswith("#ohttp-key")
        empty = http.post(GATEWAY_PATH, headers={"content-type": MessageForm.SINGLE.request_type})
        assert empty.status_code == 400


@pytest.mark.parametrize("query", ["", "nonce=", "nonce=AAAA", "nonce=***", f"nonce={'A' * 43}&nonce={'A' * 43}"])
def test_evidence_is_given_for_one_nonce_of_32_bytes(shared: Site, query: str) -> None:
    before = shared.offers
    assert httpx.get(f"{shared.url}{OFFER_PATH}?{query}", trust_env=False).status_code == 400
    assert shared.offers == before
    good = httpx.get(f"{shared.url}{OFFER_PATH}?nonce={base64url_text(NONCE)}", trust_env=False)
    assert json.loads(good.content).keys() == {"evidence", "keys"}


def test_what_comes_in_the_clear_can_be_given_to_another_application() -> None:
    site = site_of()
    outside = Starlette(routes=[Route("/healthz", _who)])
    site.wire.inner = ChannelGateway(Starlette(), site.service.gateway, clock=site.clock, outside=outside)
    with serving(site.wire) as site.port:
        assert httpx.get(site.url + "/healthz", trust_env=False).status_code == 200
        assert httpx.get(site.url + "/v1/who", trust_env=False).status_code == 404
