"""Comparison of a key's policy with its replacement, on recorded evidence too. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from attest import Endorsements, Evidence, Policy, TrustAnchors, Unchecked, appraise, verify
from attest.encoding import JsonValue
from attest.errors import AttestError
from attest.policy import PolicyDifference, ReferenceDocument, decode_policy, diff_policies, read_document

_RECORDED = Unchecked(check="freshness", reason="recorded evidence: its challenge is not known")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTrial:
    """Results of the old and the new policy for one piece of evidence, of this name.

    A result is ``affirmed``, the ids of the failed checks, or the code of a refusal.
    """

    name: str
    before: str
    after: str

    @property
    def changed(self) -> bool:
        """True if exactly one of the policies accepts it."""
        return (self.before == _AFFIRMED) is not (self.after == _AFFIRMED)


_AFFIRMED = "affirmed"


def policy_difference(
    before: bytes, after: bytes, *, references: tuple[Mapping[str, ReferenceDocument], Mapping[str, ReferenceDocument]]
) -> PolicyDifference:
    """Compare the meaning of two policies, each with its documents of reference values.

    Raises:
        ConfigurationError: one of them is not a policy.
    """
    old, new = (
        decode_policy(read_document(data), documents=documents, incomplete=True)
        for data, documents in zip((before, after), references, strict=True)
    )
    return diff_policies(old, new)


def difference_members(difference: PolicyDifference) -> dict[str, JsonValue]:
    """Return a difference as JSON members."""
    changes: list[JsonValue] = [
        {"path": one.path, "effect": str(one.effect), "text": one.text} for one in difference.changes
    ]
    return {"effect": None if difference.effect is None else str(difference.effect), "changes": changes}


def try_evidence(
    name: str,
    evidence: Evidence,
    *,
    policies: tuple[Policy, Policy],
    endorsements: Endorsements,
    anchors: TrustAnchors,
    at: datetime,
) -> PolicyTrial:
    """Appraise recorded evidence by the old and the new policy, without freshness."""
    before, after = (_verdict(evidence, one, endorsements, anchors, at) for one in policies)
    return PolicyTrial(name=name, before=before, after=after)


def _verdict(
    evidence: Evidence, policy: Policy, endorsements: Endorsements, anchors: TrustAnchors, at: datetime
) -> str:
    try:
        verified = verify(
            evidence,
            endorsements=endorsements,
            anchors=anchors,
            at=at,
            unchecked=tuple(dict.fromkeys((_RECORDED, *policy.unchecked))),
            tolerances=policy.tolerances,
        )
    except AttestError as exc:
        return f"refused: {exc.code}"
    result = appraise(verified, policy=policy, at=at)
    return _AFFIRMED if result.affirmed else ", ".join(dict.fromkeys(check.id for check in result.failed))
