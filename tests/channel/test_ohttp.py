"""Oblivious HTTP in both forms: published vectors, everything altered, cut, reordered, or of another exchange."""

import os

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from attest.channel.chunked import MAX_CHUNK_BYTES, PIECE_BYTES, ChunkOpener, ChunkSealer
from attest.channel.config import OFFERED, KeyChoice, KeyConfig
from attest.channel.hpke import (
    AES_128_GCM,
    AES_256_GCM,
    CHACHA20_POLY1305,
    ENC_BYTES,
    CountedAead,
    HpkeContext,
    HpkeKey,
    Suite,
    expand,
    extract,
)
from attest.channel.ohttp import (
    MessageForm,
    Opening,
    Sealing,
    begin_opening,
    begin_sealing,
    open_answer,
    read_header,
    seal_answer,
)
from attest.errors import ChannelError, ChannelTamperError
from attest.release.sealed_key import KEM_HYBRID, KEM_X25519
from tests.channel.support import vectors
from tests.channel.whole_messages import only_config, open_request, seal_request

SEED = bytes(range(32))
PIECES = st.lists(st.binary(min_size=1, max_size=300), max_size=6)
KEMS = (KEM_X25519, KEM_HYBRID)


def service(kem: int = KEM_HYBRID, *, key_id: int = 1, seed: bytes = SEED) -> tuple[KeyConfig, HpkeKey]:
    key = HpkeKey.from_seed(kem, seed)
    return KeyConfig(key_id=key_id, kem=kem, public_key=key.public), key


def choice(config: KeyConfig, aead: int = AES_256_GCM) -> KeyChoice:
    return KeyChoice(config=config, suite=Suite(kem=config.kem, aead=aead))


def test_the_vector_of_rfc_9458_is_made_and_opened() -> None:
    found = vectors("rfc9458")
    config, key = only_config(found["config"]), HpkeKey.from_seed(KEM_X25519, found["skR"])
    assert config.to_bytes() == found["config"]
    ephemeral = X25519PrivateKey.from_private_bytes(found["skE"])
    sealing = begin_sealing(choice(config, AES_128_GCM), MessageForm.SINGLE, dangerous_ephemeral=ephemeral)
    assert sealing.prefix + sealing.context.seal(found["request"]) == found["enc_request"]
    message, opening = open_request(found["enc_request"], config=config, key=key)
    assert message == found["request"]
    assert opening.context.export(MessageForm.SINGLE.answer_label, 16) == found["secret"]
    answer = seal_answer(opening, found["response"], random=lambda _: found["enc_response"][:16])
    assert answer == found["enc_response"]
    assert open_answer(sealing, answer) == found["response"]


def test_the_derivation_of_the_answers_key_is_the_published_one() -> None:
    for name in ("rfc9458", "chunked-08"):
        found = vectors(name)
        prk = extract(found["salt"], found["secret"])
        assert prk == found["prk"]
        assert (expand(prk, b"key", 16), expand(prk, b"nonce", 12)) == (found["key"], found["nonce"])


def test_the_vector_of_the_chunked_draft_is_made_and_opened() -> None:
    found = vectors("chunked-08")
    config, key = only_config(found["config"]), HpkeKey.from_seed(KEM_X25519, found["skR"])
    ephemeral = X25519PrivateKey.from_private_bytes(found["skE"])
    sealing = begin_sealing(choice(config, AES_128_GCM), MessageForm.CHUNKED, dangerous_ephemeral=ephemeral)
    sealer, request = ChunkSealer(sealing.context), found["request"]
    made = sealing.prefix + sealer.piece(request[:12]) + sealer.piece(request[12:]) + sealer.final()
    assert made == found["enc_request"]
    opening = opened_chunked(made, config, key)
    assert opening.context.export(MessageForm.CHUNKED.answer_label, 16) == found["secret"]
    assert whole(made[39:], opening.context) == request
    nonce, cipher = opening.answer_key(lambda _: found["salt"][32:])
    answers, response = ChunkSealer(cipher), found["response"]
    answer = nonce + answers.piece(response[:1]) + answers.piece(response[1:]) + answers.final()
    assert answer == found["enc_response"]
    assert whole(answer[16:], sealing.answer_cipher(nonce)) == response


def test_our_own_vector_for_the_hybrid_suite_is_opened_and_answered() -> None:
    found, xwing = vectors("channel-xwing"), vectors("xwing")
    config, key = service(seed=xwing["seed"])
    header = bytes.fromhex("01647a00010002")
    opening = begin_opening(
        header, xwing["ct"], form=MessageForm.CHUNKED, suite=read_header(header, config=config), key=key
    )
    pieces = ChunkOpener(opening.context)
    assert [len(piece) for piece in pieces.feed(found["sealed_request"])] == [64]
    assert whole(found["sealed_request"], HpkeContext(opening.suite, xwing["ss"], found["info"])) == found["request"]
    assert opening.context.export(MessageForm.CHUNKED.answer_label, 32) == found["secret"]
    nonce, cipher = opening.answer_key(lambda size: bytes(range(size)))
    sealer, response = ChunkSealer(cipher), found["response"]
    assert nonce + sealer.piece(response[:20]) + sealer.piece(response[20:]) + sealer.final() == found["enc_response"]
    sender = ChunkSealer(HpkeContext(opening.suite, xwing["ss"], found["info"]))
    assert sender.piece(found["request"][:64]) + sender.final(found["request"][64:]) == found["sealed_request"]


# -- single messages


@pytest.mark.parametrize("kem", KEMS)
@pytest.mark.parametrize("aead", [AES_256_GCM, CHACHA20_POLY1305])
@given(message=st.binary(max_size=200), answer=st.binary(max_size=200))
def test_any_message_and_its_answer_arrive(kem: int, aead: int, message: bytes, answer: bytes) -> None:
    config, key = service(kem)
    body, sealing = seal_request(choice(config, aead), message)
    opened, opening = open_request(body, config=config, key=key)
    assert opened == message
    assert open_answer(sealing, seal_answer(opening, answer, random=os.urandom)) == answer


@pytest.mark.parametrize("kem", KEMS)
def test_no_byte_of_a_request_can_be_altered(kem: int) -> None:
    config, key = service(kem)
    body, _ = seal_request(choice(config), b"message")
    for at in range(len(body)):
        with pytest.raises(ChannelTamperError) as refused:
            open_request(flipped(body, at), config=config, key=key)
        assert refused.value.code == "channel-not-opened"


def test_a_request_is_not_opened_when_it_is_cut_anywhere_or_longer() -> None:
    config, key = service(KEM_X25519)
    body, _ = seal_request(choice(config), b"message")
    for altered in (*(body[:size] for size in range(len(body))), body + b"\0"):
        with pytest.raises(ChannelTamperError):
            open_request(altered, config=config, key=key)


def test_no_byte_of_an_answer_can_be_altered_or_missing() -> None:
    config, key = service(KEM_X25519)
    body, sealing = seal_request(choice(config), b"message")
    answer = seal_answer(open_request(body, config=config, key=key)[1], b"answer", random=os.urandom)
    changed = [flipped(answer, at) for at in range(len(answer))]
    for altered in (*changed, *(answer[:size] for size in range(len(answer))), answer + b"\0"):
        with pytest.raises(ChannelTamperError):
            open_answer(sealing, altered)
    assert open_answer(sealing, answer) == b"answer"


def test_the_answer_to_another_request_is_not_opened() -> None:
    config, key = service()
    first, asked = seal_request(choice(config), b"same")
    second, other = seal_request(choice(config), b"same")
    answers = [
        seal_answer(open_request(b, config=config, key=key)[1], b"x", random=os.urandom) for b in (first, second)
    ]
    with pytest.raises(ChannelTamperError):
        open_answer(asked, answers[1])
    with pytest.raises(ChannelTamperError):
        open_answer(other, answers[0])


def test_two_answers_to_one_request_have_keys_of_their_own() -> None:
    config, key = service()
    body, sealing = seal_request(choice(config), b"same")
    answers = {seal_answer(open_request(body, config=config, key=key)[1], b"x", random=os.urandom) for _ in range(3)}
    assert len(answers) == 3
    assert {open_answer(sealing, answer) for answer in answers} == {b"x"}


def test_the_forms_cannot_be_taken_for_each_other() -> None:
    config, key = service()
    sealing = begin_sealing(choice(config), MessageForm.CHUNKED)
    with pytest.raises(ChannelTamperError):
        open_request(sealing.prefix + sealing.context.seal(b"x"), config=config, key=key)
    body, single = seal_request(choice(config), b"x")
    _, opening = open_request(body, config=config, key=key)
    assert opening.context.export(MessageForm.CHUNKED.answer_label, 32) != opening.context.export(
        MessageForm.SINGLE.answer_label, 32
    )
    assert single.form is MessageForm.SINGLE


@pytest.mark.parametrize(
    "header",
    [
        "02647a00010002",  # another key id
        "01002000010002",  # another KEM
        "01647a00010001",  # an AEAD that is spoken here and was not offered
        "01647a00020002",  # another KDF
        "01647a0001ffff",  # export only
    ],
)
def test_a_header_that_was_not_offered_opens_nothing(header: str) -> None:
    config, _ = service()
    with pytest.raises(ChannelTamperError) as refused:
        read_header(bytes.fromhex(header), config=config)
    assert refused.value.code == "channel-not-opened"


@pytest.mark.parametrize("pair", [(2, 2), (1, 0xFFFF), (0xFFFF, 0xFFFF)])
def test_a_pair_that_is_offered_and_not_spoken_opens_nothing(pair: tuple[int, int]) -> None:
    config, _ = service()
    offered = KeyConfig(key_id=1, kem=config.kem, public_key=config.public_key, pairs=(*OFFERED, pair))
    header = b"\x01\x64\x7a" + b"".join(number.to_bytes(2, "big") for number in pair)
    with pytest.raises(ChannelTamperError):
        read_header(header, config=offered)


# -- chunks


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes((data[at] ^ 1 << at % 8,)) + data[at + 1 :]


def opened_chunked(body: bytes, config: KeyConfig, key: HpkeKey) -> Opening:
    suite, size = read_header(body[:7], config=config), ENC_BYTES[config.kem]
    return begin_opening(body[:7], body[7 : 7 + size], form=MessageForm.CHUNKED, suite=suite, key=key)


def whole(body: bytes, cipher: CountedAead, *, step: int = 0) -> bytes:
    opener = ChunkOpener(cipher)
    steps = [body] if step == 0 else [body[at : at + step] for at in range(0, len(body), step)]
    pieces = [piece for one in steps for piece in opener.feed(one)]
    return b"".join(pieces) + opener.finish()


def cipher() -> CountedAead:
    return HpkeContext(Suite(kem=KEM_HYBRID, aead=AES_256_GCM), bytes(32), b"test")


def chunks(*pieces: bytes) -> list[bytes]:
    """Seal pieces; the last is the final one."""
    sealer = ChunkSealer(cipher())
    return [*(sealer.piece(piece) for piece in pieces[:-1]), sealer.final(pieces[-1])]


@given(
    pieces=st.lists(st.binary(min_size=1, max_size=300), max_size=6),
    last=st.binary(max_size=300),
    step=st.integers(0, 50),
)
def test_any_pieces_in_any_portions_arrive(pieces: list[bytes], last: bytes, step: int) -> None:
    assert whole(b"".join(chunks(*pieces, last)), cipher(), step=step) == b"".join(pieces) + last


def test_pieces_of_the_largest_size_arrive() -> None:
    largest = b"x" * PIECE_BYTES
    assert whole(b"".join(chunks(largest, largest)), cipher(), step=1000) == largest * 2
    sealer = ChunkSealer(cipher())
    for wrong in (b"", largest + b"x"):
        with pytest.raises(ValueError, match="bytes"):
            sealer.piece(wrong)
    with pytest.raises(ValueError, match="bytes"):
        sealer.final(largest + b"x")
    sealer.final()
    for again in (sealer.piece, sealer.final):
        with pytest.raises(ValueError, match="final"):
            again(b"x")


def test_no_byte_of_chunks_can_be_altered() -> None:
    body = b"".join(chunks(b"first", b"second", b"third"))
    for at in range(len(body)):
        for bit in range(8):
            altered = body[:at] + bytes((body[at] ^ 1 << bit,)) + body[at + 1 :]
            with pytest.raises(ChannelError):
                whole(altered, cipher())


def test_chunks_that_are_cut_anywhere_are_refused_as_cut_or_altered() -> None:
    parts = chunks(b"first", b"second", b"third")
    body = b"".join(parts)
    for size in range(len(body)):
        with pytest.raises(ChannelTamperError) as refused:
            whole(body[:size], cipher())
        assert refused.value.code in {"channel-truncated", "channel-not-opened"}
    for ends in range(3):  # between chunks, where everything that is there opens
        with pytest.raises(ChannelTamperError) as refused:
            whole(b"".join(parts[:ends]), cipher())
        assert refused.value.code == "channel-truncated"


@pytest.mark.parametrize(
    "order", [(1, 0, 2), (0, 2), (1, 2), (0, 0, 1, 2), (0, 1, 1, 2), (2,), (0, 1, 2, 2), (0, 1, 2, 0), (2, 0, 1)]
)
def test_chunks_that_are_swapped_dropped_repeated_or_appended_are_refused(order: tuple[int, ...]) -> None:
    parts = chunks(b"first", b"second", b"third")
    with pytest.raises(ChannelError):
        whole(b"".join(parts[number] for number in order), cipher())


def test_a_middle_chunk_cannot_be_made_the_end_nor_the_end_a_middle_chunk() -> None:
    first, _, last = chunks(b"first", b"second", b"third")
    with pytest.raises(ChannelTamperError):
        whole(b"\x00" + first[1:], cipher())
    only = chunks(b"only")[0]
    opener = ChunkOpener(cipher())
    with pytest.raises(ChannelTamperError):
        opener.feed(bytes((len(only) - 1,)) + only[1:])
    assert last[0] == 0


@pytest.mark.parametrize("length", [1, 15, 16, MAX_CHUNK_BYTES + 1, (1 << 62) - 1])
def test_a_length_that_no_chunk_has_is_refused_before_anything_is_awaited(length: int) -> None:
    with pytest.raises(ChannelError) as refused:
        ChunkOpener(cipher()).feed((length | 3 << 62).to_bytes(8, "big"))
    assert refused.value.code == "channel-chunk-invalid"


def test_lengths_may_be_longer_than_they_need_be() -> None:
    first, last = chunks(b"first", b"last")
    assert whole(b"\x40" + first + b"\x80\x00\x00" + last, cipher()) == b"firstlast"
    assert whole(b"\x40" + first + b"\x80\x00\x00" + last, cipher(), step=1) == b"firstlast"


def test_a_final_chunk_without_end_is_refused_once_it_is_too_long() -> None:
    opener = ChunkOpener(cipher())
    opener.feed(b"\x00" + bytes(MAX_CHUNK_BYTES))
    with pytest.raises(ChannelError) as refused:
        opener.feed(b"\x00")
    assert refused.value.code == "channel-chunk-invalid"


def test_more_bytes_or_chunks_than_are_allowed_are_refused() -> None:
    parts = chunks(b"1234", b"5678", b"9")
    assert [*ChunkOpener(cipher(), max_bytes=8, max_chunks=2).feed(parts[0] + parts[1])] == [b"1234", b"5678"]
    for limits in ({"max_bytes": 7}, {"max_chunks": 1}):
        opener = ChunkOpener(cipher(), **limits)
        opener.feed(parts[0])
        with pytest.raises(ChannelError) as refused:
            opener.feed(parts[1])
        assert refused.value.code == "channel-too-long"
    opener = ChunkOpener(cipher(), max_bytes=8)
    opener.feed(b"".join(parts))
    with pytest.raises(ChannelError) as refused:
        opener.finish()
    assert refused.value.code == "channel-too-long"


def test_a_message_has_no_more_chunks_than_a_receiver_takes() -> None:
    sealer = ChunkSealer(cipher(), max_chunks=2)
    sealer.piece(b"1")
    sealer.piece(b"2")
    with pytest.raises(ChannelError) as refused:
        sealer.final()
    assert refused.value.code == "channel-messages-exhausted"


def test_after_a_refusal_and_after_the_end_nothing_more_is_opened() -> None:
    first, last = chunks(b"first", b"last")
    opener = ChunkOpener(cipher())
    with pytest.raises(ChannelTamperError):
        opener.feed(flipped(first, 5))
    for go_on in (lambda: opener.feed(first), opener.finish):
        with pytest.raises(ChannelTamperError):
            go_on()
    opener = ChunkOpener(cipher())
    opener.feed(first + last)
    opener.finish()
    with pytest.raises(ChannelTamperError):
        opener.feed(b"")


@given(st.binary(max_size=200))
def test_opening_any_bytes_ends_in_a_documented_refusal(data: bytes) -> None:
    config, key = service(KEM_X25519)
    for what in (lambda: whole(data, cipher()), lambda: open_request(data, config=config, key=key)):
        with pytest.raises(ChannelError):
            what()


def test_an_exchange_shows_no_secret() -> None:
    _, sealing = seal_request(choice(service()[0]), b"x")
    assert isinstance(sealing, Sealing)
    assert "HpkeContext object" in repr(sealing)
