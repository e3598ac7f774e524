"""The format of sealed files: sizes, published and computed vectors, and Tink's own library as the second opinion."""

import io
import os
from pathlib import Path

import pytest

from attest.errors import SealedFileError
from attest.sealed import FileSource, SealedReader, ciphertext_size, plaintext_size, seal_file, unseal_file

KEY = bytes(range(32))
SALT_AND_PREFIX = bytes(range(0x20, 0x40)) + bytes(range(7))
HELLO = bytes.fromhex(
    "28202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f000102030405068e8516e40856e1229363e7adac2d97a83c687dc96a"
)
EMPTY = bytes.fromhex(
    "28202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f00010203040506343f3051de36750849f5151b6812f55f"
)


def fixed(length: int) -> bytes:
    return {32: SALT_AND_PREFIX[:32], 7: SALT_AND_PREFIX[32:]}.get(length, bytes(length))


@pytest.mark.parametrize(("plaintext", "aad", "sealed"), [(b"hello", b"aad", HELLO), (b"", b"", EMPTY)])
def test_a_vector_is_written_and_read(plaintext: bytes, aad: bytes, sealed: bytes, tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(plaintext)
    done = seal_file(tmp_path / "plain", tmp_path / "sealed", key=KEY, associated_data=aad, random=fixed)
    assert (tmp_path / "sealed").read_bytes() == sealed
    assert (done.plaintext_size, done.ciphertext_size) == (len(plaintext), len(sealed))
    with SealedReader(FileSource(tmp_path / "sealed"), key=KEY, associated_data=aad) as reader:
        assert reader.read(0, reader.size) == plaintext
        unseal_file(reader, tmp_path / "again", random=os.urandom)
    assert (tmp_path / "again").read_bytes() == plaintext


@pytest.mark.parametrize(
    ("plaintext", "ciphertext"),
    [
        (0, 56),
        (1, 57),
        (1048519, 1048575),
        (1048520, 1048576),
        (1048521, 1048593),
        (2097080, 2097152),
        (2097081, 2097169),
    ],
)
def test_sizes_lead_to_each_other(plaintext: int, ciphertext: int) -> None:
    assert ciphertext_size(plaintext) == ciphertext
    assert plaintext_size(ciphertext) == plaintext


@pytest.mark.parametrize("size", [-1, 0, 55, 1048577, 1048592, 2097153, 2097168, (1 << 52) + 1])
def test_a_size_that_no_sealed_file_has_is_refused(size: int) -> None:
    with pytest.raises(SealedFileError) as refused:
        plaintext_size(size)
    assert refused.value.code == "sealed-size-invalid"


def test_three_mebibytes_are_the_same_with_any_number_of_threads(tmp_path: Path) -> None:
    content = os.urandom((3 << 20) + 7)
    (tmp_path / "plain").write_bytes(content)
    for threads in (1, 2, 5):
        seal_file(
            tmp_path / "plain",
            tmp_path / "sealed",
            key=KEY,
            associated_data=b"x",
            random=os.urandom,
            threads=threads,
            digests=threads != 1,
        )
        with SealedReader(FileSource(tmp_path / "sealed"), key=KEY, associated_data=b"x", threads=threads) as reader:
            assert reader.read(0, reader.size) == content
            assert reader.read(1_000_000, 1_200_000) == content[1_000_000:2_200_000]
            with io.BytesIO() as streamed:
                reader.stream(streamed.write)
                assert streamed.getvalue() == content
            unseal_file(reader, tmp_path / "again", random=os.urandom)
        assert (tmp_path / "again").read_bytes() == content
