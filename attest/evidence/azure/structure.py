"""The paravisor's report (HCL report), from NV index 0x01400001 of the virtual TPM. Little-endian.

It holds a report of the CPU, and the runtime claims to whose digest that report commits. No signature covers the rest
of it, so every other byte has one permitted value.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from attest.endorsements.malformed import malformed
from attest.errors import EvidenceError, UnsupportedError
from attest.evidence.reader import Field, Layout

MAX_RUNTIME_BYTES = 64 * 1024
MAX_HCL_BYTES = 2 * MAX_RUNTIME_BYTES
"""Real ones have 2,048 or 2,600 bytes with their padding."""

HARDWARE_BYTES = 1184
"""The size of an SNP report; a TDREPORT is shorter."""
TD_REPORT_BYTES = 1024
TD_INFO_BYTES = 400
"""TDATTRIBUTES to RTMR3: what a TD report's TDINFO and a TD quote's body have in common."""

_CHECK = "azure.format"
_CLAUSE = "Microsoft Azure, guest attestation, HCL report"

HCL = Layout(
    name="HCL report",
    size=0x4D4,
    clause=_CLAUSE,
    fields=(
        Field(name="signature", offset=0x000, size=4, kind="bytes", note="HCLA"),
        Field(name="version", offset=0x004, size=4, kind="u32", note="1 or 2"),
        Field(name="report_size", offset=0x008, size=4, kind="u32", note="0x4D4 and the runtime claims"),
        Field(name="request_type", offset=0x00C, size=4, kind="u32", note="2"),
        Field(name="status", offset=0x010, size=4, kind="u32", note="0"),
        Field(name="reserved", offset=0x014, size=12, kind="reserved"),
        Field(name="hardware_report", offset=0x020, size=HARDWARE_BYTES, kind="bytes", note="SNP report or TDREPORT"),
        Field(name="data_size", offset=0x4C0, size=4, kind="u32", note="20 and the runtime claims"),
        Field(name="data_version", offset=0x4C4, size=4, kind="u32", note="1"),
        Field(name="report_type", offset=0x4C8, size=4, kind="u32", note="2: SNP, 4: TDX"),
        Field(name="hash_type", offset=0x4CC, size=4, kind="u32", note="1: SHA-256, 2: SHA-384, 3: SHA-512"),
        Field(name="runtime_size", offset=0x4D0, size=4, kind="u32", note="bytes of the runtime claims"),
    ),
)
_DATA_HEAD_BYTES = 20


class HclReportType(enum.IntEnum):
    """Kind of the CPU's report inside; others (VBS, TVM) are not verified."""

    SNP = 2
    TDX = 4

    @property
    def platform(self) -> str:
        """The name that the JSON forms use."""
        return f"az-{self.name.lower()}"


_HASHES: Mapping[int, Callable[[bytes], Any]] = {  # Any: hashlib's own type of a digest has no public name
    1: hashlib.sha256,
    2: hashlib.sha384,
    3: hashlib.sha512,
}
_REPORT_DATA_BYTES = 64
_ONLY: tuple[tuple[str, int, tuple[int, ...]], ...] = (
    ("version", 0x004, (1, 2)),
    ("request_type", 0x00C, (2,)),
    ("status", 0x010, (0,)),
    ("data_version", 0x4C4, (1,)),
    ("report_type", 0x4C8, tuple(HclReportType)),
    ("hash_type", 0x4CC, tuple(_HASHES)),
)
"""Fields with few permitted values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedHclReport:
    """A paravisor's report as presented; nothing of it is trusted.

    Attributes:
        raw: as received, padding included.
        version: 1 or 2.
        hash_type: 1 SHA-256, 2 SHA-384, 3 SHA-512.
        hardware_report: 1,184 bytes: an SNP report, or a TDREPORT (1,024) and zeros.
        runtime_data: the runtime claims, JSON text, exactly the bytes that were hashed.
        padding_bytes: zeros behind them.
    """

    raw: bytes
    version: int
    report_type: HclReportType
    hash_type: int
    hardware_report: bytes
    runtime_data: bytes
    padding_bytes: int

    @property
    def runtime_digest(self) -> bytes:
        """The required REPORT_DATA: the digest of the runtime claims, left-aligned, 64 bytes."""
        digest: bytes = _HASHES[self.hash_type](self.runtime_data).digest()
        return digest.ljust(_REPORT_DATA_BYTES, b"\0")

    @property
    def td_report_data(self) -> bytes:
        """REPORTDATA of a TDREPORT, 64 bytes."""
        return self.hardware_report[128:192]

    @property
    def td_info(self) -> bytes:
        """TDINFO of a TDREPORT from TDATTRIBUTES to RTMR3, 400 bytes."""
        return self.hardware_report[512 : 512 + TD_INFO_BYTES]

    def to_bytes(self) -> bytes:
        """Encode again; equal to ``raw`` for everything that ``parse_hcl_report`` accepts."""
        size = len(self.runtime_data)
        head = HCL.encode(
            {
                "signature": b"HCLA",
                "version": self.version,
                "report_size": HCL.size + size,
                "request_type": 2,
                "status": 0,
                "hardware_report": self.hardware_report,
                "data_size": _DATA_HEAD_BYTES + size,
                "data_version": 1,
                "report_type": int(self.report_type),
                "hash_type": self.hash_type,
                "runtime_size": size,
            }
        )
        return head + self.runtime_data + bytes(self.padding_bytes)


def parse_hcl_report(data: bytes) -> ParsedHclReport:
    """Read a paravisor's report; neither the CPU's report nor the runtime claims in it are read.

    Raises:
        EvidenceError: ``hcl-malformed``, ``size-wrong`` or ``reserved-not-zero``.
        UnsupportedError: ``hcl-unsupported``: a version, type or status that is not verified.

    Spec: specs/azure-cvm.md, section 2 and check A01.
    """
    if not HCL.size <= len(data) <= MAX_HCL_BYTES:
        raise _malformed("length", 0, f"{HCL.size} to {MAX_HCL_BYTES} bytes", f"{len(data)} bytes")
    values = dict(zip(HCL.names, cast("tuple[Any, ...]", HCL.decode(data[: HCL.size])), strict=True))  # Any: by table
    if values["signature"] != b"HCLA":
        raise _malformed("signature", 0, b"HCLA".hex(), values["signature"].hex())
    for name, offset, known in _ONLY:
        if values[name] not in known:
            raise _unsupported(name, offset, known, values[name])
    end = HCL.size + _runtime_size(values, available=len(data) - HCL.size)
    # No signature covers what follows.
    _require_zero("padding", end, data[end:])
    report_type = HclReportType(values["report_type"])
    if report_type is HclReportType.TDX:
        _require_zero("area after the TDREPORT", 0x020 + TD_REPORT_BYTES, values["hardware_report"][TD_REPORT_BYTES:])
    return ParsedHclReport(
        raw=data,
        version=values["version"],
        report_type=report_type,
        hash_type=values["hash_type"],
        hardware_report=values["hardware_report"],
        runtime_data=data[HCL.size : end],
        padding_bytes=len(data) - end,
    )


def _runtime_size(values: Mapping[str, Any], *, available: int) -> int:  # Any: by table
    """Return the size of the runtime claims, which three fields must state alike, so that all readers hash the same."""
    size: int = values["runtime_size"]
    most = min(MAX_RUNTIME_BYTES, available)
    if not 0 < size <= most:
        raise _malformed("runtime_size", 0x4D0, f"1 to {most} bytes", f"{size} bytes")
    for name, offset, wanted in (
        ("report_size", 0x008, HCL.size + size),
        ("data_size", 0x4C0, _DATA_HEAD_BYTES + size),
    ):
        if values[name] != wanted:
            raise _malformed(name, offset, f"{wanted} bytes", f"{values[name]} bytes")
    return size


def _require_zero(field: str, offset: int, data: bytes) -> None:
    if any(data):
        raise EvidenceError(
            f"{field} of the HCL report has bytes that are not zero (from offset {offset:#x})",
            code="reserved-not-zero",
            check=_CHECK,
            field=field,
            offset=offset,
            expected="zero",
            got="other bytes",
            clause=_CLAUSE,
        )


def _malformed(field: str, offset: int, expected: str, got: str) -> EvidenceError:
    of, code = " of the HCL report", "hcl-malformed"
    return malformed(field, expected, got, code=code, of=of, check=_CHECK, clause=_CLAUSE, offset=offset)


def _unsupported(field: str, offset: int, known: tuple[int, ...], got: int) -> UnsupportedError:
    expected = " or ".join(map(str, map(int, known)))
    return UnsupportedError(
        f"{field} of the HCL report is {got}, expected {expected} (offset {offset:#05x})",
        code="hcl-unsupported",
        check=_CHECK,
        field=field,
        offset=offset,
        expected=expected,
        got=str(got),
        clause=_CLAUSE,
    )
