"""Evidence of Azure confidential VMs as an evidence format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from operator import attrgetter

from attest.evidence.azure.claims import AZURE_SNP_CLAIMS, AZURE_TDX_CLAIMS
from attest.evidence.azure.forms import AZURE_PARSERS, ParsedAzureEvidence
from attest.evidence.azure.structure import HclReportType
from attest.evidence.azure.verify import VerifiedAzureEvidence, verify_azure_evidence
from attest.evidence.device_format import CpuFormat, FormatTable, MeasuredRegisters, MediaFormat
from attest.evidence.eventlog.kinds import TCG2_SHA256
from attest.evidence.intel.format import intel_chain
from attest.evidence.proof_chain import ProofLink
from attest.evidence.snp.format import snp_chain
from attest.evidence.snp.verify import VerifiedSnpReport


def _pcrs(evidence: ParsedAzureEvidence) -> Mapping[str, bytes]:
    return {f"PCR{index}": value for index, value in evidence.stated_pcrs}


def azure_chain(verified: VerifiedAzureEvidence) -> tuple[ProofLink, ...]:
    """Return the links from the maker's root to the TPM's quote."""
    cpu = verified.cpu
    return (
        *(snp_chain(cpu) if isinstance(cpu, VerifiedSnpReport) else intel_chain(cpu)),
        ProofLink("runtime claims", "of the paravisor, with the attestation key of its TPM"),
        ProofLink("TPM quote", "of the registers of the guest's system"),
    )


AZURE_SNP = CpuFormat(
    kind="azure-snp",
    report_data=attrgetter("stated_user_data"),
    verify=verify_azure_evidence,
    verify_tolerant=verify_azure_evidence,
    claims=AZURE_SNP_CLAIMS,
    chain=azure_chain,
    silicon=attrgetter("cpu"),
    nonce=attrgetter("stated_extra_data"),
    registers=MeasuredRegisters(log=TCG2_SHA256, read=_pcrs),
)
AZURE_TDX = replace(AZURE_SNP, kind="azure-tdx", claims=AZURE_TDX_CLAIMS)


def _kind(evidence: ParsedAzureEvidence) -> CpuFormat:
    return AZURE_SNP if evidence.hcl.report_type is HclReportType.SNP else AZURE_TDX


AZURE_FORMATS = FormatTable(
    kinds=(AZURE_SNP, AZURE_TDX),
    cpus={media_type: MediaFormat(parse=parse, kind_of=_kind) for media_type, parse in AZURE_PARSERS.items()},
)
