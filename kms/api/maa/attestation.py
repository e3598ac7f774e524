"""Attestation: evidence in, a token out, and an entry in the log either way."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from typing import Final

from attest import VerifiedEvidence
from attest.clock import Clock
from attest.encoding import JsonValue, rfc3339_text
from attest.errors import AttestError, EndorsementError
from kms.api.maa.claims import claims_about
from kms.api.maa.messages import AttestRequest, Tee, parse_request
from kms.api.maa.signing import TokenSigner
from kms.config.maa import MaaSettings
from kms.domain.errors import RateLimitedError, UnavailableError
from kms.release.attestation_records import AttestationRecord
from kms.release.attestations import Attestations

ATTESTED: Final = "maa-attested"
_UNDECIDED: Final = (EndorsementError, UnavailableError, RateLimitedError)
"""Errors after which the same request may be sent again; the log has no entry of it."""


class Attestation:
    """Attestation of machines by the policy of one file."""

    def __init__(self, port: Attestations, settings: MaaSettings, signer: TokenSigner, *, clock: Clock) -> None:
        self._port = port
        self._policy = settings.policy
        self._signer = signer
        self._clock = clock

    def attest(self, body: bytes, tee: Tee) -> str:
        """Return a token for a machine.

        A request that cannot be read is refused without an entry in the log, since there is no evidence. Refusals of
        evidence that is not genuine have entries at a limited rate.

        Raises:
            EvidenceError: the request or the evidence is malformed.
            VerificationError: the evidence is not genuine, does not commit to its data, is simulated or frozen.
            AppraisalError: it does not meet the policy, or is below the floor of the service.
            EndorsementError: an endorsement is missing or stale.
            RateLimitedError: the machine attests too often.
            UnavailableError: the database is in use.
        """
        at = self._clock()
        request = parse_request(body, tee)
        digest = sha256(request.runtime.content).digest()
        # (1) Genuine evidence, over the runtime data and the initialisation data.
        try:
            verified = self._port.verified(request.evidence, runtime_digest=digest, policy=self._policy, at=at)
        except _UNDECIDED:
            raise
        except AttestError as exc:
            self._port.record_stranger(_record(request, tee, digest, None, exc, at=at), at=at)
            raise
        # (2) It meets the policy and the floor, and nothing stops it.
        try:
            self._port.require_admitted(verified, policy=self._policy, at=at)
            claims = claims_about(verified, tee)
        except UnavailableError:
            raise
        except AttestError as exc:
            self._port.record(_record(request, tee, digest, verified, exc, at=at), at=at)
            raise
        # (3) The entry in the log is on disk before the token is sent.
        token = self._signer.sign({**claims, **_given(request), "simulated": verified.simulated}, at=at)
        self._port.record(_record(request, tee, digest, verified, None, at=at), at=at)
        return token


def _given(request: AttestRequest) -> dict[str, JsonValue]:
    """Return what the guest gave: data in JSON that the report commits to, and its nonce, which nothing binds."""
    init_time = None if request.init_time is None else request.init_time.value
    return {
        **({} if request.nonce is None else {"nonce": request.nonce}),
        **({} if request.runtime.value is None else {"x-ms-runtime": dict(request.runtime.value)}),
        **({} if init_time is None else {"x-ms-inittime": dict(init_time)}),
    }


def _record(
    request: AttestRequest,
    tee: Tee,
    digest: bytes,
    verified: VerifiedEvidence | None,
    refusal: AttestError | None,
    *,
    at: datetime,
) -> AttestationRecord:
    """Return an attestation for the log: digests and outcomes, and never evidence or a token."""
    members: dict[str, JsonValue] = {
        "at": rfc3339_text(at),
        "evidence_sha384": request.evidence.digest.hex(),
        "tee": tee,
        "runtime_sha256": digest.hex(),
        "simulated": None if verified is None else verified.simulated,
    }
    return AttestationRecord(kind=ATTESTED, members=members, refusal=refusal)
