"""Releases through another protocol than the native one: the one way in for such protocols.

A protocol has its own challenge and its own form of evidence, and seals to another kind of key. Policy, floors, limits,
freezes, leases, decision and log entry are those of every release.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from attest import Binding, Evidence, ExpectedRuntimeData, VerifiedEvidence
from kms.domain.decide import DenialReason
from kms.release.exchange import Exchange
from kms.release.proofs import verify_evidence
from kms.release.services import Services
from kms.store import ReadTransaction, WriteTransaction

__all__ = ["ForeignExchange", "ForeignTerms", "verify_foreign"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTerms:
    """What evidence of a foreign protocol proves once it verifies.

    Attributes:
        expected: what the evidence must carry.
        context: purpose of the proof, which names the protocol.
        role: of the prover.
        key: the key to encrypt to, to which the evidence commits.
    """

    expected: ExpectedRuntimeData
    context: str
    role: str
    key: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignExchange(Exchange):
    """An exchange of a foreign protocol, whose challenge was used up when the guest attested.

    Attributes:
        denials: reasons against the release that the protocol adds.
    """

    terms: ForeignTerms
    denials: tuple[DenialReason, ...] = ()

    @property
    def expected(self) -> ExpectedRuntimeData:
        """What the evidence must carry."""
        return self.terms.expected

    @property
    def objections(self) -> tuple[DenialReason, ...]:
        """Reasons against the release that the protocol adds."""
        return self.denials

    @property
    def purpose(self) -> tuple[str, str]:
        """Context and role of the proof."""
        return self.terms.context, self.terms.role

    def bound(self, verified: VerifiedEvidence) -> VerifiedEvidence:  # type: ignore[override]  # no passports here
        """Return verified evidence with the binding that it proves by its runtime data."""
        return _bound(verified, self.terms, audience=self.audience, nonce=self.challenge.nonce)

    def use_up(self, tx: WriteTransaction) -> None:
        """Do nothing: the challenge was used up when the guest attested."""

    def require_unused(self, tx: ReadTransaction) -> None:
        """Do nothing, as ``use_up``."""


def verify_foreign(
    services: Services, evidence: Evidence, terms: ForeignTerms, *, nonce: bytes, at: datetime
) -> VerifiedEvidence:
    """Verify evidence for a token; no policy relaxes anything.

    Raises:
        EvidenceError: it is malformed.
        VerificationError: it is not genuine, or does not carry what is expected.
        EndorsementError: an endorsement is missing or stale.
    """
    verified = verify_evidence(services, evidence, expected=terms.expected, policies={}, at=at)
    return _bound(verified, terms, audience=services.identity.public.text, nonce=nonce)


def _bound(verified: VerifiedEvidence, terms: ForeignTerms, *, audience: str, nonce: bytes) -> VerifiedEvidence:
    binding = Binding(context=terms.context, role=terms.role, audience=audience, nonce=nonce, key=terms.key)
    return verified._replace(binding=binding)
