"""The channel of the service: under a key that was born here, or under one that is released to every replica.

A key that was born here is there from the start, so that a service without its other keys can be checked and can
report the reason; a released one is there once its owner's service has released it. Both are dropped with the life
that used them: traffic that was recorded before a lease was lost cannot be decrypted later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from starlette.types import ASGIApp

from attest.channel import (
    KEM_HYBRID,
    KEM_X25519,
    ChannelGateway,
    ChannelKey,
    Gateway,
    KeyRotation,
    MemoryReplayWindow,
    MessageLimits,
    PostgresReplayWindow,
    ReplayWindow,
    ServiceKeys,
    SqliteReplayWindow,
    released_key,
)
from attest.clock import Clock
from attest.errors import AttestError
from attest.release import PROMPT_ALGORITHMS, KeyReleaseClient, PromptKeyNote
from attest.session import SessionKey, expectation_of, open_http, watch_of
from rag_demo.enclave.service.attestation import Offers
from rag_demo.enclave.service.held_keys import HeldKeys
from rag_demo.enclave.service.settings import POSTGRES_SCHEMES, EnclaveSettings, KeySource

REFRESH_SECONDS: Final = 60.0
_log = logging.getLogger("rag.enclave")
Random = Callable[[int], bytes]
NoteOf = Callable[[SessionKey], Awaitable[PromptKeyNote]]
"""Function that returns the published note of a prompt key, signed and logged for the policy of its release."""


class Channel(Protocol):
    """Interface of a channel for the outer application and the lifecycle.

    Attributes:
        app: opens encrypted requests; None while there is no key.
    """

    app: ASGIApp | None

    async def unlocked(self, keyring: HeldKeys) -> None:
        """Take the key that was released."""
        ...

    def wipe(self) -> None:
        """Drop the keys, at once."""
        ...

    async def run(self) -> None:
        """Keep the keys fresh, until cancelled."""
        ...


class EphemeralChannel:
    """A channel under keys of this process alone; evidence commits to them."""

    def __init__(
        self, inside: ASGIApp, settings: EnclaveSettings, *, offers: Offers, clock: Clock, random: Random
    ) -> None:
        self._clock = clock
        # Evidence commits to both, so that an attacker on the network cannot move a client from one to the other.
        kems = (KEM_HYBRID,) if settings.x25519 is None else (KEM_HYBRID, KEM_X25519)
        key = ChannelKey.born(random=random, at=clock(), kems=kems)
        self._gateway = _gateway(key, settings, replays=MemoryReplayWindow(), random=random)
        total = settings.limits.waiting_bytes
        self.app: ASGIApp | None = ChannelGateway(inside, self._gateway, clock=clock, offer=offers, bodies_bytes=total)
        self._rotation = KeyRotation(
            self._gateway,
            random=random,
            clock=clock,
            kems=kems,
            rotated=lambda: _log.info("the channel has another key"),
        )

    async def unlocked(self, keyring: HeldKeys) -> None:
        """Take nothing: this process made the key."""

    def wipe(self) -> None:
        """Drop the keys, and continue with a fresh one, under which the service reports why it has stopped."""
        self._gateway.keys = ServiceKeys(self._rotation.fresh(at=self._clock()))

    async def run(self) -> None:
        """Rotate."""
        await self._rotation.run()


@dataclass(slots=True, eq=False)
class ReleasedChannel:
    """A channel under a prompt key, which every replica has; its service's log attests to it, and no evidence here.

    Attributes:
        replays: remembers requests for all replicas.
    """

    inside: ASGIApp
    settings: EnclaveSettings
    replays: ReplayWindow
    note_of: NoteOf
    clock: Clock
    random: Random
    app: ASGIApp | None = field(default=None, init=False)
    _gateway: Gateway | None = field(default=None, init=False)
    _key: SessionKey | None = field(default=None, init=False)
    _version: int = field(default=0, init=False)

    async def unlocked(self, keyring: HeldKeys) -> None:
        """Take the key.

        Raises:
            AttestError: the service published no note of the key, or one of another key.
        """
        key = keyring.key("prompt")
        note = await self.note_of(key)
        taken = released_key(note, material=key.export())
        self._gateway = _gateway(taken, self.settings, replays=self.replays, random=self.random)
        total = self.settings.limits.waiting_bytes
        self.app = ChannelGateway(self.inside, self._gateway, clock=self.clock, bodies_bytes=total)
        self._key, self._version = key, note.version

    def wipe(self) -> None:
        """Drop the key; there is no channel until it is released again."""
        self.app, self._gateway, self._key = None, None, None

    async def run(self) -> None:
        """Follow the key: its versions, and until when each may be used."""
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            await self.refresh()

    async def refresh(self) -> None:
        """Take what is published now; where that cannot be had, what is there is used until it ends."""
        key, gateway = self._key, self._gateway
        if key is None or gateway is None or not key.valid:
            return
        try:
            note = await self.note_of(key)
            taken = released_key(note, material=key.export())
        except AttestError as exc:
            _log.warning("the channel's key was not refreshed: %s", exc.message, extra={"code": exc.code})
            return
        if gateway is not self._gateway:
            return  # wiped meanwhile
        if note.version != self._version:
            gateway.replace_key(taken, at=self.clock())
            self._version = note.version
        else:
            gateway.keys.prolong(taken)


def note_of(source: KeySource, *, clock: Clock) -> NoteOf:
    """Return a function that requests the note of a key from the service that released it."""
    watch = watch_of(source.service)
    expect = expectation_of(source.service, None)

    def ask(name: str, policy: bytes) -> PromptKeyNote:
        with open_http(source.service) as http:
            client = KeyReleaseClient(http, service=source.service.service, watch=watch, expect=expect)
            # The service that releases the key chose its KEM; clients that seal to it demand theirs.
            return client.prompt_key(name, policies={policy}, at=clock(), kems=PROMPT_ALGORITHMS.values()).note

    async def asked(key: SessionKey) -> PromptKeyNote:
        return await asyncio.to_thread(ask, key.name, key.policy_digest)

    return asked


def open_window(place: str) -> ReplayWindow:
    """Open the window of seen requests to a released key: a file of this machine, or a database of all replicas.

    Raises:
        ConfigurationError: ``replay-window-unusable``.
    """
    return PostgresReplayWindow(place) if place.startswith(POSTGRES_SCHEMES) else SqliteReplayWindow(place)


def _gateway(key: ChannelKey, settings: EnclaveSettings, *, replays: ReplayWindow, random: Random) -> Gateway:
    return Gateway(
        ServiceKeys(key),
        replays=replays,
        authorities={settings.name.partition("/")[0], *settings.authorities},
        random=random,
        limits=MessageLimits(content=settings.limits.document_bytes),
    )
