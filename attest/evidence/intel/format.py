"""TDX and SGX quotes as evidence formats."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from attest.evidence.device_format import CpuFormat, FormatTable, MeasuredRegisters, MediaFormat
from attest.evidence.envelope import MEDIA_INTEL_QUOTE
from attest.evidence.eventlog.kinds import CCEL
from attest.evidence.intel.claims import SGX_CLAIMS, TDX_CLAIMS
from attest.evidence.intel.quote import ParsedQuote, parse_quote
from attest.evidence.intel.verify import VerifiedIntelQuote, verify_intel_quote
from attest.evidence.proof_chain import ProofLink, issuer_link, root_link, shown


def _rtmrs(quote: ParsedQuote) -> Mapping[str, bytes]:
    body: Any = quote.body  # the row below is for TDX quotes, whose bodies have registers
    registers: tuple[bytes, bytes, bytes, bytes] = body.rtmrs
    return {f"RTMR{number}": value for number, value in enumerate(registers)}


def intel_chain(verified: VerifiedIntelQuote) -> tuple[ProofLink, ...]:
    """Return the links from Intel's root to the quote."""
    chain, quote = verified.authentic.chain, verified.quote
    return (
        root_link(chain.anchor),
        issuer_link(chain.issuer),
        ProofLink(chain.pck.certificate.name, f"key of the platform, FMSPC {chain.pck.fmspc.hex()}"),
        ProofLink("quoting enclave", f"of Intel, MRSIGNER {shown(quote.qe_report.mr_signer)}, and its attestation key"),
        ProofLink("quote", f"of {quote.tee.upper()}"),
    )


TDX = CpuFormat(
    kind="tdx",
    report_data=attrgetter("body.report_data"),
    verify=verify_intel_quote,
    claims=TDX_CLAIMS,
    chain=intel_chain,
    registers=MeasuredRegisters(log=CCEL, read=_rtmrs),
    td_report=attrgetter("body"),
)
SGX = CpuFormat(
    kind="sgx",
    report_data=attrgetter("body.report_data"),
    verify=verify_intel_quote,
    claims=SGX_CLAIMS,
    chain=intel_chain,
)

INTEL_FORMATS = FormatTable(
    kinds=(TDX, SGX),
    cpus={
        MEDIA_INTEL_QUOTE: MediaFormat(parse=parse_quote, kind_of=lambda quote: TDX if quote.tee == "tdx" else SGX),
    },
)
