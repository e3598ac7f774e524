"""HPKE contexts: published vectors, a second implementation, the library's own single shots, and everything altered."""

import copy
import os
import pickle

import pytest
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, MLKEM768X25519PublicKey
from cryptography.hazmat.primitives.hpke import Suite as LibrarySuite
from hypothesis import given
from hypothesis import strategies as st
from pyhpke import AEADId, CipherSuite, KDFId, KEMId

from attest.channel.hpke import (
    AES_128_GCM,
    AES_256_GCM,
    CHACHA20_POLY1305,
    ENC_BYTES,
    MAX_SEQUENCE,
    HpkeContext,
    HpkeKey,
    Suite,
    encapsulate,
)
from attest.errors import ChannelError, ChannelTamperError, VerificationError
from attest.release import WorkloadKey, seal
from attest.release.sealed_key import KEM_HYBRID, KEM_X25519
from tests.channel.support import vectors

SEED = bytes(range(32))
X25519_VECTORS = {"hpke-x25519-aes256gcm": AES_256_GCM, "hpke-x25519-chacha20": CHACHA20_POLY1305}
KEMS = (KEM_X25519, KEM_HYBRID)
AEADS = (AES_128_GCM, AES_256_GCM, CHACHA20_POLY1305)
LIBRARY_KEMS = {KEM_X25519: KEM.X25519, KEM_HYBRID: KEM.MLKEM768_X25519}
MESSAGES = st.lists(st.tuples(st.binary(max_size=50), st.binary(max_size=20)), max_size=5)
LIBRARY_AEADS = {
    AES_128_GCM: AEAD.AES_128_GCM,
    AES_256_GCM: AEAD.AES_256_GCM,
    CHACHA20_POLY1305: AEAD.CHACHA20_POLY1305,
}
PYHPKE_AEADS = {
    AES_128_GCM: AEADId.AES128_GCM,
    AES_256_GCM: AEADId.AES256_GCM,
    CHACHA20_POLY1305: AEADId.CHACHA20_POLY1305,
}


def pair(kem: int, aead: int, *, info: bytes = b"info") -> tuple[bytes, HpkeContext, HpkeContext]:
    key, suite = HpkeKey.from_seed(kem, SEED), Suite(kem=kem, aead=aead)
    shared, enc = encapsulate(kem, key.public)
    return enc, HpkeContext(suite, shared, info), HpkeContext(suite, key.decapsulate(enc), info)


def library_key(key: HpkeKey) -> X25519PublicKey | MLKEM768X25519PublicKey:
    curve = X25519PublicKey.from_public_bytes(key.public[-32:])
    if key.kem == KEM_X25519:
        return curve
    return MLKEM768X25519PublicKey(MLKEM768PublicKey.from_public_bytes(key.public[:1184]), curve)


def require_messages(found: dict[str, bytes], suite: Suite, shared: bytes, info: bytes) -> None:
    """Each message under its number, sealed and opened; each export."""
    messages = {int(name[3:]): value for name, value in found.items() if name.startswith("ct_")}
    exports = {name[7:]: value for name, value in found.items() if name.startswith("export_")}
    assert len(messages) >= 3
    assert len(exports) >= 2
    for number, sealed in messages.items():
        aad = b"Count-%d" % number
        assert HpkeContext(suite, shared, info, sequence=number).seal(found["pt"], aad=aad) == sealed
        assert HpkeContext(suite, shared, info, sequence=number).open(sealed, aad=aad) == found["pt"]
    for name, value in exports.items():
        context = b"" if name == "empty" else bytes.fromhex(name)
        assert HpkeContext(suite, shared, info).export(context, 32) == value


@pytest.mark.parametrize("name", X25519_VECTORS)
def test_the_published_vectors_of_x25519_hold_from_key_to_export(name: str) -> None:
    found, suite = vectors(name), Suite(kem=KEM_X25519, aead=X25519_VECTORS[name])
    assert found["suite"] == suite.to_bytes()
    key = HpkeKey.from_seed(KEM_X25519, found["skRm"])
    assert key.public == found["pkRm"]
    ephemeral = X25519PrivateKey.from_private_bytes(found["skEm"])
    shared, enc = encapsulate(KEM_X25519, key.public, dangerous_ephemeral=ephemeral)
    assert (shared, enc) == (found["shared_secret"], found["pkEm"])
    assert key.decapsulate(enc) == shared
    require_messages(found, suite, shared, found["info"])


def test_the_published_vector_of_the_hybrid_holds_from_seed_to_secret() -> None:
    found = vectors("xwing")
    key = HpkeKey.from_seed(KEM_HYBRID, found["seed"])
    assert key.public == found["pk"]
    assert key.decapsulate(found["ct"]) == found["ss"]
    assert X25519PrivateKey.from_private_bytes(found["eseed"][32:]).public_key().public_bytes_raw() == found["ct"][-32:]


def test_the_published_vector_of_the_hybrid_in_hpke_holds_from_seed_to_export() -> None:
    found = vectors("hpke-xwing-chacha20")
    key, suite = HpkeKey.from_seed(KEM_HYBRID, found["skRm"]), Suite(kem=KEM_HYBRID, aead=CHACHA20_POLY1305)
    assert found["suite"] == suite.to_bytes()
    assert key.decapsulate(found["enc"]) == found["shared_secret"]
    require_messages(found, suite, found["shared_secret"], found["info"])


@pytest.mark.parametrize("kem", KEMS)
@pytest.mark.parametrize("aead", AEADS)
def test_the_librarys_single_shots_and_our_contexts_open_each_other(kem: int, aead: int) -> None:
    key, suite = HpkeKey.from_seed(kem, SEED), Suite(kem=kem, aead=aead)
    library = LibrarySuite(
        KEM.X25519 if kem == KEM_X25519 else KEM.MLKEM768_X25519, KDF.HKDF_SHA256, LIBRARY_AEADS[aead]
    )
    sealed = library.encrypt(b"hello", library_key(key), b"info")
    enc, message = sealed[: ENC_BYTES[kem]], sealed[ENC_BYTES[kem] :]
    assert HpkeContext(suite, key.decapsulate(enc), b"info").open(message) == b"hello"


@pytest.mark.parametrize("kem", KEMS)
def test_what_our_context_seals_the_library_opens(kem: int) -> None:
    workload = WorkloadKey.generate(kem)
    shared, enc = encapsulate(kem, workload.public[2:])
    sealed = HpkeContext(Suite(kem=kem, aead=AES_256_GCM), shared, b"info").seal(b"hello")
    assert workload.open(enc + sealed, info=b"info") == b"hello"


@pytest.mark.parametrize("kem", KEMS)
def test_a_released_private_half_is_the_same_key_here_as_in_a_release(kem: int) -> None:
    material = os.urandom(96 if kem == KEM_HYBRID else 32)
    released, here = WorkloadKey.from_material(kem, material), HpkeKey.from_material(kem, material)
    assert released.public == kem.to_bytes(2, "big") + here.public
    sealed = seal(b"hello", recipient=released.public, info=b"info")
    enc, message = sealed[: ENC_BYTES[kem]], sealed[ENC_BYTES[kem] :]
    context = HpkeContext(Suite(kem=kem, aead=AES_256_GCM), here.decapsulate(enc), b"info")
    assert context.open(message) == b"hello"


@pytest.mark.parametrize("aead", AEADS)
@given(
    info=st.binary(max_size=40),
    messages=st.lists(st.tuples(st.binary(max_size=50), st.binary(max_size=20)), max_size=5),
)
def test_a_second_implementation_agrees_in_both_directions(
    aead: int, info: bytes, messages: list[tuple[bytes, bytes]]
) -> None:
    theirs = CipherSuite.new(KEMId.DHKEM_X25519_HKDF_SHA256, KDFId.HKDF_SHA256, PYHPKE_AEADS[aead])
    key, suite = HpkeKey.from_seed(KEM_X25519, SEED), Suite(kem=KEM_X25519, aead=aead)
    enc, sender = theirs.create_sender_context(theirs.kem.deserialize_public_key(key.public), info=info)
    here = HpkeContext(suite, key.decapsulate(enc), info)
    for plaintext, aad in messages:
        assert here.open(sender.seal(plaintext, aad=aad), aad=aad) == plaintext
    shared, enc = encapsulate(KEM_X25519, key.public)
    ours = HpkeContext(suite, shared, info)
    recipient = theirs.create_recipient_context(enc, theirs.kem.deserialize_private_key(SEED), info=info)
    for plaintext, aad in messages:
        assert recipient.open(ours.seal(plaintext, aad=aad), aad=aad) == plaintext
    assert recipient.export(b"context", 48) == ours.export(b"context", 48)


@pytest.mark.parametrize("kem", KEMS)
def test_every_bit_of_enc_counts(kem: int) -> None:
    enc, sender, _ = pair(kem, AES_256_GCM)
    sealed, key = sender.seal(b"x"), HpkeKey.from_seed(kem, SEED)
    for at in range(len(enc)):
        altered = enc[:at] + bytes((enc[at] ^ 1 << at % 8,)) + enc[at + 1 :]
        # The top bit of an X25519 point means nothing to X25519; the KEM mixes the bytes in all the same.
        with pytest.raises(ChannelTamperError):
            HpkeContext(Suite(kem=kem, aead=AES_256_GCM), key.decapsulate(altered), b"info").open(sealed)


@pytest.mark.parametrize("kem", KEMS)
@pytest.mark.parametrize("change", [b"", b"\0"])
def test_an_enc_of_another_length_is_refused(kem: int, change: bytes) -> None:
    enc, _, _ = pair(kem, AES_256_GCM)
    with pytest.raises(ChannelTamperError, match="does not open"):
        HpkeKey.from_seed(kem, SEED).decapsulate(enc[:-1] if not change else enc + change)


@pytest.mark.parametrize("kem", KEMS)
def test_a_point_that_gives_no_secret_is_refused_on_both_sides(kem: int) -> None:
    key = HpkeKey.from_seed(kem, SEED)
    with pytest.raises(VerificationError) as refused:
        encapsulate(kem, key.public[:-32] + bytes(32))
    assert refused.value.code == "channel-key-invalid"
    enc, _, _ = pair(kem, AES_256_GCM)
    with pytest.raises(ChannelTamperError):
        key.decapsulate(enc[:-32] + bytes(32))


def test_a_lattice_key_with_a_coefficient_that_is_too_large_is_refused() -> None:
    public = HpkeKey.from_seed(KEM_HYBRID, SEED).public
    with pytest.raises(VerificationError) as refused:
        encapsulate(KEM_HYBRID, b"\xff\xff" + public[2:])
    assert refused.value.code == "channel-key-invalid"


@pytest.mark.parametrize(
    ("kem", "size"), [(KEM_HYBRID, 1215), (KEM_HYBRID, 32), (KEM_X25519, 33), (KEM_X25519, 0), (16, 32)]
)
def test_a_public_key_of_another_length_or_kem_is_refused(kem: int, size: int) -> None:
    with pytest.raises(VerificationError) as refused:
        encapsulate(kem, (bytes(range(1, 256)) * 5)[:size])
    assert refused.value.code == "channel-key-invalid"


@pytest.mark.parametrize("kem", [*KEMS, 16])
@pytest.mark.parametrize("size", [0, 31, 33, 95, 97])
def test_a_private_half_of_another_length_is_refused(kem: int, size: int) -> None:
    with pytest.raises(ValueError, match="bytes"):
        HpkeKey.from_seed(kem, bytes(size))
    with pytest.raises(ValueError, match="bytes"):
        HpkeKey.from_material(kem, bytes(size))


@pytest.mark.parametrize(("kem", "aead"), [(0x0010, AES_256_GCM), (KEM_HYBRID, 0xFFFF), (KEM_HYBRID, 0)])
def test_a_suite_that_is_not_spoken_cannot_be_named(kem: int, aead: int) -> None:
    with pytest.raises(ValueError, match="no suite"):
        Suite(kem=kem, aead=aead)


def test_a_failed_opening_leaves_the_number_where_it_was() -> None:
    _, sender, recipient = pair(KEM_HYBRID, AES_256_GCM)
    first, second = sender.seal(b"first"), sender.seal(b"second")
    for wrong in (second, first[:-1], b"", first[:-1] + b"\0"):
        with pytest.raises(ChannelTamperError):
            recipient.open(wrong)
    assert recipient.open(first) == b"first"
    with pytest.raises(ChannelTamperError):
        recipient.open(first)
    assert recipient.open(second) == b"second"


def test_associated_data_and_info_and_suite_have_to_be_the_same() -> None:
    enc, sender, _ = pair(KEM_HYBRID, AES_256_GCM)
    sealed, shared = sender.seal(b"x", aad=b"a"), HpkeKey.from_seed(KEM_HYBRID, SEED).decapsulate(enc)
    suite = Suite(kem=KEM_HYBRID, aead=AES_256_GCM)
    for one, info, aad in (
        (suite, b"info", b"b"),
        (suite, b"inf0", b"a"),
        (Suite(kem=KEM_HYBRID, aead=CHACHA20_POLY1305), b"info", b"a"),
        (Suite(kem=KEM_X25519, aead=AES_256_GCM), b"info", b"a"),
    ):
        with pytest.raises(ChannelTamperError):
            HpkeContext(one, shared, info).open(sealed, aad=aad)
    assert HpkeContext(suite, shared, b"info").open(sealed, aad=b"a") == b"x"


def test_a_context_ends_before_its_numbers_do() -> None:
    suite = Suite(kem=KEM_HYBRID, aead=AES_256_GCM)
    last = HpkeContext(suite, bytes(32), b"", sequence=MAX_SEQUENCE - 1)
    last.seal(b"")
    with pytest.raises(ChannelError) as refused:
        last.seal(b"")
    assert refused.value.code == "channel-messages-exhausted"
    with pytest.raises(ChannelError) as refused:
        last.open(bytes(16))
    assert refused.value.code == "channel-messages-exhausted"


def test_nothing_is_exported_beyond_what_the_kdf_gives() -> None:
    _, sender, recipient = pair(KEM_HYBRID, AES_256_GCM)
    assert sender.export(b"a", 255 * 32) == recipient.export(b"a", 255 * 32)
    assert sender.export(b"a", 32) != sender.export(b"b", 32)
    with pytest.raises(ValueError, match=r"(?i)length|bytes|large"):
        sender.export(b"a", 255 * 32 + 1)


@pytest.mark.parametrize("kem", KEMS)
def test_private_halves_and_contexts_stay_in_their_process(kem: int) -> None:
    _, sender, _ = pair(kem, AES_256_GCM)
    key = HpkeKey.from_seed(kem, SEED)
    for secret in (sender, key):
        with pytest.raises(TypeError, match="does not leave"):
            pickle.dumps(secret)
        with pytest.raises(TypeError, match="does not leave"):
            copy.copy(secret)
    assert SEED.hex() not in repr(key)
    assert "PrivateKey" not in repr(key)
