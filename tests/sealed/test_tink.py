"""Tink's own library reads what is sealed here and writes what is read here."""

import io
import os
from pathlib import Path

import pytest
import tink
from tink import secret_key_access, streaming_aead

from attest.errors import SealedTamperError
from attest.sealed import FileSource, SealedReader, ciphertext_size, seal_file, tink_keyset
from attest.sealed.layout import FIRST_PLAINTEXT_BYTES as FIRST
from attest.sealed.layout import PLAINTEXT_BYTES as NEXT
from tests.sealed.segments import AAD, KEY, content

SIZES = [
    *(0, 1, 15, 16, 17, FIRST - 1, FIRST, FIRST + 1, FIRST + NEXT - 1, FIRST + NEXT, FIRST + NEXT + 1),
    *(FIRST + 2 * NEXT, (3 << 20) + 7, 5 << 20),
]


class Unclosed(io.BytesIO):
    """Tink closes what it writes to."""

    def close(self) -> None:
        self.flush()


@pytest.fixture(scope="module")
def primitive() -> streaming_aead.StreamingAead:
    streaming_aead.register()
    handle = tink.json_proto_keyset_format.parse(tink_keyset(KEY), secret_key_access.TOKEN)
    found = handle.primitive(streaming_aead.StreamingAead)
    assert isinstance(found, streaming_aead.StreamingAead)
    return found


@pytest.mark.parametrize("size", SIZES)
def test_tink_opens_what_is_sealed_here(size: int, primitive: streaming_aead.StreamingAead, tmp_path: Path) -> None:
    plaintext = content(size)
    (tmp_path / "plain").write_bytes(plaintext)
    seal_file(tmp_path / "plain", tmp_path / "sealed", key=KEY, associated_data=AAD, random=os.urandom, threads=2)
    with (tmp_path / "sealed").open("rb") as file, primitive.new_decrypting_stream(file, AAD) as stream:
        assert stream.read() == plaintext


@pytest.mark.parametrize("size", SIZES)
def test_what_tink_seals_opens_here(size: int, primitive: streaming_aead.StreamingAead, tmp_path: Path) -> None:
    plaintext = content(size)
    out = Unclosed()
    with primitive.new_encrypting_stream(out, AAD) as stream:
        stream.write(plaintext)
    (tmp_path / "sealed").write_bytes(out.getvalue())
    assert len(out.getvalue()) == ciphertext_size(size)
    with SealedReader(FileSource(tmp_path / "sealed"), key=KEY, associated_data=AAD, threads=2) as reader:
        assert reader.read(0, reader.size) == plaintext
    with pytest.raises(SealedTamperError):
        SealedReader(FileSource(tmp_path / "sealed"), key=KEY, associated_data=AAD[:-1])


def test_tink_opens_a_sealed_file_for_its_own_name_only(
    primitive: streaming_aead.StreamingAead, tmp_path: Path
) -> None:
    (tmp_path / "plain").write_bytes(b"hello")
    seal_file(tmp_path / "plain", tmp_path / "sealed", key=KEY, associated_data=AAD, random=os.urandom)
    with (
        (tmp_path / "sealed").open("rb") as file,
        primitive.new_decrypting_stream(file, AAD + b"x") as stream,
        pytest.raises(tink.TinkError),
    ):
        stream.read()
