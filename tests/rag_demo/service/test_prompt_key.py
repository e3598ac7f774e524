"""A channel under a key that is released to every replica: none without it, and each request once over all of them."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from attest.channel import HeldTrust, MessageForm, PromptRecord
from attest.channel.asgi import GATEWAY_PATH, OFFER_PATH
from attest.channel.replay_store import SqliteReplayWindow
from attest.channel.transport import ChannelTransport
from attest.clock import system_clock
from attest.errors import ConfigurationError, EndorsementError
from attest.policy import load_policy
from attest.release.client import KeyReleaseClient
from attest.release.prompt_keys import PromptKey
from rag_demo.enclave.service.assembly import RagService
from rag_demo.enclave.service.channel import ReleasedChannel
from rag_demo.enclave.service.settings import ServiceLimits
from tests.rag_demo.service.parts import Workshop
from tests.rag_demo.service.support import (
    BASE,
    Owner,
    Site,
    ask,
    machine,
    serving,
    settings_of,
    source_nowhere,
    token,
    upload,
)

SEALED = {"content-type": MessageForm.CHUNKED.request_type}
pytestmark = pytest.mark.loopback


@pytest.fixture(scope="module")
def replicas(
    model_owner: Owner, document_owner: Owner, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Site, Site]]:
    """Two replicas of one service, behind nothing."""
    window = str(tmp_path_factory.mktemp("window") / "replays.db")
    settings = settings_of(
        model_owner.source("quiet"),
        document_owner.source("quiet"),
        prompt_key=document_owner.source("prompts"),
        replay_window=window,
        limits=ServiceLimits(retry_seconds=0.2),
    )
    with ExitStack() as stack:
        sites = []
        for _ in range(2):
            workshop = Workshop()
            sites.append(stack.enter_context(serving(RagService(settings, open_bench=workshop), workshop)))
        for site in sites:
            site.wait_for("ready")
        yield sites[0], sites[1]


def published(owner: Owner) -> PromptKey:
    source = owner.source("prompts")
    policy = load_policy(machine().policy(name="prompts"), name="prompts")
    with httpx.Client(base_url=source.service.url, trust_env=False) as http:
        client = KeyReleaseClient(http, service=source.service.service)
        return client.prompt_key("prompts", policies={policy.digest}, at=system_clock())


def client_of(site: Site, key: PromptKey, **options: Any) -> httpx.Client:  # noqa: ANN401  of the transport
    trust = HeldTrust(PromptRecord(key=key))
    transport = ChannelTransport(site.url, trust, clock=system_clock, **options)
    headers = {"authorization": f"Bearer {token('anna')}"}
    return httpx.Client(transport=transport, base_url=BASE, headers=headers, timeout=30, trust_env=False)


def test_any_replica_answers_and_each_request_is_answered_once(
    replicas: tuple[Site, Site], document_owner: Owner
) -> None:
    key, (first, second) = published(document_owner), replicas
    seen: list[bytes] = []

    class Recorder(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            body = b"".join(request.stream)  # type: ignore[arg-type]  # of a client that blocks
            seen.append(body)
            again = httpx.Request(
                request.method, request.url, headers={"content-type": MessageForm.CHUNKED.request_type}, content=body
            )
            return super().handle_request(again)

    with client_of(first, key, transport=Recorder()) as one, client_of(second, key) as other:
        assert upload(one, "lease.txt", b"The lease ends in March.")["name"] == "lease.txt"
        assert ask(one, "When ends the lease?")[-1][1]["known"] is True
        assert other.get("/v1/state").json()["state"] == "ready"
    for body in seen:
        for site in replicas:
            sent = httpx.post(
                site.url + GATEWAY_PATH,
                content=body,
                headers=SEALED,
                trust_env=False,
            )
            # Sealed to whoever asked first, all of one length: a refusal, and no answer.
            assert (sent.status_code, len(sent.content) < 1200) == (200, True)
    assert "lease.txt" not in repr(second.workshop.store.kept)


def test_nobody_attests_to_a_released_key(replicas: tuple[Site, Site]) -> None:
    answer = httpx.get(f"{replicas[0].url}{OFFER_PATH}?nonce=x", trust_env=False)
    assert answer.status_code == 404


def test_without_the_key_there_is_no_channel_and_that_is_told(model_owner: Owner, tmp_path: Path) -> None:
    settings = settings_of(
        model_owner.source("quiet"),
        source_nowhere("database"),
        prompt_key=source_nowhere("prompts"),
        replay_window=str(tmp_path / "w.db"),
    )
    workshop = Workshop()
    with serving(RagService(settings, open_bench=workshop), workshop) as site:
        for method, path in (("POST", GATEWAY_PATH), ("GET", GATEWAY_PATH), ("GET", OFFER_PATH)):
            answer = httpx.request(method, site.url + path, trust_env=False)
            assert (answer.status_code, answer.json()["code"]) == (503, "rag-locked")
            assert answer.headers["access-control-allow-origin"] == "*"
        assert site.state()["state"] == "locked"


def test_a_window_that_cannot_be_opened_is_told_before_anything_starts(model_owner: Owner, tmp_path: Path) -> None:
    settings = settings_of(
        model_owner.source("quiet"),
        model_owner.source("quiet"),
        prompt_key=model_owner.source("quiet"),
        replay_window=str(tmp_path / "no" / "folder" / "w.db"),
    )
    with pytest.raises(ConfigurationError) as refused:
        RagService(settings, open_bench=Workshop())
    assert refused.value.code == "replay-window-unusable"


def test_a_key_that_is_published_for_longer_is_used_for_longer_and_a_new_version_beside_the_old(
    document_owner: Owner, tmp_path: Path
) -> None:
    """The notes are of the test; the key is the real service's."""
    key = published(document_owner)
    source = document_owner.source("prompts")
    notes = [key.note]
    trouble: list[Exception] = []

    async def note_of(_: object) -> Any:  # noqa: ANN401  a note
        if trouble:
            raise trouble[0]
        return notes[-1]

    async def story() -> None:
        from attest.session import AsyncSession

        async with AsyncSession(settings=source.service, attester=machine(), background=False) as session:
            held = await session.key("prompts")

            class Ring:
                def key(self, purpose: str) -> object:
                    assert purpose == "prompt"
                    return held

            window = SqliteReplayWindow(tmp_path / "w.db")
            settings = settings_of(source, source)
            channel = ReleasedChannel(
                lambda *_: None,  # type: ignore[arg-type]  # nobody asks here
                settings,
                replays=window,
                note_of=note_of,
                clock=system_clock,
                random=os.urandom,
            )
            await channel.refresh()
            assert channel.app is None
            await channel.unlocked(Ring())  # type: ignore[arg-type]  # as much of one as is asked
            gateway = channel._gateway  # noqa: SLF001  what it opens with is not shown
            assert gateway is not None
            later = key.note.use_until + timedelta(hours=1)
            notes.append(replace(key.note, use_until=later))
            await channel.refresh()
            assert gateway.keys.current.not_after == later
            trouble.append(EndorsementError("away", code="service-unreachable"))
            await channel.refresh()
            assert gateway.keys.current.not_after == later
            trouble.clear()
            notes.append(replace(key.note, version=2))
            await channel.refresh()
            now = system_clock()
            assert [one for one in range(4) if gateway.keys.find(one, at=now)] == [1, 2]
            channel.wipe()
            assert channel.app is None
            await channel.refresh()
            assert channel.app is None
            window.close()

    asyncio.run(story())
