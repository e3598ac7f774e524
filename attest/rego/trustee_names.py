"""Verified evidence under Trustee's names: the claims that its policies read and its tokens show.

Spec: specs/kbs-protocol.md, sections 6, 11.3 and 11.4. The events of a log (``uefi_event_logs``) are left out: the name
of an event's type and the texts by which policies find it are covered by no digest.
"""

from __future__ import annotations

import base64
from typing import NamedTuple

from attest.encoding import JsonValue, rfc3339_text
from attest.evidence.azure.verify import VerifiedAzureEvidence
from attest.evidence.claims import claim_json
from attest.evidence.gpu.nvidia_claims import nvidia_claims
from attest.evidence.gpu.verify import VerifiedGpu
from attest.evidence.intel.quote import HEADER
from attest.evidence.intel.verify import VerifiedIntelQuote
from attest.evidence.sample.verify import VerifiedSample
from attest.evidence.snp.verify import VerifiedSnpReport
from attest.evidence.tdx.structure import TD_ATTRIBUTE_BITS, ParsedTdReport
from attest.verification import VerifiedItem

_TD_NAMES = {"pks": "protection_keys", "kl": "key_locker", "sept_ve_disable": "septve_disable"}
_CLASSES = {"nvidia-gpu": "gpu", "nvidia-switch": "switch", "sample-device": "gpu"}
_INIT_DATA_PCR = 8
"""The register that peer pods on Azure extend by the digest of their initialisation data."""


class TrusteeClaims(NamedTuple):
    """One verified device as Trustee names it.

    Attributes:
        device_class: of its submodule in a token (``cpu``, ``gpu``, ``switch``).
        tee: its name on the wire (``az-snp-vtpm``).
        claims: what stands under that name; empty for a kind that has no names here.
        report_data: the member beside it, as that kind of evidence spells it; None if it has none.
        init_data: the same of initialisation data, None where the evidence has no field for it.
    """

    device_class: str
    tee: str
    claims: dict[str, JsonValue]
    report_data: str | None = None
    init_data: str | None = None

    @property
    def document(self) -> dict[str, JsonValue]:
        """The input of a policy; empty for a kind that has no names here."""
        if not self.claims:
            return {}
        beside = {"report_data": self.report_data, "init_data": self.init_data}
        return {**{name: text for name, text in beside.items() if text is not None}, self.tee: self.claims}


def device_class(item: VerifiedItem) -> str:
    """Return the class of a device in Trustee's tokens: ``gpu``, ``switch``, and ``cpu`` for all others."""
    return _CLASSES.get(item.kind, "cpu")


def trustee_claims(item: VerifiedItem) -> TrusteeClaims:
    """Return one verified device under Trustee's names."""
    match item.verified:
        case VerifiedSnpReport() as v:
            data, init_data = v.report.report_data.hex(), v.report.host_data.hex()
            return TrusteeClaims("cpu", "snp", _snp(v), data, init_data)
        case VerifiedGpu() as v:
            claims = {name: claim_json(value) for name, value in nvidia_claims(v).items()}
            return TrusteeClaims(device_class(item), "nvidia", claims)
        case VerifiedIntelQuote(quote=quote) as v if isinstance(quote.body, ParsedTdReport):
            body = quote.body
            return TrusteeClaims("cpu", "tdx", _tdx(v, body), body.report_data.hex(), body.mr_config_id.hex())
        case VerifiedAzureEvidence() as v:
            return _azure(v)
        case VerifiedSample() as v:
            return _sample(item, v)
        case _:
            return TrusteeClaims(device_class(item), item.kind, {})


def _sample(item: VerifiedItem, v: VerifiedSample) -> TrusteeClaims:
    data = base64.b64encode(v.evidence.report_data).decode("ascii")
    if device_class(item) != "cpu":
        return TrusteeClaims("gpu", "sampledevice", {"svn": v.evidence.svn}, data)
    claims = {name: value for name, value in item.claims.items() if name != "report_data"}
    return TrusteeClaims("cpu", "sample", claims, data)


def _azure(v: VerifiedAzureEvidence) -> TrusteeClaims:
    """Return a VM behind a virtual TPM. Of a report Trustee writes every value as text, and it shows no chip."""
    registers = dict(v.pcrs)
    tpm: dict[str, JsonValue] = {f"pcr{index:02}": value.hex() for index, value in v.pcrs}
    nonce, init_data = v.quote.extra_data.hex(), registers.get(_INIT_DATA_PCR)
    claims: dict[str, JsonValue]
    if isinstance(v.cpu, VerifiedSnpReport):
        tee, report = "az-snp-vtpm", v.cpu.report
        texts = {name: _text(value) for name, value in _snp(v.cpu).items() if name != "chip_id"}
        claims = {**texts, "measurement": base64.b64encode(report.measurement).decode("ascii")}
    else:
        body = v.cpu.quote.body
        tee, claims = "az-tdx-vtpm", _tdx(v.cpu, body) if isinstance(body, ParsedTdReport) else {}
    return TrusteeClaims("cpu", tee, {**claims, "tpm": tpm}, nonce, None if init_data is None else init_data.hex())


def _text(value: JsonValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _snp(v: VerifiedSnpReport) -> dict[str, JsonValue]:
    policy, platform = v.report.policy, v.report.platform_info
    return {
        "measurement": v.report.measurement.hex(),
        "chip_id": v.report.chip_id.hex(),
        "policy_abi_minor": policy & 0xFF,
        "policy_abi_major": policy >> 8 & 0xFF,
        "policy_smt_allowed": bool(policy >> 16 & 1),
        "policy_migrate_ma": bool(policy >> 18 & 1),
        "policy_debug_allowed": bool(policy >> 19 & 1),
        "policy_single_socket": bool(policy >> 20 & 1),
        "platform_smt_enabled": bool(platform & 1),
        "platform_tsme_enabled": bool(platform >> 1 & 1),
        **{f"reported_tcb_{name}": level for name, level in v.reported_tcb.components().items()},
    }


def _tdx(v: VerifiedIntelQuote, body: ParsedTdReport) -> dict[str, JsonValue]:
    """Return a quote by Trustee's names: hex of the bytes as the quote has them, little-endian."""
    names = ("mr_seam", "mr_td", "mr_config_id", "mr_owner", "mr_owner_config", "report_data", "seam_attributes")
    quote_body: dict[str, JsonValue] = {
        **{name: getattr(body, name).hex() for name in names},
        "mrsigner_seam": body.mr_signer_seam.hex(),
        "tcb_svn": body.tee_tcb_svn.hex(),
        "td_attributes": body.td_attributes.to_bytes(8, "little").hex(),
        "xfam": body.xfam.to_bytes(8, "little").hex(),
        **{f"rtmr_{i}": getattr(body, f"rtmr{i}").hex() for i in range(4)},
    }
    return {
        "quote": {"header": _header(v), "body": quote_body},
        "td_attributes": {
            _TD_NAMES.get(name, name): bool(body.td_attributes >> bit & 1) for name, bit in TD_ATTRIBUTE_BITS
        },
        **_tcb(v),
    }


def _header(v: VerifiedIntelQuote) -> dict[str, JsonValue]:
    raw = v.quote.signed_bytes
    fields = {field.name: raw[field.offset : field.offset + field.size].hex() for field in HEADER.fields}
    renamed = {"version": "version", "tee_type": "tee_type", "qe_vendor_id": "vendor_id", "user_data": "user_data"}
    return {name: fields[ours] for ours, name in renamed.items()}


def _tcb(v: VerifiedIntelQuote) -> dict[str, JsonValue]:
    """Return the TCB's state; nothing where it was left unchecked, so that a policy that asks for it refuses."""
    if v.evaluation is None:
        return {}
    return {
        "tcb_status": str(v.evaluation.tcb_status),
        "tcb_date": rfc3339_text(v.evaluation.tcb_date),
        "advisory_ids": list(v.evaluation.advisory_ids),
        "tcb_eval_num": v.evaluation.tcb_evaluation_data_number,
        # Verification has refused collateral that is out of date.
        "collateral_expiration_status": "0",
    }
