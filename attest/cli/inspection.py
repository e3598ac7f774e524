"""The content of a file as plain data. Nothing here is verified, and nothing here decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256

from attest.cli.inspection_attachments import attested_certificate, committed_data, uvm_endorsement
from attest.cli.inspection_azure import azure_evidence, hcl_facts, readable
from attest.cli.inspection_eventlog import app_compose_facts, event_log
from attest.cli.inspection_gpu import nvidia_facts, ocsp_facts, rim_facts
from attest.cli.inspection_intel import intel_quote
from attest.cli.inspection_providers import provider_document
from attest.encoding import JsonValue, base64url_bytes, json_value, rfc3339_text
from attest.endorsements.bundle_reader import parse_bundle
from attest.endorsements.bundle_records import ParsedBundle
from attest.endorsements.ocsp_answers import looks_like_ocsp
from attest.endorsements.rims import looks_like_rim
from attest.endorsements.x509 import Certificate, Crl, parse_certificate, parse_crl
from attest.errors import ChainError, UnsupportedError
from attest.evidence.azure.forms import parse_azure_evidence
from attest.evidence.azure.structure import HclReportType, parse_hcl_report
from attest.evidence.binding import parse_binding
from attest.evidence.dstack.forms import is_log
from attest.evidence.envelope import (
    MEDIA_ATTESTED_CERTIFICATE,
    MEDIA_AZURE_CVM,
    MEDIA_BINDING,
    MEDIA_COMMITTED_DATA,
    MEDIA_CONFIGFS_TSM,
    MEDIA_DSTACK_LOG,
    MEDIA_DSTACK_STATEMENTS,
    MEDIA_ENDORSEMENTS,
    MEDIA_EVENT_LOG,
    MEDIA_INTEL_QUOTE,
    MEDIA_NVIDIA_DEVICE,
    MEDIA_NVIDIA_REPORT,
    MEDIA_PROVIDER_DOCUMENT,
    MEDIA_SNP_EXTENDED,
    MEDIA_SNP_REPORT,
    MEDIA_UVM_ENDORSEMENT,
    Evidence,
    EvidenceItem,
)
from attest.evidence.gpu.evidence import parse_nvidia_device, parse_nvidia_report
from attest.evidence.input_file import RecognisedFile
from attest.evidence.input_files import read_evidence
from attest.evidence.recognition import recognise
from attest.evidence.snp.certificate_table import parse_certificate_table
from attest.evidence.snp.certificates import kind_of, read_leaf
from attest.evidence.snp.evidence import ParsedSnpEvidence, parse_configfs_tsm, parse_snp_evidence
from attest.evidence.snp.structure import (
    GUEST_POLICY_BITS,
    PLATFORM_INFO_BITS,
    ParsedSnpReport,
    layout_of_version,
    parse_report,
)
from attest.evidence.snp.tcb import tcb_from_bytes
from attest.results.token_services import service_of

INSPECTION_SCHEMA = "attest.inspection/1"
_Facts = dict[str, JsonValue]
_MAX_SERIALS = 256
"""Serial numbers of a CRL that are listed one by one."""
_TCBS = ("current_tcb", "reported_tcb", "committed_tcb", "launch_tcb")


def inspection(files: list[tuple[str, bytes]]) -> _Facts:
    """Describe files, each on its own.

    Raises:
        EvidenceError: a file is in no known form, or malformed.
        UnsupportedError: a file is of a known form that this version does not read.
        ChainError: a certificate cannot be read.
        EndorsementError: a bundle cannot be read.
    """
    described: list[JsonValue] = [_file(name, data) for name, data in files]
    return {"schema": INSPECTION_SCHEMA, "verified": False, "files": described}


def _file(name: str, data: bytes) -> _Facts:
    facts: _Facts = {"name": name, "bytes": len(data), "sha256": sha256(data).hexdigest(), "form": "none"}
    for looks, label, describe in _NVIDIA_ENDORSEMENTS:
        if looks(data):
            return {**facts, "label": label, **describe(data)}
    found = recognise(name, data)
    facts["form"] = found.form or "none"
    if found.form == "ccel" or is_log(found.document):
        return {**facts, "label": found.label, "event_log": event_log(found.data)}
    if found.form == "token":
        return {**facts, "label": found.label, "token": _token(found.data)}
    if found.form == "hcl":
        return {**facts, "label": found.label, **_hcl(found.data)}
    if found.form is not None or found.read is None:
        recognised = read_evidence([(name, data)])  # refuses by name what this version does not read
        return {**facts, "label": recognised.forms[0], "evidence": _evidence(recognised.evidence)}
    return {**facts, **_accompanying(found)}


_NVIDIA_ENDORSEMENTS: tuple[tuple[Callable[[bytes], bool], str, Callable[[bytes], _Facts]], ...] = (
    (looks_like_rim, "NVIDIA reference integrity manifest (RIM)", lambda data: {"rim": rim_facts(data)}),
    (looks_like_ocsp, "OCSP answer", lambda data: {"ocsp": ocsp_facts(data)}),
)


def _accompanying(found: RecognisedFile) -> _Facts:
    """Describe a file that is no evidence: a table, a bundle, certificates, lists."""
    if found.read is None:
        return {"label": found.label}
    content = found.read(found)
    facts: _Facts = {"label": content.label}
    if "table" in content.pieces:
        facts["certificate_table"] = _table(content.pieces["table"])
    if "bundle" in content.pieces:
        facts["bundle"] = _bundle(parse_bundle(content.pieces["bundle"]))
    if content.certificates:
        facts["certificates"] = [_certificate_facts(certificate) for certificate in content.certificates]
    if "dstack-info" in content.pieces:
        facts["statements"] = found.document
    if "app-compose" in content.pieces:
        facts["app_compose"] = app_compose_facts(content.pieces["app-compose"])
    if content.crls:
        facts["crls"] = [_crl_facts(crl) for crl in content.crls]
    return facts


# -- tokens


_NOT_VERIFIED = "no: the content is unauthenticated; 'attest verify --trust' checks the signature"


def _token(data: bytes) -> _Facts:
    """Describe a token: a JWT, or NVIDIA's array of them; errors by ``code`` as for evidence."""
    text = data.strip()
    if not text.startswith((b"[", b"{")):
        service = service_of(data)
        known: _Facts = {} if service is None else {"service": service}
        return {"signature_verified": _NOT_VERIFIED, **known, **_jwt(text.decode("ascii", errors="replace"))}
    match json_value(text, what="token"):
        case [["JWT", str(overall)], dict(submodules)] if all(isinstance(one, str) for one in submodules.values()):
            parts: _Facts = {name: _jwt(str(one)) for name, one in submodules.items()}
            return {"signature_verified": _NOT_VERIFIED, "service": "nras", **_jwt(overall), "submodules": parts}
    raise UnsupportedError(
        "a token of this shape is not read here",
        code="evidence-unsupported",
        expected="a JWT in compact form, or NVIDIA's array of them",
        got="another JSON document",
    )


def _jwt(text: str) -> _Facts:
    words = text.split(".")
    names = ("header", "claims")
    return {
        name: json_value(base64url_bytes(word, what=f"token: {name}"), what=f"token: {name}")
        for name, word in zip(names, words, strict=False)
    }


# -- evidence


def _evidence(evidence: Evidence) -> _Facts:
    facts: _Facts = {"digest": evidence.digest.hex()}
    if evidence.collection_type is not None:
        facts["collection_type"] = evidence.collection_type
    facts["items"] = [_item(item) for item in evidence.items]
    return facts


def _item(item: EvidenceItem) -> _Facts:
    facts: _Facts = {
        "name": item.name,
        "media_type": item.media_type,
        "bytes": len(item.value),
        "digest": item.digest.hex(),
    }
    describe = _ITEMS.get(item.essence)
    return facts if describe is None else {**facts, **describe(item.value)}


def _snp(value: bytes) -> _Facts:
    parsed = parse_snp_evidence(value)
    facts: _Facts = {"report": _report(parsed.report)}
    table = value[len(parsed.report.raw) :]
    if table:
        facts["certificate_table"] = _table(table)
    return facts


def _configfs(value: bytes) -> _Facts:
    parsed = parse_configfs_tsm(value)
    return {**_snp_evidence(parsed), "crls": [_crl_facts(crl) for crl in parsed.crls]}


def _snp_evidence(parsed: ParsedSnpEvidence) -> _Facts:
    certificates = [readable(_certificate, der) for der in parsed.leaves]
    return {
        "report": _report(parsed.report),
        "certificates": [*certificates, *(_certificate_facts(issuer) for issuer in parsed.issuers)],
    }


def _azure(value: bytes) -> _Facts:
    """Describe an Azure VM's evidence, with the SNP report and certificates in it."""
    facts, cpu = azure_evidence(value), parse_azure_evidence(value).cpu
    return {**facts, **_snp_evidence(cpu)} if isinstance(cpu, ParsedSnpEvidence) else facts


def _hcl(value: bytes) -> _Facts:
    """Describe a paravisor's report alone, with the SNP report in it."""
    hcl = parse_hcl_report(value)
    facts = hcl_facts(hcl)
    if hcl.report_type is HclReportType.SNP:
        facts["report"] = _report(parse_report(hcl.hardware_report))
    return facts


def _binding(value: bytes) -> _Facts:
    binding = parse_binding(value)
    return {
        "binding": {
            "context": binding.context,
            "role": binding.role,
            "audience": binding.audience,
            "nonce": binding.nonce.hex(),
            "key": binding.key.hex(),
            "devices": [digest.hex() for digest in binding.devices],
            **({} if binding.init_data is None else {"init_data": binding.init_data.hex()}),
            "report_data": binding.report_data().hex(),
            "gpu_nonce": binding.gpu_nonce().hex(),
        }
    }


_ITEMS: Mapping[str, Callable[[bytes], _Facts]] = {
    MEDIA_SNP_REPORT: _snp,
    MEDIA_SNP_EXTENDED: _snp,
    MEDIA_CONFIGFS_TSM: _configfs,
    MEDIA_BINDING: _binding,
    MEDIA_ENDORSEMENTS: lambda value: {"bundle": _bundle(parse_bundle(value))},
    MEDIA_INTEL_QUOTE: intel_quote,
    MEDIA_AZURE_CVM: _azure,
    MEDIA_NVIDIA_DEVICE: lambda value: nvidia_facts(parse_nvidia_device(value)),
    MEDIA_NVIDIA_REPORT: lambda value: nvidia_facts(parse_nvidia_report(value)),
    MEDIA_EVENT_LOG: lambda value: {"event_log": event_log(value)},
    MEDIA_PROVIDER_DOCUMENT: lambda value: provider_document(value, _item),
    MEDIA_DSTACK_LOG: lambda value: {"event_log": event_log(value)},
    MEDIA_ATTESTED_CERTIFICATE: attested_certificate,
    MEDIA_COMMITTED_DATA: committed_data,
    MEDIA_UVM_ENDORSEMENT: uvm_endorsement,
    MEDIA_DSTACK_STATEMENTS: lambda value: {"statements": json_value(value, what="statements")},
}


def _report(report: ParsedSnpReport) -> _Facts:
    """Return every field of the report's table, with the names of its bits."""
    facts: _Facts = {} if report.product is None else {"product": str(report.product)}
    for name in layout_of_version(report.version).names:
        value = getattr(report, name)
        facts[name] = value.hex() if isinstance(value, bytes) else value
    facts["policy"] = _bits(report.policy, GUEST_POLICY_BITS) | {
        "value": report.policy,
        "abi_major": report.policy >> 8 & 0xFF,
        "abi_minor": report.policy & 0xFF,
    }
    facts["platform_info"] = _bits(report.platform_info, PLATFORM_INFO_BITS) | {"value": report.platform_info}
    facts["key_info"] = {
        "value": report.key_info,
        "signing_key": {0: "vcek", 1: "vlek", 7: "none"}.get(report.signing_key, f"reserved {report.signing_key}"),
        "mask_chip_key": report.mask_chip_key,
        "author_key_en": report.author_key_en,
    }
    return facts | {name: _tcb(report, name) for name in _TCBS}


def _bits(value: int, names: tuple[tuple[str, int], ...]) -> _Facts:
    return {name: bool(value >> bit & 1) for name, bit in names}


def _tcb(report: ParsedSnpReport, name: str) -> JsonValue:
    """Return the components if the report states its product line; version 2 does not, and the layout depends on it."""
    raw: bytes = getattr(report, name)
    if report.product is None:
        return raw.hex()
    return {**tcb_from_bytes(raw, report.product, field=name.upper()).components()}


# -- endorsements


def _certificate_facts(certificate: Certificate) -> _Facts:
    facts: _Facts = {
        "subject": certificate.name,
        "issuer": certificate.issuer_common_name or "",
        "serial": certificate.serial,
        "not_before": rfc3339_text(certificate.not_before),
        "not_after": rfc3339_text(certificate.not_after),
        "spki_sha256": certificate.spki_sha256.hex(),
        "sha256": sha256(certificate.der).hexdigest(),
    }
    return facts if kind_of(certificate) is None else {**facts, **_leaf(certificate)}


def _certificate(der: bytes) -> _Facts:
    return _certificate_facts(parse_certificate(der))


def _leaf(certificate: Certificate) -> _Facts:
    """Describe AMD's extensions of a VCEK or VLEK."""
    try:
        leaf = read_leaf(certificate)
    except ChainError as exc:
        return {"unreadable": exc.message}
    facts: _Facts = {"kind": str(leaf.kind), "product": str(leaf.product), "product_name": leaf.product_name}
    facts["tcb"] = {**leaf.tcb.components()}
    if leaf.unknown_values:
        facts["not_understood"] = [value.name for value in leaf.unknown_values]
    if leaf.hwid is not None:
        facts["hwid"] = leaf.hwid.hex()
    if leaf.csp_id is not None:
        facts["csp_id"] = leaf.csp_id
    return facts


def _crl_facts(crl: Crl) -> _Facts:
    serials = sorted(crl.revoked)
    return {
        "issuer": crl.issuer_common_name or "",
        "this_update": rfc3339_text(crl.this_update),
        "next_update": rfc3339_text(crl.next_update),
        "revoked_count": len(serials),
        "revoked_serials": [str(serial) for serial in serials[:_MAX_SERIALS]],
        "sha256": sha256(crl.der).hexdigest(),
    }


def _bundle(bundle: ParsedBundle) -> _Facts:
    entries: list[JsonValue] = [
        {"kind": e.kind, "source": e.source, "bytes": len(e.data), "sha256": sha256(e.data).hexdigest()}
        for e in bundle.entries
    ]
    return {
        "created": rfc3339_text(bundle.created),
        "expires": rfc3339_text(bundle.expires),
        "signed_by": [signature.key_id.hex() for signature in bundle.signatures],
        "entries": entries,
        "certificates": [_certificate_facts(certificate) for certificate in bundle.endorsements.certificates],
        "crls": [_crl_facts(crl) for crl in bundle.endorsements.crls],
    }


def _table(table: bytes) -> list[JsonValue]:
    """Describe the entries of a certificate table; one that cannot be read keeps its place and says so."""
    described: list[JsonValue] = []
    for entry in parse_certificate_table(table):
        facts: _Facts = {"entry": entry.kind, "bytes": len(entry.data)}
        if entry.kind == "CRL":
            facts |= readable(lambda der: _crl_facts(parse_crl(der)), entry.data)
        elif entry.kind == "PLATFORM":
            facts["value"] = entry.data.hex()
        else:
            facts |= readable(_certificate, entry.data)
        described.append(facts)
    return described
