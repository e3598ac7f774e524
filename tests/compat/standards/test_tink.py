"""Files that are sealed here, and Tink's library for Go: each reads what the other wrote."""

import os
import subprocess
from pathlib import Path

import pytest

from attest.errors import SealedTamperError
from attest.sealed import FileSource, SealedReader, seal_file, tink_keyset
from attest.sealed.layout import FIRST_PLAINTEXT_BYTES, PLAINTEXT_BYTES
from tests.compat.conftest import Step, program_of
from tests.sealed.segments import AAD, KEY, content

CLIENT = "tink-go 2.6.0"
SIZES = (0, 1, FIRST_PLAINTEXT_BYTES, FIRST_PLAINTEXT_BYTES + 1, FIRST_PLAINTEXT_BYTES + 2 * PLAINTEXT_BYTES + 7)


def tink(act: str, folder: Path, data: bytes, *, aad: bytes = AAD) -> subprocess.CompletedProcess[bytes]:
    """Open or seal with Tink, under the keyset that this project writes."""
    keyset = folder / "keyset.json"
    keyset.write_text(tink_keyset(KEY))
    program = program_of("ATTEST_TINK_GO")
    return subprocess.run([program, act, keyset, aad.hex()], input=data, capture_output=True, check=False)


@pytest.mark.parametrize("size", SIZES)
def test_tink_for_go_opens_what_is_sealed_here(step: Step, tmp_path: Path, size: int) -> None:
    step(CLIENT, f"opens a sealed file of {size} bytes")
    plain = content(size)
    (tmp_path / "plain").write_bytes(plain)
    seal_file(tmp_path / "plain", tmp_path / "sealed", key=KEY, associated_data=AAD, random=os.urandom)
    sealed = (tmp_path / "sealed").read_bytes()
    opened = tink("open", tmp_path, sealed)
    assert (opened.returncode, opened.stdout == plain) == (0, True), opened.stderr
    assert tink("open", tmp_path, sealed, aad=AAD + b"x").returncode == 1
    assert tink("open", tmp_path, sealed[:-1]).returncode == 1


@pytest.mark.parametrize("size", SIZES)
def test_what_tink_for_go_seals_opens_here(step: Step, tmp_path: Path, size: int) -> None:
    step(CLIENT, f"seals a file of {size} bytes that opens here")
    plain = content(size)
    made = tink("seal", tmp_path, plain)
    assert made.returncode == 0, made.stderr
    (tmp_path / "sealed").write_bytes(made.stdout)
    with SealedReader(FileSource(tmp_path / "sealed"), key=KEY, associated_data=AAD) as reader:
        assert reader.read(0, reader.size) == plain
    with pytest.raises(SealedTamperError):
        SealedReader(FileSource(tmp_path / "sealed"), key=KEY, associated_data=AAD + b"x")
