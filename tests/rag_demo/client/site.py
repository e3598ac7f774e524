"""A service that says what a test lets it say, behind a real gateway on a real port, on a simulated machine."""

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from attest.channel import ChannelKey, Gateway, KeyDocument, KeyOffer, MemoryReplayWindow, ServiceKeys, channel_binding
from attest.channel.asgi import ChannelGateway
from attest.channel.keys import Proofs
from attest.clock import system_clock
from attest_simulator.machines import SimulatedMachine
from rag_demo.client import Demands, RagClient, UserToken, read_demands

NAME = "rag.example"
DOCUMENT = {
    "id": "0123456789abcdef" * 2,
    "name": "lease.txt",
    "media_type": "text/plain",
    "size": 42,
    "pages": 1,
    "passages": 2,
    "added": "2026-01-02T03:04:05Z",
    "language": "en",
}
PASSAGE = {
    "number": 1,
    "document": DOCUMENT["id"],
    "name": "lease.txt",
    "page": 3,
    "section": "Term",
    "score": 0.5,
    "text": "The lease ends in March. It is not renewed.",
    "sentences": ["The lease ends in March."],
}
CITATION = {"number": 1, "document": DOCUMENT["id"], "name": "lease.txt", "page": 3, "section": "Term"}
WRITER = {"name": "small", "where": "in this machine, at 127.0.0.1:8000", "weights": "not known"}
ANSWER = {
    "known": True,
    "kind": "quoted",
    "model": None,
    "text": "The lease ends in March. [1]",
    "citations": [CITATION],
}
STATE = {"schema": "rag.state/1", "state": "ready", "why": None, "simulated": True, "answers": "quoted"}
Event = tuple[str, Any] | bytes


def events_of(*events: Event) -> bytes:
    """Write events; bytes go out as they are."""
    return b"".join(
        one if isinstance(one, bytes) else f"event: {one[0]}\ndata: {json.dumps(one[1])}\n\n".encode() for one in events
    )


class Forgetful(Proofs):
    """Forgets the first of what it gave out."""

    def __init__(self, forgets: int) -> None:
        super().__init__()
        self.forgets = forgets

    def add(self, proof: bytes) -> None:
        self.forgets -= 1
        if self.forgets < 0:
            super().add(proof)


@dataclass
class Site:
    """What the service is to say, and what it has heard."""

    folder: Path
    machine: SimulatedMachine = field(default_factory=lambda: SimulatedMachine.of("snp"))
    state: Any = field(default_factory=lambda: dict(STATE))
    uploaded: list[Event] = field(
        default_factory=lambda: [
            ("progress", {"pages": 1, "of": 2, "passages": 2, "of_passages": 5}),
            ("stored", {"document": DOCUMENT}),
        ]
    )
    answered: list[Event] = field(default_factory=lambda: [("passage", PASSAGE), b": filler\n\n", ("answer", ANSWER)])
    listed: Any = field(default_factory=lambda: {"documents": [DOCUMENT]})
    refusal: tuple[int, Any] | None = None
    cut: bool = False
    heard: list[tuple[str, str, str, bytes]] = field(default_factory=list)
    wire: bytearray = field(default_factory=bytearray)
    offers: int = 0
    offer_delay: float = 0.0
    port: int = 0
    clock: Callable[[], datetime] = system_clock

    def __post_init__(self) -> None:
        self.key = ChannelKey.born(random=os.urandom, at=self.clock())
        self.gateway = Gateway(
            ServiceKeys(self.key), replays=MemoryReplayWindow(), authorities={NAME}, random=os.urandom
        )
        self.policy = self.folder / "policy.json"
        self.policy.write_bytes(self.machine.policy())
        self.vendors = self.folder / "vendors"
        self.vendors.mkdir()
        for name, data in self.machine.endorsement_files(at=self.clock()).items():
            (self.vendors / name).write_bytes(data)

    # -- the service

    def offer(self, document: KeyDocument, nonce: bytes) -> KeyOffer:
        self.offers += 1
        binding = channel_binding(document, audience=NAME, nonce=nonce)
        return KeyOffer(evidence=self.machine(binding), keys=document.to_bytes())

    async def answer(self, request: Request) -> Response:
        body = await request.body()
        target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        self.heard.append((request.method, target, request.headers.get("authorization", ""), body))
        if self.refusal is not None:
            return JSONResponse(self.refusal[1], status_code=self.refusal[0], media_type="application/problem+json")
        match request.method, request.url.path:
            case "GET", "/v1/state":
                return JSONResponse(self.state)
            case "GET", "/v1/documents":
                return JSONResponse(self.listed)
            case "POST", "/v1/documents":
                return self._stream(self.uploaded)
            case "POST", "/v1/questions":
                return self._stream(self.answered)
        return Response(status_code=204)

    def _stream(self, events: list[Event]) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            for one in events:
                yield events_of(one)
                await asyncio.sleep(0)
            if self.cut:
                raise OSError

        return StreamingResponse(pieces(), media_type="text/event-stream")

    async def recording(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  ASGI's
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def reading() -> Any:  # noqa: ANN401
            message = await receive()
            self.wire += message.get("body", b"")
            return message

        async def writing(message: Any) -> None:  # noqa: ANN401
            self.wire += message.get("body", b"")
            await send(message)

        await self._app(scope, reading, writing)

    def _channel(self) -> ChannelGateway:
        methods = ["GET", "POST", "DELETE"]
        inner = Starlette(routes=[Route("/{path:path}", self.answer, methods=methods)])
        return ChannelGateway(
            inner,
            self.gateway,
            clock=self.clock,
            offer=lambda document, nonce: self.offer(document, nonce),  # noqa: PLW0108  tests put others in its place
            tick_seconds=0.01,
        )

    @contextmanager
    def running(self) -> Iterator["Site"]:
        self._app = self._channel()
        config = uvicorn.Config(
            self.recording, host="127.0.0.1", port=0, log_level="critical", ws="none", interface="asgi3"
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
            self.port = server.servers[0].sockets[0].getsockname()[1]
            yield self
        finally:
            server.should_exit = True
            thread.join()

    def restart(self, *, forgets: int = 0) -> None:
        """Forget the key, as a service does that is started again."""
        self.key = ChannelKey.born(random=os.urandom, at=self.clock())
        self.key = replace(self.key, proofs=Forgetful(forgets))
        self.gateway = Gateway(
            ServiceKeys(self.key), replays=MemoryReplayWindow(), authorities={NAME}, random=os.urandom
        )
        self._app = self._channel()

    def reset(self) -> "Site":
        """Be as new, on the same port, and forget what was heard."""
        for one in fields(Site):
            if one.name not in {"folder", "port"}:
                setattr(self, one.name, one.default if one.default_factory is MISSING else one.default_factory())
        self.__dict__.pop("offer", None)
        self.policy.write_bytes(self.machine.policy())
        self.restart()
        return self

    # -- who asks it

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> list[str]:
        """What the command line is told."""
        files = ["--policy", str(self.policy), "--endorsements", str(self.vendors)]
        return [*files, "--service", NAME, "--allow-simulated", "--offline", "--token", str(self.folder / "token")]

    def demands(self, **changes: Any) -> Demands:  # noqa: ANN401  its own fields
        found = read_demands(
            audience=NAME,
            policy=self.policy,
            endorsements=(self.vendors,),
            allow_simulated=True,
            offline=True,
            max_age=timedelta(minutes=5),
            at=system_clock(),
        )
        return replace(found, **changes)

    def client(self, **changes: Any) -> RagClient:  # noqa: ANN401  arguments of the client
        usual: dict[str, Any] = {"demands": self.demands(), "token": UserToken(bytes(range(32)))}
        return RagClient(self.url, **usual | changes)

    def tighten(self) -> None:
        """Demand newer firmware than the machine has; the file is replaced at once, as an editor does."""
        document = json.loads(self.machine.policy())
        document["version"] = 2
        for least in document["snp"]["minimum_tcb"].values():
            least["microcode"] = 255
        beside = self.folder / "policy.new"
        beside.write_text(json.dumps(document))
        beside.replace(self.policy)


def at(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)  # noqa: TID251  a test's own clock
