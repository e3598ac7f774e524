"""Whole messages in one call, for tests: the product reads and opens incrementally."""

from attest.channel.bhttp_decoder import MessageDecoder, RequestHead, ResponseHead
from attest.channel.config import KeyChoice, KeyConfig, parse_key_document
from attest.channel.hpke import ENC_BYTES, HpkeKey, not_opened
from attest.channel.messages import LIMITS, MessageLimits, Request, Response
from attest.channel.ohttp import HEADER_BYTES, MessageForm, Opening, Sealing, begin_opening, begin_sealing, read_header


def decode_request(data: bytes, *, limits: MessageLimits = LIMITS) -> Request:
    decoder = MessageDecoder("request", limits=limits)
    events = [*decoder.feed(data), *decoder.finish()]
    head = next(event for event in events if isinstance(event, RequestHead))
    return Request(
        method=head.method,
        scheme=head.scheme,
        authority=head.authority,
        path=head.path,
        fields=head.fields,
        content=b"".join(event for event in events if isinstance(event, bytes)),
        trailers=decoder.trailers,
    )


def decode_response(data: bytes, *, limits: MessageLimits = LIMITS) -> Response:
    decoder = MessageDecoder("response", limits=limits)
    events = [*decoder.feed(data), *decoder.finish()]
    head = next(event for event in events if isinstance(event, ResponseHead))
    return Response(
        status=head.status,
        fields=head.fields,
        interim=head.interim,
        content=b"".join(event for event in events if isinstance(event, bytes)),
        trailers=decoder.trailers,
    )


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
