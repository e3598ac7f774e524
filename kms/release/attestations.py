"""Attestations through another protocol that release no key: verified and appraised evidence, and a log entry.

A machine that a freeze or the floor of the service stops gets no attestation either, because a token of this service
can open keys elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from attest import Evidence, ExpectedRuntimeData, Policy, VerifiedEvidence, appraise
from attest.clock import ticks
from attest.errors import AppraisalError, VerificationError
from kms.controls.floors import floor_state, floors_of
from kms.controls.pace import RefusalPace
from kms.domain.decide import floor_objection
from kms.domain.devices import products_of
from kms.domain.floors import Floor
from kms.domain.freezes import Freeze, Scope, frozen_products
from kms.release.attestation_records import AttestationRecord, attestation_body
from kms.release.proofs import verify_evidence
from kms.release.service import ReleaseService
from kms.release.services import Services
from kms.store import WriteTransaction

REFUSALS_PER_MINUTE: Final = 60
"""Log entries about evidence that nothing proves genuine, which anyone can send."""
_CLAUSE: Final = "docs/brakes.md"
_log = logging.getLogger("kms")


class Attestations:
    """Attestations of one foreign protocol."""

    def __init__(self, services: Services, releases: ReleaseService, *, monotonic: Callable[[], float] = ticks) -> None:
        self._services = services
        self._releases = releases
        self._refusals = RefusalPace(REFUSALS_PER_MINUTE)
        self._monotonic = monotonic

    def verified(self, evidence: Evidence, *, runtime_digest: bytes, policy: Policy, at: datetime) -> VerifiedEvidence:
        """Verify evidence that commits to runtime data; only the policy relaxes anything.

        Raises:
            EvidenceError: it is malformed.
            VerificationError: it is not genuine, or does not commit to the runtime data.
            EndorsementError: an endorsement is missing or stale.
            RateLimitedError: the machine attests too often.
        """
        expected = ExpectedRuntimeData(digest=runtime_digest, device_digest=runtime_digest)
        verified = verify_evidence(self._services, evidence, expected=expected, policies={"": policy}, at=at)
        self._releases.require_pace(verified)
        return verified

    def require_admitted(self, verified: VerifiedEvidence, *, policy: Policy, at: datetime) -> None:
        """Require that evidence meets a policy and the floor of the service, and that no freeze stops it.

        Raises:
            VerificationError: its product is frozen.
            AppraisalError: it does not meet the policy, or is below the floor.
            UnavailableError: the database is in use.
        """
        with self._services.store.reading() as tx:
            _require_not_frozen(verified, tx.freezes.all())
            (floor,) = floors_of(tx, ())
        _require_not_below(floor, verified, at=at)
        appraise(verified, policy=policy, at=at).require()

    def record(self, record: AttestationRecord, *, at: datetime) -> None:
        """Log an attestation, or its refusal.

        Raises:
            UnavailableError: the database is in use.
        """
        body = attestation_body(record, nonce_digest=None)

        def write(tx: WriteTransaction) -> None:
            tx.log.add(kind=record.kind, at=at, body=body)

        self._services.store.write(write)

    def record_stranger(self, record: AttestationRecord, *, at: datetime) -> None:
        """Log the refusal of evidence that nothing proves genuine, at a limited rate.

        Raises:
            UnavailableError: the database is in use.
        """
        left_out = self._refusals.admit(at=self._monotonic())
        if left_out is None:
            _log.warning("a refused attestation has no entry in the log: there are too many, last %s", record.refusal)
            return
        members = {**record.members, "left_out": left_out} if left_out else record.members
        self.record(replace(record, members=members), at=at)


def _require_not_frozen(verified: VerifiedEvidence, freezes: Iterable[Freeze]) -> None:
    found = tuple(freezes)
    if any(one.target.scope is Scope.ALL for one in found):
        raise _frozen("service-frozen", "this service attests nothing: everything is frozen")
    products = sorted(products_of(verified) & frozen_products(found))
    if products:
        raise _frozen("product-frozen", f"this service attests no evidence of {', '.join(products)}: it is frozen")


def _require_not_below(floor: Floor, verified: VerifiedEvidence, *, at: datetime) -> None:
    state, policy = floor_state(floor, at=at), floor.policy(at)
    result = None if policy is None else appraise(verified, policy=policy, at=at)
    objection = None if state is None else floor_objection(state, result, at=at)
    if objection is not None:
        error = AppraisalError(objection.text, code=objection.code, clause=_CLAUSE)
        error.checks = objection.checks
        raise error


def _frozen(code: str, text: str) -> VerificationError:
    return VerificationError(text, code=code, expected="no freeze", got="a freeze", clause=_CLAUSE)
