"""Dependencies of requests of the release plane; ``kms.operations.services`` opens them from settings."""

from __future__ import annotations

from dataclasses import dataclass

from attest import TrustAnchors
from attest.clock import Clock
from kms.domain.lease_grants import LeaseIssuer
from kms.keys.wrapping.keyring import KekRing
from kms.log.publisher import Identity, LogPublisher
from kms.release.challenges import ChallengeIssuer
from kms.release.endorsement_provider import EndorsementProvider
from kms.release.passports import PassportVerifier
from kms.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The dependencies of a request, passed explicitly."""

    store: Store
    kek: KekRing
    identity: Identity
    log: LogPublisher
    challenges: ChallengeIssuer
    leases: LeaseIssuer
    passports: PassportVerifier
    endorsements: EndorsementProvider
    anchors: TrustAnchors
    clock: Clock
    allow_simulated: bool
