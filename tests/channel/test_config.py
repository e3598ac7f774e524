"""Key configurations: what is read is what was written, one defect refuses all, and a client chooses carefully."""

from collections.abc import Callable
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.channel import KEM_HYBRID, KEM_X25519, KeyConfig, KeyDocument, parse_key_document
from attest.channel.config import MAX_CONFIGS, MAX_DOCUMENT_BYTES, OFFERED, ForeignConfig, choose
from attest.channel.hpke import AES_256_GCM, CHACHA20_POLY1305, HpkeKey
from attest.errors import ChannelError
from tests.channel.support import vectors
from tests.channel.whole_messages import only_config

CURVE = HpkeKey.from_seed(KEM_X25519, bytes(32)).public
HYBRID = HpkeKey.from_seed(KEM_HYBRID, vectors("xwing")["seed"]).public
ONE = KeyConfig(key_id=1, kem=KEM_HYBRID, public_key=HYBRID)
TWO = KeyConfig(key_id=2, kem=KEM_X25519, public_key=CURVE)
ALIEN = ForeignConfig(key_id=9, kem=0x0041, rest=b"post")
BOTH = KeyDocument(configs=(ONE, ALIEN, TWO))
PAIRS = st.lists(st.tuples(st.integers(0, 65535), st.integers(0, 65535)), min_size=1, max_size=4).map(tuple)
CONFIGS = st.one_of(
    st.builds(
        KeyConfig,
        key_id=st.integers(0, 255),
        kem=st.just(KEM_X25519),
        public_key=st.binary(min_size=32, max_size=32),
        pairs=PAIRS,
    ),
    st.builds(
        ForeignConfig,
        key_id=st.integers(0, 255),
        kem=st.integers(0x100, 0x6000),
        rest=st.binary(max_size=40),
    ),
)


def code_of(work: Callable[[], object]) -> str:
    with pytest.raises(ChannelError) as refused:
        work()
    return refused.value.code


def test_the_document_of_our_own_vector_is_made() -> None:
    document = KeyDocument(configs=(ONE,)).to_bytes()
    assert len(document) == 2 + 1229
    assert sha256(document).digest() == vectors("channel-xwing")["keys_sha256"]
    assert parse_key_document(document).digest == sha256(b"attest ohttp keys v1\0" + document).digest()


@pytest.mark.parametrize("name", ["rfc9458", "chunked-08"])
def test_published_configurations_are_read_and_written_again(name: str) -> None:
    raw = vectors(name)["config"]
    config = only_config(raw)
    assert config.to_bytes() == raw
    assert (config.kem, config.pairs) == (KEM_X25519, ((1, 1), (1, 3)))


@given(st.lists(CONFIGS, min_size=1, max_size=5, unique_by=lambda config: config.key_id))
def test_any_document_is_read_as_it_was_written(configs: list[KeyConfig | ForeignConfig]) -> None:
    document = KeyDocument(configs=tuple(configs))
    assert parse_key_document(document.to_bytes()) == document


@given(st.binary(max_size=150))
def test_any_bytes_end_in_a_document_that_encodes_to_them_or_a_refusal(data: bytes) -> None:
    try:
        assert parse_key_document(data).to_bytes() == data
    except ChannelError as exc:
        assert exc.code == "channel-keys-malformed"  # noqa: PT017  either is right


def test_a_document_that_is_cut_or_longer_is_refused_as_a_whole() -> None:
    raw = BOTH.to_bytes()
    boundaries = {len(KeyDocument(configs=BOTH.configs[:count]).to_bytes()) for count in (1, 2)}
    for size in set(range(len(raw))) - boundaries:
        assert code_of(lambda size=size: parse_key_document(raw[:size])) == "channel-keys-malformed"  # type: ignore[misc]
    assert code_of(lambda: parse_key_document(raw + b"\0")) == "channel-keys-malformed"


def test_every_byte_of_a_document_is_in_its_digest() -> None:
    raw, digests = KeyDocument(configs=(TWO,)).to_bytes(), set()
    for at in range(len(raw)):
        altered = raw[:at] + bytes((raw[at] ^ 1,)) + raw[at + 1 :]
        try:
            digests.add(parse_key_document(altered).digest)
        except ChannelError:
            continue
    assert BOTH.digest not in digests
    assert KeyDocument(configs=(TWO,)).digest not in digests
    assert len(digests) > 30


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x00\x00",
        b"\x00\x01\x01",
        KeyDocument(configs=(TWO,)).to_bytes() * 2,  # a key id twice
        KeyDocument(configs=(TWO,)).to_bytes()[2:],  # without its length
        b"\x00\x25" + TWO.to_bytes()[:-8],  # without algorithms
        b"\x00\x25" + TWO.to_bytes()[:35] + b"\x00\x00",
        b"\x00\x28" + TWO.to_bytes()[:35] + b"\x00\x03\x00\x01\x00",
        b"\x00\x2e" + TWO.to_bytes() + b"\x00",
    ],
)
def test_a_malformed_document_is_refused(raw: bytes) -> None:
    assert code_of(lambda: parse_key_document(raw)) == "channel-keys-malformed"


def test_the_number_of_configurations_and_the_size_are_limited() -> None:
    many = b"".join(
        KeyDocument(configs=(ForeignConfig(key_id=number, kem=1, rest=b""),)).to_bytes()
        for number in range(MAX_CONFIGS + 1)
    )
    assert len(parse_key_document(many[:-5]).configs) == MAX_CONFIGS
    assert code_of(lambda: parse_key_document(many)) == "channel-keys-malformed"
    assert code_of(lambda: parse_key_document(bytes(MAX_DOCUMENT_BYTES + 1))) == "channel-keys-malformed"
    with pytest.raises(ValueError, match="configurations"):
        KeyDocument(configs=())
    with pytest.raises(ValueError, match="bytes"):
        KeyDocument(configs=(ForeignConfig(key_id=1, kem=1, rest=bytes(MAX_DOCUMENT_BYTES)),))


@pytest.mark.parametrize(
    "wrong",
    [{"key_id": 256}, {"key_id": -1}, {"public_key": CURVE[:-1]}, {"kem": 16}, {"pairs": ()}, {"pairs": ((1, 65536),)}],
)
def test_a_configuration_that_cannot_be_encoded_cannot_be_made(wrong: dict[str, object]) -> None:
    fields = {"key_id": 1, "kem": KEM_X25519, "public_key": CURVE} | wrong
    with pytest.raises(ValueError, match=r"key|ids"):
        KeyConfig(**fields)  # type: ignore[arg-type]


# -- choosing


def test_the_hybrid_is_chosen_unless_more_is_accepted_and_comes_first() -> None:
    assert choose(BOTH).config is ONE
    assert choose(BOTH, kems=(KEM_X25519,)).config is TWO
    assert choose(KeyDocument(configs=(TWO, ONE)), kems=(KEM_HYBRID, KEM_X25519)).config is TWO
    assert choose(KeyDocument(configs=(TWO, ONE))).config is ONE


def test_the_services_order_of_algorithms_counts_and_unknown_ones_are_passed_over() -> None:
    pairs = ((2, 2), (1, 1), (1, CHACHA20_POLY1305), (1, AES_256_GCM))
    config = KeyConfig(key_id=1, kem=KEM_HYBRID, public_key=HYBRID, pairs=pairs)
    assert choose(KeyDocument(configs=(config,))).suite.aead == CHACHA20_POLY1305
    assert OFFERED[0][1] == AES_256_GCM
    assert choose(BOTH).suite.aead == AES_256_GCM


@pytest.mark.parametrize(
    "document",
    [
        KeyDocument(configs=(TWO,)),
        KeyDocument(configs=(ALIEN,)),
        KeyDocument(configs=(KeyConfig(key_id=1, kem=KEM_HYBRID, public_key=HYBRID, pairs=((1, 1), (2, 2))),)),
    ],
)
def test_a_document_without_anything_acceptable_is_refused(document: KeyDocument) -> None:
    assert code_of(lambda: choose(document)) == "channel-keys-unsupported"
    assert code_of(lambda: choose(document, kems=())) == "channel-keys-unsupported"
