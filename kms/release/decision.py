"""The decision on a request, with its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from attest import Policy, VerifiedEvidence, appraise
from attest.encoding import JsonValue
from kms.controls.limit_rules import limit_objections
from kms.domain.attesters import attester_of
from kms.domain.decide import DenialReason, ReleaseDecision, ReleaseOutcome, Result, decide
from kms.domain.lease_grants import Granted
from kms.domain.lease_rules import lease_objections
from kms.domain.leases import Attester
from kms.domain.log_decisions import decision_body
from kms.domain.passports import VerifiedPassport, appraise_passport
from kms.leases.search import standing_stops
from kms.release.exchange import Exchange
from kms.release.snapshot import Snapshot
from kms.store import ReadTransaction

K = TypeVar("K")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A decision on a snapshot.

    Attributes:
        results: results of each key's policy, by requested key.
        floors: results of each floor, by its digest.
        attester: the workload that receives the keys; None for a denial.
    """

    snapshot: Snapshot
    results: Mapping[str, Result]
    floors: Mapping[bytes, Result]
    decision: ReleaseDecision
    attester: Attester | None

    @property
    def allows(self) -> bool:
        """True if the keys are released."""
        return self.decision.outcome is ReleaseOutcome.ALLOW

    @property
    def under_break_glass(self) -> bool:
        """True if a relaxation was in force for a key."""
        return any(state.break_glass for state in self.decision.keys)

    def log_body(self, exchange: Exchange, granted: Granted) -> dict[str, JsonValue]:
        """Return the body of the decision's log entry."""
        return decision_body(self.decision, head=exchange.log_head, results=self.results, granted=granted)


def appraise_all(
    verified: VerifiedEvidence | VerifiedPassport, policies: Mapping[K, Policy], exchange: Exchange
) -> dict[K, Result]:
    """Appraise a proof under the policy of each key, or by each floor; return the results under the same names."""
    if isinstance(verified, VerifiedPassport):
        return {one: appraise_passport(verified, policy=policy, at=exchange.at) for one, policy in policies.items()}
    return {one: appraise(verified, policy=policy, at=exchange.at) for one, policy in policies.items()}


def decide_on(
    exchange: Exchange,
    snapshot: Snapshot,
    verified: VerifiedEvidence | VerifiedPassport,
    results: Mapping[str, Result],
) -> Decided:
    """Combine all results into one decision. It is final after ``with_objections`` has checked leases and limits."""
    floors = appraise_all(verified, snapshot.floors, exchange)
    decision = _decision(exchange, snapshot, results, floors)
    recipient = decision.recipient
    attester = None if recipient is None else attester_of(verified, recipient=recipient)
    return Decided(snapshot=snapshot, results=results, floors=floors, decision=decision, attester=attester)


def with_objections(tx: ReadTransaction, exchange: Exchange, decided: Decided) -> Decided:
    """Deny a release if leases or limits in this transaction object to it."""
    attester = decided.attester
    if attester is None:
        return decided
    verified = (result.verified for result in decided.results.values())
    objections = (
        *_lease_objections(tx, exchange, decided, attester),
        *limit_objections(tx, keys=decided.decision.keys, attester=attester, verified=verified, at=exchange.at),
    )
    if not objections:
        return decided
    decision = _decision(exchange, decided.snapshot, decided.results, decided.floors, objections)
    return replace(decided, decision=decision, attester=None)


def _lease_objections(
    tx: ReadTransaction, exchange: Exchange, decided: Decided, attester: Attester
) -> tuple[DenialReason, ...]:
    names = {state.name for state in decided.decision.keys}
    return lease_objections(
        renews=exchange.request.renews,
        states=tx.leases.states(exchange.request.renews),
        stops=standing_stops(tx, names, attester=attester),
        requested=names,
        attester=attester,
        at=exchange.at,
    )


def _decision(
    exchange: Exchange,
    snapshot: Snapshot,
    results: Mapping[str, Result],
    floors: Mapping[bytes, Result],
    objections: tuple[DenialReason, ...] = (),
) -> ReleaseDecision:
    return decide(
        requested=exchange.request.key_ids,
        keys=snapshot.states,
        results=results,
        demand=exchange.demand,
        at=exchange.at,
        floors=floors,
        objections=(*exchange.objections, *objections),
    )
