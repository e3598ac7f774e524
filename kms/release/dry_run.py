"""Dry run of a release, without a challenge, lease or log entry, shown in full to an operator.

The evidence's own nonce is accepted as that of a challenge. Everything else is checked against the current keys,
policies, limits and leases.
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

TRIAL_SCHEMA = "kms.release-trial/1"
_NO_NONCE = bytes(NONCE_BYTES)
"""Nonce for evidence without a binding, which is refused because it answers no challenge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseTrial:
    """Outcome of a dry run.

    Attributes:
        requested: the keys as the request names them.
        decision: allow or deny, with every reason; None if the evidence was refused before any policy.
        results: results of each key's policy, by requested key.
        refusal: reason why the evidence was refused or no decision was possible; None if there is a decision.
    """

    requested: tuple[str, ...]
    at: datetime
    decision: ReleaseDecision | None
    results: Mapping[str, Result]
    floors: tuple[Result, ...] = ()
    refusal: AttestError | None

    @property
    def would_release(self) -> bool:
        """True if the keys would be released; this grants nothing."""
        return self.decision is not None and self.decision.outcome is ReleaseOutcome.ALLOW

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
            "floors": [
                {
                    "floor": result.policy.name,
                    "version": result.policy.version,
                    "sha256": result.policy.digest.hex(),
                    "checks": [dict(check_members(check)) for check in result.policy_checks],
                }
                for result in self.floors
            ],
        }

    def _reasons(self) -> list[JsonValue]:
        if self.refusal is not None:
            return [{"code": self.refusal.code, "key": None, "text": self.refusal.message}]
        reasons = () if self.decision is None else self.decision.reasons
        return [{"code": one.code, "key": one.key_id, "text": one.text} for one in reasons]

    def failed(self) -> tuple[tuple[str | None, Check], ...]:
        """Return the failed checks, each with the key whose policy makes it."""
        if self.refusal is not None:
            return tuple((None, check) for check in self.refusal.checks if check.outcome is Outcome.FAIL)
        by_key = tuple((asked, check) for asked, result in self.results.items() for check in result.failed)
        return by_key + tuple((None, check) for result in self.floors for check in result.failed)


def assumed_nonce(evidence: Evidence) -> bytes:
    """Return the nonce that the evidence's own binding states.

    Raises:
        EvidenceError: its binding is malformed.
    """
    found = next((item for item in evidence.items if item.essence == MEDIA_BINDING), None)
    return _NO_NONCE if found is None else parse_binding(found.value).nonce
