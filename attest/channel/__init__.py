"""Encrypted requests to an attested service: Oblivious HTTP (RFC 9458) to keys that evidence commits to.

::

    record = verify_offer(offer, expect=expectation, nonce=nonce, at=now)        evidence → keys that may be sealed to
    sealer = RequestSealer(record, Request(…), at=now)                           the client's half
    exchange = Gateway(keys, …).exchange(method, media_type)                     the service's half

``hpke``, ``messages``, ``bhttp``, ``bhttp_decoder``, ``config``, ``ohttp``, ``chunked`` and ``padding`` are formats;
``records`` states the conditions for sealing; ``client`` and ``server`` do no I/O. ``asgi`` puts a gateway in front of
an application, ``transport`` is for httpx; both are imported by name.
"""

from attest.channel.client import AnswerOpener, RequestSealer
from attest.channel.config import KeyConfig, KeyDocument, parse_key_document
from attest.channel.hpke import KEM_HYBRID, KEM_X25519
from attest.channel.keys import ChannelKey, ServiceKeys
from attest.channel.messages import MessageLimits, Request, Response
from attest.channel.ohttp import MessageForm
from attest.channel.prompt import PromptRecord, released_key
from attest.channel.records import (
    ChannelExpectation,
    ChannelRecord,
    KeyOffer,
    channel_binding,
    published_nonce,
    verify_offer,
)
from attest.channel.refusals import ChannelRefusal
from attest.channel.replays import MemoryReplayWindow, ReplayWindow
from attest.channel.server import Gateway, ServedExchange
from attest.channel.trust import AttestedTrust, HeldTrust

__all__ = [
    "KEM_HYBRID",
    "KEM_X25519",
    "AnswerOpener",
    "AttestedTrust",
    "ChannelExpectation",
    "ChannelKey",
    "ChannelRecord",
    "ChannelRefusal",
    "Gateway",
    "HeldTrust",
    "KeyConfig",
    "KeyDocument",
    "KeyOffer",
    "MemoryReplayWindow",
    "MessageForm",
    "MessageLimits",
    "PromptRecord",
    "ReplayWindow",
    "Request",
    "RequestSealer",
    "Response",
    "ServedExchange",
    "ServiceKeys",
    "channel_binding",
    "parse_key_document",
    "published_nonce",
    "released_key",
    "verify_offer",
]
