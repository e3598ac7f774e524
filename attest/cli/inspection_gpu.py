"""The report of a GPU or switch as plain data, unverified, for ``attest inspect``."""

from __future__ import annotations

from dataclasses import asdict

from attest.encoding import JsonValue
from attest.endorsements.ocsp_answers import parse_ocsp
from attest.endorsements.rims import RimDocument
from attest.evidence.gpu.evidence import ParsedGpuEvidence
from attest.evidence.gpu.opaque import OpaqueData
from attest.evidence.gpu.rim import read_rim

_Facts = dict[str, JsonValue]


def nvidia_facts(parsed: ParsedGpuEvidence) -> _Facts:
    """Describe a device by its report."""
    report = parsed.report
    facts: _Facts = {
        "nonce": report.nonce.hex(),
        "responder_nonce": report.responder_nonce.hex(),
        "opaque_data": _opaque(report.opaque),
        "measurements": {str(index): value.hex() for index, value in enumerate(report.measurements)},
        "signature": (report.signature_r + report.signature_s).hex(),
    }
    if report.unknown_values:
        facts["not_understood"] = [value.name for value in report.unknown_values]
    if parsed.arch is not None:
        facts["arch"] = parsed.arch
    if parsed.uuid is not None:
        facts["uuid"] = parsed.uuid
    if parsed.settings is not None:
        settings: _Facts = {name: value for name, value in asdict(parsed.settings).items() if value is not None}
        facts["nvml"] = settings
    if parsed.chain is not None:
        facts["certificates"] = [certificate.name for certificate in parsed.chain]
    return {"report": facts}


def _opaque(opaque: OpaqueData) -> _Facts:
    """Name the known entries, and list every entry as received."""
    named: dict[str, JsonValue] = {
        "driver_version": opaque.driver_version,
        "project": opaque.project,
        "project_sku": opaque.project_sku,
        "chip_sku": opaque.chip_sku,
        "fwid": None if opaque.fwid is None else opaque.fwid.hex(),
        "mode": opaque.mode,
        "feature_flag": opaque.feature_flag,
        "protected_pcie": opaque.protected_pcie,
    }
    facts: _Facts = {name: value for name, value in named.items() if value is not None}
    facts["entries"] = {str(entry.type): entry.value.hex() for entry in opaque.entries}
    return facts


def rim_facts(xml: bytes) -> _Facts:
    """Describe a RIM; an ``EvidenceError`` if it is malformed."""
    rim = read_rim(RimDocument(xml=xml))
    return {
        "product": rim.product,
        "edition": rim.edition,
        "version": rim.version,
        "tag_id": rim.tag_id,
        "sha256": rim.document.sha256.hex(),
        "signature": rim.signature,
        "signers": [certificate.name for certificate in rim.certificates],
        "reference_values": {
            str(index): [value.hex() for value in values] for index, values in rim.reference_values.items()
        },
    }


def ocsp_facts(der: bytes) -> _Facts:
    """Describe an OCSP answer; an ``EvidenceError`` if it is malformed."""
    answer = parse_ocsp(der)
    return {"serial": f"{answer.serial:x}", "status": str(answer.status), "this_update": answer.this_update.isoformat()}
