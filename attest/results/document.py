"""The versioned JSON result for programs, ``attest.result/1``.

An outcome is never set: it follows from the checks. A refusal has every check that was made before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

from attest.appraisal import AttestationResult, Judgement
from attest.checks import Caution, Check, Outcome, Unchecked
from attest.encoding import JsonValue, rfc3339_text
from attest.errors import AttestError, BindingError
from attest.evidence.claims import nested_document
from attest.results.cautions import appraised_cautions, token_cautions, verified_cautions
from attest.results.ear import EAR_PROFILE
from attest.results.ear_codec import ear_to_json
from attest.results.ear_details import ReliedOn
from attest.results.ear_verify import VerifiedEar
from attest.results.nras import VerifiedNrasToken
from attest.results.relied_on import relied_on
from attest.results.service_token import VerifiedServiceToken
from attest.results.token_facts import TokenFacts
from attest.verification import Freshness, VerifiedEvidence, VerifiedItem

RESULT_SCHEMA = "attest.result/1"

_FRESHNESS_CHECKS = frozenset({"freshness", "binding.report_data"})


def verified_document(verified: VerifiedEvidence) -> dict[str, JsonValue]:
    """Return the document of genuine evidence."""
    return {
        **_head(command="verify", outcome="verified", at=verified.at, unchecked=verified.unchecked),
        **_state(verified),
        **_evidence(verified),
        "warnings": _warnings(verified_cautions(verified)),
        "checks": check_documents(verified.checks),
    }


def appraised_document(result: AttestationResult) -> dict[str, JsonValue]:
    """Return the document of an appraisal."""
    verified = result.verified
    outcome = "affirmed" if result.affirmed else "not-affirmed"
    return {
        **_head(command="appraise", outcome=outcome, at=result.at, unchecked=result.unchecked),
        **_state(verified),
        **_by_policy(result),
        **_evidence(verified),
        "warnings": _warnings(appraised_cautions(result)),
        "endorsements": [_relied_on(entry) for entry in relied_on(verified)],
        "checks": check_documents(result.checks, set_aside=result.set_aside),
    }


def token_document(
    token: VerifiedNrasToken | VerifiedServiceToken | VerifiedEar,
    *,
    unchecked: tuple[Unchecked, ...] = (),
    policy_checks: tuple[Check, ...] | None = None,
) -> dict[str, JsonValue]:
    """Return the document of a genuine token; with ``policy_checks``, that of its appraisal.

    The freshness of an appraised token is the policy's.
    """
    command, outcome, checks = "verify", "verified", token.checks
    if policy_checks is not None:
        failed = any(check.outcome is Outcome.FAIL for check in policy_checks)
        command, outcome = "appraise", "not-affirmed" if failed else "affirmed"
        checks = (*_but_freshness(checks), *policy_checks)
    return {
        **_head(command=command, outcome=outcome, at=token.at, unchecked=unchecked),
        **_state(token),
        "items": [{"name": "token", "kind": "token", "claims": _token_claims(token)}],
        "warnings": _warnings(token_cautions(token.freshness, policy=False, baseline=policy_checks is not None)),
        "checks": check_documents(checks),
    }


def _token_claims(token: VerifiedNrasToken | VerifiedServiceToken | VerifiedEar) -> dict[str, JsonValue]:
    match token:
        case VerifiedNrasToken():
            return {
                "issuer": token.issuer,
                "key_id": token.key_id,
                "nonce": token.nonce.hex(),
                "overall": dict(token.claims),
                "submodules": {name: dict(claims) for name, claims in token.submodules.items()},
                "facts": {facts.name: _facts(facts) for facts in token.facts},
            }
        case VerifiedServiceToken():
            return {
                "service": token.frame.service,
                "issuer": token.frame.issuer,
                "key_id": token.key_id,
                "algorithm": token.algorithm,
                "issued": rfc3339_text(token.frame.issued),
                "expires": rfc3339_text(token.frame.expires),
                "audience": list(token.audience),
                "nonces": [nonce.hex() for nonce in token.nonces],
                "facts": {facts.name: _facts(facts) for facts in token.facts},
                "token": dict(token.claims),
            }
        case VerifiedEar():
            return {
                "issuer": token.issuer,
                "key_id": token.key_id,
                "algorithm": token.algorithm,
                "form": token.form,
                "profile": token.ear.profile,
                "status": str(token.status),
                "ignored": list(token.ear.ignored),
                "ear": ear_to_json(replace(token.ear, profile=EAR_PROFILE)),
            }


def _but_freshness(checks: Iterable[Check]) -> Iterator[Check]:
    return (check for check in checks if check.id != "freshness")


def _facts(facts: TokenFacts) -> JsonValue:
    """Return a token's facts about one TEE or device: our claims and the Verifier's statements, nested."""
    document: dict[str, JsonValue] = {
        "kind": facts.kind,
        "claims": nested_document(facts.claims),
        "statements": nested_document(facts.statements),
    }
    return document if facts.held_data is None else {**document, "held_data": facts.held_data.hex()}


def judged_document(
    verified: dict[str, JsonValue],
    judgement: Judgement,
    token: VerifiedNrasToken | VerifiedServiceToken | VerifiedEar,
) -> dict[str, JsonValue]:
    """Return the document of a genuine token with the outcome of a policy.

    ``verified`` is the token's own document. Freshness appears once, as the policy judges it.
    """
    made = (*_but_freshness(token.checks), *judgement.policy_checks)
    cautions = token_cautions(token.freshness, policy=True, baseline=not judgement.policy.production)
    return {
        **verified,
        "command": "appraise",
        "outcome": "affirmed" if judgement.affirmed else "not-affirmed",
        "unchecked": [{"check": entry.check, "reason": entry.reason} for entry in judgement.unchecked],
        **_by_policy(judgement),
        "warnings": _warnings(cautions),
        "checks": check_documents(made, set_aside=judgement.set_aside),
    }


def _by_policy(judgement: Judgement) -> dict[str, JsonValue]:
    """Return the members about the policy and its outcome."""
    policy = judgement.policy
    return {
        "status": str(judgement.status),
        "policy": {
            "name": policy.name,
            "version": policy.version,
            "digest": policy.digest.hex(),
            "production": policy.production,
            "reference_values_digest": policy.reference_digest.hex(),
        },
        "trustworthiness": {category: str(tier) for category, tier in sorted(judgement.trustworthiness.items())},
    }


def refused_document(
    error: AttestError, *, command: str, at: datetime, unchecked: tuple[Unchecked, ...] = ()
) -> dict[str, JsonValue]:
    """Return the document of a refusal before any policy applied. It repeats no claim of the evidence."""
    checks = error.checks or _only(error)
    mismatched = any(check.id in _FRESHNESS_CHECKS and check.outcome is Outcome.FAIL for check in checks)
    matched = any(check.id == "freshness" and check.outcome is Outcome.PASS for check in checks)
    freshness = Freshness.MISMATCHED if mismatched else Freshness.MATCHED if matched else Freshness.NOT_EVALUATED
    return {
        **_head(command=command, outcome="refused", at=at, unchecked=unchecked),
        "simulated": error.code == "simulated-root-refused",
        "freshness": str(freshness),
        "error": {"code": error.code, "message": error.message, **error.context()},
        "items": [],
        "warnings": [],
        "checks": check_documents(checks),
    }


def _head(*, command: str, outcome: str, at: datetime, unchecked: tuple[Unchecked, ...]) -> dict[str, JsonValue]:
    return {
        "schema": RESULT_SCHEMA,
        "command": command,
        "outcome": outcome,
        "at": rfc3339_text(at),
        "unchecked": [{"check": entry.check, "reason": entry.reason} for entry in unchecked],
    }


def _state(verified: VerifiedEvidence | VerifiedNrasToken | VerifiedServiceToken | VerifiedEar) -> dict[str, JsonValue]:
    simulated = not isinstance(verified, VerifiedNrasToken) and verified.simulated is True
    return {"simulated": simulated, "freshness": str(verified.freshness), "error": None}


def _evidence(verified: VerifiedEvidence) -> dict[str, JsonValue]:
    return {
        "evidence_digest": verified.evidence.digest.hex(),
        "ignored_items": list(verified.ignored),
        "items": [_item(item) for item in verified.items],
    }


def _warnings(cautions: Iterable[Caution]) -> list[JsonValue]:
    return [{"code": caution.code, "message": caution.message} for caution in cautions]


def _item(item: VerifiedItem) -> JsonValue:
    place: dict[str, JsonValue] = {} if item.machine is None else {"machine": item.machine, "role": item.role}
    chain: list[JsonValue] = [{"name": link.name, "detail": link.detail} for link in item.chain]
    return {"name": item.name, "kind": item.kind, **place, "claims": item.claims, "chain": chain}


def _relied_on(entry: ReliedOn) -> JsonValue:
    """Return the identity of an endorsement, so that an auditor can find the same one again."""
    facts: dict[str, JsonValue] = {
        "kind": entry.kind,
        "item": entry.item,
        "sha256": None if entry.sha256 is None else entry.sha256.hex(),
        "number": entry.number,
    }
    for name, seconds in (("begins", entry.begins), ("ends", entry.ends)):
        facts[name] = None if seconds is None else rfc3339_text(datetime.fromtimestamp(seconds, tz=UTC))
    return {name: value for name, value in facts.items() if value is not None}


def check_documents(checks: Iterable[Check], *, set_aside: frozenset[str] = frozenset()) -> list[JsonValue]:
    """Return checks; ``counts: false`` marks those of alternatives that do not hold, where others may."""
    return [
        {
            "id": check.id,
            "outcome": str(check.outcome),
            "tier": str(check.tier),
            "expected": check.expected,
            "got": check.got,
            "clause": check.clause,
            **({} if check.item is None else {"item": check.item}),
            **({} if check.branch is None else {"branch": check.branch, "counts": check.branch not in set_aside}),
        }
        for check in checks
    ]


def _only(error: AttestError) -> tuple[Check, ...]:
    """Return the failed check of a refusal that has no list of checks."""
    default = "freshness" if isinstance(error, BindingError) else "evidence.format"
    return (
        Check(
            id=error.check or default,
            outcome=Outcome.FAIL,
            expected=error.expected or "evidence that can be read",
            got=error.got or error.message,
            clause=error.clause or "",
        ),
    )
