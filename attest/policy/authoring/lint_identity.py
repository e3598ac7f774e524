"""Findings about the identity of the software: sections that accept any, or one under a self-chosen name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attest.evidence.claims import ClaimType, Origin
from attest.policy.authoring.lint_findings import LintContext, LintFinding, Severity
from attest.policy.azure import azure_rules
from attest.policy.intel import sgx_rules, tdx_rules
from attest.policy.model import PolicyBody
from attest.policy.rules import Rule, Subject
from attest.policy.snp import snp_rules

_SIGNED = frozenset({"id_key_digest", "author_key_digest", "mr_signer"})
"""Claims of the guest's owner that are signed; the hardware has checked the signature."""
_CHOSEN = frozenset({Origin.HOST, Origin.GUEST, Origin.OWNER})


def identity_findings(
    body: PolicyBody, start: str, context: LintContext, identified: frozenset[str]
) -> Iterator[LintFinding]:
    """Find sections that accept any software, or software under a self-chosen name (must-check.md 40)."""
    known = identified | context.identified(body)
    for kind, rules in _rules(body, context).items():
        if kind in known:
            continue
        chosen = sorted(rule.claim.name for rule in rules if _is_chosen(rule))
        yield LintFinding(
            rule="self-chosen-claim" if chosen else "identity-not-demanded",
            severity=context.in_production(Severity.ERROR),
            path=f"{start}{kind}",
            why=f"only {', '.join(chosen)} identifies the software, and the guest or its host chooses it freely"
            if chosen
            else "no demand identifies the software: any software is accepted",
            remedy="demand the measurement, or a key that signed the guest",
        )


def _rules(body: PolicyBody, context: LintContext) -> Mapping[str, tuple[Rule, ...]]:
    references = context.policy.reference_values
    rules: dict[str, tuple[Rule, ...]] = {}
    if body.azure is not None:
        rules["azure"] = azure_rules(body.azure, references)
    if body.snp is not None:
        rules["snp"] = snp_rules(body.snp, references)
    if body.tdx is not None:
        rules["tdx"] = tdx_rules(body.tdx, references)
    if body.sgx is not None:
        rules["sgx"] = sgx_rules(body.sgx, references)
    return rules


def _is_chosen(rule: Rule) -> bool:
    """Return True for a rule on bytes that the guest, its owner or the host chooses freely."""
    claim = rule.claim
    free = claim.origin in _CHOSEN and claim.type is ClaimType.BYTES and claim.name not in _SIGNED
    return free and rule.relaxed is None and rule.subject is Subject.DEVICE
