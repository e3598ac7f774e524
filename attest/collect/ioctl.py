"""Reports through the drivers' own devices, for kernels before configfs-tsm: /dev/sev-guest and /dev/tdx_guest.

The tables follow the kernel headers ``linux/sev-guest.h`` and ``linux/tdx-guest.h``, little-endian, with the
compiler's padding on 64-bit machines.

Spec: specs/sev-snp.md, section 17; specs/intel-tdx-sgx.md, section 20; AMD 56860, MSG_REPORT_REQ.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from attest.collect.refusals import refused_by
from attest.errors import CollectionError
from attest.evidence.reader import Field, Layout

SEV_GUEST: Final = Path("dev/sev-guest")
TDX_GUEST: Final = Path("dev/tdx_guest")
"""Below the root directory."""

SNP_GET_REPORT: Final = 0xC0205300
"""``_IOWR('S', 0x0, struct snp_guest_request_ioctl)``."""
SNP_GET_EXT_REPORT: Final = 0xC0205302
"""``_IOWR('S', 0x2, struct snp_guest_request_ioctl)``."""
TDX_CMD_GET_REPORT0: Final = 0xC4405401
"""``_IOWR('T', 1, struct tdx_report_req)``."""

_SEV_HEADER = "linux/sev-guest.h"
_TDX_HEADER = "linux/tdx-guest.h"

SNP_GUEST_REQUEST = Layout(
    name="struct snp_guest_request_ioctl",
    size=32,
    clause=_SEV_HEADER,
    fields=(
        Field(name="msg_version", offset=0, size=1, kind="u8", note="1; zero is refused"),
        Field(name="reserved", offset=1, size=7, kind="reserved", note="padding"),
        Field(name="req_data", offset=8, size=8, kind="u64", note="address of the request"),
        Field(name="resp_data", offset=16, size=8, kind="u64", note="address of the response"),
        Field(name="fw_error", offset=24, size=4, kind="u32", note="of the firmware: exitinfo2, bits 31:0"),
        Field(name="vmm_error", offset=28, size=4, kind="u32", note="of the host: exitinfo2, bits 63:32"),
    ),
)
SNP_REPORT_REQ = Layout(
    name="struct snp_report_req",
    size=96,
    clause=_SEV_HEADER,
    fields=(
        Field(name="user_data", offset=0, size=64, kind="bytes", note="REPORT_DATA"),
        Field(name="vmpl", offset=64, size=4, kind="u32"),
        Field(name="reserved", offset=68, size=28, kind="reserved"),
    ),
)
SNP_EXT_REPORT_REQ = Layout(
    name="struct snp_ext_report_req",
    size=112,
    clause=_SEV_HEADER,
    fields=(
        *SNP_REPORT_REQ.fields,
        Field(name="certs_address", offset=96, size=8, kind="u64", note="where the certificate table goes"),
        Field(name="certs_len", offset=104, size=4, kind="u32", note="of that place, in whole pages"),
        Field(name="reserved", offset=108, size=4, kind="reserved", note="padding"),
    ),
)
SNP_REPORT_RESP = Layout(
    name="struct snp_report_resp",
    size=4000,
    clause=f"{_SEV_HEADER}; AMD 56860, MSG_REPORT_RSP",
    fields=(
        Field(name="status", offset=0, size=4, kind="u32"),
        Field(name="report_size", offset=4, size=4, kind="u32"),
        Field(name="unused", offset=8, size=24, kind="bytes"),
        Field(name="report", offset=32, size=3968, kind="bytes", note="the report, and zeros"),
    ),
)
TDX_REPORT_REQ = Layout(
    name="struct tdx_report_req",
    size=1088,
    clause=_TDX_HEADER,
    fields=(
        Field(name="reportdata", offset=0, size=64, kind="bytes"),
        Field(name="tdreport", offset=64, size=1024, kind="bytes", note="TDREPORT_STRUCT"),
    ),
)

CERTS_BYTES: Final = 0x4000
"""SEV_FW_BLOB_MAX_SIZE: the kernel's limit."""
VMM_LENGTH: Final = 1
VMM_BUSY: Final = 2
_NO_FIRMWARE_CALL = (0xFF, 0xFFFFFFFF)
_FIRMWARE = {
    0x01: "INVALID_PLATFORM_STATE: the platform is not initialised",
    0x02: "INVALID_GUEST_STATE: the guest is not running yet, or no more",
    0x04: "INVALID_LENGTH: a buffer is too short",
    0x10: "INVALID_GUEST: the guest is not known to the firmware",
    0x15: "UNSUPPORTED: this firmware cannot do it",
    0x16: "INVALID_PARAM: a parameter is out of range, a VMPL below the kernel's own for example",
    0x17: "RESOURCE_LIMIT: the firmware has no room for it",
    0x18: "SECURE_DATA_INVALID: the firmware's data is damaged",
    0x19: "INVALID_PAGE_SIZE",
    0x1A: "INVALID_PAGE_STATE",
    0x1D: "AEAD_OFLOW: the message counter is used up; restart the guest",
    0x27: "INVALID_KEY: this machine has no key to sign with; a VLEK that was not loaded, for example",
}
"""SEV firmware status codes for guest requests. AMD 56860, status codes."""
_VMM = {VMM_LENGTH: "the host has more certificates than there is room for", VMM_BUSY: "the host throttles requests"}

_PAGE_BYTES = 4096


class Device(Protocol):
    """An open device."""

    def ioctl(self, request: int, buffer: ctypes.Array[ctypes.c_char]) -> None:
        """Make a call; the kernel reads and writes the buffer and the memory that it points to.

        Raises:
            OSError: the kernel refused; the buffer may have changed all the same.
        """


OpenDevice = Callable[[Path], AbstractContextManager[Device]]


class _CharacterDevice:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def ioctl(self, request: int, buffer: ctypes.Array[ctypes.c_char]) -> None:
        """Make a call through the C library: Python's own may copy short buffers, and loses output on failure."""
        call = ctypes.CDLL(None, use_errno=True).ioctl
        call.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p)
        if call(self._descriptor, request, ctypes.addressof(buffer)) < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


@contextmanager
def open_device(path: Path) -> Iterator[Device]:
    """Open a device for the time of a ``with`` block."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        yield _CharacterDevice(descriptor)
    finally:
        os.close(descriptor)


# -- SEV-SNP


@dataclass(frozen=True, slots=True, kw_only=True)
class SevGuestReport:
    """Output of /dev/sev-guest, not verified.

    Attributes:
        report: with the firmware's length.
        certificates: the host's certificate table with its padding, or empty.
    """

    report: bytes
    certificates: bytes


def read_snp_report(device: Device, report_data: bytes, *, vmpl: int) -> SevGuestReport:
    """Request a report from the firmware and certificates from the host; without the latter if there are too many.

    The report data has 64 bytes, and the VMPL is not below the kernel's own.

    Raises:
        ValueError: ``report_data`` is not 64 bytes.
        CollectionError: ``sev-guest-refused``, ``sev-guest-key-disabled``, ``collection-busy``,
            ``collection-permission-denied``, ``collection-failed`` or ``collected-malformed``.
    """
    certificates = _Pages(CERTS_BYTES)
    request = SNP_EXT_REPORT_REQ.encode(
        {"user_data": report_data, "vmpl": vmpl, "certs_address": certificates.address, "certs_len": CERTS_BYTES}
    )
    try:
        report = _snp_call(device, SNP_GET_EXT_REPORT, request)
    except _TooManyCertificatesError:
        # The certificates have other sources; the kernel accepts no larger buffer.
        plain = SNP_REPORT_REQ.encode({"user_data": report_data, "vmpl": vmpl})
        return SevGuestReport(report=_snp_call(device, SNP_GET_REPORT, plain), certificates=b"")
    table = certificates.content()
    return SevGuestReport(report=report, certificates=table if table.strip(b"\0") else b"")


class _TooManyCertificatesError(Exception):
    """The host needs a larger buffer than the kernel accepts."""


def _snp_call(device: Device, number: int, request: bytes) -> bytes:
    given = ctypes.create_string_buffer(request, len(request))
    response = ctypes.create_string_buffer(SNP_REPORT_RESP.size)
    call = ctypes.create_string_buffer(
        SNP_GUEST_REQUEST.encode(
            {
                "msg_version": 1,
                "req_data": ctypes.addressof(given),
                "resp_data": ctypes.addressof(response),
                "fw_error": 0,
                "vmm_error": 0,
            }
        ),
        SNP_GUEST_REQUEST.size,
    )
    try:
        device.ioctl(number, call)
    except OSError as exc:
        raise _snp_refused(exc, call.raw, number) from exc
    return _report_in(response.raw)


def _snp_refused(exc: OSError, call: bytes, number: int) -> CollectionError | _TooManyCertificatesError:
    """Return the firmware's or host's own error, which the kernel wrote into the call."""
    firmware, host = int.from_bytes(call[24:28], "little"), int.from_bytes(call[28:32], "little")
    if exc.errno == errno.EIO and host == VMM_LENGTH and number == SNP_GET_EXT_REPORT:
        return _TooManyCertificatesError()
    step = f"/{SEV_GUEST}"
    detail = _meaning(firmware, host)
    if host == VMM_BUSY:
        return refused_by("sev-guest", OSError(errno.EBUSY, os.strerror(errno.EBUSY)), step=step, detail=detail)
    if exc.errno == errno.EIO and (host or firmware not in (0, *_NO_FIRMWARE_CALL)):
        return CollectionError(
            f"{step}: {detail}",
            code="sev-guest-refused",
            field=step,
            expected="a report",
            got=f"fw_error {firmware:#x}, vmm_error {host:#x}",
            hint="the firmware or the host does not make this report; look at the kernel log, or ask who runs the host",
        )
    return refused_by("sev-guest", exc, step=step, detail=detail if host else "")


def _meaning(firmware: int, host: int) -> str:
    if host:
        return f"host error {host}: {_VMM.get(host, 'not known to this version')}"
    return f"firmware error {firmware:#x}: {_FIRMWARE.get(firmware, 'not known to this version')}"


def _report_in(response: bytes) -> bytes:
    """Extract the report from the firmware's response, after its status."""
    status, size = int.from_bytes(response[:4], "little"), int.from_bytes(response[4:8], "little")
    step = f"/{SEV_GUEST}"
    if status:
        raise CollectionError(
            f"{step}: {_meaning(status, 0)}",
            code="sev-guest-refused",
            field="MSG_REPORT_RSP.STATUS",
            expected="0",
            got=f"{status:#x}",
            hint="a VMPL below the kernel's own is not available; the kernel log may say more",
        )
    if not 0 < size <= SNP_REPORT_RESP.size - 32:
        raise CollectionError(
            f"{step}: the response has a report of {size} bytes",
            code="collected-malformed",
            field="MSG_REPORT_RSP.REPORT_SIZE",
            expected=f"1 to {SNP_REPORT_RESP.size - 32}",
            got=str(size),
            hint="this is no response as the firmware writes it",
        )
    return response[32 : 32 + size]


class _Pages:
    def __init__(self, size: int) -> None:
        self._size = size
        self._buffer = ctypes.create_string_buffer(size + _PAGE_BYTES)
        self.address = -(-ctypes.addressof(self._buffer) // _PAGE_BYTES) * _PAGE_BYTES

    def content(self) -> bytes:
        return ctypes.string_at(self.address, self._size)


# -- TDX


def read_td_report(device: Device, report_data: bytes) -> bytes:
    """Request a TD report for 64 bytes of report data: 1,024 bytes with a MAC that only this machine can check.

    NOTE: it is not evidence. Only this machine's quoting enclave can check it and sign a quote, which configfs-tsm
    provides.

    Raises:
        ValueError: ``report_data`` is not 64 bytes.
        CollectionError: ``tdx-guest-refused``, ``collection-permission-denied``, ``collection-busy``,
            ``collection-failed``.
    """
    buffer = ctypes.create_string_buffer(
        TDX_REPORT_REQ.encode({"reportdata": report_data, "tdreport": bytes(1024)}), TDX_REPORT_REQ.size
    )
    try:
        device.ioctl(TDX_CMD_GET_REPORT0, buffer)
    except OSError as exc:
        raise refused_by("tdx-guest", exc, step=f"/{TDX_GUEST}") from exc
    return buffer.raw[64:]
