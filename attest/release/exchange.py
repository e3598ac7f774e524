"""The protocol of a release, without I/O.

Each step is a generator that yields ``Ask`` and receives ``AttestationAnswer``. Its driver (``client.py``, blocking, or
``attest.session``, also for asyncio) decides on transport, time limits and threads. The checks and their order are
here alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Final, NamedTuple, TypeVar

from attest.encoding import JsonValue, json_value, rfc3339
from attest.errors import BindingError, EvidenceError, ReleaseRefusedError
from attest.evidence.binding import Binding
from attest.evidence.envelope import Evidence
from attest.release.log_monitor import LogWatch
from attest.release.mutual_attestation import AttestationAnswer, MutualAttestation, ProvenService, ServiceExpectation
from attest.release.names import KeyReference
from attest.release.notes import VerifierKey
from attest.release.padded_secret import SECRET_PURPOSE, unpad_secret
from attest.release.passports import Passport, PassportKey, PassportRequest
from attest.release.receipts import key_members, read_receipt
from attest.release.refusals import refused
from attest.release.released_key import ReleasedKey
from attest.release.sealed_key import KEM_HYBRID, WorkloadKey
from attest.release.tlog import leaf_hash
from attest.release.wire import CONTEXT, ROLE, Challenge, Release, ReleaseRequest, SealedKey, hashes_of, release_info

_OK, _NOT_FOUND = 200, 404
_DIGEST: Final = re.compile("[0-9a-f]{64}")
_T = TypeVar("_T")

Attester = Callable[[Binding], Evidence]
"""Collects evidence of this machine for a binding, and returns it with the binding inside."""

Verifier = Callable[[Challenge], bytes]
"""Obtains an EAR, or a token of a service, about this machine from a Verifier, for the service of the challenge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request to the service; its path is relative to the base URL, its body is JSON."""

    method: str
    path: str
    body: dict[str, JsonValue] | None = None


Steps = Generator[Ask, AttestationAnswer, _T]
"""Yields requests, receives their answers, and returns a result."""


class _Proved(NamedTuple):
    """Context that a release must match."""

    challenge: Challenge
    proof: Evidence | Passport
    key_ids: tuple[str, ...]
    recipient: WorkloadKey


class Exchange:
    """Exchange between one workload and one key-release service; the arguments are those of ``KeyReleaseClient``."""

    def __init__(
        self, *, service: VerifierKey, watch: LogWatch | None = None, expect: ServiceExpectation | None = None
    ) -> None:
        self._mutual = None if expect is None else MutualAttestation(expect, service=service)
        self.service = service
        self.watch = LogWatch(service) if watch is None else watch

    @property
    def proven(self) -> ProvenService | None:
        """Last proof of the service's machine; None before it, or without an expectation."""
        return None if self._mutual is None else self._mutual.proven

    def release(
        self,
        key_ids: tuple[str, ...],
        *,
        attester: Attester,
        kem: int = KEM_HYBRID,
        key: WorkloadKey | None = None,
        renews: tuple[str, ...] = (),
    ) -> Steps[tuple[ReleasedKey, ...]]:
        """Obtain keys: challenge, proof, sealed answer; as ``KeyReleaseClient.release``, with the leases of ``key``."""
        # (1) A challenge from the configured service.
        challenge = yield from self.challenge()
        # (2) Evidence that commits to the challenge, to this service and to a key of this process.
        key = key or WorkloadKey.generate(kem)
        evidence = attester(
            Binding(context=CONTEXT, role=ROLE, audience=challenge.audience, nonce=challenge.nonce, key=key.public)
        )
        request = ReleaseRequest(challenge=challenge.token, evidence=evidence, key_ids=key_ids, renews=renews)
        return (yield from self._received(request, _Proved(challenge, evidence, key_ids, key)))

    def release_with_passport(
        self, key_ids: tuple[str, ...], *, verifier: Verifier, key: PassportKey, renews: tuple[str, ...] = ()
    ) -> Steps[tuple[ReleasedKey, ...]]:
        """Obtain keys with an Attestation Result; as ``KeyReleaseClient.release_with_passport``."""
        challenge = yield from self.challenge()
        passport = key.passport(
            verifier(challenge), audience=challenge.audience, nonce=challenge.nonce, key_ids=key_ids, renews=renews
        )
        request = PassportRequest(challenge=challenge.token, passport=passport, key_ids=key_ids, renews=renews)
        return (yield from self._received(request, _Proved(challenge, passport, key_ids, key.recipient)))

    def challenge(self) -> Steps[Challenge]:
        """Request a challenge and require that it is the configured service's.

        With an expectation, the service must first prove its machine; see ``proof``.

        Raises:
            BindingError: ``service-identity-mismatch``.
        """
        yield from self.proof()
        challenge = Challenge.from_json((yield from self.sent(Ask(method="POST", path="/v1/challenges", body={}))))
        if challenge.audience != self.service.text:
            raise BindingError(
                "the service is not the configured one",
                code="service-identity-mismatch",
                expected=self.service.text,
                got=challenge.audience,
                hint="a changed identity is a new service: find out why before you configure it",
            )
        return challenge

    def proof(self) -> Steps[None]:
        """Require a recent proof of the service's machine, if one is expected.

        Raises:
            AttestError: as ``MutualAttestation.answered``.
        """
        if self._mutual is None:
            return
        question = self._mutual.question()
        if question is not None:
            self._mutual.answered(question, (yield Ask(method="GET", path=question.path)))

    def sent(self, ask: Ask) -> Steps[JsonValue]:
        """Send one request and return the document of a success.

        Raises:
            ReleaseRefusedError: any other status.
            BindingError: ``service-tls-key-mismatch``.
        """
        answer = yield ask
        # An answer over another TLS channel than the proven one is refused.
        if self._mutual is not None:
            self._mutual.require_same_channel(answer.tls_key)
        if answer.status != _OK:
            raise refused(answer.document, answer.status, retry_after=answer.retry_after)
        return answer.document

    def consistency(self, old: int, new: int) -> Steps[tuple[bytes, ...]]:
        """Request a proof that the log of one size extends that of another; empty if the service has none.

        Raises:
            BindingError: ``service-answer-invalid``.
        """
        try:
            document = yield from self.sent(Ask(method="GET", path=f"/v1/log/proof/consistency?old={old}&new={new}"))
        except ReleaseRefusedError as exc:
            if exc.status != _NOT_FOUND:
                raise
            return ()
        proof = document.get("proof") if isinstance(document, dict) else None
        try:
            return hashes_of(proof, what="log")
        except EvidenceError as exc:
            raise strange_answer("no proof of hashes") from exc

    def _received(self, request: ReleaseRequest | PassportRequest, proved: _Proved) -> Steps[tuple[ReleasedKey, ...]]:
        """Send the proof, and open the released keys."""
        # (3) Proof in exchange for sealed keys.
        since = self.watch.remembered_size()
        release = yield from self._released(request, since)
        # (4) The receipt is signed and covers this exchange and these exact bytes; only then are the keys opened.
        decision, released_at = self._check_receipt(release, proved)
        # (5) The decision is in the service's log, which extends the one seen before.
        _check_entry(release, proved, decision)
        yield from self._follow(release, since)
        opened = [proved.recipient.open(key.sealed, info=_info(key, proved, decision)) for key in release.keys]
        return tuple(
            _released(key, material, release, recipient=proved.recipient, at=released_at)
            for key, material in zip(release.keys, opened, strict=True)
        )

    def _released(self, request: ReleaseRequest | PassportRequest, since: int | None) -> Steps[Release]:
        """Request the release, and with it the consistency proof from the remembered size of the log."""
        ask = Ask(method="POST", path="/v1/releases", body=request.to_json())
        if since is None:
            return Release.from_json((yield from self.sent(ask)))
        try:
            document = yield from self.sent(replace(ask, path=f"{ask.path}?log_size={since}"))
        except ReleaseRefusedError as exc:
            if exc.code != "log-tile-unknown":
                raise
            # The log is shorter than the remembered one. A release has the signed checkpoint that shows it.
            document = yield from self.sent(ask)
        return Release.from_json(document)

    def _follow(self, release: Release, since: int | None) -> Steps[None]:
        comparison = self.watch.compare(self.watch.logged(release.entry, release.proof))
        proof: tuple[bytes, ...] = ()
        if comparison.extent is not None:
            # Without the proof (an older service), or when another thread has remembered more: a request of its own.
            same = comparison.extent == (since, comparison.received.size)
            carried = release.consistency if same else None
            proof = (yield from self.consistency(*comparison.extent)) if carried is None else carried
        self.watch.settle(comparison, proof)

    def _check_receipt(self, release: Release, proved: _Proved) -> tuple[bytes, datetime]:
        """Return the digest of the decision's log entry, and the time of the release."""
        receipt = read_receipt(self.service.verify(release.receipt))
        wanted: dict[str, object] = {
            "audience": proved.challenge.audience,
            "nonce": proved.challenge.nonce.hex(),
            "evidence": proved.proof.digest.hex(),
            "keys": [key_members(key) for key in release.keys],
        }
        for name, expected in wanted.items():
            if receipt.get(name) != expected:
                raise _mismatch(f"the receipt's {name} is not that of this exchange", name, expected, receipt.get(name))
        if not _answers(release.keys, proved.key_ids):
            raise BindingError("the service released other keys than requested", code="receipt-mismatch")
        decision, released_at = receipt.get("decision"), receipt.get("released_at")
        if not isinstance(decision, str) or not _DIGEST.fullmatch(decision):
            raise BindingError("the receipt names no decision", code="receipt-mismatch", field="decision")
        if not isinstance(released_at, str):
            raise BindingError("the receipt has no time", code="receipt-mismatch", field="released_at")
        return bytes.fromhex(decision), rfc3339(released_at, what="released_at")


def strange_answer(problem: str) -> BindingError:
    """Return the error for an answer outside the protocol."""
    return BindingError(f"the service's answer is {problem}", code="service-answer-invalid")


def _check_entry(release: Release, proved: _Proved, decision: bytes) -> None:
    """Require that the log entry is this decision, with the same content."""
    document = json_value(release.entry, what="entry of the log")
    members = document if isinstance(document, dict) else {}
    wanted: dict[str, object] = {
        "kind": "decision",
        "outcome": "allow",
        "nonce_sha256": sha256(proved.challenge.nonce).hexdigest(),
        "evidence_sha384": proved.proof.digest.hex(),
        "requested": list(proved.key_ids),
    }
    for name, expected in wanted.items():
        if members.get(name) != expected:
            raise _mismatch(f"the log's entry differs from this exchange: {name}", name, expected, members.get(name))
    if leaf_hash(release.entry) != decision:
        raise BindingError("the receipt names another entry of the log", code="receipt-mismatch", field="decision")


def _mismatch(message: str, name: str, expected: object, got: object) -> BindingError:
    return BindingError(message, code="receipt-mismatch", field=name, expected=str(expected)[:200], got=str(got)[:200])


def _answers(keys: tuple[SealedKey, ...], requested: tuple[str, ...]) -> bool:
    """Return True for the requested keys in their order."""
    wanted = tuple(map(KeyReference.parse, requested))
    return len(keys) == len(wanted) and all(
        (key.name, key.version) == (one.name, one.version or key.version) for key, one in zip(keys, wanted, strict=True)
    )


def _released(
    sealed: SealedKey, material: bytes, release: Release, *, recipient: WorkloadKey, at: datetime
) -> ReleasedKey:
    return ReleasedKey(
        tenant=sealed.tenant,
        key_id=sealed.key_id,
        version=sealed.version,
        purpose=sealed.purpose,
        policy_digest=sealed.policy_digest,
        receipt=release.receipt,
        entry=release.entry,
        proof=release.proof,
        material=unpad_secret(material) if sealed.purpose == SECRET_PURPOSE else material,
        lease_id=sealed.lease_id,
        released_at=at,
        expires_at=sealed.expires_at,
        recipient=recipient,
    )


def _info(sealed: SealedKey, proved: _Proved, decision: bytes) -> bytes:
    return release_info(
        audience=proved.challenge.audience,
        nonce=proved.challenge.nonce,
        evidence_digest=proved.proof.digest,
        tenant=sealed.tenant,
        key_id=sealed.key_id,
        version=sealed.version,
        purpose=sealed.purpose,
        policy_digest=sealed.policy_digest,
        decision_digest=decision,
    )
