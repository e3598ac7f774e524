"""A release from end to end: challenge, proof, decision, log, sealed keys, receipt.

What leaves here was decided on the state of the moment, is in the log and on the disk, and can be opened by the
workload that proved itself and by nobody else.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final

from attest import (
    Evidence,
    ExpectedBinding,
    Policy,
    VerifiedEvidence,
    appraise,
    verify,
)
from attest.encoding import JsonValue
from attest.errors import AttestError, EndorsementError, EvidenceError, VerificationError
from attest.evidence.gpu.tolerances import NO_DEVICE_TOLERANCES
from attest.release import CONTEXT, Challenge, Release, ReleaseRequest, SealedKey, release_info, seal, sign_note
from attest.release.passports import PassportRequest
from attest.release.wire import ROLE, receipt_text
from kms.controls.break_glass import GlassDesk
from kms.controls.limit_rules import limit_objections
from kms.domain.actors import Actor
from kms.domain.attesters import attester_of, passport_attester
from kms.domain.break_glass import within_glass
from kms.domain.decide import DenialReason, KeyState, ReleaseDecision, ReleaseOutcome, ReleaseTerms, Result, decide
from kms.domain.disclosure import hides, told
from kms.domain.errors import UnavailableError
from kms.domain.keys import KeyPurpose, KeyReference
from kms.domain.lease_grants import NOTHING_GRANTED, Granted
from kms.domain.lease_rules import lease_objections
from kms.domain.log_decisions import DECISION, decision_body, refusal_body
from kms.domain.log_entries import LogEntry
from kms.domain.passports import VerifiedPassport, appraise_passport
from kms.domain.secret import EXPORT, SecretBytes, wiped_after
from kms.leases import Attester
from kms.leases.search import standing_stops
from kms.release.challenges import OpenedChallenge
from kms.release.dry_run import Trial, assumed_nonce
from kms.release.services import Services
from kms.release.snapshot import Snapshot, relaxed_by_all, take_snapshot, tolerated_by_all
from kms.store import ReadTransaction, WriteTransaction
from kms.telemetry import carried, stage, tee_of

__all__ = ["ReleaseService"]

_log = logging.getLogger("kms")
MAX_ATTEMPTS: Final = 3
"""How often a release starts over because a key or what judges for it changed while it was being decided."""
_PURPOSES = frozenset(map(str, KeyPurpose))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Exchange:
    """One request with the challenge that it answers, at one moment."""

    request: ReleaseRequest | PassportRequest
    challenge: OpenedChallenge
    caller: Actor | None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What was decided on a snapshot, with everything that goes into its log entry.

    Attributes:
        snapshot: what was decided on.
        decision: how.
        results: by what was asked for, what each key's policy says.
        secrets: likewise, the keys; none where the decision is a no.
        attester: whom a yes releases to; None where it is a no.
        strictly: what the workload is told instead of a no, see ``_strictly``.
    """

    snapshot: Snapshot
    decision: ReleaseDecision
    results: Mapping[str, Result]
    secrets: Mapping[str, SecretBytes]
    attester: Attester | None
    strictly: AttestError | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """What a transaction left behind.

    Attributes:
        outcome: as decided on what the transaction saw.
        entry: of the log.
        sealed: the keys; none where the decision is a no.
        refusal: why there is nobody to seal to, or None.
    """

    outcome: _Outcome
    entry: LogEntry
    sealed: tuple[SealedKey, ...]
    refusal: VerificationError | None


class _StateChangedError(Exception):
    """A key, or a document of reference values in force, is not what the decision was made on."""


class ReleaseService:
    """Challenges and releases.

    Args:
        services: everything it works with.
    """

    def __init__(self, services: Services) -> None:
        """Keep the services."""
        self._services = services
        self._audience = services.identity.public.text
        self._glass = GlassDesk(services.kek)

    def challenge(self) -> Challenge:
        """Issue a challenge."""
        with stage("challenge"):
            return self._services.challenges.issue(at=self._services.clock())

    def release(self, request: ReleaseRequest | PassportRequest, *, caller: Actor | None = None) -> Release:
        """Decide on a request and release all of its keys, or none.

        With a caller, keys of tenants in which they have not the role ``workload`` do not exist, at the moment of the
        decision. That the workload proves itself is demanded all the same.

        A challenge is used up by every decision, yes or no. It is not when the answer is ``UnavailableError`` or
        ``EndorsementError``: nothing was decided then, and the same request may be sent again. With the one code
        ``store-outcome-unknown`` it may be used up: the database went away while the decision was being written.

        Raises:
            ChallengeError: the challenge is not ours, or not in time, or (``ChallengeUsedError``) was used before.
            EvidenceError: the evidence is malformed.
            VerificationError: the evidence is not genuine, not bound to this exchange, or names no key to seal to.
            EndorsementError: something a vendor says is missing or stale.
            ReleaseDeniedError: the decision was no; ``KeyUnknownError`` when a key does not exist.
            UnavailableError: the database is in use, or the clock is wrong.
            IntegrityError: a stored key or policy is not what it says.
        """
        at = self._services.clock()
        # (1) The challenge is ours and in time.
        challenge = self._services.challenges.open(request.challenge, at=at)
        exchange = _Exchange(request=request, challenge=challenge, caller=caller, at=at)
        for _ in range(MAX_ATTEMPTS):
            try:
                return self._attempt(exchange)
            except _StateChangedError:
                continue
        raise _keys_changing()

    def try_release(
        self, evidence: Evidence, key_ids: tuple[str, ...], *, renews: tuple[str, ...] = (), at: datetime
    ) -> Trial:
        """Say what a release on this evidence would come to, and change nothing.

        Args:
            evidence: collected for this service, under whatever challenge.
            key_ids: the keys, as they would be asked for.
            renews: leases that would be named.
            at: the moment for which to judge.

        Raises:
            UnavailableError: the database is in use, or ``keys-changing``.
            IntegrityError: a stored key or policy is not what it says.
        """
        try:
            challenge = OpenedChallenge(nonce=assumed_nonce(evidence), issued_at=at, expires_at=at)
        except EvidenceError as exc:
            return Trial(requested=key_ids, at=at, decision=None, results={}, refusal=exc)
        request = ReleaseRequest(challenge="", evidence=evidence, key_ids=key_ids, renews=renews)
        exchange = _Exchange(request=request, challenge=challenge, caller=None, at=at)
        for _ in range(MAX_ATTEMPTS):
            try:
                return self._tried(exchange)
            except _StateChangedError:
                continue
        raise _keys_changing()

    def _tried(self, exchange: _Exchange) -> Trial:
        """Try once; what is told of keys, leases and limits is told of one transaction, the last."""
        key_ids, at = exchange.request.key_ids, exchange.at
        results: dict[str, Result] = {}
        with self._services.store.reading() as tx:
            snapshot = take_snapshot(tx, key_ids, caller=None, glass=self._glass, at=at)
        try:
            verified = self._verify(exchange, snapshot.policies)
            results = {one: _appraised(verified, policy, at=at) for one, policy in snapshot.policies.items()}
            outcome = self._outcome(exchange, snapshot, verified, results)
            with self._services.store.reading() as tx:
                self._require_unchanged(tx, exchange, snapshot)
                decision = self._objected(tx, exchange, outcome).decision
            if decision.recipient is not None:
                seal(b"", recipient=decision.recipient, info=b"")  # whether anything can be sealed to it
        except (EvidenceError, VerificationError, EndorsementError) as exc:
            return Trial(requested=key_ids, at=at, decision=None, results=results, refusal=exc)
        return Trial(requested=key_ids, at=at, decision=decision, results=results, refusal=None)

    def _require_unchanged(self, tx: ReadTransaction, exchange: _Exchange, before: Snapshot) -> None:
        """Start over unless this transaction sees what the decision was made on."""
        key_ids = exchange.request.key_ids
        now = take_snapshot(tx, key_ids, caller=exchange.caller, glass=self._glass, at=exchange.at)
        if (now.records, now.states) != (before.records, before.states):
            raise _StateChangedError  # which takes back what was written

    def _attempt(self, exchange: _Exchange) -> Release:
        request, at = exchange.request, exchange.at
        # (2) The challenge was not used before, which is asked again when it is used up (6). The keys and the policies
        # that guard them.
        with self._services.store.reading() as tx:
            tx.nonces.require_unused(exchange.challenge.nonce_digest)
            snapshot = take_snapshot(
                tx, exchange.request.key_ids, caller=exchange.caller, glass=self._glass, at=exchange.at
            )
        # (3) The evidence is genuine and answers this challenge, from this service, for this purpose.
        try:
            with stage("verify", tee=tee_of(request.evidence)):
                verified = self._verify(exchange, snapshot.policies)
        except (EvidenceError, VerificationError, EndorsementError) as exc:
            error = self._strictly(exchange, snapshot) or exc
            if not isinstance(error, EndorsementError):
                self._record_refusal(exc, exchange, snapshot)
            raise error from exc
        # (4) Each key's own policy judges it, and one decision is made of all.
        with stage("decide"):
            results = {one: _appraised(verified, policy, at=at) for one, policy in snapshot.policies.items()}
            outcome = self._outcome(exchange, snapshot, verified, results)
        # (5) Keys that do not open are found out before anything is written.
        with stage("unwrap"):
            outcome = replace(outcome, secrets=self._unwrapped(outcome.decision, snapshot))
        # (6) Challenge used up, decision logged, both on the disk; then, and only then, the keys leave.
        with wiped_after(outcome.secrets.values()):
            return self._conclude(exchange, outcome)

    def _outcome(
        self,
        exchange: _Exchange,
        snapshot: Snapshot,
        verified: VerifiedEvidence | VerifiedPassport,
        results: Mapping[str, Result],
    ) -> _Outcome:
        """Decide; no key is opened yet."""
        decision = self._decided(exchange, snapshot, results)
        return _Outcome(
            snapshot=snapshot,
            decision=decision,
            results=results,
            secrets={},
            attester=None if decision.recipient is None else _attester(verified, recipient=decision.recipient),
            strictly=self._strictly(exchange, snapshot),
        )

    def _decided(
        self,
        exchange: _Exchange,
        snapshot: Snapshot,
        results: Mapping[str, Result],
        objections: tuple[DenialReason, ...] = (),
    ) -> ReleaseDecision:
        return decide(
            requested=exchange.request.key_ids,
            keys=snapshot.states,
            results=results,
            demand=self._demand(exchange),
            at=exchange.at,
            objections=objections,
        )

    def _verify(self, exchange: _Exchange, policies: Mapping[str, Policy]) -> VerifiedEvidence | VerifiedPassport:
        """Verify what proves the workload: a passport, which no policy relaxes, or evidence."""
        request = exchange.request
        if isinstance(request, PassportRequest):
            return self._services.passports.verify(
                request,
                nonce=exchange.challenge.nonce,
                tenants={KeyReference.parse(one).name.tenant for one in request.key_ids},
                at=exchange.at,
            )
        return self._verify_evidence(request.evidence, exchange, policies)

    def _verify_evidence(
        self, evidence: Evidence, exchange: _Exchange, policies: Mapping[str, Policy]
    ) -> VerifiedEvidence:
        """Verify with what is at hand; when that does not suffice, and a vendor may be asked, with what it answers."""
        services, at = self._services, exchange.at
        expected = ExpectedBinding(context=CONTEXT, role=ROLE, audience=self._audience, nonce=exchange.challenge.nonce)
        verify_with = partial(
            verify,
            evidence,
            anchors=services.anchors,
            at=at,
            expected=expected,
            unchecked=relaxed_by_all(policies),
            tolerances=tolerated_by_all(policies),
        )
        pool = services.endorsements.current(at=at)
        try:
            return verify_with(endorsements=pool)
        except EndorsementError:
            more = services.endorsements.fetched(evidence, at=at)
            if more is None:
                raise
        return verify_with(endorsements=pool.merged(more))

    def _demand(self, exchange: _Exchange) -> ReleaseTerms:
        return ReleaseTerms(
            context=CONTEXT,
            role=ROLE,
            audience=self._audience,
            nonce=exchange.challenge.nonce,
            purposes=_PURPOSES,
            allow_simulated=self._services.allow_simulated,
        )

    def _unwrapped(self, decision: ReleaseDecision, snapshot: Snapshot) -> dict[str, SecretBytes]:
        if decision.verdict is not ReleaseOutcome.ALLOW:
            return {}
        records = {state.asked: snapshot.records[state.asked] for state in decision.keys}
        return {one: self._services.kek.unwrap(r.wrapped, context=r.context) for one, r in records.items()}

    def _record_refusal(self, error: AttestError, exchange: _Exchange, snapshot: Snapshot) -> None:
        def record(tx: WriteTransaction) -> None:
            _use_up(tx, exchange)
            tx.log.append(self._refusal(tx, error, exchange, snapshot))

        self._services.store.write(record)

    def _refusal(self, tx: WriteTransaction, error: AttestError, exchange: _Exchange, snapshot: Snapshot) -> LogEntry:
        body = refusal_body(
            error,
            nonce_digest=exchange.challenge.nonce_digest,
            evidence=exchange.request.evidence,
            requested=exchange.request.key_ids,
            keys=snapshot.states.values(),
            at=exchange.at,
            allow_simulated=self._services.allow_simulated,
        )
        return tx.log.prepare(kind=DECISION, at=exchange.at, body={**body, **_caller(exchange)})

    def _conclude(self, exchange: _Exchange, outcome: _Outcome) -> Release:
        """Use the challenge up and log the decision, in one transaction that still sees what was decided on."""
        with stage("log"):
            written = self._services.store.write(carried(partial(self._written, exchange, outcome)))
        if written.refusal is not None:
            raise written.refusal
        outcome, entry, sealed = written.outcome, written.entry, written.sealed
        if any(state.break_glass for state in outcome.decision.keys):
            _log.warning("BREAK-GLASS: a decision was made under it, see entry %d of the log", entry.seq)
        if outcome.decision.verdict is not ReleaseOutcome.ALLOW:
            raise self._told(exchange, outcome)
        # (7) The log's word for it: the entry is there, and whoever keeps the proof can show it.
        with stage("prove"):
            proof = self._services.log.proof(entry.seq).to_text()
        receipt = self._receipt(exchange, outcome, sealed, entry.leaf_hash)
        return Release(keys=sealed, receipt=receipt, entry=entry.raw, proof=proof)

    def _told(self, exchange: _Exchange, outcome: _Outcome) -> AttestError:
        """Make the error of a no: as much as the keys disclose; where that is nothing, what an unknown key gives."""
        if outcome.strictly is not None:
            return outcome.strictly
        levels = {asked: record.disclosure for asked, record in outcome.snapshot.records.items()}
        return told(outcome.decision, requested=exchange.request.key_ids, levels=levels)

    def _strictly(self, exchange: _Exchange, snapshot: Snapshot) -> AttestError | None:
        """Return what the evidence would be refused for if no policy relaxed anything.

        What a policy leaves unchecked shows that there is one. So a key of which nothing is told answers a refusal as
        an unknown key does, which has no policy.
        """
        levels = {asked: record.disclosure for asked, record in snapshot.records.items()}
        relaxes = relaxed_by_all(snapshot.policies) or tolerated_by_all(snapshot.policies) != NO_DEVICE_TOLERANCES
        if not relaxes or hides(exchange.request.key_ids, levels) is None:
            return None
        try:
            self._verify(exchange, {})
        except (EvidenceError, VerificationError, EndorsementError) as exc:
            return exc
        return None

    def _written(self, exchange: _Exchange, outcome: _Outcome, tx: WriteTransaction) -> _Written:
        """Do the part of it that a transaction holds together."""
        _use_up(tx, exchange)
        self._require_unchanged(tx, exchange, outcome.snapshot)
        outcome = self._objected(tx, exchange, outcome)
        if outcome.decision.verdict is not ReleaseOutcome.ALLOW and isinstance(outcome.strictly, EndorsementError):
            raise outcome.strictly  # as for an unknown key: nothing was decided, and the challenge still counts
        granted = self._leases(tx, exchange, outcome)
        entry = tx.log.prepare(kind=DECISION, at=exchange.at, body=self._body(exchange, outcome, granted))
        try:
            with stage("wrap"):
                sealed = self._sealed(exchange, outcome, granted, entry.leaf_hash)
        except VerificationError as exc:  # the workload's key is none
            entry = self._refusal(tx, exc, exchange, outcome.snapshot)
            tx.log.append(entry)
            return _Written(outcome=outcome, entry=entry, sealed=(), refusal=exc)
        tx.log.append(entry)
        if outcome.attester is not None:
            tx.leases.add(tuple(granted.leases.values()), attester=outcome.attester)
            tx.leases.end(granted.ends)
        return _Written(outcome=outcome, entry=entry, sealed=sealed, refusal=None)

    def _objected(self, tx: ReadTransaction, exchange: _Exchange, outcome: _Outcome) -> _Outcome:
        """Decide again where leases or limits, as this transaction sees them, stand against it: then it is a no."""
        attester, names = outcome.attester, {state.name for state in outcome.decision.keys}
        if attester is None:
            return outcome
        objections = lease_objections(
            renews=exchange.request.renews,
            states=tx.leases.states(exchange.request.renews),
            stops=standing_stops(tx, names, attester=attester),
            requested=names,
            attester=attester,
            at=exchange.at,
        )
        verified = (result.verified for result in outcome.results.values())
        limited = limit_objections(tx, keys=outcome.decision.keys, attester=attester, verified=verified, at=exchange.at)
        objections = (*objections, *limited)
        if not objections:
            return outcome
        decision = self._decided(exchange, outcome.snapshot, outcome.results, objections)
        return replace(outcome, decision=decision, secrets={}, attester=None)

    def _leases(self, tx: WriteTransaction, exchange: _Exchange, outcome: _Outcome) -> Granted:
        """Make the leases of a release, and end those of its holder that they take the place of."""
        attester, keys = outcome.attester, outcome.decision.keys
        if attester is None:
            return NOTHING_GRANTED
        held = tx.leases.held({state.name for state in keys}, holder=attester.holder, at=exchange.at)
        granted = self._services.leases.grant(
            keys=keys,
            attester=attester,
            evidence_digest=exchange.request.evidence.digest,
            log_seq=tx.log.head().seq + 1,
            held=held,
            renews=exchange.request.renews,
            seconds={asked: record.lease_seconds for asked, record in outcome.snapshot.records.items()},
            at=exchange.at,
        )
        return within_glass(granted, keys)

    def _body(self, exchange: _Exchange, outcome: _Outcome, granted: Granted) -> dict[str, JsonValue]:
        body = decision_body(
            outcome.decision,
            nonce_digest=exchange.challenge.nonce_digest,
            evidence=exchange.request.evidence,
            requested=exchange.request.key_ids,
            results=outcome.results,
            allow_simulated=self._services.allow_simulated,
            leases=granted.leases,
        )
        return {**body, **_caller(exchange)}

    def _sealed(
        self, exchange: _Exchange, outcome: _Outcome, granted: Granted, decision_digest: bytes
    ) -> tuple[SealedKey, ...]:
        """Seal each key to the recipient of the decision; nobody, nothing."""
        recipient = outcome.decision.recipient
        if recipient is None:
            return ()
        return tuple(
            SealedKey(
                tenant=state.name.tenant,
                key_id=state.name.key_id,
                version=state.version,
                purpose=state.purpose,
                policy_digest=state.policy_digest,
                sealed=outcome.secrets[state.asked].lend(
                    EXPORT, partial(seal, recipient=recipient, info=self._info(exchange, state, decision_digest))
                ),
                lease_id=granted.leases[state.asked].lease_id,
                expires_at=granted.leases[state.asked].expires_at,
            )
            for state in outcome.decision.keys
        )

    def _info(self, exchange: _Exchange, state: KeyState, decision_digest: bytes) -> bytes:
        return release_info(
            audience=self._audience,
            nonce=exchange.challenge.nonce,
            evidence_digest=exchange.request.evidence.digest,
            tenant=state.name.tenant,
            key_id=state.name.key_id,
            version=state.version,
            purpose=state.purpose,
            policy_digest=state.policy_digest,
            decision_digest=decision_digest,
        )

    def _receipt(
        self, exchange: _Exchange, outcome: _Outcome, sealed: tuple[SealedKey, ...], decision_digest: bytes
    ) -> str:
        text = receipt_text(
            audience=self._audience,
            nonce=exchange.challenge.nonce,
            evidence_digest=exchange.request.evidence.digest,
            decision_digest=decision_digest,
            keys=sealed,
            released_at=outcome.decision.at,
            simulated=any(result.verified.simulated for result in outcome.results.values()),
            break_glass=any(state.break_glass for state in outcome.decision.keys),
        )
        identity = self._services.identity
        return sign_note(text, name=identity.public.name, key=identity.key)


def _appraised(verified: VerifiedEvidence | VerifiedPassport, policy: Policy, *, at: datetime) -> Result:
    if isinstance(verified, VerifiedPassport):
        return appraise_passport(verified, policy=policy, at=at)
    return appraise(verified, policy=policy, at=at)


def _attester(verified: VerifiedEvidence | VerifiedPassport, *, recipient: bytes) -> Attester:
    if isinstance(verified, VerifiedPassport):
        return passport_attester(verified, recipient=recipient)
    return attester_of(verified, recipient=recipient)


def _keys_changing() -> UnavailableError:
    return UnavailableError(
        "the keys changed while their release was being decided", code="keys-changing", retryable=True
    )


def _use_up(tx: WriteTransaction, exchange: _Exchange) -> None:
    challenge = exchange.challenge
    tx.nonces.use(challenge.nonce_digest, expires_at=challenge.expires_at, at=exchange.at)


def _caller(exchange: _Exchange) -> dict[str, JsonValue]:
    """Say who asked, where the service wants to know."""
    return {} if exchange.caller is None else {"caller": exchange.caller.members()}
