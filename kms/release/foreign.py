"""Releases through another protocol than the native one: the one way in for such protocols.

A protocol has its own form of evidence and of sealed keys. Challenge, policy, floors, limits, freezes, leases, decision
and log entry are those of every release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from attest import Binding, Evidence, ExpectedRuntimeData, VerifiedEvidence
from attest.encoding import JsonValue
from attest.errors import AttestError
from attest.release import Challenge, KeyName, ReleaseRequest, unpad_secret
from kms.domain.decide import DenialReason, ReleaseOutcome
from kms.domain.keys import KeyPurpose
from kms.domain.lease_grants import Granted
from kms.domain.secret import EXPORT, SecretBytes
from kms.domain.wires import Wire
from kms.release.challenges import OpenedChallenge
from kms.release.decision import Decided
from kms.release.exchange import Exchange
from kms.release.proofs import verify_evidence
from kms.release.service import ReleaseService
from kms.release.services import Services
from kms.store import ReadTransaction, WriteTransaction

Encrypt = Callable[[bytes | memoryview], bytes]
"""Encrypts the material of a key to the prover's key, in the form of the protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTerms:
    """Statements that evidence of a foreign protocol proves once it verifies.

    Attributes:
        expected: what the evidence must carry.
        context: purpose of the proof, which names the protocol.
        role: of the prover.
        nonce: of the challenge, 32 bytes.
        key: the key to encrypt to, to which the evidence commits.
    """

    expected: ExpectedRuntimeData
    context: str
    role: str
    nonce: bytes
    key: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignProof:
    """Evidence with what it proves; the challenge was used up when the prover attested.

    Attributes:
        expires_at: the end of the prover's session, excluded.
    """

    evidence: Evidence
    terms: ForeignTerms
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestationRecord:
    """An attestation for the log: what the protocol says of it, and the refusal, or None."""

    kind: str
    members: Mapping[str, JsonValue]
    refusal: AttestError | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _ForeignExchange(Exchange):
    """An exchange of a foreign protocol.

    Attributes:
        denials: reasons against the release that the protocol adds.
    """

    terms: ForeignTerms
    denials: tuple[DenialReason, ...] = ()

    @property
    def expected(self) -> ExpectedRuntimeData:
        """Required runtime data of the evidence."""
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
        return _bound(verified, self.terms, audience=self.audience)

    def use_up(self, tx: WriteTransaction) -> None:
        """Do nothing: the challenge was used up when the prover attested."""

    def require_unused(self, tx: ReadTransaction) -> None:
        """Do nothing, as ``use_up``."""


class ForeignReleases:
    """Challenges, attestations and releases of one foreign protocol."""

    def __init__(self, services: Services, releases: ReleaseService, *, via: Wire) -> None:
        self._services = services
        self._releases = releases
        self._via = via

    def challenge(self) -> Challenge:
        """Issue a challenge. Nothing is stored."""
        return self._services.challenges.issue(at=self._services.clock())

    def open(self, challenge: str, *, at: datetime) -> OpenedChallenge:
        """Verify a challenge; whether it was used before is found by ``conclude_attestation``.

        Raises:
            ChallengeError: not of this service, or out of time.
        """
        return self._services.challenges.open(challenge, at=at)

    def verify(self, evidence: Evidence, terms: ForeignTerms, *, at: datetime) -> VerifiedEvidence:
        """Verify evidence for a token; no policy relaxes anything.

        Raises:
            EvidenceError: it is malformed.
            VerificationError: it is not genuine, or does not carry what is expected.
            EndorsementError: an endorsement is missing or stale.
        """
        verified = verify_evidence(self._services, evidence, expected=terms.expected, policies={}, at=at)
        return _bound(verified, terms, audience=self._services.identity.public.text)

    def conclude_attestation(self, challenge: OpenedChallenge, record: AttestationRecord, *, at: datetime) -> None:
        """Use up the challenge and log the attestation, or its refusal.

        Raises:
            ChallengeUsedError: it was used before; the log then has no entry of this attestation.
            UnavailableError: the database is in use.
        """
        refusal = record.refusal
        body: dict[str, JsonValue] = {
            "nonce_sha256": challenge.nonce_digest.hex(),
            **record.members,
            "outcome": str(ReleaseOutcome.ALLOW if refusal is None else ReleaseOutcome.DENY),
            "reasons": [] if refusal is None else [{"code": refusal.code, "text": refusal.message}],
        }

        def write(tx: WriteTransaction) -> None:
            tx.nonces.use(challenge.nonce_digest, expires_at=challenge.expires_at, at=at)
            tx.log.add(kind=record.kind, at=at, body=body)

        self._services.store.write(write)

    def release(
        self, name: KeyName, proof: ForeignProof, *, denial: str | None, encrypt: Encrypt, at: datetime
    ) -> bytes:
        """Decide on the release of a key, and return it encrypted to the prover's key.

        ``denial`` is a reason of the protocol against the release, or None; a protocol can refuse, and not allow.

        Raises:
            KeyUnknownError: there is no such key, or it discloses nothing.
            ReleaseDeniedError: the release is denied.
            AttestError: as ``ReleaseService.release``.
        """
        denials = () if denial is None else (DenialReason(code="resource-policy", key_id=None, text=denial),)
        exchange = _ForeignExchange(
            request=ReleaseRequest(challenge="", evidence=proof.evidence, key_ids=(str(name),)),
            challenge=OpenedChallenge(nonce=proof.terms.nonce, expires_at=proof.expires_at),
            audience=self._services.identity.public.text,
            caller=None,
            allow_simulated=self._services.allow_simulated,
            at=at,
            via=self._via,
            terms=proof.terms,
            denials=denials,
        )
        sealed = self._releases.conclude(exchange, partial(_sealed, encrypt=encrypt)).sealed
        return b"" if sealed is None else sealed


def _bound(verified: VerifiedEvidence, terms: ForeignTerms, *, audience: str) -> VerifiedEvidence:
    binding = Binding(context=terms.context, role=terms.role, audience=audience, nonce=terms.nonce, key=terms.key)
    return verified._replace(binding=binding)


def _sealed(
    _exchange: Exchange,
    decided: Decided,
    _granted: Granted,
    /,
    *,
    secrets: Mapping[str, SecretBytes],
    decision_digest: bytes,  # noqa: ARG001  foreign protocols have no place for it
    encrypt: Encrypt,
) -> bytes:
    """Encrypt the one key of the decision; of a secret, without its padding."""
    (state,) = decided.decision.keys
    secret = secrets[state.asked]
    if state.purpose == KeyPurpose.SECRET:
        return secret.lend(EXPORT, lambda view: encrypt(unpad_secret(view)))
    return secret.lend(EXPORT, encrypt)
