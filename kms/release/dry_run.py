"""A dry run: a release without a challenge, a lease or an entry of the log, shown in full to an operator.

The evidence is taken to answer a challenge of this service: its own nonce is the one that is expected. Everything else
is judged as it would be now, with the keys, policies, limits and leases as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from attest import Evidence
from attest.checks import Check, Outcome
from attest.encoding import JsonValue, rfc3339_text
from attest.errors import AttestError
from attest.evidence import MEDIA_BINDING, NONCE_BYTES, parse_binding
from kms.domain.decide import ReleaseDecision, ReleaseOutcome, Result
from kms.domain.log_decisions import check_members

__all__ = ["TRIAL_SCHEMA", "ReleaseTrial", "assumed_nonce"]

TRIAL_SCHEMA = "kms.release-trial/1"
_NO_NONCE = bytes(NONCE_BYTES)
"""Of evidence without a binding, which answers no challenge and is refused for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseTrial:
    """How a release would come out.

    Attributes:
        requested: the keys, as asked for.
        at: the moment for which it was judged.
        decision: allow or deny, with every reason; None where the evidence was refused before any policy.
        results: by what was asked for, what the key's policy says.
        refusal: why the evidence was refused, or why nothing could be decided; None where there is a decision.
    """

    requested: tuple[str, ...]
    at: datetime
    decision: ReleaseDecision | None
    results: Mapping[str, Result]
    refusal: AttestError | None

    @property
    def would_release(self) -> bool:
        """True when the keys would be released; it grants nothing."""
        return self.decision is not None and self.decision.verdict is ReleaseOutcome.ALLOW

    def members(self) -> dict[str, JsonValue]:
        """Return everything as JSON members."""
        return {
            "schema": TRIAL_SCHEMA,
            "at": rfc3339_text(self.at),
            "requested": list(self.requested),
            "outcome": "allow" if self.would_release else "deny",
            "reasons": self._reasons(),
            "keys": [
                {
                    "key": asked,
                    "policy": result.policy.name,
                    "policy_version": result.policy.version,
                    "policy_sha256": result.policy.digest.hex(),
                    "checks": [dict(check_members(check)) for check in result.checks if result.counts(check)],
                }
                for asked, result in self.results.items()
            ],
        }

    def _reasons(self) -> list[JsonValue]:
        if self.refusal is not None:
            return [{"code": self.refusal.code, "key": None, "text": self.refusal.message}]
        reasons = () if self.decision is None else self.decision.reasons
        return [{"code": one.code, "key": one.key_id, "text": one.text} for one in reasons]

    def failed(self) -> tuple[tuple[str | None, Check], ...]:
        """Return the checks that stand against it, each with the key whose policy makes it."""
        if self.refusal is not None:
            return tuple((None, check) for check in self.refusal.checks if check.outcome is Outcome.FAIL)
        return tuple((asked, check) for asked, result in self.results.items() for check in result.failed)


def assumed_nonce(evidence: Evidence) -> bytes:
    """Return the nonce that evidence was collected under, as it says itself.

    Raises:
        EvidenceError: its binding is malformed.
    """
    found = next((item for item in evidence.items if item.essence == MEDIA_BINDING), None)
    return _NO_NONCE if found is None else parse_binding(found.value).nonce
