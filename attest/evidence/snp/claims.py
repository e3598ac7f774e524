"""Claims of a verified SEV-SNP report."""

from __future__ import annotations

from collections.abc import Callable

from attest.evidence.claims import Claim, ClaimType, ClaimValue, Origin, claim_finder
from attest.evidence.snp.structure import GUEST_POLICY_BITS, PLATFORM_INFO_BITS
from attest.evidence.snp.verify import VerifiedSnpReport
from attest.evidence.tolerances import value_names

_Get = Callable[[VerifiedSnpReport], ClaimValue]
_REPORT = "AMD 56860, ATTESTATION_REPORT"
_POLICY = "AMD 56860, guest policy"
_PLATFORM = "AMD 56860, PLATFORM_INFO"
_TCB = "AMD 56860, TCB_VERSION"


def _claim(name: str, kind: ClaimType, origin: Origin, get: _Get, clause: str = _REPORT) -> Claim:
    return Claim(name=name, type=kind, origin=origin, clause=clause, get=get)


def _policy_bit(bit: int) -> _Get:
    return lambda v: bool(v.report.policy >> bit & 1)


def _platform_bit(bit: int) -> _Get:
    return lambda v: bool(v.report.platform_info >> bit & 1)


def _cpuid(v: VerifiedSnpReport) -> ClaimValue:
    report = v.report
    if report.cpuid_fam_id is None or report.cpuid_mod_id is None or report.cpuid_step is None:
        return None
    return {"family": report.cpuid_fam_id, "model": report.cpuid_mod_id, "stepping": report.cpuid_step}


def _chip_identity(v: VerifiedSnpReport) -> ClaimValue:
    """Return the HWID of the certificate, which a host cannot mask, or else CHIP_ID; None when both are hidden."""
    chip_id = v.report.chip_id
    if v.leaf.hwid is not None:
        return v.leaf.hwid.ljust(len(chip_id), b"\0")
    return chip_id if any(chip_id) else None


SNP_CLAIMS: tuple[Claim, ...] = (
    _claim("version", ClaimType.INTEGER, Origin.HARDWARE, lambda v: v.report.version),
    _claim("product", ClaimType.TEXT, Origin.CERTIFICATE, lambda v: str(v.product), "AMD 56860, CPUID_FAM_ID"),
    _claim("cpuid", ClaimType.TCB, Origin.HARDWARE, _cpuid, "AMD 56860, CPUID_FAM_ID"),
    _claim("guest_svn", ClaimType.INTEGER, Origin.OWNER, lambda v: v.report.guest_svn),
    _claim("vmpl", ClaimType.INTEGER, Origin.HARDWARE, lambda v: v.report.vmpl),
    _claim("policy.abi_major", ClaimType.INTEGER, Origin.HOST, lambda v: v.report.policy >> 8 & 0xFF, _POLICY),
    _claim("policy.abi_minor", ClaimType.INTEGER, Origin.HOST, lambda v: v.report.policy & 0xFF, _POLICY),
    *(
        _claim(f"policy.{name}", ClaimType.BOOLEAN, Origin.HOST, _policy_bit(bit), _POLICY)
        for name, bit in GUEST_POLICY_BITS
    ),
    *(
        _claim(f"platform_info.{name}", ClaimType.BOOLEAN, Origin.HARDWARE, _platform_bit(bit), _PLATFORM)
        for name, bit in PLATFORM_INFO_BITS
    ),
    _claim("platform_info.value", ClaimType.INTEGER, Origin.HARDWARE, lambda v: v.report.platform_info, _PLATFORM),
    _claim("report_data", ClaimType.BYTES, Origin.GUEST, lambda v: v.report.report_data),
    _claim("measurement", ClaimType.BYTES, Origin.HARDWARE, lambda v: v.report.measurement),
    _claim("host_data", ClaimType.BYTES, Origin.HOST, lambda v: v.report.host_data),
    _claim("family_id", ClaimType.BYTES, Origin.OWNER, lambda v: v.report.family_id),
    _claim("image_id", ClaimType.BYTES, Origin.OWNER, lambda v: v.report.image_id),
    _claim("id_key_digest", ClaimType.BYTES, Origin.OWNER, lambda v: v.report.id_key_digest),
    _claim("author_key_digest", ClaimType.BYTES, Origin.OWNER, lambda v: v.report.author_key_digest),
    _claim("author_key_en", ClaimType.BOOLEAN, Origin.OWNER, lambda v: v.report.author_key_en),
    _claim("report_id", ClaimType.BYTES, Origin.HARDWARE, lambda v: v.report.report_id),
    _claim("report_id_ma", ClaimType.BYTES, Origin.HARDWARE, lambda v: v.report.report_id_ma),
    _claim("chip_id", ClaimType.BYTES, Origin.HARDWARE, lambda v: v.report.chip_id),
    _claim("chip_identity", ClaimType.BYTES, Origin.CERTIFICATE, _chip_identity, "AMD 57230, HWID"),
    _claim("chip_id_masked", ClaimType.BOOLEAN, Origin.HOST, lambda v: not any(v.report.chip_id)),
    _claim("reported_tcb", ClaimType.TCB, Origin.HOST, lambda v: v.reported_tcb.components(), _TCB),
    _claim("current_tcb", ClaimType.TCB, Origin.HARDWARE, lambda v: v.current_tcb.components(), _TCB),
    _claim("committed_tcb", ClaimType.TCB, Origin.HARDWARE, lambda v: v.committed_tcb.components(), _TCB),
    _claim("launch_tcb", ClaimType.TCB, Origin.HARDWARE, lambda v: v.launch_tcb.components(), _TCB),
    _claim("current_version", ClaimType.TEXT, Origin.HARDWARE, lambda v: _version(v, "current")),
    _claim("committed_version", ClaimType.TEXT, Origin.HARDWARE, lambda v: _version(v, "committed")),
    _claim(
        "provisional_firmware",
        ClaimType.BOOLEAN,
        Origin.HARDWARE,
        lambda v: v.provisional_firmware,
        "AMD 56860, COMMITTED_TCB",
    ),
    _claim(
        "launch_mit_vector",
        ClaimType.INTEGER,
        Origin.HARDWARE,
        lambda v: v.report.launch_mit_vector,
        "AMD 56860, PLATFORM_INFO",
    ),
    _claim(
        "current_mit_vector",
        ClaimType.INTEGER,
        Origin.HARDWARE,
        lambda v: v.report.current_mit_vector,
        "AMD 56860, PLATFORM_INFO",
    ),
    _claim("signing_key", ClaimType.TEXT, Origin.HOST, lambda v: str(v.leaf.kind), "AMD 56860, KEY_INFO"),
    _claim("csp_id", ClaimType.TEXT, Origin.CERTIFICATE, lambda v: v.leaf.csp_id, "AMD 58369"),
    _claim("not_understood", ClaimType.LIST, Origin.CERTIFICATE, lambda v: value_names(v.accepted), "AMD 57230"),
    _claim(
        "firmware_rollback_protected",
        ClaimType.BOOLEAN,
        Origin.HARDWARE,
        lambda v: v.committed_tcb.covers(v.reported_tcb),
        "AMD 56860, COMMITTED_TCB",
    ),
    _claim(
        "rolled_back_since_launch",
        ClaimType.BOOLEAN,
        Origin.HARDWARE,
        lambda v: not v.current_tcb.covers(v.launch_tcb),
        "AMD 56860, LAUNCH_TCB",
    ),
)
"""Every claim of a report, in the order in which people read them."""
snp_claim = claim_finder(SNP_CLAIMS)


def _version(v: VerifiedSnpReport, which: str) -> str:
    report = v.report
    return ".".join(str(getattr(report, f"{which}_{part}")) for part in ("major", "minor", "build"))
