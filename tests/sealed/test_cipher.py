"""The header, and one segment at a time."""

import os
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import SealedFileError, SealedTamperError
from attest.sealed import FileHeader, SegmentCipher
from attest.sealed.layout import FIRST_PLAINTEXT_BYTES, MAX_SEGMENTS, PLAINTEXT_BYTES
from tests.sealed.segments import AAD, KEY

HEADER = FileHeader(salt=bytes(range(32, 64)), nonce_prefix=bytes(range(7)))


def cipher(*, key: bytes = KEY, header: FileHeader = HEADER, aad: bytes = AAD) -> SegmentCipher:
    return SegmentCipher(key, header, aad)


def encrypted(plaintext: bytes, *, index: int = 0, last: bool = True) -> bytes:
    out = bytearray(len(plaintext) + 16)
    cipher().encrypt_into(index, last, plaintext, out)
    return bytes(out)


def test_a_header_is_its_length_the_salt_and_the_prefix() -> None:
    assert bytes(HEADER) == bytes((40, *range(32, 64), *range(7)))
    assert FileHeader.parse(bytes(HEADER)) == HEADER


@pytest.mark.parametrize("first", [n for n in range(256) if n != 40])
def test_a_header_of_another_stated_length_is_refused(first: int) -> None:
    with pytest.raises(SealedFileError) as refused:
        FileHeader.parse(bytes((first,)) + bytes(HEADER)[1:])
    assert refused.value.code == "sealed-header-invalid"


@pytest.mark.parametrize("length", [n for n in range(80) if n != 40])
def test_a_header_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(SealedFileError) as refused:
        FileHeader.parse((bytes(HEADER) * 2)[:length])
    assert refused.value.code == "sealed-header-invalid"


@given(st.binary(max_size=50))
def test_what_is_accepted_as_a_header_writes_itself_again(raw: bytes) -> None:
    try:
        header = FileHeader.parse(raw)
    except SealedFileError:
        return
    assert bytes(header) == raw


def test_a_fresh_header_takes_all_of_it_from_the_given_randomness() -> None:
    asked: list[int] = []

    def random(length: int) -> bytes:
        asked.append(length)
        return bytes((len(asked),)) * length

    assert bytes(FileHeader.fresh(random)) == b"\x28" + b"\x01" * 32 + b"\x02" * 7
    assert asked == [32, 7]


@pytest.mark.parametrize(("salt", "prefix"), [(31, 7), (33, 7), (32, 6), (32, 8)])
def test_parts_of_another_length_are_a_mistake_of_the_caller(salt: int, prefix: int) -> None:
    with pytest.raises(ValueError, match="bytes"):
        FileHeader(salt=bytes(salt), nonce_prefix=bytes(prefix))


@pytest.mark.parametrize("length", [0, 16, 31, 33, 64])
def test_a_key_of_another_length_is_a_mistake_of_the_caller(length: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        cipher(key=bytes(length))


@pytest.mark.parametrize("size", [1, 15, 16, 17, 1000, PLAINTEXT_BYTES])
def test_a_segment_opens_at_its_place(size: int) -> None:
    plaintext, out = os.urandom(size), bytearray(size)
    cipher().decrypt_into(3, True, encrypted(plaintext, index=3), out)
    assert out == plaintext


def test_a_segment_may_be_decrypted_and_encrypted_where_it_lies() -> None:
    plaintext = os.urandom(1000)
    place = bytearray(encrypted(plaintext))
    with memoryview(place) as view:
        cipher().decrypt_into(0, True, view, view[:1000])
        assert place[:1000] == plaintext
        cipher().encrypt_into(0, True, view[:1000], view)
    assert place == encrypted(plaintext)


@pytest.mark.parametrize("at", range(116))
def test_a_segment_with_any_byte_changed_leaves_zeros(at: int) -> None:
    raw = bytearray(encrypted(b"x" * 100))
    raw[at] ^= 1
    out = bytearray(b"?" * 100)
    with pytest.raises(SealedTamperError) as refused:
        cipher().decrypt_into(0, True, raw, out)
    assert refused.value.code == "sealed-segment-invalid"
    assert out == bytes(100)


@pytest.mark.parametrize(
    "other",
    [
        cipher(key=bytes(32)),
        cipher(aad=AAD + b"\0"),
        cipher(aad=b""),
        cipher(header=FileHeader(salt=bytes(32), nonce_prefix=HEADER.nonce_prefix)),
        cipher(header=FileHeader(salt=HEADER.salt, nonce_prefix=bytes(7))),
    ],
    ids=["key", "associated data", "no associated data", "salt", "prefix"],
)
def test_a_segment_opens_only_under_its_key_name_and_header(other: SegmentCipher) -> None:
    with pytest.raises(SealedTamperError):
        other.decrypt_into(0, True, encrypted(b"hello"), bytearray(5))


@pytest.mark.parametrize(("index", "last"), [(0, False), (1, True), (1, False), (256, True), (1 << 24, True)])
def test_a_segment_opens_only_at_its_index_and_only_as_the_last_if_it_is(index: int, last: bool) -> None:
    with pytest.raises(SealedTamperError):
        cipher().decrypt_into(index, last, encrypted(b"hello"), bytearray(5))


@pytest.mark.parametrize(
    ("index", "last", "size"),
    [
        (0, True, FIRST_PLAINTEXT_BYTES + 1),
        (0, False, FIRST_PLAINTEXT_BYTES - 1),
        (0, False, 0),
        (1, True, 0),
        (1, True, PLAINTEXT_BYTES + 1),
        (1, False, PLAINTEXT_BYTES - 1),
        (-1, True, 5),
        (MAX_SEGMENTS, True, 5),
    ],
)
def test_content_that_no_segment_has_is_not_encrypted(index: int, last: bool, size: int) -> None:
    with pytest.raises(ValueError, match="segment"):
        cipher().encrypt_into(index, last, bytes(size), bytearray(size + 16))


@pytest.mark.parametrize("index", [-1, MAX_SEGMENTS])
def test_an_index_that_no_segment_has_is_not_decrypted(index: int) -> None:
    with pytest.raises(ValueError, match="index"):
        cipher().decrypt_into(index, True, bytes(21), bytearray(5))


@pytest.mark.parametrize("room", [0, 4, 6, 21])
def test_a_buffer_of_another_size_is_a_mistake_of_the_caller(room: int) -> None:
    with pytest.raises(ValueError, match="decrypt"):
        cipher().decrypt_into(0, True, encrypted(b"hello"), bytearray(room))
    if room != 21:
        with pytest.raises(ValueError, match=r"\d"):
            cipher().encrypt_into(0, True, b"hello", bytearray(room))


def test_a_cipher_does_not_leave_its_process() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(cipher())
    assert KEY.hex() not in repr(cipher())
