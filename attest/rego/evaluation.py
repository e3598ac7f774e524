"""Evaluation of a Rego policy. One outcome is no refusal; every other outcome is a refusal.

The engine accepts these inputs, and this module refuses them (must-check.md, section 4): a null in a document, which
compares as greater than numbers; a value other than an integer where the policy orders a member of the input; an
undefined name under ``not``; a built-in function that sees more than its arguments; rules that contradict each other;
no answer in time. Two risks remain: behind a variable, values of two types still compare, and a policy may be wrong. So
the outcome is only ever combined by AND with the typed policy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NoReturn

from attest.checks import Check, Outcome, Tier
from attest.encoding import JsonValue
from attest.rego.policy import TRUST_CLAIMS, RegoForm, RegoPolicy, misleading_mention
from attest.rego.question import NO_DATA, asked, unfit, without_nulls
from attest.rego.zygotes import EngineRefusedError, RegoLimits
from attest.results.ear import tier_of_value

CHECK_ID = "policy.rego"
CLAUSE = "docs/rego.md"

DEFAULT_LIMITS = RegoLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class RegoOutcome:
    """The outcome of a Rego policy: a refusal, or none. The absence of a refusal allows nothing.

    Attributes:
        refused: the policy refuses, or could not be asked.
        claims: the trust claims that an attestation policy gave, by AR4SI name.
        digest: SHA-256 of the policy's text, 32 bytes.
    """

    refused: bool
    reason: str
    digest: bytes
    claims: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def check(self, *, item: str | None = None) -> Check:
        """Return the outcome as one check, to list with those of the typed policy."""
        return Check(
            id=CHECK_ID,
            outcome=Outcome.FAIL if self.refused else Outcome.PASS,
            expected=f"not refused by the Rego policy {self.digest.hex()}",
            got=self.reason,
            clause=CLAUSE,
            item=item,
        )

    def __bool__(self) -> NoReturn:
        raise TypeError("a RegoOutcome is no condition; ask .refused")


def also_refuses(
    policy: RegoPolicy,
    document: Mapping[str, JsonValue],
    references: Mapping[str, JsonValue] = NO_DATA,
    *,
    data: Mapping[str, JsonValue] = NO_DATA,
    limits: RegoLimits = DEFAULT_LIMITS,
) -> RegoOutcome:
    """Evaluate a policy for one document, its ``input``. Nothing is raised: a failure is a refusal.

    ``query_reference_value`` finds the references by name; ``data`` is beside the policy's own package.
    """
    refused = unfit(document, references, data) or misleading_mention(policy, document, references)
    if refused is not None:
        return RegoOutcome(refused=True, reason=refused, digest=policy.digest)
    try:
        claims = _not_refused(policy, asked(policy, document, references, data, limits=limits))
    except EngineRefusedError as exc:
        return RegoOutcome(refused=True, reason=str(exc), digest=policy.digest)
    return RegoOutcome(refused=False, reason="not refused", digest=policy.digest, claims=claims)


def resource_outcome(
    policy: RegoPolicy,
    claims: Mapping[str, JsonValue],
    *,
    plugin: str,
    path: Sequence[str],
    query: Mapping[str, str] = MappingProxyType({}),
    limits: RegoLimits = DEFAULT_LIMITS,
) -> RegoOutcome:
    """Evaluate a resource policy for the claims of a token and one resource; only ``allow`` that is true is no refusal.

    Members of the claims that are null are left out. Nothing is raised: a failure is a refusal.

    Args:
        policy: a resource policy.
        claims: of the verified token, its ``input``.
        plugin: first segment of the path, ``data.plugin``.
        path: segments after it, ``data["resource-path"]``.
        query: of the request, ``data.query``.
        limits: of the evaluation.

    Spec: specs/kbs-protocol.md, section 13.
    """
    if policy.form is not RegoForm.RESOURCE:
        raise ValueError("an attestation policy has no rule for resources")
    data: dict[str, JsonValue] = {"plugin": plugin, "resource-path": list(path), "query": dict(query)}
    return also_refuses(policy, without_nulls(claims), data=data, limits=limits)


def _not_refused(policy: RegoPolicy, results: Mapping[str, JsonValue]) -> Mapping[str, int]:
    """Return the trust claims of a policy that does not refuse; none for a resource policy."""
    for rule in policy.rules:
        if rule not in results:
            raise EngineRefusedError(f"{rule} is undefined, or false")
    if policy.form is RegoForm.RESOURCE:
        if results["allow"] is not True:
            raise EngineRefusedError(f"allow is {json.dumps(results['allow'])[:80]}")
        return {}
    found = results["trust_claims"] if policy.rules == ("trust_claims",) else dict(results)
    return affirming_claims(found)


def affirming_claims(found: JsonValue) -> Mapping[str, int]:
    """Return trust claims of which at least one affirms and none does less, zero for "nothing said" aside."""
    if not isinstance(found, dict):
        raise EngineRefusedError("trust_claims is no object")
    claims: dict[str, int] = {}
    for rule, value in found.items():
        name = TRUST_CLAIMS.get(rule.replace("-", "_"))
        if name is None or name in claims:
            raise EngineRefusedError(f"{rule[:40]!r} is not a trust claim, or occurs twice")
        if isinstance(value, bool) or not isinstance(value, int) or not -128 <= value <= 127:
            raise EngineRefusedError(f"{name} is no integer from -128 to 127")
        claims[name] = value
    bad = {name: value for name, value in claims.items() if value and tier_of_value(value) is not Tier.AFFIRMING}
    if bad:
        raise EngineRefusedError(
            ", ".join(f"{name} is {value} ({tier_of_value(value)})" for name, value in bad.items())
        )
    if not any(claims.values()):
        raise EngineRefusedError("no trust claim says anything")
    return claims
