"""Byte layouts of signed structures: quote header, enclave report, TD reports.

Written independently of the parser's tables: their agreement is a test. Reserved spans are
ordinary fields here, so that a test can set them.

Spec: Intel, TDX DCAP Quoting Library API, appendix A; specs/intel-tdx-sgx.md, sections 2 and 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attest.evidence.reader import Field, Kind, Layout


def _layout(name: str, clause: str, *rows: tuple[str, Kind | int]) -> Layout:
    """Return a layout of consecutive rows; a number instead of a kind is a field of so many bytes."""
    widths = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}
    fields: list[Field] = []
    at = 0
    for field, kind in rows:
        size = kind if isinstance(kind, int) else widths[kind]
        fields.append(Field(name=field, offset=at, size=size, kind="bytes" if isinstance(kind, int) else kind))
        at += size
    return Layout(name=name, size=at, fields=tuple(fields), clause=clause)


_HEADER_START: tuple[tuple[str, Kind | int], ...] = (
    ("version", "u16"),
    ("attestation_key_type", "u16"),
    ("tee_type", "u32"),
)
_HEADER_END: tuple[tuple[str, Kind | int], ...] = (("qe_vendor_id", 16), ("user_data", 20))

HEADER_V3: Final = _layout(
    "quote header, version 3", "section 2", *_HEADER_START, ("qe_svn", "u16"), ("pce_svn", "u16"), *_HEADER_END
)
"""48 bytes; the TEE type is reserved and zero."""
HEADER_V4: Final = _layout("quote header, versions 4 and 5", "section 2", *_HEADER_START, ("reserved", 4), *_HEADER_END)
"""48 bytes."""

SGX_REPORT: Final = _layout(
    "SGX enclave report",
    "section 3",
    ("cpu_svn", 16),
    ("misc_select", "u32"),
    ("reserved_1", 12),
    ("isv_ext_prod_id", 16),
    ("attributes", 16),
    ("mr_enclave", 32),
    ("reserved_2", 32),
    ("mr_signer", 32),
    ("reserved_3", 32),
    ("config_id", 64),
    ("isv_prod_id", "u16"),
    ("isv_svn", "u16"),
    ("config_svn", "u16"),
    ("reserved_4", 42),
    ("isv_family_id", 16),
    ("report_data", 64),
)
"""384 bytes."""

_TD_1_0: tuple[tuple[str, Kind | int], ...] = (
    ("tee_tcb_svn", 16),
    ("mr_seam", 48),
    ("mr_signer_seam", 48),
    ("seam_attributes", 8),
    ("td_attributes", "u64"),
    ("xfam", "u64"),
    ("mr_td", 48),
    ("mr_config_id", 48),
    ("mr_owner", 48),
    ("mr_owner_config", 48),
    ("rtmr0", 48),
    ("rtmr1", 48),
    ("rtmr2", 48),
    ("rtmr3", 48),
    ("report_data", 64),
)
_TD_1_5: tuple[tuple[str, Kind | int], ...] = (*_TD_1_0, ("tee_tcb_svn_2", 16), ("mr_service_td", 48))
_TD_EXTENDED: tuple[tuple[str, Kind | int], ...] = (
    *_TD_1_5,
    ("vm_id", "u8"),
    ("td_id", 32),
    ("device_info", 48),
    ("initial_service_td_hash", 48),
    ("initial_service_td_attributes", 8),
    ("initial_cpu_svn", 16),
    ("initial_tee_tcb_svn", 16),
    ("initial_fmspc", 12),
    ("current_service_td_hash", 48),
    ("current_service_td_attributes", 8),
)
TD_REPORTS: Final[Mapping[int, Layout]] = {
    2: _layout("TD report 1.0", "section 3", *_TD_1_0),
    3: _layout("TD report 1.5", "section 3", *_TD_1_5),
    4: _layout("TD report 1.5, extended", "section 3", *_TD_EXTENDED),
}
"""By body type: 584, 648 and 885 bytes."""
