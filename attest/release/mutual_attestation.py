"""Mutual attestation: a client that sends nothing to a key-release service before the service has proved itself.

The service's verifier key identifies it in any case. The proof adds that the key lives on a machine that meets a
policy, that the TLS connection ends on that machine, and under which configuration the service decides.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import quote

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attest.appraisal import AttestationResult, appraise
from attest.encoding import JsonValue, base64url_text
from attest.errors import AppraisalError, BindingError, EndorsementError, EvidenceError, VerificationError
from attest.evidence.binding import NONCE_BYTES, Binding, ExpectedBinding
from attest.release.identity import (
    ANYBODY,
    CONTEXT,
    ROLE,
    ServiceAttestation,
    ServiceStatement,
    identity_binding,
    identity_note,
)
from attest.release.notes import VerifierKey
from attest.release.service_verification import MachineExpectation, verify_service

if TYPE_CHECKING:
    import httpx

PATH = "/v1/attestation"
DEFAULT_MAX_AGE = timedelta(minutes=5)
_OK, _NOT_FOUND = 200, 404


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceExpectation(MachineExpectation):
    """A client's requirements for a key-release service; see ``MachineExpectation``.

    Attributes:
        configuration: SHA-256 of the required configuration, 32 bytes; None accepts any, and the result states
            the actual one.
        unchecked_tls: reason to accept a connection that ends elsewhere, for services behind a proxy with TLS;
            None requires the end that the evidence states.
        audience: this client's name in the evidence.
    """

    clock: Callable[[], datetime]
    random: Callable[[int], bytes]
    configuration: bytes | None = None
    unchecked_tls: str | None = None
    max_age: timedelta = DEFAULT_MAX_AGE
    audience: str = ANYBODY

    def __post_init__(self) -> None:
        if self.unchecked_tls is not None and not self.unchecked_tls.strip():
            raise ValueError("unchecked_tls needs a reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestationAnswer:
    """An answer with the channel that it came over.

    Attributes:
        tls_key: SHA-256 of the SubjectPublicKeyInfo of the peer's certificate; None without TLS.
        retry_after: seconds in ``Retry-After``; None without it.
    """

    status: int
    document: JsonValue
    tls_key: bytes | None
    retry_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenService:
    """A proven service."""

    statement: ServiceStatement
    result: AttestationResult
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestationQuestion:
    """A request for a service's proof."""

    path: str
    nonce: bytes
    at: datetime


class MutualAttestation:
    """Requests the proof of one service, and remembers it for a limited time."""

    def __init__(self, expect: ServiceExpectation, *, service: VerifierKey) -> None:
        self._expect = expect
        self._service = service
        self.proven: ProvenService | None = None
        """The last proof; None before the first."""

    def question(self) -> AttestationQuestion | None:
        """Return the next request for a proof, or None while the last one is recent."""
        now = self._expect.clock()
        if self.proven is not None and timedelta(0) <= now - self.proven.at < self._expect.max_age:
            return None
        self.proven = None
        nonce = self._expect.random(NONCE_BYTES)
        query = f"nonce={base64url_text(nonce)}&audience={quote(self._expect.audience, safe='')}"
        return AttestationQuestion(path=f"{PATH}?{query}", nonce=nonce, at=now)

    def answered(self, question: AttestationQuestion, answer: AttestationAnswer) -> None:
        """Verify and appraise the service's answer.

        Raises:
            VerificationError: ``service-evidence-missing``; the evidence is invalid, or bound to another
                nonce (``nonce-mismatch``), service (``service-identity-mismatch``), statement
                (``service-statement-mismatch``) or configuration (``service-configuration-mismatch``).
            BindingError: ``service-tls-key-mismatch``.
            SignatureError: ``note-signature-invalid``.
            AppraisalError: ``service-policy-not-met``, with every check.
            EndorsementError: an endorsement is missing or stale.
            EvidenceError: the answer is malformed.
        """
        self.proven = self._judge(answer, question.nonce, question.at)

    def require_same_channel(self, tls_key: bytes | None) -> None:
        """Require that an answer came over the proven channel.

        Raises:
            BindingError: ``service-tls-key-mismatch``.
        """
        if self.proven is not None:
            self._require_tls(self.proven.statement, tls_key)

    def _judge(self, answer: AttestationAnswer, nonce: bytes, at: datetime) -> ProvenService:
        attestation = _attestation_of(answer)
        statement = ServiceStatement.parse(attestation.statement)
        # (1) The answer is signed by the configured service, and has this nonce.
        self._require_signed(attestation, nonce)
        # (2) The evidence is genuine, and made for this purpose, this client and this nonce.
        wanted = ExpectedBinding(context=CONTEXT, role=ROLE, audience=self._expect.audience, nonce=nonce)
        verified = verify_service(attestation.evidence, expect=self._expect, binding=wanted, at=at)
        # (3) It commits to that service and to this exact statement.
        self._require_bound(verified.binding, statement, nonce)
        # (4) The connection ends at that machine; the configuration is the reviewed one.
        self._require_tls(statement, answer.tls_key)
        self._require_configuration(statement)
        # (5) The policy affirms the machine.
        result = appraise(verified, policy=self._expect.policy, at=at)
        try:
            result.require()
        except AppraisalError as exc:
            raise _not_met(exc) from exc
        return ProvenService(statement=statement, result=result, at=at)

    def _require_signed(self, attestation: ServiceAttestation, nonce: bytes) -> None:
        text = self._service.verify(attestation.note)
        expected = identity_note(
            nonce=nonce,
            audience=self._expect.audience,
            statement=attestation.statement,
            evidence=attestation.evidence,
        )
        if not hmac.compare_digest(text.encode(), expected.encode()):
            raise BindingError(
                "the service's signature covers another question or another answer",
                code="service-answer-replayed",
                field="note",
                expected=expected[:400],
                got=text[:400],
            )

    def _require_bound(self, binding: Binding | None, statement: ServiceStatement, nonce: bytes) -> None:
        wanted = identity_binding(statement, nonce=nonce, audience=self._expect.audience)
        key = b"" if binding is None else binding.key
        if not hmac.compare_digest(key, self._service.text.encode()) or statement.verifier_key != self._service.text:
            raise BindingError(
                "the evidence is that of another service",
                code="service-identity-mismatch",
                field="binding.key",
                expected=self._service.text,
                got=key.decode("utf-8", errors="replace")[:600],
                hint="the evidence is relayed from a machine that this service does not run on",
            )
        if binding is None or binding.init_data != wanted.init_data:
            raise BindingError(
                "the evidence commits to another statement than the one that came with it",
                code="service-statement-mismatch",
                field="binding.init_data",
                expected=(wanted.init_data or b"").hex(),
                got="none" if binding is None or binding.init_data is None else binding.init_data.hex(),
            )

    def _require_tls(self, statement: ServiceStatement, seen: bytes | None) -> None:
        bound = statement.tls_spki_sha256
        if self._expect.unchecked_tls is not None:
            return
        if bound is None or seen is None or not hmac.compare_digest(bound, seen):
            raise BindingError(
                "the connection does not end where the service proved to be",
                code="service-tls-key-mismatch",
                field="tls_spki_sha256",
                expected="no TLS" if bound is None else bound.hex(),
                got="no TLS" if seen is None else seen.hex(),
                hint="the connection is intercepted, or the certificate was replaced since: connect again; "
                "TLS by a proxy, or no TLS, must be allowed by name",
            )

    def _require_configuration(self, statement: ServiceStatement) -> None:
        wanted = self._expect.configuration
        if wanted is not None and not hmac.compare_digest(wanted, statement.configuration_sha256):
            raise BindingError(
                "the service decides under another configuration than the one expected",
                code="service-configuration-mismatch",
                field="configuration_sha256",
                expected=wanted.hex(),
                got=statement.configuration_sha256.hex(),
                hint="its log has the change (settings-changed)",
            )


def _attestation_of(answer: AttestationAnswer) -> ServiceAttestation:
    if answer.status == _OK:
        return ServiceAttestation.from_json(answer.document)
    problem = answer.document if isinstance(answer.document, dict) else {}
    code, detail = str(problem.get("code") or "service-error"), str(problem.get("detail") or answer.status)
    if answer.status == _NOT_FOUND:
        raise VerificationError(
            "the service gives no evidence of the machine that it runs on",
            code="service-evidence-missing",
            expected="evidence of a TEE",
            got=f"{code}: {detail}"[:300],
            hint="set self_evidence where the service runs inside a TEE",
        )
    raise EndorsementError(
        f"the service cannot prove itself now: {detail[:300]} [{code[:60]}]",
        code="service-evidence-unavailable",
        got=code[:60],
        retryable=True,
    )


def _not_met(exc: AppraisalError) -> AppraisalError:
    error = AppraisalError(
        f"the machine that the service runs on does not meet the policy: {exc.message}",
        code="service-policy-not-met",
        check=exc.check,
        expected=exc.expected,
        got=exc.got,
        clause=exc.clause,
    )
    error.checks = exc.checks
    return error


def tls_key_seen(answer: httpx.Response) -> bytes | None:
    """Return the SHA-256 of the public key in the peer's certificate; None without TLS.

    Raises:
        EvidenceError: ``service-answer-invalid``: its certificate cannot be read.
    """
    stream = answer.extensions.get("network_stream")
    connection = None if stream is None else stream.get_extra_info("ssl_object")
    if connection is None:
        return None
    certificate = connection.getpeercert(True)  # noqa: FBT003  the argument has no name in every version
    try:
        public = x509.load_der_x509_certificate(certificate or b"").public_key()
        return sha256(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()
    except ValueError as exc:
        raise EvidenceError("the service's TLS certificate cannot be read", code="service-answer-invalid") from exc
