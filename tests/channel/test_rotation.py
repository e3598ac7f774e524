"""The timer that replaces channel keys: before they end, without a gap, and never one that others have too."""

import asyncio
import os
from dataclasses import replace
from datetime import timedelta

import pytest

from attest.channel import KEM_HYBRID, KEM_X25519, ChannelKey
from attest.channel.keys import LIFETIME, OVERLAP
from attest.channel.rotation import LONGEST_SLEEP_SECONDS, KeyRotation
from tests.channel.support import SAID, SECOND, Service, opened, opener_of, sealed
from tests.samples import AT, NONCE


class Clock:
    def __init__(self) -> None:
        self.at = AT
        self.pauses: list[float] = []

    def __call__(self) -> object:
        return self.at

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.at += timedelta(seconds=seconds)
        if len(self.pauses) > 3000:
            raise asyncio.CancelledError


def rotation_of(service: Service, clock: Clock, **options: object) -> KeyRotation:
    return KeyRotation(service.gateway, random=os.urandom, clock=clock, **options)  # type: ignore[arg-type]  # a clock


def test_a_key_is_replaced_one_overlap_before_its_day_is_over() -> None:
    service, clock = Service(), Clock()
    rotation = rotation_of(service, clock)
    assert rotation.due_in(AT) == LIFETIME - OVERLAP
    assert rotation.due_in(AT + LIFETIME - OVERLAP) == timedelta(0)


def test_over_two_days_there_is_always_a_key_and_none_is_accepted_for_longer_than_a_day() -> None:
    service, clock = Service(), Clock()
    told: list[int] = []
    rotation = rotation_of(
        service, clock, rotated=lambda: told.append(service.gateway.keys.current.document.configs[0].key_id)
    )
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(rotation.run(pause=clock.pause))
    assert max(clock.pauses) <= LONGEST_SLEEP_SECONDS
    assert told == [1, 2]
    keys = service.gateway.keys
    assert keys.find(0, at=clock.at) is None
    assert keys.current.not_after - clock.at > timedelta(0)


def test_a_request_to_the_key_before_is_answered_until_its_day_is_over_and_not_later() -> None:
    service, clock = Service(), Clock()
    rotation = rotation_of(service, clock)
    at = AT + LIFETIME - OVERLAP
    record = replace(service.record(), expires=AT + 2 * LIFETIME)
    rotation.rotate(at=at)
    body, sealer = sealed(record, at=at)
    exchange, _ = service.receive(body, at=at)
    assert opened(opener_of(sealer), exchange.answer(SAID)).status == 200
    assert service.gateway.keys.find(0, at=AT + LIFETIME - SECOND) is not None
    assert service.gateway.keys.find(0, at=AT + LIFETIME) is None


def test_a_key_of_many_configurations_is_followed_by_others_of_the_same_kinds() -> None:
    kems = (KEM_HYBRID, KEM_X25519)
    service, clock = Service(key=ChannelKey.born(random=os.urandom, at=AT, first_id=254, kems=kems)), Clock()
    rotation = rotation_of(service, clock, kems=kems)
    rotation.rotate(at=AT)
    assert [one.key_id for one in service.gateway.keys.current.document.configs] == [0, 1]
    assert [one.kem for one in service.gateway.keys.current.document.configs] == list(kems)


def test_a_short_life_has_a_short_overlap() -> None:
    life = timedelta(minutes=2)
    service, clock = Service(key=ChannelKey.born(random=os.urandom, at=AT, lifetime=life)), Clock()
    assert rotation_of(service, clock, lifetime=life).due_in(AT) == life / 2


def test_a_key_that_is_released_to_many_is_not_replaced_here() -> None:
    key = replace(ChannelKey.born(random=os.urandom, at=AT), replicated=True)
    service = Service(key=key, options={"insecure_replays": "a test"})
    with pytest.raises(ValueError, match="releases"):
        rotation_of(service, Clock())


def test_the_end_of_a_key_is_moved_and_never_the_key() -> None:
    service = Service()
    keys, key = service.gateway.keys, service.key
    proof = service.record(nonce=NONCE).proof
    keys.prolong(replace(key, not_after=AT + 2 * LIFETIME))
    assert keys.current.not_after == AT + 2 * LIFETIME
    assert proof in keys.current.proofs
    with pytest.raises(ValueError, match="another key"):
        keys.prolong(ChannelKey.born(random=os.urandom, at=AT))
