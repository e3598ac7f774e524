"""Evaluation of one platform by Intel's documents: TCB level, TDX module, quoting enclave, and all three together.

Pure functions of values that were verified before; the order of the steps is that of specs/intel-tdx-sgx.md,
section 11. A platform that no level covers, and one that is revoked, fail here: no policy can allow them. Every
other status is a result, and policies judge it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from operator import ge

from attest.errors import VerificationError
from attest.evidence.intel.pck import PckCertificate
from attest.evidence.intel.qe_identity import QeIdentity
from attest.evidence.intel.quote import ParsedQuote
from attest.evidence.intel.status import TcbStatus, converge
from attest.evidence.intel.tcb_info import ComponentLevel, TcbInfo, TcbLevel, TdxModule, TdxModuleIdentity, Tee
from attest.evidence.tdx.structure import ParsedTdReport

_CONFIGURATION = frozenset(
    {
        TcbStatus.CONFIGURATION_NEEDED,
        TcbStatus.CONFIGURATION_AND_SW_HARDENING_NEEDED,
        TcbStatus.OUT_OF_DATE_CONFIGURATION_NEEDED,
    }
)
_CURRENT = frozenset(
    {
        TcbStatus.UP_TO_DATE,
        TcbStatus.SW_HARDENING_NEEDED,
        TcbStatus.CONFIGURATION_NEEDED,
        TcbStatus.CONFIGURATION_AND_SW_HARDENING_NEEDED,
    }
)
_BEHIND = frozenset({TcbStatus.OUT_OF_DATE, TcbStatus.OUT_OF_DATE_CONFIGURATION_NEEDED})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformFacts:
    """Facts of the PCK certificate and the body of a quote about the platform.

    Attributes:
        fmspc: 6 bytes.
        pce_id: 2 bytes.
        component_svns: 16 numbers.
        module: the TD report, which describes the TDX module; None for SGX.
    """

    tee: Tee
    fmspc: bytes
    pce_id: bytes
    component_svns: tuple[int, ...]
    pce_svn: int
    module: ParsedTdReport | None


def platform_facts(quote: ParsedQuote, pck: PckCertificate) -> PlatformFacts:
    """Return the facts of a quote and its PCK certificate, whose signatures were verified before."""
    return PlatformFacts(
        tee=quote.tee,
        fmspc=pck.fmspc,
        pce_id=pck.pce_id,
        component_svns=pck.component_svns,
        pce_svn=pck.pce_svn,
        module=quote.body if isinstance(quote.body, ParsedTdReport) else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TcbEvaluation:
    """The outcome for one platform.

    Attributes:
        tcb_status: all parts together.
        platform_status: the SGX level's for SGX, the TDX level's for TDX.
        tdx_module_status: None for SGX.
        tcb_status_current: as ``tcb_status``, by the TDX module that runs now (TEE_TCB_SVN_2) and not by the one under
            which the TD began; None where the quote states none, or no level covers it.
        tcb_date: of the matched level of the platform.
        advisory_ids: of the matched levels of all parts, sorted, none twice.
        tcb_evaluation_data_number: of the TCB info.
        qe_identity_evaluation_data_number: of the QE identity.
    """

    tcb_status: TcbStatus
    platform_status: TcbStatus
    tdx_module_status: TcbStatus | None
    tcb_status_current: TcbStatus | None
    qe_status: TcbStatus
    tcb_date: datetime
    advisory_ids: tuple[str, ...]
    tcb_evaluation_data_number: int
    qe_identity_evaluation_data_number: int


def masked(value: bytes, mask: bytes) -> bytes:
    """Keep the bits of the mask; both are of one length, by their specifications."""
    return (int.from_bytes(value, "big") & int.from_bytes(mask, "big")).to_bytes(len(mask), "big")


# -- the TDX module (T11)


def find_module(info: TcbInfo, facts: ParsedTdReport) -> TdxModuleIdentity | None:
    """Require that the TDX module is Intel's, and return the identity of its major version.

    Returns:
        None for major version 0, which TCB infos describe as a whole and without levels.

    Raises:
        VerificationError: ``tdx-module-unknown`` or ``tdx-module-mismatch``.

    Spec: specs/intel-tdx-sgx.md, section 11, step 4.
    """
    major = facts.tee_tcb_svn[1]
    identity = _identity(info, major) if major else None
    module = identity.module if identity is not None else info.module
    if module is None:  # an SGX one, which the choice by TEE keeps away from TDX quotes
        raise _module_mismatch("tdxModule", "a TCB info of TDX", "one of SGX")
    _require_module(module, facts)
    return identity


def _identity(info: TcbInfo, major: int) -> TdxModuleIdentity:
    identity = info.module_identity(major)
    if identity is None:
        known = ", ".join(known.id for known in info.module_identities)
        raise VerificationError(
            f"the TCB info has no TDX module of major version {major}",
            code="tdx-module-unknown",
            field="TEE_TCB_SVN",
            expected=known or "major version 0, the only one of this TCB info",
            got=f"TDX_{major:02X}",
            clause="Intel PCS, TDX module identities",
        )
    return identity


def _require_module(module: TdxModule, facts: ParsedTdReport) -> None:
    if facts.mr_signer_seam != module.mr_signer:
        raise _module_mismatch("MRSIGNERSEAM", module.mr_signer.hex(), facts.mr_signer_seam.hex())
    attributes = facts.seam_attributes
    if any(attributes) or masked(attributes, module.attributes_mask) != module.attributes:
        raise _module_mismatch("SEAMATTRIBUTES", f"zero, and {module.attributes.hex()}", attributes.hex())


def _module_mismatch(field: str, expected: str, got: str) -> VerificationError:
    return VerificationError(
        f"the TDX module is not Intel's: {field} {got}, expected {expected}",
        code="tdx-module-mismatch",
        field=field,
        expected=expected,
        got=got,
        clause="Intel PCS, TDX module identities",
    )


# -- levels, and all together (T12)


def evaluate_tcb(
    *,
    info: TcbInfo,
    identity: QeIdentity,
    platform: PlatformFacts,
    module_identity: TdxModuleIdentity | None,
    qe_level: ComponentLevel,
) -> TcbEvaluation:
    """Find the levels that cover a platform, and bring their statuses together.

    TCB info and QE identity are verified, and of this kind of platform; ``module_identity`` comes from ``find_module``,
    ``qe_level`` from ``require_qe``.

    Raises:
        VerificationError: ``tcb-not-supported``, ``tcb-revoked`` or ``tdx-module-unknown``.

    Spec: specs/intel-tdx-sgx.md, sections 11 to 13 and 15.
    """
    sgx_level, level = platform_levels(info, platform)
    module_level = level_of_module(module_identity, platform.module)
    require_none_revoked({"platform": level, "TDX module": module_level, "QE": qe_level})
    status = level.status
    advisories = {*level.advisory_ids, *qe_level.advisory_ids}
    if module_level is not None:
        advisories |= {*module_level.advisory_ids}
        status = converge(status, module_level.status)
        status = _relaunch(info, platform.module, sgx_level, module_level, qe_level=qe_level, status=status)
    return TcbEvaluation(
        tcb_status=converge(status, qe_level.status),
        platform_status=level.status,
        tdx_module_status=_module_status(platform, module_level),
        tcb_status_current=_current_status(info, platform, qe_level),
        qe_status=qe_level.status,
        tcb_date=level.tcb_date,
        advisory_ids=tuple(sorted(advisories)),
        tcb_evaluation_data_number=info.evaluation_data_number,
        qe_identity_evaluation_data_number=identity.evaluation_data_number,
    )


def platform_levels(info: TcbInfo, platform: PlatformFacts) -> tuple[TcbLevel, TcbLevel]:
    """Return the SGX level that covers a platform, and the level that counts.

    Raises:
        VerificationError: ``tcb-not-supported``.
    """
    covering = [level for level in info.levels if _covers_sgx(level, platform)]
    sgx_level = _first(covering, platform)
    facts = platform.module
    if facts is None:
        return sgx_level, sgx_level
    # Components 0 and 1 are the module's own, and its identity judges them where there is one.
    start = 2 if facts.tee_tcb_svn[1] else 0
    svns = facts.tee_tcb_svn[start:]
    return sgx_level, _first([level for level in covering if _at_least(svns, level.tdx_components[start:])], platform)


def level_of_module(identity: TdxModuleIdentity | None, facts: ParsedTdReport | None) -> ComponentLevel | None:
    """Return the level that covers a TDX module; None where it has no identity of its own.

    Raises:
        VerificationError: ``tcb-not-supported``.
    """
    if identity is None or facts is None:
        return None
    return covering(identity.levels, facts.tee_tcb_svn[0], what="TDX module", field="TEE_TCB_SVN")


def _covers_sgx(level: TcbLevel, platform: PlatformFacts) -> bool:
    return platform.pce_svn >= level.pce_svn and _at_least(platform.component_svns, level.sgx_components)


def _at_least(svns: Iterable[int], level: Iterable[int]) -> bool:
    return all(map(ge, svns, level))


def _first(levels: list[TcbLevel], platform: PlatformFacts) -> TcbLevel:
    if levels:
        return levels[0]
    svns = f"components {' '.join(map(str, platform.component_svns))}, PCESVN {platform.pce_svn}"
    if platform.module is not None:
        svns += f", TEE_TCB_SVN {platform.module.tee_tcb_svn.hex()}"
    raise _not_supported("platform", "TCB", svns)


def covering(levels: tuple[ComponentLevel, ...], isv_svn: int, *, what: str, field: str) -> ComponentLevel:
    """Return the highest level that an ISVSVN reaches.

    Raises:
        VerificationError: ``tcb-not-supported``.
    """
    for level in levels:
        if isv_svn >= level.isv_svn:
            return level
    raise _not_supported(what, field, f"ISVSVN {isv_svn}")


def _not_supported(what: str, field: str, got: str) -> VerificationError:
    return VerificationError(
        f"no TCB level covers this {what}: {got}",
        code="tcb-not-supported",
        field=field,
        expected="at least the lowest level that Intel supports",
        got=got,
        clause="Intel PCS, TCB levels",
    )


def _module_status(platform: PlatformFacts, module_level: ComponentLevel | None) -> TcbStatus | None:
    if platform.module is None:
        return None
    return TcbStatus.UP_TO_DATE if module_level is None else module_level.status


def require_none_revoked(levels: Mapping[str, TcbLevel | ComponentLevel | None]) -> None:
    """Require that Intel revoked none of the levels, which are given by the names of their parts.

    Raises:
        VerificationError: ``tcb-revoked``.
    """
    revoked = " and ".join(name for name, level in levels.items() if level and level.status is TcbStatus.REVOKED)
    if revoked:
        raise VerificationError(
            f"Intel revoked the TCB of the {revoked}",
            code="tcb-revoked",
            field="tcbStatus",
            expected="a status other than Revoked",
            got=TcbStatus.REVOKED,
            clause="Intel PCS, TCB status",
        )


# -- the TDX module that runs now


def running_module(facts: ParsedTdReport | None) -> ParsedTdReport | None:
    """Return the facts with the SVN of the module that runs now as the only one; None where none is stated."""
    if facts is None or facts.tee_tcb_svn_2 is None:
        return None
    return replace(facts, tee_tcb_svn=facts.tee_tcb_svn_2)


def _current_status(info: TcbInfo, platform: PlatformFacts, qe_level: ComponentLevel) -> TcbStatus | None:
    now = running_module(platform.module)
    if now is None:
        return None
    try:
        level, module = platform_levels(info, replace(platform, module=now))[1], level_running(info, now)
    except VerificationError:  # a module or a level that this TCB info does not know; policies refuse an absent claim
        return None
    require_none_revoked({"platform with the TDX module that runs now": level, "TDX module that runs now": module})
    status = level.status if module is None else converge(level.status, module.status)
    return converge(status, qe_level.status)


def level_running(info: TcbInfo, now: ParsedTdReport) -> ComponentLevel | None:
    """Return the level that covers the TDX module that runs now; None where it has no identity of its own.

    Raises:
        VerificationError: ``tdx-module-unknown`` or ``tcb-not-supported``.
    """
    major = now.tee_tcb_svn[1]
    return level_of_module(_identity(info, major) if major else None, now)


# -- TD relaunch (section 13)


def _relaunch(
    info: TcbInfo,
    facts: ParsedTdReport | None,
    sgx_level: TcbLevel,
    module_level: ComponentLevel,
    *,
    qe_level: ComponentLevel,
    status: TcbStatus,
) -> TcbStatus:
    """Distinguish a TD that only has to be relaunched, since its host runs a newer module, from one out of date."""
    applies = (
        qe_level.status is TcbStatus.UP_TO_DATE
        and sgx_level.status in _CURRENT
        and status in _BEHIND
        and module_level.status is TcbStatus.OUT_OF_DATE
    )
    if not applies or facts is None or facts.tee_tcb_svn_2 is None:
        return status
    now, newest = facts.tee_tcb_svn_2, info.levels[0].tdx_components
    module_svn = _identity(info, now[1]).levels[0].isv_svn if now[1] else newest[0]
    if now[0] < module_svn or now[2] < newest[2]:
        return status
    if sgx_level.status in _CONFIGURATION or status in _CONFIGURATION:
        return TcbStatus.TD_RELAUNCH_ADVISED_CONFIGURATION_NEEDED
    return TcbStatus.TD_RELAUNCH_ADVISED
