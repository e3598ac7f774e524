"""JSON that carries an Intel quote, or an SNP report, for a verification service.

===================  ================================================================================================
Form                 Members
===================  ================================================================================================
Trustee              ``quote`` in base64; perhaps ``cc_eventlog``, the CCEL in base64 or null
attestation-rs       ``{"platform": "tdx" or "gcp-tdx", "evidence": {the same}}``
MAA                  ``quote``, or ``report`` of Open Enclave or of an SNP guest, in base64url; ``runtimeData`` and
                     ``initTimeData`` {``data`` in base64url, ``dataType``}: REPORTDATA commits to the former by
                     SHA-256, HOST_DATA to the latter
ITA                  ``quote`` in base64, ``verifier_nonce`` {``val``, ``iat``, ``signature``}, ``runtime_data`` or
                     ``user_data``; alone or as the member ``tdx`` or ``sgx``: REPORTDATA commits to val ‖ iat ‖ data,
                     by SHA-512 in a TD, by SHA-256 in an enclave
===================  ================================================================================================

Requests to MAA and ITA have more members (policies, a nonce for the token, options); they say nothing of the evidence
and are passed over. So is the event log of a request to ITA, whose encoding is not specified.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from attest.encoding import JsonValue, json_value
from attest.endorsements.x509 import Certificate, parse_certificate, pem_blocks
from attest.errors import EvidenceError, UnsupportedError
from attest.evidence.attachment.committed_data import CommittedData, committed_data_bytes
from attest.evidence.attachment.uvm_endorsement import MAX_UVM_ENDORSEMENT_BYTES
from attest.evidence.envelope import (
    MEDIA_COMMITTED_DATA,
    MEDIA_EVENT_LOG,
    MEDIA_INTEL_QUOTE,
    MEDIA_SNP_REPORT,
    MEDIA_UVM_ENDORSEMENT,
    EvidenceItem,
)
from attest.evidence.json_form import JsonForm
from attest.evidence.open_enclave import is_open_enclave, read_open_enclave
from attest.evidence.snp.structure import REPORT_BYTES

MAX_CERTIFICATES = 8
_FORM = JsonForm(code="peer-form-malformed", clause="docs/forms.md")
_NOTHING = (None, "")
"""Values that mean an absent member."""
_TDX_TEE_TYPE = 0x81
_HEADER_LETTERS = 12
"""Letters of base64 for version, key type and TEE type, and one byte more."""

Tee = Literal["tdx", "sgx"]
TEES: tuple[Tee, ...] = ("tdx", "sgx")


class FormContent(NamedTuple):
    """The evidence in a document, and certificates that came with it."""

    items: tuple[EvidenceItem, ...]
    certificates: tuple[Certificate, ...] = ()


def _quote_item(quote: bytes) -> EvidenceItem:
    return EvidenceItem(name="cpu", media_type=MEDIA_INTEL_QUOTE, value=quote)


def _committed_item(data: CommittedData) -> EvidenceItem:
    return EvidenceItem(name="committed-data", media_type=MEDIA_COMMITTED_DATA, value=committed_data_bytes(data))


def _bytes(members: Mapping[str, JsonValue], name: str, *, path: str = "") -> bytes:
    return _FORM.base64_of(members.get(name), path + name)


def _tee_of(text: JsonValue) -> Tee | None:
    """Return the TEE of a quote in base64 by its header, whatever else is wrong with it."""
    if not isinstance(text, str) or len(text) < _HEADER_LETTERS:
        return None
    try:
        head = _FORM.base64_of(text[:_HEADER_LETTERS], "quote")
    except EvidenceError:
        return None
    return "tdx" if int.from_bytes(head[4:8], "little") == _TDX_TEE_TYPE else "sgx"


# -- Trustee and attestation-rs

ATTESTATION_RS_QUOTES = ("tdx", "gcp-tdx")
"""Platforms of attestation-rs whose evidence is a quote."""


def is_trustee_quote(document: JsonValue) -> bool:
    """Recognise a quote, perhaps with the log of the boot."""
    return isinstance(document, dict) and isinstance(document.get("quote"), str) and "event_log" not in document


def read_trustee_quote(document: JsonValue) -> FormContent:
    """Read a quote of Trustee, with its log as an item of its own.

    Raises:
        EvidenceError: ``peer-form-malformed`` or ``base64-invalid``.
    """
    members = _FORM.object_of(document, "evidence", members=frozenset({"quote", "cc_eventlog"}))
    quote = _quote_item(_bytes(members, "quote"))
    if members.get("cc_eventlog") is None:
        return FormContent((quote,))
    log = EvidenceItem(name="eventlog", media_type=MEDIA_EVENT_LOG, value=_bytes(members, "cc_eventlog"))
    return FormContent((quote, log))


def is_attestation_rs_quote(document: JsonValue) -> bool:
    """Recognise the outer object of attestation-rs around a quote."""
    return isinstance(document, dict) and document.get("platform") in ATTESTATION_RS_QUOTES and "evidence" in document


def read_attestation_rs_quote(document: JsonValue) -> FormContent:
    """Read the outer object of attestation-rs around a quote; errors as ``read_trustee_quote``."""
    members = _FORM.object_of(document, "document", members=frozenset({"platform", "evidence"}))
    return read_trustee_quote(members.get("evidence"))


# -- Microsoft Azure Attestation

_MAA_DATA = ("runtimeData", "initTimeData")


def is_maa_quote(tee: Tee, document: JsonValue) -> bool:
    """Recognise a request with a quote of this TEE."""
    return isinstance(document, dict) and bool(set(_MAA_DATA) & set(document)) and _tee_of(document.get("quote")) == tee


def is_maa_report(document: JsonValue) -> bool:
    """Recognise a request with the report of an SNP guest or of Open Enclave."""
    return (
        isinstance(document, dict) and bool(set(_MAA_DATA) & set(document)) and isinstance(document.get("report"), str)
    )


def read_maa_request(document: JsonValue) -> FormContent:
    """Read a request to MAA.

    Raises:
        EvidenceError: ``peer-form-malformed``, ``base64-invalid``, ``json-invalid``, ``certificate-malformed``, or as
            ``read_open_enclave``.
        UnsupportedError: as ``read_open_enclave``.
    """
    members = _FORM.object_of(document, "request", members=None)
    if "quote" in members:
        content = FormContent((_quote_item(_bytes(members, "quote")),))
    else:
        content = _maa_report(_bytes(members, "report"))
    data: dict[str, tuple[bytes, ...]] = {}
    for name, rule in zip(_MAA_DATA, ("maa-runtime-data", "maa-init-time-data"), strict=True):
        found = _maa_data(members.get(name), name)
        if found is not None:
            data[rule] = (found,)
    return content._replace(items=(*content.items, _committed_item(data))) if data else content


def _maa_data(value: JsonValue, name: str) -> bytes | None:
    """Return the data of a member; the sidecar writes empty text for none."""
    if value is None:
        return None
    members = _FORM.object_of(value, name, members=frozenset({"data", "dataType"}))
    text = _FORM.text_of(members.get("data"), f"{name}.data", expected="base64url")
    return _bytes(members, "data", path=f"{name}.") if text else None


def _maa_report(report: bytes) -> FormContent:
    if is_open_enclave(report):
        return read_open_enclave_items(report)
    document = json_value(report, what="report")
    members = _FORM.object_of(document, "report", members=frozenset({"SnpReport", "VcekCertChain", "Endorsements"}))
    item = _snp_item(_bytes(members, "SnpReport", path="report."), "report.SnpReport")
    certificates = _certificates(_bytes(members, "VcekCertChain", path="report."), "report.VcekCertChain")
    uvm = _maa_uvm(members)
    return FormContent((item, *uvm), certificates)


def _maa_uvm(members: Mapping[str, JsonValue]) -> tuple[EvidenceItem, ...]:
    if members.get("Endorsements") in _NOTHING:
        return ()
    document = json_value(_bytes(members, "Endorsements", path="report."), what="report.Endorsements")
    endorsements = _FORM.object_of(document, "report.Endorsements", members=frozenset({"Uvm"}))
    found = _FORM.array_of(endorsements.get("Uvm"), "report.Endorsements.Uvm", most=1)
    return tuple(_uvm_item(_bytes({"Uvm[0]": one}, "Uvm[0]"), "Uvm[0]") for one in found)


# -- Intel Trust Authority


def is_ita_request(tee: Tee, document: JsonValue) -> bool:
    """Recognise a request with a quote of this TEE."""
    inner = _ita_inner(document)
    if not isinstance(inner, dict) or not {"verifier_nonce", "runtime_data", "user_data"} & set(inner):
        return False
    return _tee_of(inner.get("quote")) == tee


def _ita_inner(document: JsonValue) -> JsonValue:
    if isinstance(document, dict):
        for name in TEES:
            if isinstance(document.get(name), dict):
                return document[name]
    return document


def read_ita_request(tee: Tee, document: JsonValue) -> FormContent:
    """Read a request to ITA.

    Raises:
        EvidenceError: ``peer-form-malformed`` or ``base64-invalid``.
        UnsupportedError: ``evidence-unsupported``: an Azure VM, whose quote commits to claims of its paravisor.
    """
    members = _FORM.object_of(_ita_inner(document), "request", members=None)
    item = _quote_item(_bytes(members, "quote"))
    stated = [name for name in ("runtime_data", "user_data") if members.get(name) is not None]
    if len(stated) > 1:
        raise UnsupportedError(
            "a request to ITA with runtime_data and user_data is of an Azure VM, which this version does not verify "
            "without its HCL report and TPM quote",
            code="evidence-unsupported",
            field="user_data",
            expected="runtime_data or user_data",
            got="both",
            clause="docs/forms.md",
        )
    nonce = members.get("verifier_nonce")
    if nonce is None and not stated:
        return FormContent((item,))
    parts = (
        {}
        if nonce is None
        else _FORM.object_of(nonce, "verifier_nonce", members=frozenset({"val", "iat", "signature"}))
    )
    pieces = tuple(_bytes(parts, name, path="verifier_nonce.") if nonce is not None else b"" for name in ("val", "iat"))
    data = _bytes(members, stated[0]) if stated else b""
    return FormContent((item, _committed_item({f"ita-{tee}": (*pieces, data)})))


# -- Azure's confidential containers


def is_azure_container(document: JsonValue) -> bool:
    """Recognise evidence of a container group: a report, its certificates, and the endorsement of its utility VM."""
    names = {"evidence", "endorsements"}
    return isinstance(document, dict) and all(isinstance(document.get(name), str) for name in names)


def read_azure_container(document: JsonValue) -> FormContent:
    """Read the evidence of a container group.

    Raises:
        EvidenceError: ``peer-form-malformed``, ``base64-invalid``, ``json-invalid`` or ``certificate-malformed``.
    """
    names = frozenset({"evidence", "endorsements", "uvm_endorsements", "endorsed_tcb"})
    members = _FORM.object_of(document, "document", members=names)
    item = _snp_item(_bytes(members, "evidence"), "evidence")
    certificates = _azure_certificates(_bytes(members, "endorsements"))
    if members.get("uvm_endorsements") in _NOTHING:
        return FormContent((item,), certificates)
    return FormContent((item, _uvm_item(_bytes(members, "uvm_endorsements"), "uvm_endorsements")), certificates)


def _azure_certificates(data: bytes) -> tuple[Certificate, ...]:
    """Read certificates in PEM, or the answer of Azure's THIM service."""
    if not data.lstrip().startswith(b"{"):
        return _certificates(data, "endorsements")
    names = frozenset({"vcekCert", "certificateChain", "tcbm", "cacheControl"})
    members = _FORM.object_of(json_value(data, what="endorsements"), "endorsements", members=names)
    texts = [_FORM.text_of(members.get(n), f"endorsements.{n}") for n in ("vcekCert", "certificateChain")]
    return _certificates("\n".join(texts).encode(), "endorsements")


def _certificates(text: bytes, path: str) -> tuple[Certificate, ...]:
    blocks = pem_blocks(text)
    if not 0 < len(blocks) <= MAX_CERTIFICATES or any(label != "CERTIFICATE" for label, _ in blocks):
        raise _FORM.malformed(path, f"1 to {MAX_CERTIFICATES} certificates in PEM", f"{len(blocks)} blocks")
    return tuple(parse_certificate(der) for _, der in blocks)


def _snp_item(report: bytes, path: str) -> EvidenceItem:
    if len(report) != REPORT_BYTES:
        raise _FORM.malformed(path, f"{REPORT_BYTES} bytes in base64", f"{len(report)}")
    return EvidenceItem(name="cpu", media_type=MEDIA_SNP_REPORT, value=report)


def _uvm_item(data: bytes, path: str) -> EvidenceItem:
    if len(data) > MAX_UVM_ENDORSEMENT_BYTES:
        raise _FORM.malformed(path, f"at most {MAX_UVM_ENDORSEMENT_BYTES} bytes", f"{len(data)}")
    return EvidenceItem(name="uvm-endorsement", media_type=MEDIA_UVM_ENDORSEMENT, value=data, indicator=2)


# -- Open Enclave


def read_open_enclave_items(data: bytes) -> FormContent:
    """Read Open Enclave's evidence as a quote and the claims behind it; errors as ``read_open_enclave``."""
    found = read_open_enclave(data)
    item = _quote_item(found.quote)
    if not found.custom_claims:
        return FormContent((item,))
    return FormContent((item, _committed_item({"open-enclave": (found.custom_claims,)})))
