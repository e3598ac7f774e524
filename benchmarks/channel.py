"""The encrypted channel: what a request costs, and how fast chunks go through beside bare AES-GCM. Figures, no bars."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from attest.channel.bhttp import encode_request
from attest.channel.chunked import PIECE_BYTES, ChunkOpener, ChunkSealer
from attest.channel.config import choose
from attest.channel.hpke import AES_256_GCM, CountedAead, Suite
from attest.channel.keys import ChannelKey
from attest.channel.messages import Request
from attest.channel.ohttp import (
    MessageForm,
    begin_opening,
    begin_sealing,
    open_answer,
    read_header,
    seal_answer,
)
from attest.channel.padding import padded
from attest.release.sealed_key import KEM_HYBRID, KEM_X25519
from benchmarks.measure import Figure, interleaved_ratio, median_seconds

__all__ = ["chunks", "request", "round_trip"]

_AT = datetime(2026, 6, 1, tzinfo=UTC)
_PIECES = 64
_NO_BAR = 0.0


def round_trip(kem: int) -> Callable[[], bytes]:
    """Return what seals a question, opens it, and does the same with its answer."""
    key = ChannelKey.born(random=os.urandom, at=_AT, kems=(kem,))
    choice, half = choose(key.document, kems=(kem,)), key.half(0)
    if half is None:
        msg = "a key that was born has a private half"
        raise ValueError(msg)
    config, private = half
    question = Request(method="POST", authority="rag.example", path="/v1/ask", content=b"q" * 400)
    message = padded(encode_request(question))

    def work() -> bytes:
        sealing = begin_sealing(choice, MessageForm.SINGLE)
        body = sealing.context.seal(message)
        suite = read_header(sealing.header, config=config)
        opening = begin_opening(sealing.header, sealing.enc, form=MessageForm.SINGLE, suite=suite, key=private)
        answer = seal_answer(opening, opening.context.open(body), random=os.urandom)
        return open_answer(sealing, answer)

    return work


def request() -> Figure:
    """Measure one question and its answer, sealed and opened on both sides."""
    hybrid, curve = (median_seconds(round_trip(kem), rounds=21) for kem in (KEM_HYBRID, KEM_X25519))
    return Figure(
        id="channel-request-us",
        value=hybrid * 1e6,
        bar=float("inf"),
        better="lower",
        detail=f"512 bytes and an answer, both sides: hybrid {hybrid * 1e6:.0f} us, X25519 {curve * 1e6:.0f} us",
    )


def chunks() -> Figure:
    """Measure 1 MiB as chunks, sealed and opened, against AES-GCM alone on the same pieces."""
    suite, key, data = Suite(kem=KEM_HYBRID, aead=AES_256_GCM), bytes(32), os.urandom(PIECE_BYTES)
    bare = AESGCM(key)

    def alone() -> None:
        for number in range(_PIECES):
            nonce = number.to_bytes(12, "big")
            bare.decrypt(nonce, bare.encrypt(nonce, data, None), None)

    def channel() -> None:
        sealer = ChunkSealer(CountedAead(suite.cipher(key), bytes(12)))
        opener = ChunkOpener(CountedAead(suite.cipher(key), bytes(12)))
        for _ in range(_PIECES - 1):
            opener.feed(sealer.piece(data))
        opener.feed(sealer.final(data))
        opener.finish()

    ratio, base, ours = interleaved_ratio(alone, channel, rounds=21, times=5)
    megabytes = _PIECES * PIECE_BYTES / 1e6
    return Figure(
        id="channel-chunks-vs-aes-gcm",
        value=ratio,
        bar=_NO_BAR,
        better="higher",
        detail=f"sealed and opened in chunks: {megabytes / ours:.0f} MB/s; AES-GCM alone: {megabytes / base:.0f} MB/s",
    )
