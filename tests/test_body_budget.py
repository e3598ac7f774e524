"""The bytes of all bodies together: what fits is served, and the slowest gives way to what does not."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from attest.body_budget import BodyBudget

SCOPE = {"type": "http", "method": "POST", "path": "/", "headers": [], "query_string": b""}


@dataclass
class Client:
    """One request, whose pieces the test sends when it wants."""

    budget: BodyBudget
    pieces: "asyncio.Queue[Message]" = field(default_factory=asyncio.Queue)
    sent: list[Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.task = asyncio.ensure_future(self.budget(SCOPE, self.pieces.get, self._take))

    async def _take(self, message: Message) -> None:
        self.sent.append(message)

    async def send(self, size: int, *, last: bool = False) -> None:
        self.pieces.put_nowait({"type": "http.request", "body": bytes(size), "more_body": not last})
        for _ in range(10):
            await asyncio.sleep(0)

    @property
    def status(self) -> int | None:
        return self.sent[0]["status"] if self.sent else None


def run(scenario: Callable[[BodyBudget, asyncio.Event], Awaitable[None]]) -> None:
    async def whole() -> None:
        goes_on = asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    await PlainTextResponse("aborted", status_code=400)(scope, receive, send)
                    return
                more = message["more_body"]
            await goes_on.wait()
            await PlainTextResponse("done")(scope, receive, send)

        budget = BodyBudget(app, total=100, refusal=lambda: PlainTextResponse("busy", status_code=503))
        await scenario(budget, goes_on)
        assert budget.held == 0, "every byte was given back"

    asyncio.run(whole())


def test_what_fits_is_served_to_the_last_byte() -> None:
    async def scenario(budget: BodyBudget, goes_on: asyncio.Event) -> None:
        goes_on.set()
        one, two = Client(budget), Client(budget)
        await one.send(50)
        await two.send(49, last=True)
        await one.send(50, last=True)
        await one.task
        await two.task
        assert (one.status, two.status) == (200, 200)

    run(scenario)


def test_the_body_that_has_been_arriving_for_longest_gives_way() -> None:
    async def scenario(budget: BodyBudget, goes_on: asyncio.Event) -> None:
        held = [Client(budget) for _ in range(4)]
        for one in held:
            await one.send(25)
        assert budget.held == 100
        honest = Client(budget)
        await honest.send(26, last=True)
        assert [one.status for one in held] == [503, 503, None, None]
        assert budget.held == 76
        goes_on.set()
        await honest.task
        assert honest.status == 200
        for one in held[2:]:
            await one.send(0, last=True)
            await one.task
            assert one.status == 200

    run(scenario)


def test_a_body_in_work_keeps_its_bytes_and_the_next_is_refused() -> None:
    async def scenario(budget: BodyBudget, goes_on: asyncio.Event) -> None:
        working = Client(budget)
        await working.send(80, last=True)
        late = Client(budget)
        await late.send(30)
        await late.task
        assert late.status == 503
        assert len(late.sent) == 2, "one answer, and not the application's"
        goes_on.set()
        await working.task
        assert working.status == 200

    run(scenario)


def test_a_body_that_alone_is_too_much_is_refused() -> None:
    async def scenario(budget: BodyBudget, goes_on: asyncio.Event) -> None:
        goes_on.set()
        one = Client(budget)
        await one.send(60)
        await one.send(41, last=True)
        await one.task
        assert one.status == 503

    run(scenario)


def test_a_request_that_holds_no_bytes_is_not_given_up() -> None:
    async def scenario(budget: BodyBudget, goes_on: asyncio.Event) -> None:
        goes_on.set()
        empty, held = Client(budget), Client(budget)
        await empty.send(0)
        await held.send(60)
        late = Client(budget)
        await late.send(60, last=True)
        await late.task
        assert (late.status, held.status, empty.status) == (200, 503, None)
        await empty.send(10, last=True)
        await empty.task
        assert empty.status == 200

    run(scenario)


def test_an_answer_that_has_begun_is_not_replaced() -> None:
    """An application may answer before the body has arrived: too long, or of another type."""

    async def whole() -> None:
        goes_on = asyncio.Event()

        async def early(scope: Scope, receive: Receive, send: Send) -> None:
            await receive()
            await send({"type": "http.response.start", "status": 413, "headers": []})
            await goes_on.wait()
            await send({"type": "http.response.body", "body": b"too long"})

        budget = BodyBudget(early, total=100, refusal=lambda: PlainTextResponse("busy", status_code=503))
        first, second = Client(budget), Client(budget)
        await first.send(60)
        await second.send(60)
        goes_on.set()
        await asyncio.gather(first.task, second.task)
        assert [message["type"] for message in first.sent] == ["http.response.start", "http.response.body"]
        assert (first.status, second.status) == (413, 503)

    asyncio.run(whole())


def test_a_client_that_leaves_gives_its_bytes_back() -> None:
    async def scenario(budget: BodyBudget, goes_on: asyncio.Event) -> None:
        goes_on.set()
        one = Client(budget)
        await one.send(60)
        one.pieces.put_nowait({"type": "http.disconnect"})
        await one.task

    run(scenario)


def test_what_is_no_request_is_passed_on() -> None:
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    async def scenario() -> None:
        budget = BodyBudget(app, total=1, refusal=lambda: PlainTextResponse("busy"))

        async def receive() -> Message:
            return {"type": "lifespan.startup"}

        async def send(message: Message) -> None:
            raise AssertionError(message)

        await budget({"type": "lifespan"}, receive, send)

    asyncio.run(scenario())
    assert seen == ["lifespan"]
