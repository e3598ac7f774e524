"""Locked before the keys, ready with them, stopped without: with real key-release services, and at every bad moment."""

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from attest.channel import MessageForm
from attest.channel.asgi import GATEWAY_PATH
from attest.channel.transport import ChannelTransport
from attest.clock import system_clock
from attest.encoding import JsonValue
from attest.errors import AttestError, CollectionError, ConfigurationError, LeaseLostError, PolicyNotMetError
from rag_demo.enclave.errors import RefusedError
from rag_demo.enclave.interfaces import IndexedDocument, IndexedPassage
from rag_demo.enclave.service.assembly import RagService
from rag_demo.enclave.service.held_keys import HeldKeys
from rag_demo.enclave.service.lifecycle import Enclave, Life, LifecycleState, Why
from rag_demo.enclave.service.logs import JsonLines
from rag_demo.enclave.service.question import answered
from rag_demo.enclave.service.resources import ReadyResources, ReleasedKeys
from rag_demo.enclave.service.settings import ServiceLimits
from tests.rag_demo.service.parts import WRITER, WordEmbedder, Workshop
from tests.rag_demo.service.support import (
    DATABASE_KEY,
    MODEL_KEY,
    Owner,
    Site,
    ask,
    events,
    policy_of,
    serving,
    settings_of,
    source_nowhere,
    upload,
)

LEASE = b"The lease ends in March."


def limits(**more: Any) -> ServiceLimits:  # noqa: ANN401  fields of the limits
    return ServiceLimits(retry_seconds=0.2, renew_seconds=0.2, **more)


@pytest.mark.loopback
def test_without_its_keys_it_proves_itself_says_why_and_does_nothing_else(document_owner: Owner) -> None:
    workshop = Workshop()
    settings = settings_of(source_nowhere("model"), document_owner.source("quiet"), limits=limits())
    with serving(RagService(settings, open_bench=workshop), workshop) as site:
        found = site.wait_for("locked")
        while found["why"] is None:
            found = site.state()
        assert found["why"]["code"] == "service-unreachable"
        assert (found["model"], found["simulated"]) == (None, True)
        assert httpx.get(f"{site.url}/healthz", trust_env=False).status_code == 200
        assert httpx.get(f"{site.url}/readyz", trust_env=False).status_code == 503
        with site.client("anna") as client:
            assert client.get("/v1/state").json()["state"] == "locked"
            for method, path in (
                ("GET", "/v1/documents"),
                ("POST", "/v1/documents?name=a"),
                ("DELETE", "/v1/documents"),
                ("DELETE", "/v1/documents/" + "0" * 32),
                ("POST", "/v1/questions"),
            ):
                answer = client.request(method, path, content=b"x" if method == "POST" else None)
                assert (answer.status_code, answer.json()["code"]) == (503, "rag-locked")
                assert int(answer.headers["retry-after"]) > 0
    assert workshop.keys == []


@pytest.mark.loopback
def test_a_policy_that_is_tightened_stops_it_at_once_and_a_relaxed_one_brings_it_back(
    model_owner: Owner, document_owner: Owner
) -> None:
    workshop = Workshop()
    settings = settings_of(model_owner.source("tightened"), document_owner.source("tightened"), limits=limits())
    with serving(RagService(settings, open_bench=workshop), workshop) as site, ThreadPoolExecutor(2) as threads:
        site.wait_for("ready")
        assert workshop.keys == [(MODEL_KEY, DATABASE_KEY)]
        reading, go_on = threading.Event(), threading.Event()
        with site.client("anna") as client, site.client("anna") as other, site.client("anna") as third:
            upload(client, "lease.txt", LEASE)
            recorded = _recorded(site)
            # (1) A question is being worded and a document read when the owner of the documents changes its mind.
            workshop.answers.writer, workshop.answers.pause = WRITER, asyncio.Event()
            workshop.reader.before_page = lambda _: _paused(reading, go_on)
            asking = threads.submit(ask, client, "When ends the lease?")
            coming = threads.submit(other.post, "/v1/documents?name=b.txt", content=b"more")
            assert reading.wait(30)
            document_owner.set_policy("tightened", policy_of("tightened", version=2, other=True))
            # (2) It has stopped, and says why; what was under way has ended.
            found = site.wait_for("stopped")
            assert found["why"]["code"] in {"lease-renewal-refused", "policy-not-met"}  # of then, or asked again
            assert "policy.snp.measurement" in found["why"]["failed_checks"]
            assert found["leases"] == []
            assert asking.result(30)[-1][1]["problem"]["code"] == "rag-stopped"
            assert events(coming.result(30).text)[-1][1]["problem"]["code"] == "rag-stopped"
            go_on.set()
            # (3) Nothing that it had can be used.
            bench = workshop.opened[0]
            _wait_until(lambda: bench.embedder.closed and bench.store.closed)  # type: ignore[attr-defined]  # the tests' own
            answer = third.get("/v1/documents")
            assert (answer.status_code, answer.json()["code"]) == (503, "rag-stopped")
            # (4) Nor opened: the channel's keys went as well.
            again = httpx.post(site.url + GATEWAY_PATH, content=recorded, headers=_SEALED, trust_env=False)
            assert (again.status_code, again.json()["code"]) == (422, "channel-not-opened")
            # (5) It goes on asking, and is what it was when it may be; the half document was never there.
            workshop.answers.writer, workshop.answers.pause = None, None
            workshop.reader.before_page = lambda _: None
            site.wait_for("stopped")
            document_owner.set_policy("tightened", policy_of("tightened", version=3))
            site.wait_for("ready")
            assert len(workshop.opened) == 2
            listed = third.get("/v1/documents").json()["documents"]
            assert [one["name"] for one in listed] == ["lease.txt"]
            assert ask(third, "When ends the lease?")[-1][1]["known"] is True


_SEALED = {"content-type": MessageForm.CHUNKED.request_type}


def _paused(reached: threading.Event, go_on: threading.Event) -> None:
    reached.set()
    assert go_on.wait(30)


def _recorded(site: Site) -> bytes:
    """Return a request as somebody on the way sees it, not sent yet."""
    seen: list[bytes] = []

    class Recorder(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path == GATEWAY_PATH:
                seen.append(b"".join(request.stream))  # type: ignore[arg-type]  # of a client that blocks
                return httpx.Response(502)
            with httpx.Client(trust_env=False) as real:
                answer = real.get(request.url)
            return httpx.Response(answer.status_code, content=answer.content, headers=answer.headers)

    transport = ChannelTransport(site.url, site.trust(), clock=system_clock, transport=Recorder())
    with httpx.Client(transport=transport, base_url="https://rag.example") as client, pytest.raises(AttestError):
        client.get("/v1/state")
    return seen[0]


def _wait_until(true: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


# -- every bad moment, with a keyring of the test's own


class FakeKeyring:
    """Releases what the test says."""

    def __init__(self, scene: "Scene", lost: Callable[[LeaseLostError], object]) -> None:
        self.scene, self.lost = scene, lost
        self.closed = False
        self.over: LeaseLostError | None = None

    async def obtain(self) -> None:
        self.scene.asked += 1
        if self.scene.refusals:
            raise self.scene.refusals.pop(0)

    def key(self, purpose: str) -> Any:  # noqa: ANN401  stands in for a session's key
        class Key:
            material = memoryview(purpose.encode())

        return Key

    def require(self) -> None:
        if self.over is not None:
            raise self.over

    @property
    def leases(self) -> tuple[tuple[str, datetime], ...]:
        return (("model", datetime(2026, 1, 1, tzinfo=UTC)),)

    async def close(self) -> None:
        self.closed = True


class Scene:
    """An enclave whose keys and pauses the test holds."""

    def __init__(self) -> None:
        self.refusals: list[BaseException] = []
        self.asked = 0
        self.pauses: list[float] = []
        self.wiped = 0
        self.taken = 0
        self.keyrings: list[FakeKeyring] = []
        self.workshop = Workshop()
        self.open_bench: Callable[[ReleasedKeys], ReadyResources] = self.workshop
        self.enclave = Enclave(
            keyring=self._keyring,  # type: ignore[arg-type]  # stands in for the real one
            open_bench=self._opened,
            unlocked=self._unlocked,
            wiped=self._wiped,
            retry_seconds=30,
            pause=self._pause,
        )
        self.unlocking: BaseException | None = None
        self.while_unlocking: Callable[[], Awaitable[object]] = lambda: asyncio.sleep(0)

    def _keyring(self, *, lost: Callable[[LeaseLostError], object]) -> FakeKeyring:
        self.keyrings.append(FakeKeyring(self, lost))
        return self.keyrings[-1]

    async def _unlocked(self, _: HeldKeys) -> None:
        await self.while_unlocking()
        self.taken += 1
        if self.unlocking is not None:
            raise self.unlocking

    def _opened(self, keys: ReleasedKeys) -> ReadyResources:
        return self.open_bench(keys)

    def _wiped(self) -> None:
        self.wiped += 1
        self.taken = 0

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0.03)  # long enough for a test to look

    async def until(self, true: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not true():  # noqa: ASYNC110  what is waited for is anything
                await asyncio.sleep(0.001)

    def play(self, story: Callable[[], Any]) -> None:
        async def run() -> None:
            living = asyncio.create_task(self.enclave.run())
            try:
                await story()
            finally:
                living.cancel()
                await asyncio.gather(living, return_exceptions=True)

        asyncio.run(run())


def lost(code: str = "lease-lost") -> LeaseLostError:
    return LeaseLostError("the lease is over", code=code)


def refusal() -> PolicyNotMetError:
    checks: tuple[JsonValue, ...] = ({"id": "snp.measurement"}, {"id": "snp.measurement"}, "no check")
    return PolicyNotMetError("not this machine", code="policy-not-met", status=403, failed_checks=checks)


def test_pauses_grow_to_their_most_and_begin_anew_after_a_success() -> None:
    scene = Scene()
    scene.refusals = [refusal() for _ in range(12)]

    async def story() -> None:
        await scene.until(lambda: scene.enclave.state is LifecycleState.READY)
        assert len(scene.pauses) == 12
        for number, pause in enumerate(scene.pauses):
            most = min(30, 0.5 * 2**number)
            assert most / 2 <= pause <= most
        scene.keyrings[-1].lost(lost())
        await scene.until(lambda: len(scene.pauses) == 13)
        assert scene.pauses[-1] <= 0.5

    scene.play(story)
    assert all(one.closed for one in scene.keyrings)


def test_a_lost_lease_ends_what_is_under_way_before_the_callback_returns() -> None:
    scene = Scene()

    async def story() -> None:
        await scene.until(lambda: scene.enclave.state is LifecycleState.READY)
        life = scene.enclave.require_ready()
        work = asyncio.create_task(life.during(asyncio.sleep(3600)))
        await asyncio.sleep(0)
        scene.keyrings[-1].lost(lost())
        assert life.over
        assert scene.wiped == 1
        assert scene.enclave.state is LifecycleState.STOPPED
        with pytest.raises(RefusedError) as refused:
            scene.enclave.require_ready()
        assert refused.value.code == "rag-stopped"
        with pytest.raises(RefusedError) as refused:
            await work
        assert refused.value.code == "rag-stopped"
        await scene.until(lambda: scene.workshop.opened[0].embedder.closed)  # type: ignore[attr-defined]  # the tests' own
        assert scene.wiped == 1

    scene.play(story)


def test_a_result_that_is_ready_when_the_lease_is_lost_is_nobodys() -> None:
    scene = Scene()

    async def story() -> None:
        await scene.until(lambda: scene.enclave.state is LifecycleState.READY)
        life = scene.enclave.require_ready()

        async def finish() -> str:
            life.end()
            return "secret"

        with pytest.raises(RefusedError) as refused:
            await life.during(finish())
        assert refused.value.code == "rag-stopped"

    scene.play(story)


def test_a_lease_that_ended_by_itself_stops_it_also_where_no_timer_has_noticed() -> None:
    scene = Scene()

    async def story() -> None:
        await scene.until(lambda: scene.enclave.state is LifecycleState.READY)
        scene.keyrings[-1].over = lost()
        with pytest.raises(RefusedError) as refused:
            scene.enclave.require_ready()
        assert refused.value.code == "rag-stopped"
        assert scene.enclave.why == Why(code="lease-lost", detail="the lease is over")
        await scene.until(lambda: len(scene.keyrings) == 2 and scene.enclave.state is LifecycleState.READY)

    scene.play(story)


def test_a_lease_that_is_lost_while_it_is_opened_lets_nobody_in() -> None:
    scene = Scene()
    opening, go_on = threading.Event(), threading.Event()

    def slow(keys: ReleasedKeys) -> ReadyResources:
        opening.set()
        assert go_on.wait(60)
        return scene.workshop(keys)

    async def story() -> None:
        scene.open_bench = slow
        await scene.until(opening.is_set)
        assert scene.enclave.state is LifecycleState.UNLOCKING
        with pytest.raises(RefusedError) as refused:
            scene.enclave.require_ready()
        assert refused.value.code == "rag-unlocking"
        ring = scene.keyrings[-1]
        ring.over = lost("lease-renewal-refused")
        ring.lost(ring.over)
        go_on.set()
        await scene.until(lambda: ring.closed)
        assert scene.workshop.opened[0].embedder.closed  # type: ignore[attr-defined]  # the tests' own
        assert scene.enclave.why is not None
        assert scene.enclave.why.code == "lease-renewal-refused"

    scene.play(story)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (
            ConfigurationError("another model", code="embedding-weights-unsuitable"),
            "embedding-weights-unsuitable",
        ),
        (OSError("/secret/path"), "rag-defect"),
        (MemoryError(), "rag-defect"),
    ],
)
def test_a_model_that_does_not_open_leaves_it_locked_and_says_why(error: Exception, code: str) -> None:
    scene = Scene()
    failures = [error, error]

    def fail(keys: ReleasedKeys) -> ReadyResources:
        if failures:
            raise failures.pop()
        return scene.workshop(keys)

    async def story() -> None:
        scene.open_bench = fail
        await scene.until(lambda: scene.enclave.why)
        assert scene.enclave.why is not None
        assert scene.enclave.why.code == code
        assert "secret" not in scene.enclave.why.detail
        await scene.until(lambda: scene.enclave.state is LifecycleState.READY)
        assert scene.enclave.why is None

    scene.play(story)


def test_the_log_says_what_to_do_about_a_lock(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()

    def fail(_: ReleasedKeys) -> ReadyResources:
        raise ConfigurationError("no such folder", code="rag-store-unavailable", hint="make the folder")

    async def story() -> None:
        scene.open_bench = fail
        await scene.until(lambda: scene.enclave.why)

    scene.play(story)
    lines = [json.loads(JsonLines().format(one)) for one in caplog.records if one.levelname == "ERROR"]
    assert ("locked: no such folder", "rag-store-unavailable", "make the folder") in {
        (one["message"], one["code"], one["hint"]) for one in lines
    }


def test_a_channel_key_that_cannot_be_had_closes_what_was_opened() -> None:
    scene = Scene()
    scene.unlocking = CollectionError("no note", code="x-y")

    async def story() -> None:
        await scene.until(lambda: scene.workshop.opened and scene.enclave.why)
        assert scene.workshop.opened[0].store.closed  # type: ignore[attr-defined]  # the tests' own
        assert scene.enclave.state is LifecycleState.LOCKED
        scene.unlocking = None
        await scene.until(lambda: scene.enclave.state is LifecycleState.READY)

    scene.play(story)


def test_ending_while_the_model_is_being_opened_closes_it_afterwards() -> None:
    scene = Scene()
    opening, go_on = threading.Event(), threading.Event()

    def slow(keys: ReleasedKeys) -> ReadyResources:
        opening.set()
        assert go_on.wait(60)
        return scene.workshop(keys)

    async def story() -> None:
        living = asyncio.create_task(scene.enclave.run())
        scene.open_bench = slow
        await scene.until(opening.is_set)
        living.cancel()
        await asyncio.gather(living, return_exceptions=True)
        go_on.set()
        await scene.until(lambda: scene.workshop.opened and scene.workshop.opened[0].embedder.closed)  # type: ignore[attr-defined]  # the tests' own
        assert scene.keyrings[-1].closed

    asyncio.run(story())


def test_ending_overwrites_everything_however_long_and_however_badly_it_goes() -> None:
    scene = Scene()
    closing = threading.Event()

    class Stubborn(WordEmbedder):
        def close(self) -> None:
            super().close()
            closing.set()
            time.sleep(0.2)
            msg = "it does not close"
            raise OSError(msg)

    async def story() -> None:
        living = asyncio.create_task(scene.enclave.run())
        scene.open_bench = lambda keys: replace(scene.workshop(keys), embedder=Stubborn())
        await scene.until(lambda: scene.enclave.state is LifecycleState.READY)
        scene.enclave.end()
        living.cancel()
        await scene.until(closing.is_set)
        living.cancel()
        await asyncio.gather(living, return_exceptions=True)
        assert scene.keyrings[-1].closed
        assert scene.wiped == 1

    asyncio.run(story())


def test_an_end_that_comes_while_asking_fails_is_an_end() -> None:
    """A group of tasks that fails when it is cancelled tells of the failure, and forgets the cancellation."""
    scene = Scene()
    asking = asyncio.Event()

    class Failing(FakeKeyring):
        async def obtain(self) -> None:
            asking.set()
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                raise refusal() from None

    async def story() -> None:
        scene.enclave.keyring = lambda *, lost: Failing(scene, lost)  # type: ignore[assignment]  # as in Scene
        living = asyncio.create_task(scene.enclave.run())
        await asking.wait()
        scene.enclave.end()
        living.cancel()
        await asyncio.wait_for(living, 10)

    asyncio.run(story())


def test_what_a_service_says_of_failed_checks_is_told_once_each() -> None:
    assert Why.of(refusal()).failed_checks == ("snp.measurement",)
    error = LeaseLostError("lost", code="lease-renewal-refused", cause=refusal())
    assert Why.of(error).failed_checks == ("snp.measurement",)
    assert Why.of(ValueError("secret")) == Why(code="rag-defect", detail="an internal error of the service: ValueError")


def test_a_lease_lost_while_the_channel_takes_its_key_leaves_no_key_behind() -> None:
    scene = Scene()
    held: list[int] = []

    async def first_lost() -> None:
        if len(scene.keyrings) == 1:
            keyring = scene.keyrings[0]
            keyring.over = lost()
            keyring.lost(keyring.over)
            assert scene.wiped == 1  # before anything was taken

    async def story() -> None:
        scene.while_unlocking = first_lost
        await scene.until(lambda: scene.pauses)
        held.append(scene.taken)

    scene.play(story)
    assert held == [0]


def test_who_reads_slowly_has_nothing_more_once_the_lease_is_lost() -> None:
    workshop = Workshop()
    life = Life(workshop(ReleasedKeys(model=memoryview(b"m"), database=memoryview(b"d"))))
    collection, embedder = b"c" * 32, life.bench.embedder
    passages = [
        IndexedPassage(page=1, ordinal=number, text=f"The lease {number} ends in March.") for number in range(3)
    ]
    document = IndexedDocument(
        id="0" * 32,
        name="a",
        media_type="text/plain",
        size=1,
        pages=0,
        passages=0,
        added=datetime(2026, 1, 1, tzinfo=UTC),
    )
    life.bench.store.add(collection, document, [(passages, embedder.embed([one.text for one in passages]))])

    async def told(before: int) -> list[bytes]:
        living, heard = Life(life.bench), list[bytes]()
        with ThreadPoolExecutor(1) as threads:
            try:
                async for one in answered(living, collection, "When ends the lease?", threads=threads, left=bool):
                    heard.append(one)
                    if len(heard) == before:
                        living.end()
            except RefusedError as exc:
                assert exc.code == "rag-stopped"  # noqa: PT017  what was told before it counts here
        return heard

    assert len(asyncio.run(told(9))) == 4
    for before in (1, 2, 3):
        assert len(asyncio.run(told(before))) == before
