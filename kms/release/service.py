"""A release from end to end: challenge, proof, decision, log, sealed keys, receipt.

Every released key was decided on current state, logged on disk, and sealed to the attested workload.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, Generic, TypeVar

from attest import Evidence, VerifiedEvidence
from attest.clock import ticks
from attest.errors import AttestError, EndorsementError, EvidenceError, VerificationError
from attest.release import Challenge, PassportRequest, Release, ReleaseRequest, SealedKey, seal, sign_note
from kms.controls.break_glass import BreakGlassService
from kms.controls.pace import GuestPace
from kms.domain.actors import Actor
from kms.domain.attesters import chip_and_image_of
from kms.domain.break_glass import limited_leases
from kms.domain.decide import Result
from kms.domain.disclosure import denial
from kms.domain.errors import UnavailableError
from kms.domain.lease_grants import NOTHING_GRANTED, Granted
from kms.domain.log_decisions import DECISION, refusal_body
from kms.domain.log_entries import LogEntry
from kms.domain.passports import VerifiedPassport
from kms.domain.secret import SecretBytes, wiped_after
from kms.log.publisher import require_size
from kms.release.challenges import OpenedChallenge
from kms.release.decision import Decided, appraise_all, decide_on, with_objections
from kms.release.dry_run import ReleaseTrial, assumed_nonce
from kms.release.exchange import Exchange
from kms.release.proofs import REFUSALS, strict_refusal, verify_proof
from kms.release.sealing import Seal, receipt, seal_keys
from kms.release.services import Services
from kms.release.snapshot import Snapshot, take_snapshot
from kms.store import ReadTransaction, WriteTransaction
from kms.telemetry import carried, stage, tee_of

_log = logging.getLogger("kms")
MAX_ATTEMPTS: Final = 3
"""Attempts of a release while keys or policies change during the decision."""
T = TypeVar("T")


S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class Concluded(Generic[S]):
    """Outcome of the transaction of a release.

    Attributes:
        decided: the decision, with the objections of leases and limits.
        sealed: the sealed keys; None for a denial.
        refusal: reason why nothing can be sealed to the workload's key, or None.
    """

    decided: Decided
    entry: LogEntry
    sealed: S | None
    refusal: VerificationError | None


class _StateChangedError(Exception):
    """A key, or a document of reference values in force, changed since the decision."""


class ReleaseService:
    """Challenges and releases."""

    def __init__(self, services: Services, *, pace: GuestPace | None = None) -> None:
        self._services = services
        self._pace = pace
        self._relaxations = BreakGlassService(services.kek)

    def challenge(self) -> Challenge:
        """Issue a challenge."""
        with stage("challenge"):
            return self._services.challenges.issue(at=self._services.clock())

    def release(
        self, request: ReleaseRequest | PassportRequest, *, caller: Actor | None = None, log_size: int | None = None
    ) -> Release:
        """Decide on a request and release all of its keys, or none.

        For an identified caller, keys of tenants in which it lacks the role ``workload`` count as unknown. Attestation
        is required as well. With ``log_size``, the release includes the consistency proof from that size of the log.

        Every decision uses up the challenge. ``UnavailableError`` and ``EndorsementError`` do not: nothing was decided,
        and the same request may be sent again. Only with the code ``store-outcome-unknown`` it may be used up, because
        the connection to the database was lost while the decision was being written.

        Raises:
            ChallengeError: not a challenge of this service, out of time, or (``ChallengeUsedError``) used before.
            EvidenceError: the evidence is malformed.
            VerificationError: the evidence is not genuine, not bound to this exchange, or names no key to seal to.
            EndorsementError: an endorsement of a vendor is missing or stale.
            ReleaseDeniedError: the release is denied; ``KeyUnknownError`` if a key does not exist.
            LogTileUnknownError: the log is shorter than ``log_size``; nothing was decided.
            RateLimitedError: the guest, or its machine, requests too often.
            UnavailableError: the database is in use, or the clock is wrong.
            IntegrityError: a stored key or policy was altered.
        """
        at = self._services.clock()
        # (1) The challenge is of this service and in time.
        challenge = self._services.challenges.open(request.challenge, at=at)
        exchange = self._exchange(request, challenge, caller=caller, at=at, log_size=log_size)
        concluded = self.conclude(exchange, seal_keys)
        # (7) The receipt, and the proof that the log contains the entry, for later verification.
        return self._proven(exchange, concluded.decided, concluded.sealed or (), concluded.entry)

    def conclude(self, exchange: Exchange, seal: Seal[S]) -> Concluded[S]:
        """Do steps (2) to (6) of a release of any protocol, and return an allowed release; as ``release``."""
        return _until_unchanged(partial(self._attempt, exchange, seal))

    def _attempt(self, exchange: Exchange, seal: Seal[S]) -> Concluded[S]:
        services = self._services
        # (2) The challenge was not used before, which step (6) checks again. One snapshot of keys, policies, controls.
        with services.store.reading() as tx:
            if exchange.log_size is not None:
                require_size(tx, exchange.log_size)
            exchange.require_unused(tx)
            snapshot = take_snapshot(tx, exchange, self._relaxations)
        # (3) The evidence is genuine and answers this challenge, from this service, for this purpose.
        try:
            with stage("verify", tee=tee_of(exchange.request.evidence)):
                verified = verify_proof(services, exchange, snapshot.policies)
        except REFUSALS as exc:
            error = strict_refusal(services, exchange, snapshot) or exc
            if not isinstance(error, EndorsementError):
                services.store.write(partial(_conclude_refusal, exchange, snapshot, exc))
            raise error from exc
        # (3.1) The rate of the guest; if it is exceeded, nothing is decided, and the challenge stays valid.
        self.require_pace(verified)
        # (4) The policy of each key appraises the evidence, and one decision is made on all.
        with stage("decide"):
            results = appraise_all(verified, snapshot.policies, exchange)
            decided = decide_on(exchange, snapshot, verified, results)
            strict = strict_refusal(services, exchange, snapshot)
        # (5) Keys are unwrapped before anything is written, so that a failure changes nothing.
        with stage("unwrap"):
            secrets = self._unwrapped(decided)
        # (6) The challenge is used up and the decision logged, both on disk, before any key is sent.
        with wiped_after(secrets.values()), stage("log"):
            conclude = partial(self._conclude, exchange, decided, strict, partial(seal, secrets=secrets))
            concluded = services.store.write(carried(conclude))
        decided, entry = concluded.decided, concluded.entry
        if concluded.refusal is not None:
            raise concluded.refusal
        if decided.under_break_glass:
            _log.warning("BREAK-GLASS: a decision was made under break-glass, see entry %d of the log", entry.seq)
        if not decided.allows:
            levels = decided.snapshot.disclosures
            raise strict or denial(decided.decision, requested=exchange.request.key_ids, levels=levels)
        return concluded

    def _proven(self, exchange: Exchange, decided: Decided, sealed: tuple[SealedKey, ...], entry: LogEntry) -> Release:
        identity = self._services.identity
        with stage("prove"):
            proof = self._services.log.proof(entry.seq, since=exchange.log_size)
        text = receipt(exchange, decided, sealed, decision_digest=entry.leaf_hash)
        note = sign_note(text, name=identity.public.name, key=identity.key)
        logged, consistency = proof.inclusion.to_text(), proof.consistency
        return Release(keys=sealed, receipt=note, entry=entry.raw, proof=logged, consistency=consistency)

    def require_pace(self, verified: VerifiedEvidence | VerifiedPassport) -> None:
        """Refuse a guest, or a machine, that asks too often.

        Raises:
            RateLimitedError: it does.
        """
        if self._pace is None or not isinstance(verified, VerifiedEvidence):
            return
        chip, image = chip_and_image_of(verified)
        if chip is not None:
            self._pace.require(chip, image, at=ticks())

    def _conclude(
        self,
        exchange: Exchange,
        decided: Decided,
        strict: AttestError | None,
        seal: Callable[..., S],
        tx: WriteTransaction,
    ) -> Concluded[S]:
        """Do step (6), in one transaction that sees the state of the decision."""
        # (6.1) The challenge is used up, and the state is that of the decision.
        exchange.use_up(tx)
        _require_unchanged(tx, decided.snapshot)
        # (6.2) Leases and limits in this transaction may turn it into a denial.
        decided = with_objections(tx, exchange, decided)
        if not decided.allows and isinstance(strict, EndorsementError):
            raise strict  # as for an unknown key: nothing was decided, and the challenge stays valid
        # (6.3) A release grants leases. The log entry names them, and each key is sealed with the entry's hash.
        granted = self._granted(tx, exchange, decided)
        entry = tx.log.prepare(kind=DECISION, at=exchange.at, body=decided.log_body(exchange, granted))
        try:
            with stage("wrap"):
                sealed = seal(exchange, decided, granted, decision_digest=entry.leaf_hash) if decided.allows else None
        except VerificationError as exc:  # the workload's key is invalid
            entry = _log_refusal(tx, exchange, decided.snapshot, exc)
            return Concluded(decided=decided, entry=entry, sealed=None, refusal=exc)
        # (6.4) Entry and leases are written.
        tx.log.append(entry)
        if decided.attester is not None:
            leases = tuple(granted.leases.values())
            tx.leases.grant(leases, replaced=granted.ends, attester=decided.attester)
        return Concluded(decided=decided, entry=entry, sealed=sealed, refusal=None)

    def try_release(
        self, evidence: Evidence, key_ids: tuple[str, ...], *, renews: tuple[str, ...] = (), at: datetime
    ) -> ReleaseTrial:
        """Run the steps of a release on this evidence, change nothing, and return the outcome at a moment.

        The evidence was collected for this service, under any challenge. ``key_ids`` and ``renews`` are those of a
        request.

        Raises:
            UnavailableError: the database is in use, or ``keys-changing``.
            IntegrityError: a stored key or policy was altered.
        """
        try:
            challenge = OpenedChallenge(nonce=assumed_nonce(evidence), expires_at=at)
        except EvidenceError as exc:
            return ReleaseTrial(requested=key_ids, at=at, decision=None, results={}, refusal=exc)
        request = ReleaseRequest(challenge="", evidence=evidence, key_ids=key_ids, renews=renews)
        exchange = self._exchange(request, challenge, caller=None, at=at)
        return _until_unchanged(partial(self._try, exchange))

    def _try(self, exchange: Exchange) -> ReleaseTrial:
        """Try once; keys, leases and limits are those of one transaction, the last."""
        services, results = self._services, dict[str, Result]()
        trial = partial(ReleaseTrial, requested=exchange.request.key_ids, at=exchange.at)
        with services.store.reading() as tx:
            snapshot = take_snapshot(tx, exchange, self._relaxations)
        try:
            verified = verify_proof(services, exchange, snapshot.policies)
            results = appraise_all(verified, snapshot.policies, exchange)
            decided = decide_on(exchange, snapshot, verified, results)
            with services.store.reading() as tx:
                _require_unchanged(tx, snapshot)
                decided = with_objections(tx, exchange, decided)
            if decided.decision.recipient is not None:
                seal(b"", recipient=decided.decision.recipient, info=b"")  # refuses an invalid key
        except REFUSALS as exc:
            return trial(decision=None, results=results, refusal=exc)
        floors = tuple(decided.floors.values())
        return trial(decision=decided.decision, results=results, floors=floors, refusal=None)

    def _exchange(
        self,
        request: ReleaseRequest | PassportRequest,
        challenge: OpenedChallenge,
        *,
        caller: Actor | None,
        at: datetime,
        log_size: int | None = None,
    ) -> Exchange:
        return Exchange(
            request=request,
            challenge=challenge,
            audience=self._services.identity.public.text,
            caller=caller,
            allow_simulated=self._services.allow_simulated,
            at=at,
            log_size=log_size,
        )

    def _unwrapped(self, decided: Decided) -> dict[str, SecretBytes]:
        """Unwrap the keys of an allowed release, by requested key."""
        if not decided.allows:
            return {}
        records = {state.asked: decided.snapshot.records[state.asked] for state in decided.decision.keys}
        return {one: self._services.kek.unwrap(r.wrapped, context=r.context) for one, r in records.items()}

    def _granted(self, tx: WriteTransaction, exchange: Exchange, decided: Decided) -> Granted:
        """Make the leases of a release, and end the holder's leases that they replace."""
        attester, keys = decided.attester, decided.decision.keys
        if attester is None:
            return NOTHING_GRANTED
        granted = self._services.leases.grant(
            keys=keys,
            attester=attester,
            evidence_digest=exchange.request.evidence.digest,
            log_seq=tx.log.head().seq + 1,
            held=tx.leases.held({state.name for state in keys}, holder=attester.holder, at=exchange.at),
            renews=exchange.request.renews,
            seconds={asked: record.lease_seconds for asked, record in decided.snapshot.records.items()},
            at=exchange.at,
        )
        return limited_leases(granted, keys)


def _require_unchanged(tx: ReadTransaction, before: Snapshot) -> None:
    """Start over if the inputs of the decision have changed."""
    if not tx.state.holds(before.noted):
        raise _StateChangedError  # rolls the transaction back


def _until_unchanged(attempt: Callable[[], T]) -> T:
    """Repeat an attempt while the state changes under it.

    Raises:
        UnavailableError: ``keys-changing``: it changed under each of ``MAX_ATTEMPTS``.
    """
    for _ in range(MAX_ATTEMPTS):
        try:
            return attempt()
        except _StateChangedError:
            continue
    raise UnavailableError(
        "the keys changed while their release was being decided", code="keys-changing", retryable=True
    )


def _conclude_refusal(exchange: Exchange, snapshot: Snapshot, error: AttestError, tx: WriteTransaction) -> None:
    """Use up the challenge and log the refusal of the proof."""
    exchange.use_up(tx)
    _log_refusal(tx, exchange, snapshot, error)


def _log_refusal(tx: WriteTransaction, exchange: Exchange, snapshot: Snapshot, error: AttestError) -> LogEntry:
    body = refusal_body(error, head=exchange.log_head, keys=snapshot.states.values())
    return tx.log.add(kind=DECISION, at=exchange.at, body=body)
