"""Collected evidence in the forms of Trustee's attesters.

======= ===========================================================================================================
SNP     ``{"attestation_report": {…}, "cert_chain": null or [{"cert_type": …, "data": [bytes]}]}``, every member of
        the report by itself, as the ``sev`` crate writes its struct
TDX     ``{"quote": base64, "cc_eventlog": base64 or null}``
Azure   ``{"version": …, "tpm_quote": …, "hcl_report": …}``, which the collector writes already
NVIDIA  ``{"device_evidence_list": [{"arch", "uuid", "evidence": base64, "certificate": base64}]}``
======= ===========================================================================================================

Spec: specs/kbs-protocol.md, section 10.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import Final, Literal, get_args

from attest.encoding import JsonValue, json_value
from attest.errors import EvidenceError
from attest.evidence.envelope import (
    MEDIA_AZURE_CVM,
    MEDIA_EVENT_LOG,
    MEDIA_INTEL_QUOTE,
    MEDIA_SNP_EXTENDED,
    MEDIA_SNP_REPORT,
    Evidence,
)
from attest.evidence.snp.certificate_table import parse_certificate_table
from attest.evidence.snp.structure import REPORT_BYTES, ParsedSnpReport, parse_report
from attest.evidence.snp.tcb import SnpProduct, tcb_from_bytes

Tee = Literal["snp", "tdx", "az-snp-vtpm", "az-tdx-vtpm", "sample"]
"""A TEE by the protocol's name."""
TEES: Final[tuple[Tee, ...]] = get_args(Tee)
NVIDIA: Final = "nvidia"
SAMPLE_DEVICE: Final = "sampledevice"
_CERTIFICATES: Final = frozenset({"ARK", "ASK", "VCEK", "VLEK", "CRL"})
"""Entries of a certificate table that the form has a name for."""
_BYTES: Final = (
    *("family_id", "image_id", "report_data", "measurement", "host_data", "id_key_digest", "author_key_digest"),
    *("report_id", "report_id_ma", "chip_id"),
)
_NUMBERS: Final = (
    *("version", "guest_svn", "policy", "vmpl", "key_info", "cpuid_fam_id", "cpuid_mod_id", "cpuid_step"),
    *("launch_mit_vector", "current_mit_vector"),
)
_TCBS: Final = ("current_tcb", "reported_tcb", "committed_tcb", "launch_tcb")


def cpu_document(evidence: Evidence, *, tee: Tee) -> JsonValue:
    """Return the document for the evidence of the CPU.

    Raises:
        EvidenceError: ``kbs-evidence-unsuited``: the machine gave evidence of another TEE.
    """
    by_type = {item.essence: item.value for item in evidence.items}
    if tee == "snp" and (found := by_type.get(MEDIA_SNP_EXTENDED) or by_type.get(MEDIA_SNP_REPORT)):
        return snp_document(found)
    if tee == "tdx" and MEDIA_INTEL_QUOTE in by_type:
        log = by_type.get(MEDIA_EVENT_LOG)
        return {"quote": _base64(by_type[MEDIA_INTEL_QUOTE]), "cc_eventlog": None if log is None else _base64(log)}
    if tee in ("az-snp-vtpm", "az-tdx-vtpm") and MEDIA_AZURE_CVM in by_type:
        return json_value(by_type[MEDIA_AZURE_CVM], what="evidence of the CPU")
    raise EvidenceError(
        f"this machine gave no evidence of {tee}",
        code="kbs-evidence-unsuited",
        field="tee",
        expected=tee,
        got=", ".join(sorted(by_type))[:200],
    )


def sample_document(digest: bytes, *, svn: str) -> JsonValue:
    """Return sample evidence, which proves nothing."""
    return {"svn": svn, "report_data": _base64(digest)}


def nvidia_document(devices: Iterable[bytes]) -> JsonValue:
    """Return the document for the evidence of GPUs, each as NVIDIA's JSON object.

    Raises:
        EvidenceError: ``json-invalid`` or ``kbs-evidence-unsuited``.
    """
    return {"device_evidence_list": [_device(one) for one in devices]}


def _device(item: bytes) -> JsonValue:
    members = json_value(item, what="evidence of a GPU")
    if not isinstance(members, dict):
        raise EvidenceError("evidence of a GPU is an object", code="kbs-evidence-unsuited", field=NVIDIA)
    device: dict[str, JsonValue] = {name: members.get(name) for name in ("arch", "evidence", "certificate")}
    return {**device, "uuid": members.get("uuid") or "unknown"}


def snp_document(extended: bytes) -> JsonValue:
    """Return the document for a report, and for the certificates that may follow it.

    Raises:
        EvidenceError: as ``parse_report`` and ``parse_certificate_table``.
        UnsupportedError: as ``parse_report``.
    """
    report = parse_report(extended[:REPORT_BYTES])
    found = parse_certificate_table(extended[REPORT_BYTES:])
    chain: list[JsonValue] = [
        {"cert_type": entry.kind, "data": [*entry.data]} for entry in found if entry.kind in _CERTIFICATES
    ]
    return {"attestation_report": _members(report), "cert_chain": chain or None}


def _members(report: ParsedSnpReport) -> JsonValue:
    product = report.product or SnpProduct.MILAN  # version 2 is older than the other layout of TCBs
    return {
        **{name: getattr(report, name) for name in _NUMBERS},
        "sig_algo": report.signature_algo,
        "plat_info": report.platform_info,
        **{name: [*getattr(report, name)] for name in _BYTES},
        **{name: _tcb(getattr(report, name), product, name) for name in _TCBS},
        "current": _firmware(report.current_major, report.current_minor, report.current_build),
        "committed": _firmware(report.committed_major, report.committed_minor, report.committed_build),
        "signature": {"r": [*report.signature_r], "s": [*report.signature_s]},
    }


def _tcb(raw: bytes, product: SnpProduct, name: str) -> JsonValue:
    tcb = tcb_from_bytes(raw, product, field=name.upper())
    return {
        "fmc": tcb.fmc,
        "bootloader": tcb.bootloader,
        "tee": tcb.tee,
        "snp": tcb.snp,
        "microcode": tcb.microcode,
    }


def _firmware(major: int, minor: int, build: int) -> JsonValue:
    return {"major": major, "minor": minor, "build": build}


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")
