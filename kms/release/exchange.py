"""Exchange: a request with its challenge, the argument of every step of a release."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar

from attest import ExpectedBinding, ExpectedRuntimeData, VerifiedEvidence
from attest.encoding import JsonValue
from attest.errors import AttestError
from attest.release import CONTEXT, ROLE, PassportRequest, ReleaseRequest
from kms.domain.actors import Actor
from kms.domain.decide import DenialReason, ReleaseTerms
from kms.domain.keys import KeyPurpose
from kms.domain.log_decisions import decision_head
from kms.domain.passports import PresentedToken, VerifiedPassport
from kms.domain.wires import Wire
from kms.release.challenges import OpenedChallenge
from kms.store import ReadTransaction, WriteTransaction

Verified = TypeVar("Verified", VerifiedEvidence, VerifiedPassport)
_VAULT: Final = frozenset({KeyPurpose.SKR_OCT, KeyPurpose.SKR_RSA, KeyPurpose.SKR_EC})
_PURPOSES: Final = {
    Wire.NATIVE: frozenset(map(str, frozenset(KeyPurpose) - _VAULT)),
    Wire.KBS: frozenset(map(str, KeyPurpose)),
    Wire.SKR: frozenset(map(str, {KeyPurpose.MODEL_KEY, *_VAULT})),
}
"""Purposes of the keys that each protocol can carry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """A request for keys on a token of another Verifier, which a foreign protocol presented.

    Attributes:
        outcome: the verified token, or its refusal.
    """

    evidence: PresentedToken
    outcome: VerifiedPassport | AttestError
    key_ids: tuple[str, ...]
    renews: tuple[str, ...] = ()

    def require(self) -> VerifiedPassport:
        """Return the verified token.

        Raises:
            AttestError: it was refused.
        """
        if isinstance(self.outcome, AttestError):
            raise self.outcome
        return self.outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request at one moment.

    Attributes:
        audience: the service's verifier key text.
        caller: identity of the caller; None if the service does not require one.
        allow_simulated: True if simulated evidence is accepted.
        log_size: size of the log that the workload has seen; None if it states none.
        via: the protocol of the request.
    """

    request: ReleaseRequest | PassportRequest | TokenRequest
    challenge: OpenedChallenge
    audience: str
    caller: Actor | None
    allow_simulated: bool
    at: datetime
    log_size: int | None = None
    via: Wire = Wire.NATIVE

    @property
    def purpose(self) -> tuple[str, str]:
        """Context and role of the proof."""
        return CONTEXT, ROLE

    @property
    def expected(self) -> ExpectedBinding | ExpectedRuntimeData:
        """Required binding or runtime data of the evidence."""
        context, role = self.purpose
        return ExpectedBinding(context=context, role=role, audience=self.audience, nonce=self.challenge.nonce)

    @property
    def objections(self) -> tuple[DenialReason, ...]:
        """Reasons against the release that the protocol adds."""
        return ()

    def bound(self, verified: Verified) -> Verified:
        """Return verified evidence with the binding that it proves: its own, as the native protocol has one."""
        return verified

    def use_up(self, tx: WriteTransaction) -> None:
        """Use up the challenge."""
        tx.nonces.use(self.challenge.nonce_digest, expires_at=self.challenge.expires_at, at=self.at)

    def require_unused(self, tx: ReadTransaction) -> None:
        """Refuse a challenge that was used before."""
        tx.nonces.require_unused(self.challenge.nonce_digest)

    @property
    def demand(self) -> ReleaseTerms:
        """Requirements of the decision on every result."""
        context, role = self.purpose
        return ReleaseTerms(
            context=context,
            role=role,
            audience=self.audience,
            nonce=self.challenge.nonce,
            purposes=_PURPOSES[self.via],
            allow_simulated=self.allow_simulated,
            via=self.via,
        )

    @property
    def log_head(self) -> dict[str, JsonValue]:
        """Members of a log entry about the request, and its caller if there is one."""
        head = decision_head(
            nonce_digest=self.challenge.nonce_digest,
            evidence_digest=self.request.evidence.digest,
            requested=self.request.key_ids,
            at=self.at,
            allow_simulated=self.allow_simulated,
            via=self.via,
        )
        return head if self.caller is None else {**head, "caller": self.caller.members()}
