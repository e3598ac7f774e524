"""Log entries about decisions: digests, outcomes and reasons; never a secret, a token or evidence itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Final

from attest.checks import Check, Outcome
from attest.encoding import JsonValue, rfc3339_text
from attest.errors import AttestError
from attest.results import VerifiedEar, VerifiedServiceToken
from kms.domain.decide import KeyState, ReleaseDecision, ReleaseOutcome, Result
from kms.domain.lease_grants import Granted
from kms.domain.passports import VerifiedPassport
from kms.domain.wires import Wire

DECISION = "decision"
_SHOWN: Final = 200
"""Characters of a token's own id in an entry."""


def check_members(check: Check) -> dict[str, JsonValue]:
    """Return a check as JSON members."""
    return {
        "id": check.id,
        "outcome": str(check.outcome),
        "expected": check.expected,
        "got": check.got,
        "clause": check.clause,
        "item": check.item,
    }


def decision_body(
    decision: ReleaseDecision, *, head: Mapping[str, JsonValue], results: Mapping[str, Result], granted: Granted
) -> dict[str, JsonValue]:
    """Describe a decision about verified evidence; ``head`` is of ``decision_head``, results are by requested key."""
    verified = next((result.verified for result in results.values()), None)
    binding = None if verified is None else verified.binding
    failed = {(check.id, check.item): check for reason in decision.reasons for check in reason.checks}
    return {
        **head,
        "outcome": str(decision.outcome),
        "simulated": None if verified is None else verified.simulated,
        "binding_sha256": None if binding is None else sha256(binding.to_bytes()).hexdigest(),
        "recipient_sha256": None if binding is None else sha256(binding.key).hexdigest(),
        "keys": [
            {
                **_key(state),
                "appraisal": _summary(results[state.asked]) if state.asked in results else None,
                "lease": _lease(granted, state.asked),
            }
            for state in decision.keys
        ],
        "reasons": [{"code": r.code, "key_id": r.key_id, "text": r.text} for r in decision.reasons],
        "failed_checks": [check_members(check) for check in failed.values()],
        **(_passport(verified) if isinstance(verified, VerifiedPassport) else {}),
        **_break_glass(decision.keys),
    }


def refusal_body(
    error: AttestError, *, head: Mapping[str, JsonValue], keys: Iterable[KeyState]
) -> dict[str, JsonValue]:
    """Describe a refusal that came before any appraisal: malformed, not genuine, or nothing to seal to."""
    return {
        **head,
        "outcome": str(ReleaseOutcome.DENY),
        "simulated": None,
        "binding_sha256": None,
        "recipient_sha256": None,
        "keys": [{**_key(state), "appraisal": None} for state in keys],
        "reasons": [{"code": error.code, "key_id": None, "text": error.message}],
        "failed_checks": [check_members(c) for c in error.checks if c.outcome is Outcome.FAIL],
        **_break_glass(tuple(keys)),
    }


def _passport(verified: VerifiedPassport) -> dict[str, JsonValue]:
    """Describe the token of a passport; the token itself is left out."""
    token = verified.token
    described = _ear(token) if isinstance(token, VerifiedEar) else _service_token(token)
    fresh_by = None if verified.fresh_by is None else str(verified.fresh_by)
    return {"passport": {"issuer": verified.issuer, "signed_by": token.key_id, **described, "fresh_by": fresh_by}}


def _ear(token: VerifiedEar) -> dict[str, JsonValue]:
    details = token.ear.details
    return {
        "token_id": token.ear.token_id,
        "issued_at": token.ear.issued_at,
        "evidence_sha384": None if details is None else details.evidence.hex(),
    }


def _service_token(token: VerifiedServiceToken) -> dict[str, JsonValue]:
    token_id = token.claims.get("jti")
    return {
        "token_id": token_id[:_SHOWN] if isinstance(token_id, str) else None,
        "issued_at": int(token.frame.issued.timestamp()),
        "evidence_sha384": None,
        "service": token.frame.service,
        "kinds": [one.kind for one in token.facts],
    }


def _break_glass(keys: Iterable[KeyState]) -> dict[str, JsonValue]:
    """List the relaxations under which the decision was made; nothing if there were none."""
    opened: list[JsonValue] = [
        {"key": state.asked, "number": one.number, "relaxation": one.relaxation, "until": rfc3339_text(one.until)}
        for state in keys
        for one in state.break_glass
    ]
    return {"break_glass": True, "break_glass_open": opened} if opened else {}


def _key(state: KeyState) -> dict[str, JsonValue]:
    """Describe a key with the documents of reference values in force, so that the decision can be replayed."""
    references: list[JsonValue] = [
        {"name": r.name, "version": r.version, "sha256": r.digest.hex()} for r in state.references
    ]
    return {
        "tenant": state.name.tenant,
        "key_id": state.name.key_id,
        "version": state.version,
        "purpose": state.purpose,
        "policy_sha256": state.policy_digest.hex(),
        "references": references,
        **_floors(state),
    }


def _floors(state: KeyState) -> dict[str, JsonValue]:
    """List the floors that counted for a key; nothing if there were none."""
    found: list[JsonValue] = [
        {"scope": one.scope, "version": one.version, "sha256": one.digest.hex()} for one in state.floors
    ]
    return {"floors": found} if found else {}


def _lease(granted: Granted, asked: str) -> dict[str, JsonValue] | None:
    """Describe a lease with the ids of those that it ends, and the digest of all that is stored of it."""
    lease = granted.leases.get(asked)
    if lease is None:
        return None
    return {
        "id": lease.lease_id,
        "expires_at": lease.until,
        "renewed_from": lease.renewed_from,
        "ended": list(granted.replaced.get(asked, ())),
        "sha256": lease.digest.hex(),
    }


def decision_head(
    *,
    nonce_digest: bytes,
    evidence_digest: bytes,
    requested: Sequence[str],
    at: datetime,
    allow_simulated: bool,
    via: Wire,
) -> dict[str, JsonValue]:
    """Describe the request of a decision; the digest is of evidence, or of a passport in its place."""
    return {
        "at": rfc3339_text(at),
        "nonce_sha256": nonce_digest.hex(),
        "evidence_sha384": evidence_digest.hex(),
        "requested": list(requested),
        "allow_simulated": allow_simulated,
        "via": str(via),
    }


def _summary(result: Result) -> dict[str, JsonValue]:
    counts = Counter(str(check.outcome) for check in result.checks)
    return {
        "policy": result.policy.name,
        "policy_version": result.policy.version,
        "policy_sha256": result.policy.digest.hex(),
        "status": str(result.status),
        "checks": dict(counts),
        "unchecked": [{"check": entry.check, "reason": entry.reason} for entry in result.unchecked],
    }
