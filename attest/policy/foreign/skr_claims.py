"""Claims of Azure's tokens: their keys in attest policies, or the reason for their absence (azure-skr.md, 12)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from attest.policy.foreign.skr_review import is_guest_chosen, is_init_time

TEE_PREFIX, SNP_PREFIX = "x-ms-isolation-tee.", "x-ms-sevsnpvm-"
DIGESTS: Mapping[str, tuple[str, int]] = MappingProxyType(
    {
        "snp.measurement": (f"{SNP_PREFIX}launchmeasurement", 48),
        "snp.host_data": (f"{SNP_PREFIX}hostdata", 32),
        "snp.author_key_digests": (f"{SNP_PREFIX}authorkeydigest", 48),
        "snp.id_key_digests": (f"{SNP_PREFIX}idkeydigest", 48),
        "snp.family_ids": (f"{SNP_PREFIX}familyId", 16),
        "snp.image_ids": (f"{SNP_PREFIX}imageId", 16),
        "tdx.mr_td": ("tdx_mrtd", 48),
        **{f"tdx.rtmr{number}": (f"tdx_rtmr{number}", 48) for number in range(4)},
        "tdx.mr_seam": ("tdx_mrseam", 48),
        "tdx.mr_config_id": ("tdx_mrconfigid", 48),
        "tdx.mr_owner": ("tdx_mrowner", 48),
        "tdx.mr_owner_config": ("tdx_mrownerconfig", 48),
    }
)
"""Keys that list values in hex: the claim, and the length of a value in bytes."""
BITS: Mapping[str, tuple[str, bool | None]] = MappingProxyType(
    {
        "snp.guest_policy.debug": (f"{SNP_PREFIX}is-debuggable", False),
        "snp.guest_policy.migrate_ma": (f"{SNP_PREFIX}migration-allowed", False),
        "snp.guest_policy.smt": (f"{SNP_PREFIX}smt-allowed", None),
        "tdx.td_attributes.debug": ("tdx_td_attributes_debug", False),
        "tdx.td_attributes.kl": ("tdx_td_attributes_key_locker", None),
        "tdx.td_attributes.perfmon": ("tdx_td_attributes_perfmon", None),
        "tdx.td_attributes.pks": ("tdx_td_attributes_protection_keys", None),
        "tdx.td_attributes.sept_ve_disable": ("tdx_td_attributes_septve_disable", True),
    }
)
"""Keys of single bits: the claim, and the only value that our policies can demand; None for either."""
VMPL, GUEST_SVN, TCB_STATUS = f"{SNP_PREFIX}vmpl", f"{SNP_PREFIX}guestsvn", "attester_tcb_status"
TCB_CLAIMS: Mapping[str, str] = MappingProxyType(
    {
        "bootloader": f"{SNP_PREFIX}bootloader-svn",
        "tee": f"{SNP_PREFIX}tee-svn",
        "snp": f"{SNP_PREFIX}snpfw-svn",
        "microcode": f"{SNP_PREFIX}microcode-svn",
    }
)
"""Parts of a TCB that Azure's claims name."""

_TOKEN = frozenset(
    {"iss", "iat", "nbf", "exp", "jti", "aud", "sub", "x-ms-ver", "x-ms-policy-hash", "x-ms-policy-signer"}
)
_REPORT_DATA = (
    "the guest chooses this data, and it differs in every exchange",
    "state the nonce when the evidence is verified, or bind a key to it",
)
_RAW_BITS = ("attest policies name bits, not whole words", "demand bits of td_attributes; unknown ones are refused")
_MODULE = ("verification compares it with Intel's identity of the module", "demand mr_seam for a certain module")
_FACTS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "x-ms-sevsnpvm-reportdata": _REPORT_DATA,
        "tdx_report_data": _REPORT_DATA,
        "x-ms-sevsnpvm-reportid": (
            "a report id changes with every start of the guest",
            "demand a chip_id, or what the guest runs",
        ),
        "x-ms-compliance-status": (
            "it is a judgement of Azure's Verifier under its own rules",
            "demand the facts that comply: measurement, minimum_tcb, tcb_status",
        ),
        "tdx_mrsignerseam": _MODULE,
        "tdx_seamsvn": ("each version of the TDX module counts its own SVNs", "state minimum_tdx_module_svn"),
        "tdx_tee_tcb_svn": ("Intel's collateral evaluates it, as tcb_status", "state tcb_status"),
        "tdx_td_attributes": _RAW_BITS,
        "tdx_seam_attributes": _MODULE,
        "tdx_xfam": ("attest policies check that all bits are known", "leave unknown_xfam strict"),
        "dbgstat": ("it is a summary by Azure's Verifier", "demand guest_policy.debug or td_attributes.debug false"),
    }
)


def why_lost(path: str) -> tuple[str, str]:
    """Return the reason why a claim cannot be carried, and the alternative."""
    if is_guest_chosen(path):
        return "the guest chooses it freely, so it authorises nothing", "bind what matters to the report's data"
    if is_init_time(path):
        return "the host chose it at launch; only HOSTDATA fixes it", "demand host_data"
    bare = path.removeprefix(TEE_PREFIX)
    if bare in _FACTS:
        return _FACTS[bare]
    if path in _TOKEN:
        return "it concerns the token, and attest policies appraise evidence", "check it where the token is checked"
    if bare.startswith("x-ms-runtime."):
        return (
            "the paravisor states it; attest policies appraise claims that the hardware signed"
        ), "demand the paravisor's measurement"
    if path == "secureboot" or path.startswith("x-ms-azurevm-"):
        return (
            "Azure's Verifier reads it from the log of the virtual TPM, which is optional here",
            "demand that log (azure.event_log); of a TD elsewhere, its event log (tdx.event_log)",
        )
    return "no claim of attest corresponds to it", "find out which component determines it, and demand that fact"
