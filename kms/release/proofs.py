"""Verification of a workload's proof: evidence, or a passport."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial

from attest import Evidence, ExpectedBinding, ExpectedRuntimeData, Policy, VerifiedEvidence, verify
from attest.errors import AttestError, EndorsementError, EvidenceError, VerificationError
from attest.evidence import NO_DEVICE_TOLERANCES
from attest.release import PassportRequest
from kms.domain.disclosure import hides
from kms.domain.keys import KeyReference
from kms.domain.passports import VerifiedPassport
from kms.release.exchange import Exchange, TokenRequest
from kms.release.services import Services
from kms.release.snapshot import Snapshot, relaxed_by_all, tolerated_by_all

REFUSALS = (EvidenceError, VerificationError, EndorsementError)
"""Errors that refuse a proof. After an ``EndorsementError`` the same request may be sent again."""


def verify_proof(
    services: Services, exchange: Exchange, policies: Mapping[str, Policy]
) -> VerifiedEvidence | VerifiedPassport:
    """Verify evidence as strictly as the strictest policy demands, or a passport, which no policy relaxes.

    Raises:
        EvidenceError: the evidence is malformed.
        VerificationError: it is not genuine, or not bound to this exchange.
        EndorsementError: an endorsement is missing or stale.
    """
    request = exchange.request
    if isinstance(request, TokenRequest):
        return request.require()
    if isinstance(request, PassportRequest):
        return services.passports.verify(
            request,
            nonce=exchange.challenge.nonce,
            tenants={KeyReference.parse(one).name.tenant for one in request.key_ids},
            at=exchange.at,
        )
    verified = verify_evidence(
        services, request.evidence, expected=exchange.expected, policies=policies, at=exchange.at
    )
    return exchange.bound(verified)


def verify_evidence(
    services: Services,
    evidence: Evidence,
    *,
    expected: ExpectedBinding | ExpectedRuntimeData,
    policies: Mapping[str, Policy],
    at: datetime,
) -> VerifiedEvidence:
    """Verify with local endorsements; if they do not suffice and fetching is allowed, fetch the missing ones.

    Raises:
        EvidenceError: the evidence is malformed.
        VerificationError: it is not genuine, or does not carry what is expected.
        EndorsementError: an endorsement is missing or stale.
    """
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


def strict_refusal(services: Services, exchange: Exchange, snapshot: Snapshot) -> AttestError | None:
    """Return the refusal that the proof would get if no policy relaxed anything, or None.

    A relaxation would reveal that a policy exists. A key that discloses nothing therefore refuses as an unknown key
    does, which has no policy.
    """
    policies = snapshot.policies
    relaxes = relaxed_by_all(policies) or tolerated_by_all(policies) != NO_DEVICE_TOLERANCES
    if not relaxes or hides(exchange.request.key_ids, snapshot.disclosures) is None:
        return None
    try:
        verify_proof(services, exchange, {})
    except REFUSALS as exc:
        return exc
    return None
