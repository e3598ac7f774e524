"""Claims of Azure's tokens without a place in our policies, each with the reason (azure-skr.md, 12)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from attest.policy.foreign.skr_review import is_guest_chosen, is_init_time

_TOKEN = frozenset(
    {"iss", "iat", "nbf", "exp", "jti", "aud", "sub", "x-ms-ver", "x-ms-policy-hash", "x-ms-policy-signer"}
)
_REPORT_DATA = (
    "it is what the guest had signed, which differs with every question",
    "state the nonce when the evidence is verified, or bind a key to it",
)
_RAW_BITS = ("our policies name bits, not whole words", "demand bits of td_attributes; unknown ones are refused")
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
            "it is a judgement of Azure's Verifier by rules of its own",
            "name what complies: measurement, minimum_tcb, tcb_status",
        ),
        "tdx_mrsignerseam": _MODULE,
        "tdx_seamsvn": ("each version of the TDX module counts its own SVNs", "state minimum_tdx_module_svn"),
        "tdx_tee_tcb_svn": ("Intel's collateral judges it, as tcb_status", "state tcb_status"),
        "tdx_td_attributes": _RAW_BITS,
        "tdx_seam_attributes": _MODULE,
        "tdx_xfam": ("our policies judge whether all bits are known", "leave unknown_xfam strict"),
        "dbgstat": ("it is a summary by Azure's Verifier", "demand guest_policy.debug or td_attributes.debug false"),
    }
)


def why_lost(path: str) -> tuple[str, str]:
    """Return the reason why a claim cannot be carried, and the alternative."""
    if is_guest_chosen(path):
        return "the guest chooses it freely, so that it authorises nothing", "bind what matters to the report's data"
    if is_init_time(path):
        return "whoever started the machine chose it; only HOSTDATA fixes it", "demand host_data"
    bare = path.removeprefix("x-ms-isolation-tee.")
    if bare in _FACTS:
        return _FACTS[bare]
    if path in _TOKEN:
        return "it is about the token, and our policies judge evidence", "check it where the token is checked"
    if bare.startswith("x-ms-runtime."):
        return "the paravisor says it; our policies judge the hardware's word", "demand the paravisor's measurement"
    if path == "secureboot" or path.startswith("x-ms-azurevm-"):
        return (
            "Azure's Verifier reads it from the log of the virtual TPM, which need not come along here",
            "demand that log (azure.event_log); of a TD elsewhere, its event log (tdx.event_log)",
        )
    return "no claim of ours corresponds to it", "find out who determines it, and demand that fact"
