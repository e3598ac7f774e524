"""Verified evidence under the names that policies for Trustee read, and the outcomes of those policies.

Trustee leaves signatures, chains, revocation and binding to its policies; here they are verified before. So the input
states verified facts, and a member that Trustee would fill with null is absent.

Spec: specs/kbs-protocol.md, sections 11.3, 11.4 and 13.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from attest.appraisal import AttestationResult
from attest.checks import Check
from attest.encoding import JsonValue, rfc3339_text
from attest.evidence.claims import claim_json
from attest.evidence.gpu.nvidia_claims import nvidia_claims
from attest.evidence.gpu.verify import VerifiedGpu
from attest.evidence.intel.quote import HEADER
from attest.evidence.intel.verify import VerifiedIntelQuote
from attest.evidence.snp.verify import VerifiedSnpReport
from attest.evidence.tdx.structure import TD_ATTRIBUTE_BITS, ParsedTdReport
from attest.rego.evaluation import DEFAULT_LIMITS, RegoOutcome, also_refuses
from attest.rego.policy import RegoForm, RegoPolicy
from attest.rego.zygotes import RegoLimits
from attest.results.ear import VerifierId
from attest.results.ear_build import build_ear
from attest.verification import VerifiedItem

_CLASSES = {"nvidia-gpu": "gpu", "nvidia-switch": "switch"}
_NOTHING: Mapping[str, JsonValue] = MappingProxyType({})
_TD_NAMES = {"pks": "protection_keys", "kl": "key_locker", "sept_ve_disable": "septve_disable"}


def rego_checks(
    results: Sequence[AttestationResult],
    policy: RegoPolicy,
    data: Mapping[str, JsonValue] = _NOTHING,
    *,
    limits: RegoLimits = DEFAULT_LIMITS,
) -> tuple[Check, ...]:
    """Evaluate a Rego policy for appraised evidence; returns at least one check ``policy.rego``.

    The caller combines them with the typed policies' by AND: each that fails is one more refusal.

    ``results`` has one for each typed policy. An attestation policy is evaluated for each CPU, with ``data`` as its
    reference values by name; a resource policy once for all, with ``data`` as such.
    """
    if policy.form is RegoForm.RESOURCE:
        return (also_refuses(policy, ear_document(results), data=data, limits=limits).check(),)
    cpus = [item for item in results[0].verified.items if item.kind not in _CLASSES]
    if not cpus:
        outcome = RegoOutcome(refused=True, reason="no CPU evidence to ask about", digest=policy.digest)
        return (outcome.check(),)
    return tuple(
        also_refuses(policy, evidence_document(item), data, limits=limits).check(item=item.name) for item in cpus
    )


def with_rego(
    results: Sequence[AttestationResult],
    policy: RegoPolicy,
    data: Mapping[str, JsonValue] = _NOTHING,
    *,
    limits: RegoLimits = DEFAULT_LIMITS,
) -> tuple[AttestationResult, ...]:
    """Return the results with the checks of a Rego policy added to each, so that none affirms what it refuses."""
    checks = rego_checks(results, policy, data, limits=limits)
    return tuple(replace(result, policy_checks=(*result.policy_checks, *checks)) for result in results)


def ear_document(results: Sequence[AttestationResult]) -> dict[str, JsonValue]:
    """Return the claims of Trustee's token, as far as policies read them."""
    ear = build_ear(results, verifier=VerifierId(developer="attest", build="rego"))
    counts: dict[str, int] = {}
    submods: dict[str, JsonValue] = {}
    for item in results[0].verified.items:
        kind = _CLASSES.get(item.kind, "cpu")
        number = counts[kind] = counts.get(kind, -1) + 1
        appraisal = ear.submods[item.name]
        vector: dict[str, JsonValue] = {} if appraisal.vector is None else dict(appraisal.vector.items())
        submods[f"{kind}{number}"] = {
            "ear.status": str(appraisal.status),
            "ear.trustworthiness-vector": vector,
            "ear.veraison.annotated-evidence": evidence_document(item),
        }
    return {"iat": ear.issued_at, "submods": submods}


def evidence_document(item: VerifiedItem) -> dict[str, JsonValue]:
    """Return one device as Trustee shows it to a policy; empty for a kind that Trustee has no names for here."""
    verified = item.verified
    if isinstance(verified, VerifiedSnpReport):
        return {
            "report_data": verified.report.report_data.hex(),
            "init_data": verified.report.host_data.hex(),
            "snp": _snp(verified),
        }
    if isinstance(verified, VerifiedGpu):
        return {"nvidia": {name: claim_json(value) for name, value in nvidia_claims(verified).items()}}
    if isinstance(verified, VerifiedIntelQuote) and isinstance(verified.quote.body, ParsedTdReport):
        body = verified.quote.body
        return {
            "report_data": body.report_data.hex(),
            "init_data": body.mr_config_id.hex(),
            "tdx": _tdx(verified, body),
        }
    return {}


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
