"""A TDX or SGX quote as plain data, unverified, for ``attest inspect``."""

from __future__ import annotations

from attest.encoding import JsonValue
from attest.evidence.intel.quote import parse_quote
from attest.evidence.reader import Layout
from attest.evidence.sgx.structure import ATTRIBUTE_BITS, ENCLAVE_REPORT, ParsedEnclaveReport
from attest.evidence.tdx.structure import TD_ATTRIBUTE_BITS, ParsedTdReport, layout_of_type

_Facts = dict[str, JsonValue]


def intel_quote(value: bytes) -> _Facts:
    """Describe a quote field by field; an ``EvidenceError`` if it is malformed or not read."""
    quote = parse_quote(value)
    body = quote.body
    return {
        "quote": {
            "tee": quote.tee,
            "version": quote.version,
            "user_data": quote.user_data.hex(),
            "body": _td(body) if isinstance(body, ParsedTdReport) else _enclave(body),
            "attestation_key": quote.attestation_key.hex(),
            "signature": quote.signature.hex(),
            "qe_report": _enclave(quote.qe_report),
            "qe_auth_data": quote.qe_auth_data.hex(),
            "certification_type": quote.certification_type,
            "certification_bytes": len(quote.certification_data),
            "padding_bytes": len(quote.padding),
        }
    }


def _td(body: ParsedTdReport) -> _Facts:
    facts = _fields(body, layout_of_type(body.body_type))
    facts["td_attributes"] = {name: bool(body.td_attributes >> bit & 1) for name, bit in TD_ATTRIBUTE_BITS}
    facts["td_attributes_value"] = f"{body.td_attributes:#x}"
    facts["xfam"] = f"{body.xfam:#x}"
    return facts


def _enclave(report: ParsedEnclaveReport) -> _Facts:
    facts = _fields(report, ENCLAVE_REPORT)
    facts["attributes"] = {name: bool(report.flags >> bit & 1) for name, bit in ATTRIBUTE_BITS}
    facts["xfrm"] = f"{report.xfrm:#x}"
    return facts


def _fields(structure: ParsedTdReport | ParsedEnclaveReport, layout: Layout) -> _Facts:
    values = {name: getattr(structure, name) for name in layout.names if not name.startswith("reserved")}
    return {name: value.hex() if isinstance(value, bytes) else value for name, value in values.items()}
