"""Claims of verified evidence of an Azure confidential VM: the guest's registers first, the CPU's report last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from attest.evidence.azure.runtime import VM_CONFIGURATION
from attest.evidence.azure.verify import VerifiedAzureEvidence
from attest.evidence.claims import Claim, ClaimType, ClaimValue, Origin, StatedClaims, claim_finder
from attest.evidence.intel.claims import TDX_CLAIMS
from attest.evidence.snp.claims import SNP_CLAIMS
from attest.evidence.tpm.structure import MAX_PCRS

_Get = Callable[[VerifiedAzureEvidence], ClaimValue]
_QUOTE = "TPM 2.0 Library, part 2, TPMS_ATTEST"
_RUNTIME = "Microsoft Azure, guest attestation, runtime claims"
RESETTABLE_PCRS = (16, 23)
"""Registers that the guest can set back to zero (TCG PC Client Platform TPM Profile, 4.6): debug, application."""


def _claim(name: str, kind: ClaimType, origin: Origin, get: _Get, clause: str) -> Claim:
    return Claim(name=name, type=kind, origin=origin, clause=clause, get=get)


def _pcr(index: int) -> Claim:
    origin = Origin.GUEST if index in RESETTABLE_PCRS else Origin.HARDWARE
    return _claim(f"pcrs.{index}", ClaimType.BYTES, origin, lambda v: dict(v.pcrs).get(index), _QUOTE)


def _configured(name: str, kind: type[bool | str]) -> Claim:
    of = ClaimType.BOOLEAN if kind is bool else ClaimType.TEXT
    path = f"vm_configuration.{name}"
    return _claim(path, of, Origin.HARDWARE, lambda v: v.runtime.vm_configuration.get(name), _RUNTIME)


_SHARED: tuple[Claim, ...] = (
    *(_pcr(index) for index in range(MAX_PCRS)),
    *(_configured(name, kind) for name, kind in VM_CONFIGURATION.values()),
    _claim("user_data", ClaimType.BYTES, Origin.GUEST, lambda v: v.runtime.user_data, _RUNTIME),
    _claim("tpm.extra_data", ClaimType.BYTES, Origin.GUEST, lambda v: v.quote.extra_data, _QUOTE),
    _claim("tpm.clock", ClaimType.INTEGER, Origin.HARDWARE, lambda v: v.quote.clock, _QUOTE),
    _claim("tpm.reset_count", ClaimType.INTEGER, Origin.HARDWARE, lambda v: v.quote.reset_count, _QUOTE),
    _claim("tpm.restart_count", ClaimType.INTEGER, Origin.HARDWARE, lambda v: v.quote.restart_count, _QUOTE),
    _claim("tpm.safe", ClaimType.BOOLEAN, Origin.HARDWARE, lambda v: v.quote.safe, _QUOTE),
    _claim(
        "tpm.firmware_version",
        ClaimType.BYTES,
        Origin.HARDWARE,
        lambda v: v.quote.firmware_version.to_bytes(8, "big"),
        _QUOTE,
    ),
    _claim("tpm.qualified_signer", ClaimType.BYTES, Origin.HARDWARE, lambda v: v.quote.qualified_signer, _QUOTE),
    _claim(
        "hcl.version",
        ClaimType.INTEGER,
        Origin.HOST,
        lambda v: v.evidence.hcl.version,
        "Microsoft Azure, guest attestation, HCL report",
    ),
    _claim("unknown_claims", ClaimType.OBJECT, Origin.HARDWARE, lambda v: dict(v.runtime.unknown) or None, _RUNTIME),
)


def of_cpu(claim: Claim, *, prefix: str) -> Claim:
    """Return a claim of the CPU's report as one of the whole: ``measurement`` becomes ``snp.measurement``."""

    def get(v: VerifiedAzureEvidence) -> ClaimValue:
        return claim.get(v.cpu)

    def stated(subject: StatedClaims) -> ClaimValue:
        start = f"{prefix}."
        within = {n.removeprefix(start): value for n, value in subject.values.items() if n.startswith(start)}
        return claim.read(StatedClaims(values=within))

    return replace(claim, name=f"{prefix}.{claim.name}", get=get, stated=stated)


AZURE_SNP_CLAIMS = (*_SHARED, *(of_cpu(claim, prefix="snp") for claim in SNP_CLAIMS))
"""Every claim of a VM on SEV-SNP, in the order in which people read them."""
AZURE_TDX_CLAIMS = (*_SHARED, *(of_cpu(claim, prefix="tdx") for claim in TDX_CLAIMS))
"""Every claim of a VM on TDX, in the same form."""
azure_claim = claim_finder((*AZURE_SNP_CLAIMS, *AZURE_TDX_CLAIMS))
