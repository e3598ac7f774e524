"""The evidence of an Azure confidential VM as plain data, unverified, for ``attest inspect``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from attest.cli.inspection_intel import intel_quote
from attest.encoding import JsonValue
from attest.errors import EvidenceError
from attest.evidence.azure.forms import parse_azure_evidence
from attest.evidence.azure.runtime import parse_runtime_claims
from attest.evidence.azure.structure import HclReportType, ParsedHclReport
from attest.evidence.intel.quote import ParsedQuote
from attest.evidence.tpm.structure import parse_tpm_quote

_Facts = dict[str, JsonValue]


def azure_evidence(value: bytes) -> _Facts:
    """Describe the paravisor's report, the TPM's quote and a TD quote; an SNP report is described by the caller.

    Raises:
        EvidenceError: it is malformed or of a version that is not read.
    """
    parsed = parse_azure_evidence(value)
    hcl = parsed.hcl
    facts = hcl_facts(hcl) | {"tpm_quote": readable(partial(_quote, parsed.tpm.pcrs), parsed.tpm.message)}
    return facts | (intel_quote(parsed.cpu.raw) if isinstance(parsed.cpu, ParsedQuote) else {})


def hcl_facts(hcl: ParsedHclReport) -> _Facts:
    """Describe the paravisor's report and its runtime claims, without the CPU's report in it."""
    facts: _Facts = {
        "version": hcl.version,
        "report_type": hcl.report_type.platform,
        "hash_type": hcl.hash_type,
        "runtime_digest": hcl.runtime_digest.hex(),
    }
    if hcl.report_type is HclReportType.TDX:
        facts |= {"td_report_data": hcl.td_report_data.hex(), "td_info": hcl.td_info.hex()}
    return {"hcl_report": facts, "runtime_claims": readable(_runtime, hcl.runtime_data)}


def readable(describe: Callable[[bytes], _Facts], data: bytes) -> _Facts:
    """Describe a part; one that cannot be read keeps its place and says so."""
    try:
        return describe(data)
    except EvidenceError as exc:
        return {"unreadable": exc.message}


def _runtime(data: bytes) -> _Facts:
    claims = parse_runtime_claims(data)
    facts: _Facts = {"attestation_key_bits": claims.ak.key_size, "vm_configuration": dict(claims.vm_configuration)}
    if claims.user_data is not None:
        facts["user_data"] = claims.user_data.hex()
    return facts | ({"unknown": dict(claims.unknown)} if claims.unknown else {})


def _quote(pcrs: tuple[bytes, ...], message: bytes) -> _Facts:
    quote = parse_tpm_quote(message)
    return {
        "extra_data": quote.extra_data.hex(),
        "clock": quote.clock,
        "reset_count": quote.reset_count,
        "restart_count": quote.restart_count,
        "safe": quote.safe,
        "firmware_version": f"{quote.firmware_version:016x}",
        "qualified_signer": quote.qualified_signer.hex(),
        "selections": [
            {"hash": f"{selection.algorithm:#06x}", "registers": list(selection.indices)}
            for selection in quote.selections
        ],
        "pcr_digest": quote.pcr_digest.hex(),
        "pcrs": [value.hex() for value in pcrs],
    }
