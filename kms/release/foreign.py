"""Releases through another protocol than the native one: the one way in for such protocols.

A protocol has its own form of evidence, or brings a token of another Verifier, and has its own form of sealed keys.
Challenge, policy, floors, limits, freezes, leases, decision and log entry are those of every release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import NoReturn, TypedDict

from attest import Binding, Evidence, ExpectedRuntimeData, VerifiedEvidence
from attest.encoding import JsonValue
from attest.errors import AttestError, EvidenceError, VerificationError
from attest.release import Challenge, KeyName, ReleaseRequest, unpad_secret
from attest.results import TokenKey, VerifiedServiceToken
from kms.domain.actors import Actor
from kms.domain.decide import DenialReason
from kms.domain.errors import UnavailableError
from kms.domain.keys import KeyPurpose, KeyReference
from kms.domain.lease_grants import Granted
from kms.domain.passports import FreshBy, PresentedToken, VerifiedPassport
from kms.domain.secret import EXPORT, SecretBytes
from kms.domain.wires import Wire
from kms.release.attestation_records import AttestationRecord, attestation_body
from kms.release.challenges import OpenedChallenge
from kms.release.decision import Decided
from kms.release.exchange import Exchange, TokenRequest
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
class TokenTerms:
    """Statements of a genuine token that a foreign protocol relies on.

    Attributes:
        key: the key to encrypt to, which the token confirms.
        fresh_by: the reason why the token counts as fresh; None lets no key out.
        denial: a reason of the protocol against the release, or None; a protocol can refuse, and not allow.
    """

    key: bytes
    fresh_by: FreshBy | None
    denial: str | None
    encrypt: Encrypt


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenProof:
    """A token of another Verifier in place of evidence. It is verified, logged and appraised here.

    Attributes:
        token: as the prover sent it.
        context: purpose of the proof, which names the protocol.
        role: of the prover.
        nonce: of this request, 32 bytes; it is logged, and not compared with the token.
        audience: the service's name for the token's Verifier. A token that names audiences must name this one.
        read: returns what the protocol relies on. It receives the verified token with all of its claims, and raises an
            ``EvidenceError`` or a ``VerificationError`` for a token that lacks something; the refusal is logged.
        trusted: for each issuer of the protocol's own the keys that sign for it; None: those of all trusted Verifiers.
        single_use: the token counts once.
        is_current: returns whether what ``read`` relies on is still so, in the transaction that logs the decision.
        asked_by: the authenticated caller, for the log.
    """

    token: bytes
    context: str
    role: str
    nonce: bytes
    audience: str | None
    read: Callable[[VerifiedServiceToken], TokenTerms]
    trusted: Mapping[str, tuple[TokenKey, ...]] | None = None
    single_use: bool = False
    is_current: Callable[[ReadTransaction], bool] = lambda _tx: True
    asked_by: Actor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignRelease:
    """A released key: its encrypted material, its version and its purpose."""

    encrypted: bytes
    version: int
    purpose: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _ForeignExchange(Exchange):
    """An exchange of a foreign protocol, which has its own challenges, or none.

    Attributes:
        context: purpose of the proof.
        denials: reasons against the release that the protocol adds.
    """

    context: str
    role: str
    denials: tuple[DenialReason, ...] = ()

    @property
    def objections(self) -> tuple[DenialReason, ...]:
        """Reasons against the release that the protocol adds."""
        return self.denials

    @property
    def purpose(self) -> tuple[str, str]:
        """Context and role of the proof."""
        return self.context, self.role

    def use_up(self, tx: WriteTransaction) -> None:
        """Do nothing: the protocol limits repetitions of its requests."""

    def require_unused(self, tx: ReadTransaction) -> None:
        """Do nothing, as ``use_up``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _EvidenceExchange(_ForeignExchange):
    """An exchange on evidence; its challenge was used up when the prover attested."""

    terms: ForeignTerms

    @property
    def expected(self) -> ExpectedRuntimeData:
        """Required runtime data of the evidence."""
        return self.terms.expected

    def bound(self, verified: VerifiedEvidence) -> VerifiedEvidence:  # type: ignore[override]  # no passports here
        """Return verified evidence with the binding that it proves by its runtime data."""
        return _bound(verified, self.terms, audience=self.audience)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TokenExchange(_ForeignExchange):
    """An exchange on a token.

    Attributes:
        used_until: the end of a token that counts once, excluded; None for any other.
        is_current: as in the proof.
    """

    asked_by: Actor | None
    used_until: datetime | None
    is_current: Callable[[ReadTransaction], bool]

    @property
    def log_head(self) -> dict[str, JsonValue]:
        """Members of a log entry about the request, and the authenticated caller."""
        # Slots: a dataclass with them is another class than the one that ``super()`` without arguments names.
        head = super(_TokenExchange, self).log_head
        return head if self.asked_by is None else {**head, "asked_by": self.asked_by.members()}

    def use_up(self, tx: WriteTransaction) -> None:
        """Use up a token that counts once.

        Raises:
            UnavailableError: ``keys-changing``: the protocol relied on what has changed since.
        """
        if not self.is_current(tx):
            raise UnavailableError(
                "the key changed while its release was being decided", code="keys-changing", retryable=True
            )
        if self.used_until is not None:
            tx.nonces.use(sha256(self.request.evidence.digest).digest(), expires_at=self.used_until, at=self.at)


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
        body = attestation_body(record, nonce_digest=challenge.nonce_digest)

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
        exchange = _EvidenceExchange(
            request=ReleaseRequest(challenge="", evidence=proof.evidence, key_ids=(str(name),)),
            challenge=OpenedChallenge(nonce=proof.terms.nonce, expires_at=proof.expires_at),
            context=proof.terms.context,
            role=proof.terms.role,
            terms=proof.terms,
            denials=_denials("resource-policy", denial),
            **self._common(at),
        )
        return self._concluded(exchange, encrypt).encrypted

    def _concluded(self, exchange: Exchange, encrypt: Encrypt) -> ForeignRelease:
        released = self._releases.conclude(exchange, partial(_sealed, encrypt=encrypt)).sealed
        if released is None:
            raise AssertionError("every denial is an error")
        return released

    def release_on_token(self, key: KeyReference, proof: TokenProof, *, at: datetime) -> ForeignRelease:
        """Decide on the release of a key to the holder of a token, and return it encrypted as the token's terms say.

        The token's issuer must be trusted for the key's tenant and named by the key's policy. Every refusal, also of
        the token itself, is a decision in the log.

        Raises:
            KeyUnknownError: there is no such key, or it discloses nothing.
            ReleaseDeniedError: the release is denied.
            AttestError: as ``ReleaseService.release``.
        """
        outcome, terms = self._verified(key, proof, at=at)
        exchange = _TokenExchange(
            asked_by=proof.asked_by,
            used_until=_expiry(outcome) if proof.single_use else None,
            is_current=proof.is_current,
            request=TokenRequest(evidence=PresentedToken(content=proof.token), outcome=outcome, key_ids=(str(key),)),
            challenge=OpenedChallenge(nonce=proof.nonce, expires_at=at),
            context=proof.context,
            role=proof.role,
            denials=_denials("release-policy", None if terms is None else terms.denial),
            **self._common(at),
        )
        encrypt = _unreachable if terms is None else terms.encrypt
        return self._concluded(exchange, encrypt)

    def _verified(
        self, key: KeyReference, proof: TokenProof, *, at: datetime
    ) -> tuple[VerifiedPassport | AttestError, TokenTerms | None]:
        """Verify a token, and read what the protocol relies on; return the refusal instead if there is one."""
        try:
            token = self._services.passports.service_token(
                proof.token, tenants={key.name.tenant}, audience=proof.audience, at=at, trusted=proof.trusted
            )
            terms = proof.read(token)
        except (EvidenceError, VerificationError) as exc:
            return exc, None
        binding = Binding(
            context=proof.context,
            role=proof.role,
            audience=self._services.identity.public.text,
            nonce=proof.nonce,
            key=terms.key,
        )
        evidence = PresentedToken(content=proof.token)
        found = VerifiedPassport(evidence=evidence, token=token, binding=binding, at=at, fresh_by=terms.fresh_by)
        return found, terms

    def _common(self, at: datetime) -> _Common:
        services = self._services
        return _Common(
            audience=services.identity.public.text,
            caller=None,
            allow_simulated=services.allow_simulated,
            at=at,
            via=self._via,
        )


class _Common(TypedDict):
    """The members that all exchanges of one protocol share."""

    audience: str
    caller: None
    allow_simulated: bool
    at: datetime
    via: Wire


def _expiry(outcome: VerifiedPassport | AttestError) -> datetime | None:
    """Return when a verified token expires; a refused one is not used up."""
    token = outcome.token if isinstance(outcome, VerifiedPassport) else None
    return token.frame.expires if isinstance(token, VerifiedServiceToken) else None


def _denials(code: str, text: str | None) -> tuple[DenialReason, ...]:
    return () if text is None else (DenialReason(code=code, key_id=None, text=text),)


def _unreachable(_material: bytes | memoryview) -> NoReturn:
    raise AssertionError("nothing is encrypted after the refusal of a token")


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
) -> ForeignRelease:
    """Encrypt the one key of the decision; of a secret, without its padding."""
    (state,) = decided.decision.keys
    secret = secrets[state.asked]
    padded = state.purpose == KeyPurpose.SECRET
    encrypted = secret.lend(EXPORT, lambda view: encrypt(unpad_secret(view) if padded else view))
    return ForeignRelease(encrypted=encrypted, version=state.version, purpose=state.purpose)
