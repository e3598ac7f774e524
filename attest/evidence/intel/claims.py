"""Claims of verified Intel quotes: the claims that TDX and SGX share, and those of each."""

from __future__ import annotations

from collections.abc import Callable

from attest.encoding import rfc3339_text
from attest.evidence.claims import Claim, ClaimType, ClaimValue, Origin, claim_finder
from attest.evidence.intel.evaluation import TcbEvaluation
from attest.evidence.intel.verify import VerifiedIntelQuote
from attest.evidence.sgx.structure import ATTRIBUTE_BITS, ParsedEnclaveReport
from attest.evidence.tdx.structure import (
    EXTENDED_FIELDS,
    TD_ATTRIBUTE_BITS,
    XFAM_FIXED_ONE,
    XFAM_KNOWN,
    ParsedTdReport,
)

_Get = Callable[[VerifiedIntelQuote], ClaimValue]
_TD = "Intel TDX DCAP, TD report body"
_ENCLAVE = "Intel SDM 3D, REPORTBODY"
_PCK = "Intel SGX PCK certificate"
_TCB = "Intel PCS, TCB info and QE identity"
_TD_ATTRIBUTES = "Intel TDX, TDATTRIBUTES"
_UNDER_DEBUG = 0xFF
_NAMED_TD_BITS = sum(1 << bit for _, bit in TD_ATTRIBUTE_BITS)
_NUMBERS = ("vm_id", "initial_service_td_attributes", "current_service_td_attributes")


def _claim(name: str, kind: ClaimType, origin: Origin, get: _Get, clause: str) -> Claim:
    return Claim(name=name, type=kind, origin=origin, clause=clause, get=get)


def _td(v: VerifiedIntelQuote) -> ParsedTdReport:
    body = v.quote.body
    if not isinstance(body, ParsedTdReport):
        raise TypeError("a claim of TDX is not in another kind of quote")
    return body


def _enclave(v: VerifiedIntelQuote) -> ParsedEnclaveReport:
    body = v.quote.body
    if not isinstance(body, ParsedEnclaveReport):
        raise TypeError("a claim of SGX is not in another kind of quote")
    return body


def _td_value(name: str, kind: ClaimType, origin: Origin) -> Claim:
    def get(v: VerifiedIntelQuote) -> ClaimValue:
        value: bytes | int | None = getattr(_td(v), name)
        return value

    return _claim(name, kind, origin, get, _TD)


def _td_bytes(name: str, origin: Origin) -> Claim:
    return _td_value(name, ClaimType.BYTES, origin)


def _enclave_value(name: str, kind: ClaimType, origin: Origin) -> Claim:
    def get(v: VerifiedIntelQuote) -> ClaimValue:
        value: bytes | int = getattr(_enclave(v), name)
        return value

    return _claim(name, kind, origin, get, _ENCLAVE)


def _td_bit(bit: int) -> _Get:
    return lambda v: bool(_td(v).td_attributes >> bit & 1)


def _enclave_bit(bit: int) -> _Get:
    return lambda v: bool(_enclave(v).flags >> bit & 1)


def _evaluated(name: str, kind: ClaimType, get: Callable[[TcbEvaluation], ClaimValue]) -> Claim:
    """Make a claim that is absent when the TCB was left unchecked."""
    return _claim(name, kind, Origin.CERTIFICATE, lambda v: None if v.evaluation is None else get(v.evaluation), _TCB)


_SHARED: tuple[Claim, ...] = (
    _claim("version", ClaimType.INTEGER, Origin.HARDWARE, lambda v: v.quote.version, "Intel DCAP, quote header"),
    _claim("fmspc", ClaimType.BYTES, Origin.CERTIFICATE, lambda v: v.pck.fmspc, _PCK),
    _claim("pce_id", ClaimType.BYTES, Origin.CERTIFICATE, lambda v: v.pck.pce_id, _PCK),
    _claim("pce_svn", ClaimType.INTEGER, Origin.CERTIFICATE, lambda v: v.pck.pce_svn, _PCK),
    _claim("cpu_svn", ClaimType.BYTES, Origin.CERTIFICATE, lambda v: v.pck.cpu_svn, _PCK),
    _claim("ppid", ClaimType.BYTES, Origin.CERTIFICATE, lambda v: v.pck.ppid, _PCK),
    _claim("platform.ca", ClaimType.TEXT, Origin.CERTIFICATE, lambda v: v.pck.ca, _PCK),
    _claim("platform.instance_id", ClaimType.BYTES, Origin.CERTIFICATE, lambda v: v.pck.platform_instance_id, _PCK),
    _claim("platform.dynamic_platform", ClaimType.BOOLEAN, Origin.CERTIFICATE, lambda v: v.pck.dynamic_platform, _PCK),
    _claim("platform.cached_keys", ClaimType.BOOLEAN, Origin.CERTIFICATE, lambda v: v.pck.cached_keys, _PCK),
    _claim("platform.smt_enabled", ClaimType.BOOLEAN, Origin.CERTIFICATE, lambda v: v.pck.smt_enabled, _PCK),
    _evaluated("tcb_status", ClaimType.TEXT, lambda e: str(e.tcb_status)),
    _evaluated("platform_status", ClaimType.TEXT, lambda e: str(e.platform_status)),
    _evaluated("tdx_module_status", ClaimType.TEXT, lambda e: e.tdx_module_status and str(e.tdx_module_status)),
    _evaluated("tcb_status_current", ClaimType.TEXT, lambda e: e.tcb_status_current and str(e.tcb_status_current)),
    _evaluated("qe_status", ClaimType.TEXT, lambda e: str(e.qe_status)),
    _evaluated("tcb_date", ClaimType.TEXT, lambda e: rfc3339_text(e.tcb_date)),
    _evaluated("advisory_ids", ClaimType.LIST, lambda e: e.advisory_ids),
    _evaluated("tcb_evaluation_data_number", ClaimType.INTEGER, lambda e: e.tcb_evaluation_data_number),
    _evaluated("qe_identity_evaluation_data_number", ClaimType.INTEGER, lambda e: e.qe_identity_evaluation_data_number),
)

TDX_CLAIMS: tuple[Claim, ...] = (
    _td_bytes("mr_td", Origin.HARDWARE),
    *(_td_bytes(f"rtmr{i}", Origin.GUEST if i == 3 else Origin.HARDWARE) for i in range(4)),
    _td_bytes("report_data", Origin.GUEST),
    _td_bytes("mr_config_id", Origin.HOST),
    _td_bytes("mr_owner", Origin.HOST),
    _td_bytes("mr_owner_config", Origin.HOST),
    _td_bytes("mr_service_td", Origin.HARDWARE),
    _claim(
        "service_td_bound",
        ClaimType.BOOLEAN,
        Origin.HARDWARE,
        lambda v: _td(v).service_td_bound,
        _TD,
    ),
    *(
        _claim(f"td_attributes.{name}", ClaimType.BOOLEAN, Origin.HOST, _td_bit(bit), _TD_ATTRIBUTES)
        for name, bit in TD_ATTRIBUTE_BITS
    ),
    _claim(
        "td_attributes.under_debug",
        ClaimType.BOOLEAN,
        Origin.HOST,
        lambda v: bool(_td(v).td_attributes & _UNDER_DEBUG),
        _TD_ATTRIBUTES,
    ),
    _claim(
        "td_attributes.unnamed",
        ClaimType.INTEGER,
        Origin.HOST,
        lambda v: _td(v).td_attributes & ~_NAMED_TD_BITS,
        _TD_ATTRIBUTES,
    ),
    _claim("td_attributes.value", ClaimType.INTEGER, Origin.HOST, lambda v: _td(v).td_attributes, _TD_ATTRIBUTES),
    _claim("xfam", ClaimType.INTEGER, Origin.HOST, lambda v: _td(v).xfam, "Intel TDX, XFAM"),
    _claim(
        "xfam_known",
        ClaimType.BOOLEAN,
        Origin.HOST,
        lambda v: _td(v).xfam & XFAM_FIXED_ONE == XFAM_FIXED_ONE and not _td(v).xfam & ~XFAM_KNOWN,
        "Intel TDX, XFAM",
    ),
    _td_bytes("mr_seam", Origin.HARDWARE),
    _td_bytes("mr_signer_seam", Origin.HARDWARE),
    _td_bytes("seam_attributes", Origin.HARDWARE),
    _td_bytes("tee_tcb_svn", Origin.HARDWARE),
    _td_bytes("tee_tcb_svn_2", Origin.HARDWARE),
    *(
        _td_value(name, ClaimType.INTEGER if name in _NUMBERS else ClaimType.BYTES, Origin.HARDWARE)
        for name in EXTENDED_FIELDS
    ),
    _claim("tdx_module.svn", ClaimType.INTEGER, Origin.HARDWARE, lambda v: _td(v).tee_tcb_svn[0], _TD),
    _claim("tdx_module.major_version", ClaimType.INTEGER, Origin.HARDWARE, lambda v: _td(v).tee_tcb_svn[1], _TD),
    *_SHARED,
)
"""Every claim of a TDX quote, in the order in which people read them."""
tdx_claim = claim_finder(TDX_CLAIMS)

SGX_CLAIMS: tuple[Claim, ...] = (
    _enclave_value("mr_enclave", ClaimType.BYTES, Origin.HARDWARE),
    _enclave_value("mr_signer", ClaimType.BYTES, Origin.OWNER),
    _enclave_value("isv_prod_id", ClaimType.INTEGER, Origin.OWNER),
    _enclave_value("isv_svn", ClaimType.INTEGER, Origin.OWNER),
    _enclave_value("isv_ext_prod_id", ClaimType.BYTES, Origin.OWNER),
    _enclave_value("isv_family_id", ClaimType.BYTES, Origin.OWNER),
    _enclave_value("config_id", ClaimType.BYTES, Origin.HOST),
    _enclave_value("config_svn", ClaimType.INTEGER, Origin.HOST),
    _enclave_value("report_data", ClaimType.BYTES, Origin.GUEST),
    _enclave_value("misc_select", ClaimType.INTEGER, Origin.HOST),
    *(
        _claim(f"attributes.{name}", ClaimType.BOOLEAN, Origin.HOST, _enclave_bit(bit), _ENCLAVE)
        for name, bit in ATTRIBUTE_BITS
    ),
    _claim("attributes.xfrm", ClaimType.INTEGER, Origin.HOST, lambda v: _enclave(v).xfrm, _ENCLAVE),
    *_SHARED,
)
"""Every claim of an SGX quote, in the order in which people read them."""
sgx_claim = claim_finder(SGX_CLAIMS)
