"""Fields of Intel's quotes as tokens repeat them: ``tdx_…`` of Azure and of Intel, ``sgx_…`` of Intel.

Both services write a field of the quote as the hex of its bytes, in their order there; so a number
of several bytes is little-endian (``tdx_td_attributes`` ``0000001000000000`` has bit 28 set).

Spec: Azure Attestation, EAT profile for TDX; Intel Trust Authority, EAT profile 1.0.1; azure-skr.md 12.3.
"""

from __future__ import annotations

from collections.abc import Mapping

from attest.errors import EvidenceError
from attest.evidence.claims import ClaimTree
from attest.evidence.tdx.structure import TD_ATTRIBUTE_BITS, XFAM_FIXED_ONE, XFAM_KNOWN
from attest.results.token_facts import ClaimReader, claim_invalid

_TD_REGISTERS = {
    "mr_td": "tdx_mrtd",
    "rtmr0": "tdx_rtmr0",
    "rtmr1": "tdx_rtmr1",
    "rtmr2": "tdx_rtmr2",
    "rtmr3": "tdx_rtmr3",
    "mr_config_id": "tdx_mrconfigid",
    "mr_owner": "tdx_mrowner",
    "mr_owner_config": "tdx_mrownerconfig",
    "mr_seam": "tdx_mrseam",
    "mr_signer_seam": "tdx_mrsignerseam",
}
_REGISTER_BYTES = 48
_TD_BITS = {
    "tdx_td_attributes_debug": "debug",
    "tdx_td_attributes_septve_disable": "sept_ve_disable",
    "tdx_td_attributes_protection_keys": "pks",
    "tdx_td_attributes_key_locker": "kl",
    "tdx_td_attributes_perfmon": "perfmon",
    "tdx_is_migratable": "migratable",
}
_UNDER_DEBUG = 0xFF
_NAMED_BITS = sum(1 << bit for _, bit in TD_ATTRIBUTE_BITS)
_HASH_BYTES = 32
_SIXTEEN_BITS = 0xFFFF


def present(claims: Mapping[str, ClaimTree | None]) -> dict[str, ClaimTree]:
    """Return the claims that are there."""
    return {name: value for name, value in claims.items() if value is not None}


def tdx_claims(token: ClaimReader) -> dict[str, ClaimTree]:
    """Return the claims of a TD report.

    Raises:
        EvidenceError: ``token-claim-invalid``; also MRTD or REPORT_DATA is missing, or a bit has two values.
    """
    registers = {ours: token.hexadecimal(theirs, _REGISTER_BYTES) for ours, theirs in _TD_REGISTERS.items()}
    token.required("tdx_mrtd", registers["mr_td"])
    report_data = token.required("tdx_report_data", token.hexadecimal("tdx_report_data", 64))
    svn = token.hexadecimal("tdx_tee_tcb_svn", 16)
    if svn is not None:
        _require_svn(token, svn)
    return present(
        {
            **registers,
            "report_data": report_data,
            **_attributes(token),
            **_xfam(token),
            "seam_attributes": token.hexadecimal("tdx_seam_attributes", 8),
            "tee_tcb_svn": svn,
            "tdx_module.svn": None if svn is None else svn[0],
            "tdx_module.major_version": None if svn is None else svn[1],
        }
    )


def sgx_claims(token: ClaimReader) -> dict[str, ClaimTree]:
    """Return the claims of an enclave's report, as Intel's service names them.

    Raises:
        EvidenceError: ``token-claim-invalid``; also MRENCLAVE or MRSIGNER is missing.
    """
    return present(
        {
            "mr_enclave": token.required("sgx_mrenclave", token.hexadecimal("sgx_mrenclave", _HASH_BYTES)),
            "mr_signer": token.required("sgx_mrsigner", token.hexadecimal("sgx_mrsigner", _HASH_BYTES)),
            "isv_prod_id": token.integer("sgx_isvprodid", most=_SIXTEEN_BITS),
            "isv_svn": token.integer("sgx_isvsvn", most=_SIXTEEN_BITS),
            "report_data": token.hexadecimal("sgx_report_data", 64),
            "config_id": token.hexadecimal("sgx_configid", 64),
            "config_svn": token.integer("sgx_configsvn", most=_SIXTEEN_BITS),
            "attributes.debug": token.boolean("sgx_is_debuggable"),
        }
    )


def evaluation_claims(token: ClaimReader, collateral: str | None = None) -> dict[str, ClaimTree]:
    """Return the Verifier's conclusions about the platform's TCB.

    ``token`` is the object that has ``attester_tcb_status``; ``collateral`` names the member that describes Intel's
    collateral.
    """
    documents = None if collateral is None else token.object(collateral)
    return present(
        {
            "tcb_status": token.text("attester_tcb_status"),
            "tcb_date": token.moment("attester_tcb_date"),
            "advisory_ids": token.texts("attester_advisory_ids"),
            "pce_svn": token.integer("pce_svn", most=_SIXTEEN_BITS),
            "platform.instance_id": token.hexadecimal("platform_instance_id", 16),
            "fmspc": None if documents is None else documents.hexadecimal("fmspc", 6),
            "tcb_evaluation_data_number": None if documents is None else documents.integer("tcbevaluationdatanumber"),
        }
    )


def _attributes(token: ClaimReader) -> dict[str, ClaimTree]:
    """Read TDATTRIBUTES: as a word, as single bits, or both, which then have to agree."""
    single = {ours: token.boolean(theirs) for theirs, ours in _TD_BITS.items()}
    raw = token.hexadecimal("tdx_td_attributes", 8)
    found = present({f"td_attributes.{name}": value for name, value in single.items()})
    debuggable = token.boolean("tdx_is_debuggable")
    if raw is None:
        if debuggable is not None:
            found.setdefault("td_attributes.debug", debuggable)
            _require_alike(token, "tdx_is_debuggable", debuggable, found["td_attributes.debug"])
        return found
    value = int.from_bytes(raw, "little")
    for theirs, ours in _TD_BITS.items():
        bit = bool(value >> dict(TD_ATTRIBUTE_BITS)[ours] & 1)
        _require_alike(token, theirs, single[ours], bit)
        found[f"td_attributes.{ours}"] = bit
    # The summary may be of bit 0 or of all bits of the group; it has to be one of the two.
    if debuggable is not None and debuggable not in (bool(value & 1), bool(value & _UNDER_DEBUG)):
        raise _contradiction(token, "tdx_is_debuggable")
    return {
        **found,
        "td_attributes.under_debug": bool(value & _UNDER_DEBUG),
        "td_attributes.unnamed": value & ~_NAMED_BITS,
        "td_attributes.value": value,
    }


def _xfam(token: ClaimReader) -> dict[str, ClaimTree]:
    raw = token.hexadecimal("tdx_xfam", 8)
    if raw is None:
        return {}
    value = int.from_bytes(raw, "little")
    return {"xfam": value, "xfam_known": value & XFAM_FIXED_ONE == XFAM_FIXED_ONE and not value & ~XFAM_KNOWN}


def _require_svn(token: ClaimReader, svn: bytes) -> None:
    """Require the module's SVN, where it is stated apart, to be that of TEE_TCB_SVN, with or without its version."""
    stated = token.integer("tdx_seamsvn", most=_SIXTEEN_BITS)
    if stated is not None and stated not in (svn[0], svn[0] | svn[1] << 8):
        raise _contradiction(token, "tdx_seamsvn")


def _require_alike(token: ClaimReader, name: str, stated: bool | None, found: ClaimTree) -> None:  # noqa: FBT001  a claim's value
    if stated is not None and stated != found:
        raise _contradiction(token, name)


def _contradiction(token: ClaimReader, name: str) -> EvidenceError:
    return claim_invalid(
        token.where(name), ("the value that the rest of the token states for these bits"), token.members[name]
    )
