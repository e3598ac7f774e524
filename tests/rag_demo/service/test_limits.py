"""How often, how long, how much at a time; and what is read of a request before anybody is known."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.clock import system_clock, ticks
from attest.concurrency import ConcurrencyLimit
from attest.errors import AttestError, ConfigurationError
from rag_demo.enclave.errors import RefusedError
from rag_demo.enclave.service.app import Inside, create_app
from rag_demo.enclave.service.composition import bench_of
from rag_demo.enclave.service.concurrency import Threads, take_turn
from rag_demo.enclave.service.lifecycle import Life
from rag_demo.enclave.service.refusals import problem, status_of
from rag_demo.enclave.service.resources import ReadyResources, ReleasedKeys
from rag_demo.enclave.service.settings import LlmSettings, ModelSettings, ServiceLimits
from rag_demo.enclave.service.users import collection_of
from rag_demo.enclave.store import StoreClosedError, StoreDamagedError, StoreLimitError
from tests.event_loop import Loop
from tests.event_loop import played as play
from tests.rag_demo.service.parts import WRITER, Workshop
from tests.rag_demo.service.support import events, settings_of, source_nowhere, token

WORDS = b"The lease ends in March."


class Ready:
    """An enclave that is ready, whatever happens."""

    def __init__(self, bench: ReadyResources) -> None:
        self.life = Life(bench)

    def require_ready(self) -> Life:
        return self.life


def played(
    limits: ServiceLimits,
    story: Callable[[httpx.AsyncClient, Ready], Awaitable[None]],
    workshop: Workshop | None = None,
) -> None:
    """Play a story with the application behind the channel, and no channel."""
    bench = (workshop or Workshop())(ReleasedKeys(model=memoryview(b"m"), database=memoryview(b"d")))
    threads = Threads(limits)

    async def run(_: Loop) -> None:
        enclave = Ready(bench)
        inside = Inside(
            enclave=enclave,  # type: ignore[arg-type]  # as much of one as the routes ask
            state=lambda: None,  # type: ignore[arg-type,return-value]  # nobody asks
            limits=limits,
            threads=threads,
            clock=system_clock,
            ticks=ticks,
        )
        transport = httpx.ASGITransport(app=create_app(inside))
        headers = {"authorization": f"Bearer {token('anna')}"}
        async with httpx.AsyncClient(transport=transport, base_url="https://rag.example", headers=headers) as client:
            await story(client, enclave)

    play(run)
    threads.close()


def test_a_user_who_asks_too_often_waits_and_another_one_does_not() -> None:
    async def story(client: httpx.AsyncClient, _: Ready) -> None:
        codes = [(await client.get("/v1/documents")).status_code for _ in range(4)]
        assert codes == [200, 200, 429, 429]
        refused = await client.get("/v1/documents")
        assert refused.json()["code"] == "rag-rate-limited"
        assert 1 <= int(refused.headers["retry-after"]) <= 11
        other = {"authorization": f"Bearer {token('bert')}"}
        assert (await client.get("/v1/documents", headers=other)).status_code == 200

    played(ServiceLimits(requests_per_minute=6, request_burst=2), story)


def test_one_user_who_lists_and_deletes_leaves_threads_to_the_others() -> None:
    go_on = threading.Event()

    async def story(client: httpx.AsyncClient, enclave: Ready) -> None:
        store: Any = enclave.life.bench.store
        mine, documents = collection_of([f"Bearer {token('anna')}"]), store.documents
        store.delete_all = lambda _: go_on.wait(60)
        store.documents = lambda user: () if user == mine and go_on.wait(60) else documents(user)
        asked = [asyncio.create_task(client.delete("/v1/documents")) for _ in range(6)]
        asked += [asyncio.create_task(client.get("/v1/documents")) for _ in range(6)]
        try:
            refused = [await one for _, one in zip(range(8), asyncio.as_completed(asked), strict=False)]
            other = await client.get("/v1/documents", headers={"authorization": f"Bearer {token('bob')}"})
            assert other.status_code == 200
            assert [one.json()["code"] for one in refused] == ["rag-too-busy"] * 8
            assert sum(one.done() for one in asked) == 8
        finally:
            go_on.set()
            await asyncio.wait(asked)
        assert (await client.delete("/v1/documents")).status_code == 204  # turns are given back

    played(ServiceLimits(), story)


def test_a_document_that_takes_too_long_is_given_up_and_leaves_nothing() -> None:
    workshop = Workshop()
    workshop.reader.before_page = lambda _: time.sleep(0.05)

    async def story(client: httpx.AsyncClient, _: Ready) -> None:
        answer = await client.post("/v1/documents?name=a.txt", content=b"\f".join([WORDS] * 100))
        assert events(answer.text)[-1][1]["problem"]["code"] == "rag-upload-too-slow"
        assert (await client.get("/v1/documents")).json()["documents"] == []

    played(ServiceLimits(upload_seconds=0.2), story, workshop)


class Pause(asyncio.Event):
    """A pause that tells when it has begun."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()

    async def wait(self) -> Literal[True]:
        self.reached.set()
        return await super().wait()


def test_an_answer_that_takes_too_long_is_given_up() -> None:
    workshop = Workshop()
    workshop.answers.writer = WRITER

    async def story(client: httpx.AsyncClient, _: Ready) -> None:
        await client.post("/v1/documents?name=a.txt", content=WORDS)
        workshop.answers.pause = pause = Pause()
        asked = asyncio.create_task(client.post("/v1/questions", json={"question": "the lease?"}))
        await pause.reached.wait()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Loop)
        loop.ahead += 61
        told = events((await asked).text)
        assert [kind for kind, _ in told] == ["passage", "text", "refused"]
        assert told[-1][1]["problem"]["code"] == "rag-question-too-slow"
        workshop.answers.pause = None
        assert events((await client.post("/v1/questions", json={"question": "the lease?"})).text)[-1][0] == "answer"

    played(ServiceLimits(question_seconds=60), story, workshop)


def test_what_a_part_refuses_has_its_status_and_what_breaks_is_the_services_own_trouble() -> None:
    for error, status in (
        (StoreLimitError("full", code="rag-limit-documents"), 409),
        (StoreClosedError("closed", code="rag-store-closed"), 503),
        (StoreDamagedError("damaged", code="rag-store-damaged"), 500),
        (AttestError("odd", code="odd"), 500),
    ):
        assert status_of(error) == status
        assert problem(error).status_code == status


def test_a_store_that_fails_is_told_and_so_is_a_defect_of_it() -> None:
    def fail(*_: object, **__: object) -> Any:  # noqa: ANN401  of a store
        raise errors[-1]

    errors: list[Exception] = [StoreDamagedError("page 7 does not authenticate", code="rag-store-damaged")]
    workshop = Workshop()

    async def story(client: httpx.AsyncClient, enclave: Ready) -> None:
        store = enclave.life.bench.store
        for name in ("documents", "delete", "delete_all", "search"):
            setattr(store, name, fail)
        for wanted in ("rag-store-damaged", "rag-defect"):
            for method, path in (
                ("GET", "/v1/documents"),
                ("DELETE", "/v1/documents"),
                ("DELETE", "/v1/documents/" + "0" * 32),
            ):
                answer = await client.request(method, path)
                assert (answer.status_code, answer.json()["code"]) == (500, wanted)
            asked = await client.post("/v1/questions", json={"question": "x"})
            assert events(asked.text)[-1][1]["problem"]["code"] == wanted
            sent = await client.post("/v1/documents?name=a", content=b"x")
            assert events(sent.text)[-1][1]["problem"]["code"] == wanted
            assert "secret" not in asked.text + sent.text
            errors.append(ValueError("secret"))

    played(ServiceLimits(), story, workshop)


def test_turns_are_given_back_once_however_often_that_is_said() -> None:
    limit = ConcurrencyLimit(total=2, each=1)
    first, second = take_turn(limit, b"a", "things"), take_turn(limit, b"b", "things")
    for user in (b"a", b"c"):
        with pytest.raises(RefusedError) as refused:
            take_turn(limit, user, "things")
        assert refused.value.code == "rag-too-busy"
    first()
    first()
    assert limit.under_way == 1
    second()
    assert limit.under_way == 0


@given(st.lists(st.text(alphabet=st.characters(codec="latin-1")), max_size=3))
def test_any_header_at_all_is_a_collection_or_a_refusal_that_repeats_nothing(lines: list[str]) -> None:
    refused: RefusedError | None = None
    try:
        found = collection_of(lines)
    except RefusedError as exc:
        refused, found = exc, b""
    assert (refused is None) == (len(found) == 32)
    if refused is not None:
        assert refused.code == "rag-token-invalid"
        assert not any(line in str(refused.context()) for line in lines if len(line) > 20)


# -- what is put together before anything starts


def test_a_language_model_outside_is_refused_before_anything_starts(tmp_path: Path) -> None:
    settings = settings_of(source_nowhere("a"), source_nowhere("b"))
    settings = replace(settings, llm=LlmSettings(url="http://8.8.8.8/v1"))
    with pytest.raises(ConfigurationError) as refused:
        bench_of(settings)
    assert refused.value.code == "rag-llm-outside"
    inside = LlmSettings(url="http://127.0.0.1:8000/v1", model="small")
    assert callable(bench_of(replace(settings, llm=inside)))
    missing = ModelSettings(place=tmp_path, trust=(tmp_path / "none.pub",))
    with pytest.raises(ConfigurationError) as refused:
        bench_of(replace(settings, llm=None, model=missing))
    assert refused.value.code == "file-unreadable"
