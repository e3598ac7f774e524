"""The drivers' own devices: structures as the kernel headers draw them, and errors by what they mean."""

import ctypes
import errno
import os
from pathlib import Path

import pytest

from attest.collect.ioctl import (
    SNP_EXT_REPORT_REQ,
    SNP_GET_EXT_REPORT,
    SNP_GET_REPORT,
    SNP_GUEST_REQUEST,
    SNP_REPORT_REQ,
    SNP_REPORT_RESP,
    TDX_CMD_GET_REPORT0,
    TDX_REPORT_REQ,
    open_device,
    read_snp_report,
    read_td_report,
)
from attest.errors import CollectionError
from attest.evidence.snp.certificate_table import parse_certificate_table
from tests.collect.fake_machine import FakeSevGuest, FakeTdxGuest, snp_guest

DATA = bytes(range(64))


def refused(device: FakeSevGuest) -> CollectionError:
    with pytest.raises(CollectionError) as caught:
        read_snp_report(device, DATA, vmpl=0)
    assert caught.value.hint
    return caught.value


# -- structures: C lays them out as our tables do


class GuestRequest(ctypes.Structure):
    _fields_ = (
        ("msg_version", ctypes.c_uint8),
        ("req_data", ctypes.c_uint64),
        ("resp_data", ctypes.c_uint64),
        ("fw_error", ctypes.c_uint32),
        ("vmm_error", ctypes.c_uint32),
    )


class ReportReq(ctypes.Structure):
    _fields_ = (("user_data", ctypes.c_uint8 * 64), ("vmpl", ctypes.c_uint32), ("rsvd", ctypes.c_uint8 * 28))


class ExtReportReq(ctypes.Structure):
    _fields_ = (("data", ReportReq), ("certs_address", ctypes.c_uint64), ("certs_len", ctypes.c_uint32))


class TdxReq(ctypes.Structure):
    _fields_ = (("reportdata", ctypes.c_uint8 * 64), ("tdreport", ctypes.c_uint8 * 1024))


def iowr(kind: str, number: int, size: int) -> int:
    """The kernel's macro of this name."""
    return 3 << 30 | size << 16 | ord(kind) << 8 | number


def test_the_tables_are_what_a_compiler_makes_of_the_headers() -> None:
    call = GuestRequest(msg_version=1, req_data=2, resp_data=3, fw_error=4, vmm_error=5)
    assert bytes(call) == SNP_GUEST_REQUEST.encode(
        {"msg_version": 1, "req_data": 2, "resp_data": 3, "fw_error": 4, "vmm_error": 5}
    )
    plain = ReportReq(user_data=(ctypes.c_uint8 * 64)(*DATA), vmpl=3)
    assert bytes(plain) == SNP_REPORT_REQ.encode({"user_data": DATA, "vmpl": 3})
    extended = ExtReportReq(data=plain, certs_address=0x1000, certs_len=0x4000)
    assert bytes(extended) == SNP_EXT_REPORT_REQ.encode(
        {"user_data": DATA, "vmpl": 3, "certs_address": 0x1000, "certs_len": 0x4000}
    )
    td = TdxReq(reportdata=(ctypes.c_uint8 * 64)(*DATA))
    assert bytes(td) == TDX_REPORT_REQ.encode({"reportdata": DATA, "tdreport": bytes(1024)})
    assert SNP_REPORT_RESP.size == 4000


def test_the_numbers_of_the_calls_follow_from_the_sizes() -> None:
    assert iowr("S", 0, ctypes.sizeof(GuestRequest)) == SNP_GET_REPORT
    assert iowr("S", 2, ctypes.sizeof(GuestRequest)) == SNP_GET_EXT_REPORT
    assert iowr("T", 1, ctypes.sizeof(TdxReq)) == TDX_CMD_GET_REPORT0


# -- SEV-SNP


def test_report_and_certificates_are_taken() -> None:
    guest = snp_guest()
    found = read_snp_report(FakeSevGuest(guest), DATA, vmpl=0)
    assert found.report == guest.report(DATA)
    assert {entry.kind for entry in parse_certificate_table(found.certificates)} >= {"VCEK", "ASK", "ARK"}


def test_a_host_without_certificates_leaves_the_report() -> None:
    found = read_snp_report(FakeSevGuest(snp_guest(), table=b""), DATA, vmpl=0)
    assert (len(found.report), found.certificates) == (1184, b"")


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        ((errno.EIO, 0x16, 0), "sev-guest-refused", "INVALID_PARAM"),
        ((errno.EIO, 0x27, 0), "sev-guest-refused", "VLEK"),
        ((errno.EIO, 0x77, 0), "sev-guest-refused", "firmware error 0x77: not known"),
        ((errno.EIO, 0, 9), "sev-guest-refused", "host error 9: not known"),
        ((errno.EIO, 0, 2), "collection-busy", "throttles"),
        ((errno.EAGAIN, 0xFF, 0), "collection-busy", "busy"),
        ((errno.ETIMEDOUT, 0, 2), "collection-busy", "throttles"),
        ((errno.ENOTTY, 0xFF, 0), "sev-guest-key-disabled", "no longer has the key"),
        ((errno.EIO, 0xFF, 0), "collection-failed", "Input/output error"),
        ((errno.EINVAL, 0xFF, 0), "sev-guest-refused", "refused the request"),
        ((errno.EPERM, 0xFF, 0), "collection-permission-denied", "may not use"),
        ((errno.EFAULT, 0, 0), "collection-failed", "Bad address"),
    ],
)
def test_each_error_is_told_by_its_meaning(error: tuple[int, int, int], code: str, words: str) -> None:
    found = refused(FakeSevGuest(snp_guest(), fails={SNP_GET_EXT_REPORT: error}))
    assert found.code == code
    assert words in found.message
    assert found.field == "/dev/sev-guest"


def test_too_many_certificates_and_then_no_report_either_is_an_error() -> None:
    fails = {SNP_GET_EXT_REPORT: (errno.EIO, 0, 1), SNP_GET_REPORT: (errno.EIO, 0, 1)}
    found = refused(FakeSevGuest(snp_guest(), fails=fails))
    assert (found.code, found.got) == ("sev-guest-refused", "fw_error 0x0, vmm_error 0x1")


def test_a_status_of_the_firmware_refuses() -> None:
    found = refused(FakeSevGuest(snp_guest(), status=0x16))
    assert (found.code, found.got) == ("sev-guest-refused", "0x16")
    assert "INVALID_PARAM" in found.message


@pytest.mark.parametrize("size", [0, 3969, 0xFFFFFFFF])
def test_a_report_of_an_impossible_size_is_malformed(size: int) -> None:
    assert refused(FakeSevGuest(snp_guest(), size=size)).code == "collected-malformed"


# -- TDX


def test_a_td_report_commits_to_what_it_was_given() -> None:
    report = read_td_report(FakeTdxGuest(), DATA)
    assert (len(report), report[128:192]) == (1024, DATA)


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.EIO, "tdx-guest-refused"),
        (errno.EBUSY, "collection-busy"),
        (errno.EPERM, "collection-permission-denied"),
        (errno.EFAULT, "collection-failed"),
    ],
)
def test_errors_of_the_tdx_device_have_their_names(number: int, code: str) -> None:
    with pytest.raises(CollectionError) as caught:
        read_td_report(FakeTdxGuest(error=number), DATA)
    assert (caught.value.code, caught.value.field) == (code, "/dev/tdx_guest")


@pytest.mark.parametrize("size", [0, 63, 65])
def test_report_data_of_another_length_is_wrong_use(size: int) -> None:
    with pytest.raises(ValueError, match="64 bytes"):
        read_td_report(FakeTdxGuest(), bytes(size))
    with pytest.raises(ValueError, match="64 bytes"):
        read_snp_report(FakeSevGuest(snp_guest()), bytes(size), vmpl=0)


# -- a real device, of another kind


def test_a_device_that_knows_no_such_call_says_so() -> None:
    with open_device(Path("/dev/null")) as device, pytest.raises(CollectionError) as caught:
        read_snp_report(device, DATA, vmpl=0)
    assert caught.value.code == "sev-guest-key-disabled"  # the kernel's word for both is ENOTTY


def test_a_call_reaches_a_real_device() -> None:
    leader, follower = os.openpty()
    buffer = ctypes.create_string_buffer(8)
    try:
        with open_device(Path(os.ttyname(follower))) as device:
            device.ioctl(0x5413, buffer)  # TIOCGWINSZ
            ctypes.memset(buffer, 0xFF, 8)
            device.ioctl(0x5413, buffer)
    finally:
        os.close(leader)
        os.close(follower)
    assert buffer.raw == bytes(8)


def test_a_device_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), open_device(tmp_path / "none"):
        pass
