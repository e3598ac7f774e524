"""Endorsements that the CPU's report in Azure evidence needs: its own, and perhaps a better VCEK."""

from __future__ import annotations

from attest.endorsements.x509 import parse_certificate
from attest.errors import ChainError, EvidenceError
from attest.evidence.azure.forms import ParsedAzureEvidence
from attest.evidence.intel.quote import ParsedQuote
from attest.evidence.snp.certificates import read_leaf
from attest.evidence.snp.evidence import ParsedSnpEvidence
from attest.evidence.snp.structure import ParsedSnpReport


def needy_report(evidence: ParsedAzureEvidence) -> ParsedSnpEvidence | ParsedQuote:
    """Return the CPU's report as one to list the needs of, by the needs of its own format.

    The service beside the machine returns the VCEK for the TCB that the host has now; after an update of its
    firmware that differs from REPORTED_TCB (azure-cvm.md 6). Such a VCEK is left out here, so that the matching one
    is fetched from AMD. Verification still receives the evidence as presented.
    """
    cpu = evidence.cpu
    if isinstance(cpu, ParsedQuote):
        return cpu
    return cpu._replace(leaves=tuple(leaf for leaf in cpu.leaves if _fits(leaf, cpu.report)))


def _fits(leaf: bytes, report: ParsedSnpReport) -> bool:
    try:
        return read_leaf(parse_certificate(leaf)).tcb.to_bytes() == report.reported_tcb
    except (EvidenceError, ChainError):
        return False
