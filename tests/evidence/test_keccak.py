"""Keccak-256: published digests, and the same sponge as the library's SHA3-256."""

from hashlib import sha3_256

from hypothesis import given
from hypothesis import strategies as st

from attest.evidence.keccak import keccak256, sponge256


def test_published_digests_are_met() -> None:
    assert keccak256(b"").hex() == "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    assert keccak256(b"abc").hex() == "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45"


@given(st.binary(max_size=420))
def test_with_the_suffix_of_sha_3_it_is_sha3_256(data: bytes) -> None:
    assert sponge256(data, suffix=0x06) == sha3_256(data).digest()


def test_blocks_that_are_full_or_lack_one_byte_are_padded() -> None:
    for size in (134, 135, 136, 137, 271, 272, 273):
        assert sponge256(bytes(size), suffix=0x06) == sha3_256(bytes(size)).digest()
