"""Sealing to a workload: only its key opens, only in its exchange."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyhpke import AEADId, CipherSuite, KDFId, KEMId

from attest.errors import BindingError, VerificationError
from attest.release import KEM_HYBRID, KEM_X25519, WorkloadKey, seal

KEYS = {kem: WorkloadKey.generate(kem) for kem in (KEM_HYBRID, KEM_X25519)}
BOTH = pytest.mark.parametrize("kem", list(KEYS))


@BOTH
def test_what_is_sealed_opens_with_the_key_and_the_exchange(kem: int) -> None:
    sealed = seal(b"secret", recipient=KEYS[kem].public, info=b"exchange")
    assert KEYS[kem].open(sealed, info=b"exchange") == b"secret"
    assert seal(b"secret", recipient=KEYS[kem].public, info=b"exchange") != sealed


@BOTH
def test_another_exchange_another_key_or_any_altered_byte_does_not_open(kem: int) -> None:
    key = KEYS[kem]
    sealed = seal(b"secret", recipient=key.public, info=b"exchange")
    with pytest.raises(BindingError):
        key.open(sealed, info=b"another")
    with pytest.raises(BindingError):
        WorkloadKey.generate(kem).open(sealed, info=b"exchange")
    for offset in range(0, len(sealed), 7):
        altered = bytearray(sealed)
        altered[offset] ^= 1
        with pytest.raises(BindingError):
            key.open(bytes(altered), info=b"exchange")
    for length in (0, 1, 31, 32, 33, len(sealed) - 1):
        with pytest.raises(BindingError):
            key.open(sealed[:length], info=b"exchange")


@pytest.mark.parametrize(
    "recipient",
    [
        b"",
        b"\x00",
        b"\x00\x20",
        b"\x00\x20" + bytes(32),
        b"\x00\x20" + b"\x01" * 31,
        b"\x00\x20" + b"\x01" * 33,
        b"\x64\x7a" + bytes(1216),
        b"\x64\x7a" + b"\xff" * 1216,
        b"\x64\x7a" + b"\x01" * 1215,
        b"\x00\x10" + b"\x04" * 65,
    ],
)
def test_a_key_that_cannot_be_sealed_to_is_refused(recipient: bytes) -> None:
    """All-zero X25519 points and ML-KEM coefficients out of range included."""
    with pytest.raises(VerificationError) as outcome:
        seal(b"secret", recipient=recipient, info=b"")
    assert outcome.value.code == "recipient-key-invalid"


@given(st.binary(max_size=1300))
def test_any_recipient_gives_a_sealed_key_or_a_documented_refusal(recipient: bytes) -> None:
    try:
        seal(b"secret", recipient=recipient, info=b"")
    except VerificationError as exc:
        assert exc.code == "recipient-key-invalid"  # noqa: PT017  the success is a success too


def test_an_unknown_kem_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="not offered"):
        WorkloadKey.generate(0x0010)


def test_a_workload_key_shows_no_private_half_and_does_not_leave_its_process() -> None:
    key = KEYS[KEM_HYBRID]
    assert "_private" not in repr(key)
    for leave in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError):
            leave(key)


def test_a_second_implementation_of_hpke_seals_to_our_fallback_key() -> None:
    suite = CipherSuite.new(KEMId.DHKEM_X25519_HKDF_SHA256, KDFId.HKDF_SHA256, AEADId.AES256_GCM)
    key = KEYS[KEM_X25519]
    recipient = suite.kem.deserialize_public_key(key.public[2:])
    enc, context = suite.create_sender_context(recipient, info=b"exchange")
    assert key.open(enc + context.seal(b"secret"), info=b"exchange") == b"secret"
