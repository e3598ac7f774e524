"""The TPM through the TSS: a real one in software, what it refuses, and what there is when parts are missing."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.hashes import SHA256

from attest.collect.azure import AK_HANDLE, REPORT_INDEX, USER_DATA_INDEX
from attest.collect.tpm import NV_PIECE_BYTES, code_of, open_tpm, tpm_refused, tpm_unreachable
from attest.errors import CollectionError
from attest.evidence.tpm.quote import require_pcr_values
from attest.evidence.tpm.structure import parse_tpm_quote
from tests.collect.swtpm import SwTpm, require_tss

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def tpm(tmp_path: Path) -> Iterator[SwTpm]:
    found = SwTpm(tmp_path / "tpm")
    try:
        yield found
    finally:
        found.stop()


def refused(call: object, *arguments: object, **named: object) -> CollectionError:
    assert callable(call)
    with pytest.raises(CollectionError) as caught:
        call(*arguments, **named)
    assert caught.value.hint
    return caught.value


# -- a TPM


@pytest.mark.loopback
def test_a_quote_is_over_the_registers_that_are_read(tpm: SwTpm) -> None:
    tpm.extend(3)
    found = open_tpm(tpm.tcti)
    made = found.quote(AK_HANDLE, b"n" * 48)
    tpm.ak.verify(made.signature, made.message, padding.PKCS1v15(), SHA256())
    quote = parse_tpm_quote(made.message)
    assert quote.extra_data == b"n" * 48
    values = require_pcr_values(quote, found.read_pcrs())
    assert [index for index, value in values if any(value) and value != b"\xff" * 32] == [3]


@pytest.mark.loopback
@pytest.mark.parametrize("size", [1, NV_PIECE_BYTES, NV_PIECE_BYTES + 1, 2048])
def test_an_index_is_read_whole(size: int, tpm: SwTpm) -> None:
    data = bytes(number % 251 for number in range(size))
    tpm.put(REPORT_INDEX, data)
    found = open_tpm(tpm.tcti).read_nv(REPORT_INDEX, limit=2048)
    assert found is not None
    assert (found.size, found.data) == (size, data)


@pytest.mark.loopback
def test_an_index_that_is_not_there_is_made_and_can_be_written_again(tpm: SwTpm) -> None:
    found = open_tpm(tpm.tcti)
    assert (found.nv_size(USER_DATA_INDEX), found.read_nv(USER_DATA_INDEX, limit=64)) == (None, None)
    for data in (b"a" * 64, b"b" * 64):
        found.write_nv(USER_DATA_INDEX, data)
        read = found.read_nv(USER_DATA_INDEX, limit=64)
        assert read is not None
        assert read.data == data
    assert found.nv_size(USER_DATA_INDEX) == 64


@pytest.mark.loopback
def test_an_index_of_another_size_is_not_written(tpm: SwTpm) -> None:
    tpm.put(USER_DATA_INDEX, b"x" * 32)
    error = refused(open_tpm(tpm.tcti).write_nv, USER_DATA_INDEX, bytes(64))
    assert (error.code, error.expected) == ("tpm-answer-unexpected", "64 bytes")


@pytest.mark.loopback
def test_an_index_that_is_too_long_is_not_read(tpm: SwTpm) -> None:
    tpm.put(REPORT_INDEX, bytes(65))
    assert refused(open_tpm(tpm.tcti).read_nv, REPORT_INDEX, limit=64).code == "tpm-answer-unexpected"


@pytest.mark.loopback
def test_an_index_without_content_is_told(tpm: SwTpm) -> None:
    tpm.put(REPORT_INDEX, None)
    found = open_tpm(tpm.tcti).read_nv(REPORT_INDEX, limit=64)
    assert found is not None
    assert (found.size, found.data) == (64, None)


@pytest.mark.loopback
def test_keys_that_are_none_or_of_another_kind_are_told(tpm: SwTpm) -> None:
    types = require_tss()
    found = open_tpm(tpm.tcti)
    tpm.swap_ak(there=False)
    assert found.read_key(AK_HANDLE) is None
    assert refused(found.quote, AK_HANDLE, b"n").code == "tpm-answer-unexpected"
    for kind, attributes in (
        ("ecc256:ecdsa-sha256:null", "sign|userwithauth|fixedtpm|fixedparent|sensitivedataorigin|restricted"),
        ("rsa2048:rsapss-sha256:null", "sign|userwithauth|fixedtpm|fixedparent|sensitivedataorigin|restricted"),
    ):
        template = types.TPM2B_PUBLIC.parse(kind, objectAttributes=attributes)
        with tpm.esys() as esys:
            key, *_ = esys.create_primary(types.TPM2B_SENSITIVE_CREATE(), template, types.ESYS_TR.OWNER)
            esys.evict_control(types.ESYS_TR.OWNER, key, AK_HANDLE)
            esys.flush_context(key)
        assert refused(found.quote, AK_HANDLE, b"n").code == "tpm-refused"
        if kind.startswith("ecc"):
            assert refused(found.read_key, AK_HANDLE).code == "tpm-answer-unexpected"
        tpm.swap_ak(there=False)


@pytest.mark.loopback
def test_an_owner_with_a_password_is_told(tpm: SwTpm) -> None:
    types = require_tss()
    tpm.put(REPORT_INDEX, bytes(64))
    with tpm.esys() as esys:
        esys.hierarchy_change_auth(types.ESYS_TR.OWNER, b"secret")
    error = refused(open_tpm(tpm.tcti).read_nv, REPORT_INDEX, limit=64)
    assert error.code == "tpm-refused"
    assert "password" in (error.hint or "")


@pytest.mark.loopback
def test_a_tpm_that_went_away_is_told(tpm: SwTpm) -> None:
    found = open_tpm(tpm.tcti)
    tpm.stop()
    assert refused(found.read_pcrs).code == "tpm-unreachable"


@pytest.mark.loopback
def test_the_tss_writes_nothing_of_its_own(tpm: SwTpm, capfd: pytest.CaptureFixture[str]) -> None:
    assert open_tpm(tpm.tcti).read_nv(REPORT_INDEX, limit=64) is None
    assert capfd.readouterr() == ("", "")


# -- the way to it


@pytest.mark.parametrize("tcti", ["nonsense:x", "swtpm:port=nothing", "device:"])
def test_a_way_that_leads_nowhere_is_told(tcti: str) -> None:
    require_tss()
    error = refused(open_tpm(tcti).read_pcrs)
    assert error.code in ("tpm-unreachable", "tpm-missing")


def test_a_device_that_is_missing_none_or_not_permitted_is_told(tmp_path: Path) -> None:
    require_tss()
    device = tmp_path / "tpmrm0"
    assert refused(open_tpm(f"device:{device}").read_pcrs).code == "tpm-missing"
    device.touch()
    assert refused(open_tpm(f"device:{device}").read_pcrs).code == "tpm-unreachable"
    if os.geteuid() != 0:
        device.chmod(0)
        assert refused(open_tpm(f"device:{device}").read_pcrs).code == "collection-permission-denied"


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.EACCES, "collection-permission-denied"),
        (errno.EBUSY, "collection-busy"),
        (errno.ENOENT, "tpm-missing"),
        (errno.EIO, "collection-failed"),
    ],
)
def test_what_the_kernel_says_of_a_device_is_told(
    number: int, code: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", fail)
    assert tpm_unreachable(f"device:{tmp_path}", "IO failure").code == code


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (0x18B, 0x08B),  # TPM_RC_HANDLE of the first handle
        (0xB0922, 0x922),  # TPM_RC_RETRY from a resource manager
        (0x9A2, 0x0A2),  # TPM_RC_BAD_AUTH of the first session
        (0x14A, 0x14A),
    ],
)
def test_the_number_of_handle_or_session_is_no_part_of_a_code(value: int, code: int) -> None:
    assert code_of(value) == code


@pytest.mark.parametrize(
    ("value", "code", "retryable"),
    [(0x922, "collection-busy", True), (0x921, "tpm-refused", False), (0x1FF, "tpm-refused", False)],
)
def test_return_codes_have_words(value: int, code: str, retryable: bool) -> None:
    error = tpm_refused("a quote", value, "words")
    assert (error.code, error.retryable) == (code, retryable)
    assert error.hint


# -- without the package


def test_without_the_package_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tpm2_pytss", None)
    error = refused(open_tpm, "device:/dev/tpmrm0")
    assert error.code == "tpm-binding-missing"
    assert "attest-kms[tpm]" in (error.hint or "")


def test_the_package_is_imported_when_a_tpm_is_asked_and_not_before() -> None:
    script = "import sys, attest.collect, attest.collect.machine; print('tpm2_pytss' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, check=True, text=True)
    assert ran.stdout.strip() == "False"
