"""The evidence of an Azure confidential VM as plain data, unverified, for ``attest inspect``."""

from __future__ import annotations

from attest.cli.inspection_intel import intel_quote
from attest.encoding import JsonValue
from attest.errors import EvidenceError
from attest.evidence.azure.forms import ParsedAzureEvidence, parse_azure_evidence
from attest.evidence.azure.runtime import parse_runtime_claims
from attest.evidence.intel.quote import ParsedQuote
from attest.evidence.tpm.structure import parse_tpm_quote

_Facts = dict[str, JsonValue]


def azure_evidence(value: bytes) -> _Facts:
    """Describe the paravisor's report, the TPM's quote and a TD quote; an SNP report is described by the caller.

    Raises:
        EvidenceError: it is malformed or of a version that is not read.
    """
    parsed = parse_azure_evidence(value)
    facts: _Facts = {
        "hcl_report": {
            "version": parsed.hcl.version,
            "report_type": parsed.hcl.report_type.platform,
            "hash_type": parsed.hcl.hash_type,
            "runtime_digest": parsed.hcl.runtime_digest.hex(),
        },
        "runtime_claims": _runtime(parsed),
        "tpm_quote": _quote(parsed),
    }
    return facts | (intel_quote(parsed.cpu.raw) if isinstance(parsed.cpu, ParsedQuote) else {})


def _runtime(parsed: ParsedAzureEvidence) -> JsonValue:
    try:
        claims = parse_runtime_claims(parsed.hcl.runtime_data)
    except EvidenceError as exc:
        return {"unreadable": exc.message}
    facts: _Facts = {"attestation_key_bits": claims.ak.key_size, "vm_configuration": dict(claims.vm_configuration)}
    if claims.user_data is not None:
        facts["user_data"] = claims.user_data.hex()
    return facts | ({"unknown": dict(claims.unknown)} if claims.unknown else {})


def _quote(parsed: ParsedAzureEvidence) -> JsonValue:
    try:
        quote = parse_tpm_quote(parsed.tpm.message)
    except EvidenceError as exc:
        return {"unreadable": exc.message}
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
        "pcrs": [value.hex() for value in parsed.tpm.pcrs],
    }
