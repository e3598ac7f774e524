"""The TD report body of a TDX quote: 584 bytes for TDX 1.0, 648 for 1.5, 885 for 1.5 extended, little-endian.

NOTE: no recorded quote carries type 4, the extended one: its table comes from the specification alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from attest.errors import UnsupportedError
from attest.evidence.reader import Field, Layout

_CLAUSE = "Intel TDX DCAP, TD report body"
_TDX_1_0 = 2
_TDX_1_5 = 3
_TDX_1_5_EXTENDED = 4

TD_ATTRIBUTE_BITS: tuple[tuple[str, int], ...] = (
    ("debug", 0),
    ("sept_ve_disable", 28),
    ("migratable", 29),
    ("pks", 30),
    ("kl", 31),
    ("perfmon", 63),
)
"""Named bits of TDATTRIBUTES. Others are kept and shown."""
_UNDER_DEBUG = 0xFF
"""Bits 7:0, the TUD group: any of them marks a TD under debug, named or not."""

XFAM_FIXED_ONE = 0x3
"""x87 and SSE: set in every TD."""
XFAM_KNOWN = 0x0006DBE7
"""Bits that a TD of today may set."""


_FIRST_ROWS = (
    Field(name="tee_tcb_svn", offset=0, size=16, kind="bytes", note="module ISVSVN, major version, SEAM loader"),
    Field(name="mr_seam", offset=16, size=48, kind="bytes", note="SHA-384 of the TDX module"),
    Field(name="mr_signer_seam", offset=64, size=48, kind="bytes", note="zero for Intel's module"),
    Field(name="seam_attributes", offset=112, size=8, kind="bytes", note="judged with the TDX module identity"),
    Field(name="td_attributes", offset=120, size=8, kind="u64"),
    Field(name="xfam", offset=128, size=8, kind="u64"),
    Field(name="mr_td", offset=136, size=48, kind="bytes", note="build-time measurement, SHA-384"),
    Field(name="mr_config_id", offset=184, size=48, kind="bytes", note="chosen at creation"),
    Field(name="mr_owner", offset=232, size=48, kind="bytes"),
    Field(name="mr_owner_config", offset=280, size=48, kind="bytes"),
    *(
        Field(name=f"rtmr{i}", offset=328 + 48 * i, size=48, kind="bytes", note="runtime measurements, SHA-384")
        for i in range(4)
    ),
    Field(name="report_data", offset=520, size=64, kind="bytes", note="chosen by the TD"),
)
_LATER_ROWS = (
    Field(name="tee_tcb_svn_2", offset=584, size=16, kind="bytes", note="of the module that runs now"),
    Field(name="mr_service_td", offset=600, size=48, kind="bytes", note="bound service TDs; zero: none"),
)
_EXTENDED_ROWS = (
    Field(name="vm_id", offset=648, size=1, kind="u8"),
    Field(name="td_id", offset=649, size=32, kind="bytes"),
    Field(name="device_info", offset=681, size=48, kind="bytes"),
    Field(name="initial_service_td_hash", offset=729, size=48, kind="bytes", note="zero: none"),
    Field(name="initial_service_td_attributes", offset=777, size=8, kind="u64"),
    Field(name="initial_cpu_svn", offset=785, size=16, kind="bytes"),
    Field(name="initial_tee_tcb_svn", offset=801, size=16, kind="bytes"),
    Field(name="initial_fmspc", offset=817, size=12, kind="bytes"),
    Field(name="current_service_td_hash", offset=829, size=48, kind="bytes", note="zero: none"),
    Field(name="current_service_td_attributes", offset=877, size=8, kind="u64"),
)
EXTENDED_FIELDS = tuple(field.name for field in _EXTENDED_ROWS)
"""Fields of type 4 alone."""

_LAYOUTS = {
    _TDX_1_0: Layout(name="TD report 1.0", size=584, clause=_CLAUSE, fields=_FIRST_ROWS),
    _TDX_1_5: Layout(name="TD report 1.5", size=648, clause=_CLAUSE, fields=(*_FIRST_ROWS, *_LATER_ROWS)),
    _TDX_1_5_EXTENDED: Layout(
        name="TD report 1.5, extended",
        size=885,
        clause=_CLAUSE,
        fields=(*_FIRST_ROWS, *_LATER_ROWS, *_EXTENDED_ROWS),
    ),
}
TD_REPORT_TYPES = tuple(_LAYOUTS)
"""Body types, as the descriptor of a version 5 quote numbers them."""


def layout_of_type(body_type: int) -> Layout:
    """Return the table of a body type, one of ``TD_REPORT_TYPES``."""
    return _LAYOUTS[body_type]


@dataclass(frozen=True, slots=True)
class ParsedTdReport:
    """A TD report as presented: unverified until the quote's signature is checked.

    Fields that the body type does not have are None.

    Attributes:
        body_type: 2 for TDX 1.0, 3 for TDX 1.5, 4 for TDX 1.5 extended.
        tee_tcb_svn: SVNs under which the TD was started.
    """

    raw: bytes
    body_type: int
    tee_tcb_svn: bytes
    mr_seam: bytes
    mr_signer_seam: bytes
    seam_attributes: bytes
    td_attributes: int
    xfam: int
    mr_td: bytes
    mr_config_id: bytes
    mr_owner: bytes
    mr_owner_config: bytes
    rtmr0: bytes
    rtmr1: bytes
    rtmr2: bytes
    rtmr3: bytes
    report_data: bytes
    tee_tcb_svn_2: bytes | None = None
    mr_service_td: bytes | None = None
    vm_id: int | None = None
    td_id: bytes | None = None
    device_info: bytes | None = None
    initial_service_td_hash: bytes | None = None
    initial_service_td_attributes: int | None = None
    initial_cpu_svn: bytes | None = None
    initial_tee_tcb_svn: bytes | None = None
    initial_fmspc: bytes | None = None
    current_service_td_hash: bytes | None = None
    current_service_td_attributes: int | None = None

    @property
    def rtmrs(self) -> tuple[bytes, bytes, bytes, bytes]:
        """The four runtime measurement registers in order."""
        return self.rtmr0, self.rtmr1, self.rtmr2, self.rtmr3

    @property
    def service_td_bound(self) -> bool:
        """A service TD is bound now, or was bound when the TD was started."""
        stated = (self.mr_service_td, self.initial_service_td_hash, self.current_service_td_hash)
        return any(value is not None and any(value) for value in stated)

    @property
    def debug(self) -> bool:
        """TDATTRIBUTES bits 7:0, any of them: the TD is under debug."""
        return bool(self.td_attributes & _UNDER_DEBUG)

    def to_bytes(self) -> bytes:
        """Encode again; equal to ``raw`` for everything that ``parse_td_report`` accepts."""
        layout = _LAYOUTS[self.body_type]
        return layout.encode({name: getattr(self, name) for name in layout.names})


def parse_td_report(data: bytes, *, body_type: int) -> ParsedTdReport:
    """Read a TD report body (specs/intel-tdx-sgx.md, section 3): 584 bytes for type 2, 648 for type 3, 885 for 4.

    The type is that of the descriptor in a version 5 quote, and 2 in a version 4 quote.

    Raises:
        EvidenceError: ``size-wrong``.
        UnsupportedError: ``tdx-body-type-unsupported``.
    """
    layout, expected = _LAYOUTS.get(body_type), "2 (TDX 1.0), 3 (TDX 1.5) or 4 (TDX 1.5, extended)"
    if layout is None:
        raise UnsupportedError(
            f"TD report of type {body_type} is not read here, expected {expected}",
            code="tdx-body-type-unsupported",
            field="body type",
            expected=expected,
            got=str(body_type),
            clause=_CLAUSE,
        )
    values = cast("tuple[Any, ...]", layout.decode(data))  # Any: the table fixes order and types
    return ParsedTdReport(data, body_type, *values)
