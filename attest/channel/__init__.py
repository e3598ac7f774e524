"""Encrypted requests to an attested service: Oblivious HTTP (RFC 9458) to keys that evidence commits to.

::

    record = verify_offer(offer, expect=expectation, nonce=nonce, at=now)        evidence → keys that may be sealed to
    sealer = RequestSealer(record, Request(…), at=now)                           the client's side
    exchange = Gateway(keys, …).exchange(method, media_type)                     the service's side

``hpke``, ``messages``, ``bhttp``, ``bhttp_decoder``, ``config``, ``ohttp``, ``chunked`` and ``padding`` are formats;
``records`` states the conditions for sealing; ``client`` and ``server`` do no I/O. ``asgi`` puts a gateway in front of
an application, ``transport`` is for httpx; both are imported by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attest.channel.client import AnswerOpener, RequestSealer
from attest.channel.config import KeyConfig, KeyDocument, choose, parse_key_document
from attest.channel.keys import ChannelKey, ServiceKeys
from attest.channel.messages import MessageLimits, Request, Response
from attest.channel.ohttp import MessageForm
from attest.channel.prompt import PromptRecord, released_key
from attest.channel.records import (
    ChannelExpectation,
    ChannelRecord,
    KeyOffer,
    TrustedKeys,
    channel_binding,
    published_nonce,
    verify_offer,
)
from attest.channel.refusals import ChannelRefusal
from attest.channel.replays import MemoryReplayWindow, ReplayWindow
from attest.channel.server import Gateway, ServedExchange
from attest.channel.trust import AttestedTrust, HeldTrust, KeyQuestion
from attest.lazy_names import lazy_names
from attest.release.sealed_key import KEM_HYBRID, KEM_X25519

if TYPE_CHECKING:
    from attest.channel.asgi import GATEWAY_PATH, OFFER_PATH, ChannelGateway
    from attest.channel.replay_postgres import PostgresReplayWindow
    from attest.channel.replay_store import SqliteReplayWindow
    from attest.channel.rotation import KeyRotation
    from attest.channel.transport import ChannelTransport

__all__ = [
    "GATEWAY_PATH",
    "KEM_HYBRID",
    "KEM_X25519",
    "OFFER_PATH",
    "AnswerOpener",
    "AttestedTrust",
    "ChannelExpectation",
    "ChannelGateway",
    "ChannelKey",
    "ChannelRecord",
    "ChannelRefusal",
    "ChannelTransport",
    "Gateway",
    "HeldTrust",
    "KeyConfig",
    "KeyDocument",
    "KeyOffer",
    "KeyQuestion",
    "KeyRotation",
    "MemoryReplayWindow",
    "MessageForm",
    "MessageLimits",
    "PostgresReplayWindow",
    "PromptRecord",
    "ReplayWindow",
    "Request",
    "RequestSealer",
    "Response",
    "ServedExchange",
    "ServiceKeys",
    "SqliteReplayWindow",
    "TrustedKeys",
    "channel_binding",
    "choose",
    "parse_key_document",
    "published_nonce",
    "released_key",
    "verify_offer",
]

__getattr__ = lazy_names(
    __name__,
    {
        "attest.channel.asgi": ("ChannelGateway", "GATEWAY_PATH", "OFFER_PATH"),
        "attest.channel.replay_postgres": ("PostgresReplayWindow",),
        "attest.channel.replay_store": ("SqliteReplayWindow",),
        "attest.channel.rotation": ("KeyRotation",),
        "attest.channel.transport": ("ChannelTransport",),
    },
)
