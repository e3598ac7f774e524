"""An Azure host's additions to the evidence of its guest: a quote of a TD, or the certificate of its chip.

Spec: specs/azure-cvm.md, sections 6 and 7.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Protocol

from attest.collect.azure_host import HostPatience, ThimCertificates
from attest.collect.refusals import ignored, parsed
from attest.endorsements.bundle import build_bundle
from attest.endorsements.bundle_records import BundleEntry
from attest.endorsements.x509 import parse_certificate, pem_blocks
from attest.errors import CollectionError
from attest.evidence.azure.structure import TD_REPORT_BYTES, ParsedHclReport
from attest.evidence.envelope import MEDIA_ENDORSEMENTS, EvidenceItem
from attest.evidence.intel.quote import parse_quote
from attest.evidence.snp.structure import parse_report

NO_KNOWN_VM = "this is no confidential VM of a kind that is known here (trusted launch is none)"
TPM_OR_HOST = "the TPM or the host"
"""Texts of hints for unreadable pieces and mismatched answers."""


class AzureServices(Protocol):
    """Type of ``AzureHost``."""

    def certificates(self, patience: HostPatience) -> ThimCertificates:
        """Return the VCEK and its issuers."""

    def td_quote(self, td_report: bytes, patience: HostPatience) -> bytes:
        """Return a TD quote."""

    def answers(self, patience: HostPatience) -> int:
        """Return the HTTP status of the host's service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """Addition to a report: a quote of a TD, or the certificate of a chip."""

    td_quote: bytes | None = None
    vcek: bytes | None = None
    beside: tuple[EvidenceItem, ...] = ()
    notes: tuple[str, ...] = ()


def from_td(hcl: ParsedHclReport, services: AzureServices, patience: HostPatience) -> Added:
    """Return the host's quote of the TDREPORT, which is necessary for evidence."""
    raw = services.td_quote(hcl.hardware_report[:TD_REPORT_BYTES], patience)
    found = parsed(parse_quote, raw, "TD quote of the host", hint=NO_KNOWN_VM).body.report_data
    if not hmac.compare_digest(found, hcl.runtime_digest):
        raise ignored("the TD quote", "REPORTDATA", hcl.runtime_digest, found, who=TPM_OR_HOST)
    return Added(td_quote=raw)


def from_snp(hcl: ParsedHclReport, services: AzureServices, patience: HostPatience) -> Added:
    """Return the VCEK and its issuers as far as they are useful: they are hints, and AMD provides them too."""
    try:
        found = services.certificates(patience)
    except CollectionError as exc:
        return Added(notes=(f"without the host's certificates, which AMD has too: {exc.message}",))
    reported = parse_report(hcl.hardware_report).reported_tcb
    if found.tcb == reported:
        return Added(vcek=found.vcek, beside=_issuers(found.chain_pem))
    note = (
        f"the host's firmware was updated since the report: its VCEK is for TCB {_tcb(found.tcb)}, the report states "
        f"{_tcb(reported)}; verifiers get that one from AMD"
    )
    return Added(beside=_issuers(found.chain_pem), notes=(note,))


def _tcb(raw: bytes) -> str:
    return raw[::-1].hex()


def _issuers(chain_pem: bytes) -> tuple[EvidenceItem, ...]:
    """Return a bundle with the issuers of the VCEK, valid as long as they are."""
    if not chain_pem:
        return ()
    chain = [parse_certificate(der) for _, der in pem_blocks(chain_pem)]
    begins, ends = max(one.not_before for one in chain), min(one.not_after for one in chain)
    entry = BundleEntry(kind="amd-chain", source="THIM", data=chain_pem)
    bundle = build_bundle([entry], created=begins, expires=ends)
    return (EvidenceItem(name="endorsements", media_type=MEDIA_ENDORSEMENTS, value=bundle.to_bytes(), indicator=2),)
