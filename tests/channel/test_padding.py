"""What lengths say: whole messages their bucket, growing ones the number of pieces."""

import os
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.channel import Request, RequestSealer, Response
from attest.channel.bhttp import written_content
from attest.channel.chunked import PIECE_BYTES, ChunkOpener, ChunkSealer
from attest.channel.hpke import AES_256_GCM, HpkeContext, Suite
from attest.channel.padding import STREAM_PIECE_BYTES, AnswerStream, WholeMessage, padded, padded_length
from attest.release.sealed_key import KEM_HYBRID
from tests.channel.support import ASK, Service, opened, opener_of, sealed
from tests.samples import AT

BUCKETS = [256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 49152]


def sealer() -> ChunkSealer:
    return ChunkSealer(cipher())


def cipher() -> HpkeContext:
    return HpkeContext(Suite(kem=KEM_HYBRID, aead=AES_256_GCM), bytes(32), b"test")


def growing(*, size: int = STREAM_PIECE_BYTES, padding: bool = True) -> AnswerStream:
    return AnswerStream(sealer(), nonce=b"", head=b"", size=size, padding=padding)


def content(body: bytes) -> bytes:
    opener = ChunkOpener(cipher())
    return b"".join(opener.feed(body)) + opener.finish()


@given(st.integers(0, 50_000))
def test_a_length_is_that_of_its_bucket(length: int) -> None:
    bucket = padded_length(length)
    assert bucket >= length
    assert bucket in BUCKETS or bucket % PIECE_BYTES == 0
    assert bucket == padded_length(bucket)
    assert len(padded(bytes(length))) == bucket


@pytest.mark.parametrize("bucket", BUCKETS)
def test_the_edges_of_a_bucket_are_its_own(bucket: int) -> None:
    assert padded_length(bucket) == bucket
    assert padded_length(bucket + 1) > bucket


@given(st.lists(st.binary(max_size=20_000), max_size=4))
def test_a_whole_message_arrives_with_zeros_and_its_chunks_say_its_bucket_alone(portions: list[bytes]) -> None:
    whole = WholeMessage(sealer())
    body = b"".join(whole.add(one) for one in portions) + whole.end()
    message = b"".join(portions)
    assert content(body) == padded(message)
    again = WholeMessage(sealer())
    assert len(again.add(bytes(padded_length(len(message)))) + again.end()) == len(body)


@pytest.mark.parametrize("bucket", [PIECE_BYTES, 2 * PIECE_BYTES])
def test_a_message_that_fills_its_bucket_looks_like_one_that_does_not(bucket: int) -> None:
    lengths = set()
    for size in (bucket, bucket - 1, bucket - 5000):
        whole = WholeMessage(sealer())
        lengths.add((len(whole.add(bytes(size))), len(whole.end())))
    assert len(lengths) == 1


def test_without_padding_the_exact_length_shows() -> None:
    whole = WholeMessage(sealer(), padding=False)
    assert content(whole.add(b"12345") + whole.end()) == b"12345"


def test_requests_of_one_bucket_have_one_length() -> None:
    service = Service()
    record = service.record()
    lengths = {len(sealed(record, replace(ASK, content=bytes(size)))[0]) for size in range(150, 250, 10)}
    assert len(lengths) == 1
    assert len(sealed(record, ASK, padding=False)[0]) != len(
        sealed(record, replace(ASK, content=b""), padding=False)[0]
    )


@given(st.lists(st.binary(min_size=1, max_size=1500), max_size=8))
def test_a_growing_message_is_cut_into_pieces_of_one_size(portions: list[bytes]) -> None:
    stream, body = growing(size=512), b""
    for one in portions:
        stream.add(one)
        sent = stream.tick()
        overhead = 18 if sent else 0  # two bytes of length, sixteen of tag
        assert (len(sent) - overhead) % 512 == 0
        assert stream.waiting < 512
        body += sent
    found = content(body + stream.end())
    message = b"".join(map(written_content, portions))
    assert found.startswith(message)
    assert not any(found[len(message) :])
    assert len(found) % 512 == 0


def test_a_long_message_is_cut_into_chunks_that_every_receiver_takes() -> None:
    for size in (512, 700):
        stream = growing(size=size)
        first, rest = os.urandom(40_000), os.urandom(5 * PIECE_BYTES)
        stream.add(first)
        body = stream.tick()
        stream.add(rest)
        assert content(body + stream.end()).startswith(written_content(first) + written_content(rest))


def test_without_padding_everything_goes_as_it_comes() -> None:
    stream = growing(padding=False)
    stream.add(b"123")
    assert len(stream.tick()) == len(written_content(b"123")) + 17
    assert stream.waiting == 0
    assert stream.tick() == b""


def test_an_event_stream_is_filled_up_with_comments() -> None:
    for waiting in range(1, 512):
        require_filled(waiting)


def require_filled(waiting: int) -> None:
    service = _SERVICE
    request, client = sealed(_RECORD)
    exchange, found = service.receive(request)
    assert isinstance(found, Request)
    head = Response(status=200, fields=((b"content-type", b"text/event-stream"),))
    stream = exchange.stream(head)
    event = b"data: " + b"x" * waiting + b"\n\n"
    stream.add(event)
    first = stream.tick(fill_event_stream=True)
    assert stream.waiting == 0
    assert (len(first) - 32 - 18) % 512 == 0
    assert stream.tick(fill_event_stream=True) == b""
    answer = opened(opener_of(client), [first, stream.end()])
    assert answer.content.startswith(event)
    comments = answer.content[len(event) :].decode().split("\n\n")
    assert comments.pop() == ""
    assert all(comment.startswith(":") and not comment[1:].strip() for comment in comments)


_SERVICE = Service()
_RECORD = _SERVICE.record()


def test_an_upload_says_its_bucket_alone_however_it_arrives() -> None:
    lengths = set()
    for sizes in ([20_000], [1] * 20, [16_384, 616], [5000] * 4):
        client = RequestSealer(_RECORD, replace(ASK, content=b""), at=AT)
        body = client.begin() + b"".join(client.add(bytes(size)) for size in sizes) + client.end()
        lengths.add((sum(sizes) > 10_000, len(body)))
    assert len(lengths) == 2
