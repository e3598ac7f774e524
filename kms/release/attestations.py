"""Attestations through another protocol that release no key: verified and appraised evidence, and a log entry.

A machine that a freeze stops gets no attestation either, because a token of this service can open keys elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from attest import Evidence, ExpectedRuntimeData, Policy, VerifiedEvidence, appraise
from attest.errors import VerificationError
from kms.domain.devices import products_of
from kms.domain.freezes import Freeze, Scope, frozen_products
from kms.release.attestation_records import AttestationRecord, attestation_body
from kms.release.proofs import verify_evidence
from kms.release.service import ReleaseService
from kms.release.services import Services
from kms.store import WriteTransaction

_CLAUSE: Final = "docs/brakes.md"


class Attestations:
    """Attestations of one foreign protocol."""

    def __init__(self, services: Services, releases: ReleaseService) -> None:
        self._services = services
        self._releases = releases

    def appraised(self, evidence: Evidence, *, runtime_digest: bytes, policy: Policy, at: datetime) -> VerifiedEvidence:
        """Verify evidence that commits to runtime data, and require that it meets a policy and that nothing stops it.

        Raises:
            EvidenceError: it is malformed.
            VerificationError: it is not genuine, does not commit to the runtime data, or its product is frozen.
            EndorsementError: an endorsement is missing or stale.
            AppraisalError: it does not meet the policy.
            RateLimitedError: the machine attests too often.
            UnavailableError: the database is in use.
        """
        # (1) The evidence is genuine and commits to the runtime data; only the policy relaxes anything.
        expected = ExpectedRuntimeData(digest=runtime_digest, device_digest=runtime_digest)
        verified = verify_evidence(self._services, evidence, expected=expected, policies={"": policy}, at=at)
        self._releases.require_pace(verified)
        # (2) No freeze stops it.
        with self._services.store.reading() as tx:
            _require_not_frozen(verified, tx.freezes.all())
        # (3) It meets the policy.
        appraise(verified, policy=policy, at=at).require()
        return verified

    def record(self, record: AttestationRecord, *, at: datetime) -> None:
        """Log an attestation, or its refusal.

        Raises:
            UnavailableError: the database is in use.
        """
        body = attestation_body(record, nonce_digest=None)

        def write(tx: WriteTransaction) -> None:
            tx.log.add(kind=record.kind, at=at, body=body)

        self._services.store.write(write)


def _require_not_frozen(verified: VerifiedEvidence, freezes: Iterable[Freeze]) -> None:
    found = tuple(freezes)
    if any(one.target.scope is Scope.ALL for one in found):
        raise _frozen("service-frozen", "this service attests nothing: everything is frozen")
    products = sorted(products_of(verified) & frozen_products(found))
    if products:
        raise _frozen("product-frozen", f"this service attests no evidence of {', '.join(products)}: it is frozen")


def _frozen(code: str, text: str) -> VerificationError:
    return VerificationError(text, code=code, expected="no freeze", got="a freeze", clause=_CLAUSE)
