"""Outcomes of policies for Trustee over verified evidence.

Trustee leaves signatures, chains, revocation and binding to its policies; here they are verified before. So the input
states verified facts, and a member that Trustee would fill with null is absent.

Spec: specs/kbs-protocol.md, sections 11.3 and 13.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from attest.appraisal import AttestationResult
from attest.checks import Check
from attest.encoding import JsonValue
from attest.rego.evaluation import DEFAULT_LIMITS, RegoOutcome, also_refuses
from attest.rego.policy import RegoForm, RegoPolicy
from attest.rego.trustee_names import device_class, trustee_claims
from attest.rego.zygotes import RegoLimits
from attest.results.ear import VerifierId
from attest.results.ear_build import build_ear
from attest.verification import VerifiedItem

_NOTHING: Mapping[str, JsonValue] = MappingProxyType({})


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
    cpus = [item for item in results[0].verified.items if device_class(item) == "cpu"]
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
        kind = device_class(item)
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
    """Return one device as Trustee shows it to a policy; empty for a kind that has no names here."""
    return trustee_claims(item).document
