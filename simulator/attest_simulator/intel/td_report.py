"""A TDREPORT from a TD's module, and the quote of one from its platform's quoting enclave.

A TDREPORT is authentic on its own platform alone, by a MAC under a key of the platform. Here that key is
public like all others, and the enclave refuses reports of other platforms, as a real one does.

Spec: Intel, TDX module base specification, TDREPORT_STRUCT; specs/intel-tdx-sgx.md, section 20.
"""

from __future__ import annotations

import hmac
from hashlib import sha384
from typing import Final

from attest_simulator.intel.keys import derived_bytes
from attest_simulator.intel.machine import SimulatedPlatform
from attest_simulator.intel.quote_template import Values
from attest_simulator.intel.td import SimulatedTd

TD_REPORT_BYTES: Final = 1024

_TYPE: Final = bytes((0x81, 0, 0, 0)).ljust(16, b"\0")
"""Type TDX, then subtype, version and reserved bytes, as in all known ones."""
_VALID: Final = bytes.fromhex("ff01030000000000")
"""Valid fields of TEE_TCB_INFO, as in every module of TDX 1.5."""
_TCB_AT, _TCB_BYTES, _TCB_FIELDS = 256, 239, 120
_INFO_AT, _INFO_BYTES, _INFO_FIELDS = 512, 512, 400
_HASHES_AT, _MAC_AT = 32, 224
_TD_1_0 = 2


def td_report(td: SimulatedTd, report_data: bytes, *, override: Values | None = None) -> bytes:
    """Return the TDREPORT of a TD.

    Args:
        td: the requester.
        report_data: 64 bytes to commit to.
        override: fields to replace, by the names of ``structure.TD_REPORTS``.

    Returns:
        1,024 bytes: REPORTMACSTRUCT, TEE_TCB_INFO, 17 zeros, TDINFO.

    Raises:
        ValueError: as ``SimulatedTd.report``.
    """
    body = td.report(report_data, body_type=_TD_1_0, override=override)
    svn_2 = td.platform.tee_tcb_svn if td.tee_tcb_svn_2 is None else td.tee_tcb_svn_2
    tcb = (_VALID + body[:_TCB_FIELDS] + svn_2).ljust(_TCB_BYTES, b"\0")
    info = (body[_TCB_FIELDS:-64] + td.mr_service_td).ljust(_INFO_BYTES, b"\0")
    hashes = sha384(tcb).digest() + sha384(info).digest()
    head = (_TYPE + td.platform.sgx.cpu_svn + hashes + body[-64:]).ljust(_MAC_AT, b"\0")
    return (head + _mac(td.platform, head) + tcb).ljust(_INFO_AT, b"\0") + info


def quote_of_td_report(platform: SimulatedPlatform, report: bytes) -> bytes:
    """Return the quote, version 4, of a TDREPORT from a platform's quoting enclave.

    Raises:
        ValueError: not a TDREPORT of this platform.
    """
    if len(report) != TD_REPORT_BYTES:
        raise ValueError(f"a TDREPORT has {TD_REPORT_BYTES} bytes, got {len(report)}")
    head, mac = report[:_MAC_AT], report[_MAC_AT:_TCB_AT]
    tcb, info = report[_TCB_AT:][:_TCB_BYTES], report[_INFO_AT:]
    hashes = sha384(tcb).digest() + sha384(info).digest()
    if not hmac.compare_digest(mac, _mac(platform, head)) or head[_HASHES_AT:][: len(hashes)] != hashes:
        raise ValueError("the TDREPORT was not made on this platform, or was changed")
    body = tcb[len(_VALID) :][:_TCB_FIELDS] + info[:_INFO_FIELDS] + head[128:192]
    return platform.quote_template(body, tee="tdx", version=4, body_type=_TD_1_0).issue()


def _mac(platform: SimulatedPlatform, head: bytes) -> bytes:
    return hmac.digest(derived_bytes(32, "TDREPORT MAC", platform.name), head, "sha256")
