"""SEV-SNP as an evidence format."""

from __future__ import annotations

from attest.evidence.device_format import CpuFormat, FormatTable, MediaFormat
from attest.evidence.proof_chain import ProofLink, issuer_link, root_link, shown
from attest.evidence.snp.claims import SNP_CLAIMS
from attest.evidence.snp.evidence import SNP_PARSERS, ParsedSnpEvidence
from attest.evidence.snp.verify import VerifiedSnpReport, verify_snp_evidence


def _report_data(parsed: ParsedSnpEvidence) -> bytes:
    return parsed.report.report_data


def snp_chain(verified: VerifiedSnpReport) -> tuple[ProofLink, ...]:
    """Return the links from AMD's root to the report."""
    leaf = verified.leaf
    owner = "key of a cloud provider" if leaf.hwid is None else f"key of the chip {shown(leaf.hwid)}"
    return (
        root_link(verified.anchor),
        issuer_link(verified.intermediate),
        ProofLink(leaf.certificate.name, f"{owner} at TCB {verified.reported_tcb}"),
        ProofLink("report", f"measurement {shown(verified.report.measurement)}"),
    )


SNP = CpuFormat(
    kind="sev-snp",
    report_data=_report_data,
    verify=verify_snp_evidence,
    verify_tolerant=verify_snp_evidence,
    claims=SNP_CLAIMS,
    chain=snp_chain,
)

SNP_FORMATS = FormatTable(
    kinds=(SNP,),
    cpus={media_type: MediaFormat(parse=parse, kind_of=lambda _: SNP) for media_type, parse in SNP_PARSERS.items()},
)
