"""How a workload gets its keys: ask for a challenge, prove itself under it, open what comes back.

The service is known by its verifier key, never by its address or its TLS certificate: the evidence is bound to that
key, the answer is signed by it, and the keys are sealed to a key that never leaves this process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING

from attest.encoding import JsonValue, base64_bytes, json_value
from attest.errors import (
    AttestError,
    BindingError,
    ConfigurationError,
    EndorsementError,
    EvidenceError,
    VerificationError,
)
from attest.evidence.binding import Binding
from attest.evidence.envelope import Evidence
from attest.release.mutual import Answer, MutualAttestation, ProvenService, ServiceExpectation, tls_key_seen
from attest.release.names import KeyName, KeyReference
from attest.release.notes import VerifierKey
from attest.release.passports import Passport, PassportKey, PassportRequest
from attest.release.prompt_keys import PromptKey, PublishedPromptKey, verify_prompt_key
from attest.release.sealing import KEM_HYBRID, WorkloadKey
from attest.release.tlog import MAX_PROOF_HASHES, leaf_hash
from attest.release.watching import LogWatch
from attest.release.wire import (
    CONTEXT,
    ROLE,
    Challenge,
    Release,
    ReleaseRequest,
    SealedKey,
    read_receipt,
    release_info,
)

if TYPE_CHECKING:
    import httpx

__all__ = ["Attester", "KeyReleaseClient", "ReleaseRefusedError", "ReleasedKey", "Verifier"]

Attester = Callable[[Binding], Evidence]
"""Collects evidence of this machine that commits to a binding, and returns it with the binding inside."""

Verifier = Callable[[Challenge], bytes]
"""Asks a Verifier to judge this machine, and returns its EAR for the service of the challenge."""

MAX_ANSWER_BYTES = 4 * 1024 * 1024
TIMEOUT_SECONDS = 30.0
_OK = 200
_NOT_FOUND = 404


class ReleaseRefusedError(AttestError):
    """The service refused; code, text and failed checks are its own words.

    Attributes:
        status: HTTP status of the answer.
        failed_checks: the checks that stood against this workload, as the service reports them.
    """

    exit_code = 1

    def __init__(self, message: str, *, code: str, status: int, failed_checks: tuple[JsonValue, ...]) -> None:
        """Keep the service's problem details."""
        super().__init__(message, code=code)
        self.status = status
        self.failed_checks = failed_checks


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedKey:
    """A key in the clear, in this process. Its repr never shows it.

    Attributes:
        tenant: whose key it is.
        key_id: which of the tenant's keys.
        version: which version of it.
        purpose: what it is for.
        policy_digest: SHA-256 of the policy under which it was released.
        receipt: the service's signed receipt, to keep.
        entry: the decision's entry of the service's log.
        proof: that the log holds it, to keep with the entry.
        material: the key.
        lease_id: names the lease, to renew it.
        expires_at: when the lease ends; attest again before it.
        recipient: the one-time key that it was sealed to: whoever renews the lease shows it again.
    """

    tenant: str
    key_id: str
    version: int
    purpose: str
    policy_digest: bytes
    receipt: str
    entry: bytes
    proof: str
    material: bytes
    lease_id: str
    expires_at: datetime
    recipient: WorkloadKey

    def __repr__(self) -> str:
        """Name the key and nothing of its material."""
        who = f"tenant={self.tenant!r}, key_id={self.key_id!r}, version={self.version}"
        return f"ReleasedKey({who}, material=<{len(self.material)} bytes>)"


class KeyReleaseClient:
    """A client of one key-release service.

    Args:
        http: an HTTP client whose base URL is the service; its TLS settings are the caller's.
        service: the verifier key of the service, from configuration, never from the service itself.
        watch: follows the service's log; None follows it as long as this client lives, and demands no witnesses.
        expect: what the service's own machine has to prove before anything else is asked; None demands nothing of it.
    """

    def __init__(
        self,
        http: httpx.Client,
        *,
        service: VerifierKey,
        watch: LogWatch | None = None,
        expect: ServiceExpectation | None = None,
    ) -> None:
        """Remember whom to talk to."""
        self._mutual = None if expect is None else MutualAttestation(expect, service=service)
        self._http = http
        self._service = service
        self._watch = LogWatch(service) if watch is None else watch

    def release(
        self,
        key_ids: tuple[str, ...],
        *,
        attester: Attester,
        kem: int = KEM_HYBRID,
        key: WorkloadKey | None = None,
        renewing: tuple[ReleasedKey, ...] = (),
    ) -> tuple[ReleasedKey, ...]:
        """Obtain keys: challenge, proof, sealed answer.

        Args:
            key_ids: the keys, as ``KEY`` or ``TENANT/KEY``; all are released, or none.
            attester: collects the evidence.
            kem: HPKE KEM of the key pair that is made for this.
            key: a key pair to use instead, so that the answer takes the place of the leases that it has.
            renewing: what is held, whose leases are to be renewed; its key pair is used then.

        Raises:
            ReleaseRefusedError: the service said no; see its code and failed checks.
            BindingError: the service is another one, or its answer belongs to another exchange.
            SignatureError: the receipt, or the checkpoint of the log, is not signed by the service.
            VerificationError: the log does not hold the decision, or too few witnesses saw it.
            LogForkedError: the service shows another log than before.
            EndorsementError: ``service-unreachable``.
            EvidenceError: the answer is not what the protocol says.
            ConfigurationError: what is asked for is no name of a key.
            ValueError: the leases to be renewed are of several key pairs.
        """
        if len({one.recipient.public for one in renewing}) > 1:
            msg = "leases of several key pairs are renewed one after the other"
            raise ValueError(msg)
        # (1) A challenge, from the service that this workload was configured with.
        challenge = self.challenge()
        # (2) Evidence that commits to the challenge, to this service and to a key that exists only here.
        key = renewing[0].recipient if renewing else key or WorkloadKey.generate(kem)
        evidence = attester(
            Binding(context=CONTEXT, role=ROLE, audience=challenge.audience, nonce=challenge.nonce, key=key.public)
        )
        renews = tuple(one.lease_id for one in renewing)
        request = ReleaseRequest(challenge=challenge.token, evidence=evidence, key_ids=key_ids, renews=renews)
        return self._received(request, challenge, recipient=key)

    def release_with_passport(
        self, key_ids: tuple[str, ...], *, verifier: Verifier, key: PassportKey, renews: tuple[str, ...] = ()
    ) -> tuple[ReleasedKey, ...]:
        """Obtain keys by a Verifier's word in place of evidence.

        Args:
            key_ids: the keys, as ``KEY`` or ``TENANT/KEY``; all are released, or none.
            verifier: obtains the EAR, about evidence whose binding has ``key.bound`` as its key.
            key: the key pairs of this workload; the same for as long as it renews one lease.
            renews: the leases of these keys that are to be renewed.

        Raises:
            AttestError: as ``release``.
        """
        challenge = self.challenge()
        passport = key.passport(
            verifier(challenge), audience=challenge.audience, nonce=challenge.nonce, key_ids=key_ids, renews=renews
        )
        request = PassportRequest(challenge=challenge.token, passport=passport, key_ids=key_ids, renews=renews)
        return self._received(request, challenge, recipient=key.recipient)

    def _received(
        self, request: ReleaseRequest | PassportRequest, challenge: Challenge, *, recipient: WorkloadKey
    ) -> tuple[ReleasedKey, ...]:
        """Send proof, and open what comes back for it."""
        # (3) Proof against keys.
        proof, key_ids = request.evidence, request.key_ids
        release = Release.from_json(self._post("/v1/releases", request.to_json()))
        # (4) The receipt is signed and is about this exchange and these very bytes; only then is anything opened.
        decision = self._check_receipt(release, challenge, proof, key_ids)
        # (5) The decision is in the service's log, and the log is the one that was seen before.
        self._check_entry(release, challenge, proof, key_ids, decision)
        self._watch.check(release.entry, release.proof, fetch=self._consistency)
        return tuple(self._open(sealed, recipient, challenge, proof, decision, release) for sealed in release.keys)

    def challenge(self) -> Challenge:
        """Ask for a challenge and make sure that it is the configured service's.

        With an expectation the service has to prove its machine first; see ``MutualAttestation.require``.

        Raises:
            BindingError: ``service-identity-mismatch``.
        """
        if self._mutual is not None:
            self._mutual.require(self._ask)
        challenge = Challenge.from_json(self._post("/v1/challenges", {}))
        if challenge.audience != self._service.text:
            raise BindingError(
                "the service is not the configured one",
                code="service-identity-mismatch",
                expected=self._service.text,
                got=challenge.audience,
                hint="a changed identity is a new service: find out why before you configure it",
            )
        return challenge

    def _check_receipt(
        self, release: Release, challenge: Challenge, evidence: Evidence | Passport, key_ids: tuple[str, ...]
    ) -> bytes:
        receipt = read_receipt(self._service.verify(release.receipt))
        wanted: dict[str, object] = {
            "audience": challenge.audience,
            "nonce": challenge.nonce.hex(),
            "evidence": evidence.digest.hex(),
            "keys": [key.told() for key in release.keys],
        }
        for name, expected in wanted.items():
            if receipt.get(name) != expected:
                raise BindingError(
                    f"the receipt's {name} is not that of this exchange",
                    code="receipt-mismatch",
                    field=name,
                    expected=str(expected)[:200],
                    got=str(receipt.get(name))[:200],
                )
        if not _answers(release.keys, key_ids):
            raise BindingError("the service released other keys than were asked for", code="receipt-mismatch")
        decision = receipt.get("decision")
        if not isinstance(decision, str) or len(decision) != 2 * sha256().digest_size:
            raise BindingError("the receipt names no decision", code="receipt-mismatch", field="decision")
        return bytes.fromhex(decision)

    @staticmethod
    def _check_entry(
        release: Release, challenge: Challenge, evidence: Evidence | Passport, key_ids: tuple[str, ...], decision: bytes
    ) -> None:
        """Make sure that what is logged is this decision, and that it says what happened."""
        document = json_value(release.entry, what="entry of the log")
        said = document if isinstance(document, dict) else {}
        wanted: dict[str, object] = {
            "kind": "decision",
            "outcome": "allow",
            "nonce_sha256": sha256(challenge.nonce).hexdigest(),
            "evidence_sha384": evidence.digest.hex(),
            "requested": list(key_ids),
        }
        for name, expected in wanted.items():
            if said.get(name) != expected:
                raise BindingError(
                    f"the log says something else of this exchange: {name}",
                    code="receipt-mismatch",
                    field=name,
                    expected=str(expected)[:200],
                    got=str(said.get(name))[:200],
                )
        if leaf_hash(release.entry) != decision:
            raise BindingError("the receipt names another entry of the log", code="receipt-mismatch", field="decision")

    def _consistency(self, old: int, new: int) -> tuple[bytes, ...]:
        """Ask for the proof that the log of one size extends that of another."""
        try:
            document = self._request("GET", f"/v1/log/proof/consistency?old={old}&new={new}")
        except ReleaseRefusedError as exc:
            if exc.status != _NOT_FOUND:
                raise
            raise VerificationError(
                "the service has no proof that its log is the same", code="log-consistency-invalid", got=exc.message
            ) from exc
        proof = document.get("proof") if isinstance(document, dict) else None
        if not isinstance(proof, list) or len(proof) > MAX_PROOF_HASHES:
            raise _strange_answer("no proof")
        try:
            return tuple(base64_bytes(one if isinstance(one, str) else "", what="hash") for one in proof)
        except EvidenceError as exc:
            raise _strange_answer("no proof of hashes") from exc

    def _open(  # noqa: PLR0917
        self,
        sealed: SealedKey,
        key: WorkloadKey,
        challenge: Challenge,
        evidence: Evidence | Passport,
        decision: bytes,
        release: Release,
    ) -> ReleasedKey:
        info = release_info(
            audience=challenge.audience,
            nonce=challenge.nonce,
            evidence_digest=evidence.digest,
            tenant=sealed.tenant,
            key_id=sealed.key_id,
            version=sealed.version,
            purpose=sealed.purpose,
            policy_digest=sealed.policy_digest,
            decision_digest=decision,
        )
        return ReleasedKey(
            tenant=sealed.tenant,
            key_id=sealed.key_id,
            version=sealed.version,
            purpose=sealed.purpose,
            policy_digest=sealed.policy_digest,
            receipt=release.receipt,
            entry=release.entry,
            proof=release.proof,
            material=key.open(sealed.sealed, info=info),
            lease_id=sealed.lease_id,
            expires_at=sealed.expires_at,
            recipient=key,
        )

    def prompt_key(self, key: str, *, policies: Collection[bytes], at: datetime) -> PromptKey:
        """Obtain a prompt key to encrypt to, and make sure that it is the one that is logged for a policy.

        Args:
            key: as ``KEY`` or ``TENANT/KEY``.
            policies: digests of the policies whose workloads may read what is encrypted; none accepts no key.
            at: now.

        Raises:
            ReleaseRefusedError: the service has no such prompt key.
            AttestError: as ``verify_prompt_key``.
            EndorsementError: ``service-unreachable``.
            ConfigurationError: what is asked for is no name of a key.
        """
        asked = KeyReference(name=KeyName.parse(key))
        if self._mutual is not None:
            self._mutual.require(self._ask)
        path = f"/v1/prompt-keys/{asked.name.tenant}/{asked.name.key_id}"
        return verify_prompt_key(
            PublishedPromptKey.from_json(self._request("GET", path)),
            asked=asked,
            policies=policies,
            service=self._service,
            watch=self._watch,
            fetch=self._consistency,
            at=at,
        )

    @property
    def proven(self) -> ProvenService | None:
        """What the service proved of its machine; None before that, or without an expectation."""
        return None if self._mutual is None else self._mutual.proven

    def _post(self, path: str, body: dict[str, JsonValue]) -> JsonValue:
        return self._request("POST", path, body)

    def _request(self, method: str, path: str, body: dict[str, JsonValue] | None = None) -> JsonValue:
        answer = self._exchange(method, path, body)
        # Not one answer counts that came over another channel than the one that was proved.
        if self._mutual is not None:
            self._mutual.require_same_channel(answer.tls_key)
        if answer.status != _OK:
            raise _refused(answer.document, answer.status)
        return answer.document

    def _ask(self, path: str) -> Answer:
        return self._exchange("GET", path, None)

    def _exchange(self, method: str, path: str, body: dict[str, JsonValue] | None) -> Answer:
        import httpx  # noqa: PLC0415  of the extra 'cli'; nothing else here needs it

        try:
            with self._http.stream(method, path, json=body, timeout=TIMEOUT_SECONDS) as answer:
                tls_key = tls_key_seen(answer)
                content = b""
                for piece in answer.iter_bytes():
                    content += piece
                    if len(content) > MAX_ANSWER_BYTES:
                        raise _strange_answer(f"longer than {MAX_ANSWER_BYTES} bytes")
        except httpx.HTTPError as exc:
            raise EndorsementError(
                f"the key-release service cannot be reached: {exc}",
                code="service-unreachable",
                hint="is 'kms serve' running there?",
                retryable=True,
            ) from exc
        except httpx.InvalidURL as exc:
            raise ConfigurationError(f"not a URL: {exc}", code="url-invalid") from exc
        document = json_value(content, what=f"answer of {path.partition('?')[0]}")
        return Answer(status=answer.status_code, document=document, tls_key=tls_key)


def _answers(keys: tuple[SealedKey, ...], asked: tuple[str, ...]) -> bool:
    """Say whether these are the keys that were asked for, in their order."""
    wanted = tuple(map(KeyReference.parse, asked))
    return len(keys) == len(wanted) and all(
        (key.name, key.version) == (one.name, one.version or key.version) for key, one in zip(keys, wanted, strict=True)
    )


def _refused(document: JsonValue, status: int) -> ReleaseRefusedError:
    problem = document if isinstance(document, dict) else {}
    checks = problem.get("failed_checks")
    return ReleaseRefusedError(
        str(problem.get("detail") or problem.get("title") or "no reason given"),
        code=str(problem.get("code") or "service-error"),
        status=status,
        failed_checks=tuple(checks) if isinstance(checks, list) else (),
    )


def _strange_answer(problem: str) -> BindingError:
    return BindingError(f"the service's answer is {problem}", code="service-answer-invalid")
