"""Claims of MAA's tokens about verified evidence, by MAA's names and types.

NOTE: The compliance status is ``azure-compliant-uvm``, also for a TD: the machine meets the policy of this service and
chose its runtime data itself. ``azure-compliant-cvm`` would state that a paravisor of Azure wrote them.

Spec: specs/azure-skr.md, section 12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attest import VerifiedEvidence
from attest.encoding import JsonValue
from attest.errors import BindingError
from kms.api.maa.messages import TEES, Tee

COMPLIANCE: Final = "azure-compliant-uvm"
TDX_PROFILE: Final = "https://aka.ms/maa-eat-profile-tdxvm"
_SNP: Final = {
    "authorkeydigest": "author_key_digest",
    "idkeydigest": "id_key_digest",
    "launchmeasurement": "measurement",
    "hostdata": "host_data",
    "reportid": "report_id",
    "reportdata": "report_data",
    "familyId": "family_id",
    "imageId": "image_id",
    "chipid": "chip_id",
    "chip-family": "product",
    "guestsvn": "guest_svn",
    "vmpl": "vmpl",
    "is-debuggable": "policy.debug",
    "migration-allowed": "policy.migrate_ma",
    "smt-allowed": "policy.smt",
}
"""Our names by MAA's, which follow ``x-ms-sevsnpvm-``."""
_SNP_TCB: Final = {
    "bootloader-svn": "bootloader",
    "tee-svn": "tee",
    "snpfw-svn": "snp",
    "microcode-svn": "microcode",
}
_TDX: Final = {
    "tdx_mrtd": "mr_td",
    "tdx_mrseam": "mr_seam",
    "tdx_mrsignerseam": "mr_signer_seam",
    "tdx_mrconfigid": "mr_config_id",
    "tdx_mrowner": "mr_owner",
    "tdx_mrownerconfig": "mr_owner_config",
    "tdx_rtmr0": "rtmr0",
    "tdx_rtmr1": "rtmr1",
    "tdx_rtmr2": "rtmr2",
    "tdx_rtmr3": "rtmr3",
    "tdx_report_data": "report_data",
    "tdx_tee_tcb_svn": "tee_tcb_svn",
    "tdx_seam_attributes": "seam_attributes",
    "tdx_td_attributes_debug": "td_attributes.debug",
    "tdx_td_attributes_key_locker": "td_attributes.kl",
    "tdx_td_attributes_perfmon": "td_attributes.perfmon",
    "tdx_td_attributes_protection_keys": "td_attributes.pks",
    "tdx_td_attributes_septve_disable": "td_attributes.sept_ve_disable",
}
_Values = Mapping[str, Any]  # Any: values of the registry of claims, by our names


def claims_about(verified: VerifiedEvidence, tee: Tee) -> dict[str, JsonValue]:
    """Return the claims about the one machine of verified evidence.

    Raises:
        BindingError: ``maa-tee-mismatch``: the evidence is of another TEE than the address.
    """
    (item,) = verified.items
    if item.kind != TEES[tee].kind:
        raise BindingError(
            f"the evidence is of {item.kind}, and the address is that of {tee}",
            code="maa-tee-mismatch",
            field="evidence",
            expected=TEES[tee].kind,
            got=item.kind,
            clause="docs/maa.md",
        )
    values = {claim.name: claim.get(item.verified) for claim in item.format.claims}
    facts = _snp(values) if tee == "sevsnpvm" else _tdx(values)
    return {"x-ms-attestation-type": tee, "x-ms-compliance-status": COMPLIANCE, **facts}


def _snp(values: _Values) -> dict[str, JsonValue]:
    levels = values["reported_tcb"]
    facts = {theirs: _written(values[ours]) for theirs, ours in _SNP.items()}
    facts |= {theirs: levels[ours] for theirs, ours in _SNP_TCB.items()}
    return {f"x-ms-sevsnpvm-{name}": value for name, value in facts.items()}


def _tdx(values: _Values) -> dict[str, JsonValue]:
    status = values["tcb_status"]
    return {
        "eat_profile": TDX_PROFILE,
        "intuse": "generic",
        "dbgstat": "enabled" if values["td_attributes.under_debug"] else "disabled",
        **({} if status is None else {"attester_tcb_status": status}),
        **{theirs: _written(values[ours]) for theirs, ours in _TDX.items()},
        "tdx_seamsvn": int.from_bytes(values["tee_tcb_svn"][:2], "little"),
        "tdx_td_attributes": values["td_attributes.value"].to_bytes(8, "little").hex(),
        "tdx_xfam": values["xfam"].to_bytes(8, "little").hex(),
    }


def _written(value: Any) -> JsonValue:  # noqa: ANN401  a value of the registry
    """Write a value as MAA does: bytes in hex."""
    return value.hex() if isinstance(value, bytes) else value
