"""The handshake: a nonce, and for evidence that answers it a token.

Spec: specs/kbs-protocol.md, sections 5 and 11.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from attest import Evidence, VerifiedEvidence
from attest.clock import Clock
from attest.encoding import JsonValue, rfc3339_text
from attest.errors import AttestError, BindingError, EndorsementError
from attest.evidence import parse_init_data, require_init_data
from attest.rego import trustee_claims
from kms.api.kbs.appraisal import submodules_of
from kms.api.kbs.documents import DocumentCache
from kms.api.kbs.evidence import KINDS, evidence_of
from kms.api.kbs.messages import OLDER, Attestation, AuthRequest, parse_attestation, parse_auth
from kms.api.kbs.runtime_data import device_claims, expected_of, primary_claims
from kms.api.kbs.sessions import begun_cookie, read_begun
from kms.api.kbs.tokens import ROLE, Submodule, TokenEvidence, TokenIssuer
from kms.domain.errors import UnavailableError
from kms.release.attestation_records import AttestationRecord
from kms.release.foreign import ForeignReleases, ForeignTerms
from kms.store import Store

ATTESTED: Final = "kbs-attested"
CONTEXT: Final = "kbs/v0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of a step of the handshake: its JSON, the cookie's value, and the end of the session."""

    document: Mapping[str, JsonValue]
    cookie: str
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An attestation whose evidence was verified.

    Attributes:
        terms: what it proves.
        init_data: claims of the guest's initialisation data; empty without it.
    """

    attestation: Attestation
    evidence: Evidence
    verified: VerifiedEvidence
    terms: ForeignTerms
    init_data: Mapping[str, JsonValue]


class Handshake:
    """The two steps of the handshake."""

    def __init__(
        self, releases: ForeignReleases, tokens: TokenIssuer, store: Store, *, clock: Clock, older_clients: bool
    ) -> None:
        self._releases = releases
        self._tokens = tokens
        self._store = store
        self._clock = clock
        self._older_clients = older_clients
        self._documents = DocumentCache()

    def begin(self, body: bytes) -> Answer:
        """Answer ``/auth``: a nonce. Nothing is stored.

        Raises:
            EvidenceError: ``kbs-request-malformed`` or ``kbs-version-unsupported``.
        """
        request = parse_auth(body, older_clients=self._older_clients)
        challenge = self._releases.challenge()
        document: dict[str, JsonValue] = {"nonce": nonce_text(challenge.nonce), "extra-params": ""}
        cookie = begun_cookie(challenge.token, request)
        return Answer(document=document, cookie=cookie, expires_at=challenge.expires_at)

    def attest(self, body: bytes, *, cookie: str | None) -> Answer:
        """Answer ``/attest``: a token. Success and refusal both use up the session, and are logged.

        Raises:
            EvidenceError: the body or the evidence is malformed, or does not fit into a token.
            VerificationError: the session is unknown, or the evidence is not genuine, not of this session or simulated.
            EndorsementError: an endorsement is missing or stale; the session stays usable.
            ChallengeError: the nonce is not of this service, out of time, or was used before.
            ConfigurationError: an uploaded attestation policy gives no vector.
        """
        at = self._clock()
        # (1) The session is of this service and in time, and has not attested yet.
        begun = read_begun(cookie)
        challenge = self._releases.open(begun.challenge, at=at)  # (4) refuses one that was used
        try:
            # (2) The evidence is genuine, and answers this nonce with this key.
            judged = judge(self._releases, begun.request, body, nonce=challenge.nonce, at=at)
            # (3) The token. An uploaded policy that gives no vector refuses, too.
            submodules = self._submodules(judged)
            carried = TokenEvidence(evidence=judged.evidence, terms=judged.terms, key=judged.attestation.key)
            token, expires_at = self._tokens.issue(submodules, carried, simulated=judged.verified.simulated, at=at)
        except (EndorsementError, UnavailableError):
            raise  # nothing was decided, and the session stays usable
        except AttestError as exc:
            self._releases.conclude_attestation(challenge, _record(begun.request, None, (), exc, at=at), at=at)
            raise
        # (4) The nonce is used up and the attestation logged, before the token is sent.
        record = _record(begun.request, judged, submodules, None, at=at)
        self._releases.conclude_attestation(challenge, record, at=at)
        return Answer(document={"token": token}, cookie=token, expires_at=expires_at)

    def _submodules(self, judged: Judged) -> tuple[Submodule, ...]:
        nonce = nonce_text(judged.terms.nonce)

        def claims_of(is_cpu: bool) -> Mapping[str, JsonValue]:  # noqa: FBT001  the one question
            whole = is_cpu and judged.attestation.nonce is not None
            return (primary_claims if whole else device_claims)(judged.attestation, nonce=nonce)

        kinds = {trustee_claims(item).device_class for item in judged.verified.items}
        with self._store.reading() as tx:
            references = self._documents.references(tx)
            policies = {kind: self._documents.attestation_policy(tx, kind) for kind in kinds}
        return tuple(
            submodules_of(
                judged.verified,
                policies=policies.get,
                references=references,
                claims_of=claims_of,
                init_data=judged.init_data,
            )
        )


def _record(
    request: AuthRequest,
    judged: Judged | None,
    submodules: tuple[Submodule, ...],
    refusal: AttestError | None,
    *,
    at: datetime,
) -> AttestationRecord:
    """Return an attestation for the log: digests and outcomes, and never evidence or a token."""
    members: dict[str, JsonValue] = {
        "at": rfc3339_text(at),
        "evidence_sha384": None if judged is None else judged.evidence.digest.hex(),
        "tee": request.tee,
        "version": request.version,
        "simulated": None if judged is None else judged.verified.simulated,
        "devices": {one.name: str(one.vector.tier) for one in submodules},
    }
    return AttestationRecord(kind=ATTESTED, members=members, refusal=refusal)


def nonce_text(nonce: bytes) -> str:
    """Return a nonce as the protocol writes it: base64 with padding."""
    return b64encode(nonce).decode()


def judge(releases: ForeignReleases, request: AuthRequest, body: bytes, *, nonce: bytes, at: datetime) -> Judged:
    """Verify what a guest sent, for this nonce.

    Raises:
        EvidenceError: it is malformed.
        VerificationError: it is not genuine, or does not answer this nonce with this key and this initialisation data.
        EndorsementError: an endorsement is missing or stale.
    """
    attestation = parse_attestation(body, version=request.version)
    text = nonce_text(nonce)
    if attestation.nonce is not None and attestation.nonce != text:
        raise BindingError(
            "the attestation states another nonce than that of its session",
            code="nonce-mismatch",
            field="runtime-data.nonce",
            expected=text,
            got=attestation.nonce[:80],
            clause="docs/kbs.md",
        )
    evidence = evidence_of(attestation, tee=request.tee)
    terms = ForeignTerms(
        expected=expected_of(attestation, nonce=text),
        context=f"{CONTEXT}/{OLDER}" if attestation.nonce is None else CONTEXT,
        role=ROLE,
        nonce=nonce,
        key=attestation.key.to_bytes(),
    )
    verified = releases.verify(evidence, terms, at=at)
    cpu = next((item for item in verified.items if item.name == "cpu"), None)
    if cpu is None or cpu.kind != KINDS[request.tee]:
        raise BindingError(
            f"the session is of a guest with {request.tee}, and the evidence is of another kind",
            code="kbs-tee-mismatch",
            field="tee",
            expected=KINDS[request.tee],
            got="none" if cpu is None else cpu.kind,
            clause="docs/kbs.md",
        )
    init_data: Mapping[str, JsonValue] = {}
    if attestation.init_data is not None:
        given = parse_init_data(attestation.init_data)
        require_init_data(cpu, given)
        # Evidence with a field for the digest shows that field instead.
        init_data = {"init_data": b64encode(given.digest).decode(), "init_data_claims": given.claims}
    return Judged(attestation=attestation, evidence=evidence, verified=verified, terms=terms, init_data=dict(init_data))
