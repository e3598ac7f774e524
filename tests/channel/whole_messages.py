"""Whole messages in one call, for tests: the product reads and opens incrementally."""

from dataclasses import replace
from typing import TypeVar

from attest.channel.bhttp_decoder import MessageDecoder
from attest.channel.config import KeyChoice, KeyConfig, parse_key_document
from attest.channel.hpke import ENC_BYTES, HpkeKey, not_opened
from attest.channel.messages import LIMITS, MessageLimits, Request, Response
from attest.channel.ohttp import HEADER_BYTES, MessageForm, Opening, Sealing, begin_opening, begin_sealing, read_header

Message = TypeVar("Message", Request, Response)


def decode_request(data: bytes, *, limits: MessageLimits = LIMITS) -> Request:
    return _decoded(MessageDecoder("request", limits=limits), data, Request)


def decode_response(data: bytes, *, limits: MessageLimits = LIMITS) -> Response:
    return _decoded(MessageDecoder("response", limits=limits), data, Response)


def _decoded(decoder: MessageDecoder, data: bytes, kind: type[Message]) -> Message:
    events = [*decoder.feed(data), *decoder.finish()]
    (head,) = (event for event in events if isinstance(event, kind))
    content = b"".join(event for event in events if isinstance(event, bytes))
    return replace(head, content=content, trailers=decoder.trailers)


def only_config(raw: bytes) -> KeyConfig:
    """Parse a configuration without its length prefix."""
    (config,) = parse_key_document(len(raw).to_bytes(2, "big") + raw).configs
    assert isinstance(config, KeyConfig)
    return config


def seal_request(choice: KeyChoice, message: bytes) -> tuple[bytes, Sealing]:
    sealing = begin_sealing(choice, MessageForm.SINGLE)
    return sealing.prefix + sealing.context.seal(message), sealing


def open_request(body: bytes, *, config: KeyConfig, key: HpkeKey) -> tuple[bytes, Opening]:
    end = HEADER_BYTES + ENC_BYTES[config.kem]
    header, enc = body[:HEADER_BYTES], body[HEADER_BYTES:end]
    if len(header) < HEADER_BYTES:
        raise not_opened()
    suite = read_header(header, config=config)
    opening = begin_opening(header, enc, form=MessageForm.SINGLE, suite=suite, key=key)
    return opening.context.open(body[end:]), opening
