"""SEV-SNP as an evidence format."""

from __future__ import annotations

from attest.evidence.device_format import CpuFormat, FormatTable, MediaFormat
from attest.evidence.snp.claims import SNP_CLAIMS
from attest.evidence.snp.evidence import SNP_PARSERS, ParsedSnpEvidence
from attest.evidence.snp.verify import verify_snp_evidence


def _report_data(parsed: ParsedSnpEvidence) -> bytes:
    return parsed.report.report_data


SNP = CpuFormat(
    kind="sev-snp",
    report_data=_report_data,
    verify=verify_snp_evidence,
    verify_tolerant=verify_snp_evidence,
    claims=SNP_CLAIMS,
)

SNP_FORMATS = FormatTable(
    kinds=(SNP,),
    cpus={media_type: MediaFormat(parse=parse, kind_of=lambda _: SNP) for media_type, parse in SNP_PARSERS.items()},
)
