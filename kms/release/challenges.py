"""Challenges: 32 fresh bytes in a self-authenticating token, so that issuing one stores nothing.

::

    token   base64url( body ‖ HMAC-SHA256 over canonical CBOR of ("kms-challenge/v1", audience, body) )
    body    0x01 ‖ flags (1 byte; bit 0: simulated evidence is accepted)
                 ‖ issued at (8 bytes, big-endian, milliseconds since 1970, UTC)
                 ‖ lifetime (4 bytes, big-endian, seconds)
                 ‖ nonce (32 bytes)

The token contains the lifetime, so that a longer setting cannot revive challenges whose use is no longer recorded.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from attest.encoding import base64url_bytes, base64url_text, cbor_bytes, rfc3339_text
from attest.errors import EvidenceError
from attest.release import Challenge
from kms.domain.errors import ChallengeError, ChallengeExpiredError
from kms.domain.kek import RandomBytes
from kms.domain.secret import EXPORT, SecretBytes
from kms.store.timestamps import milliseconds, moment_of

MAC_KEY_BYTES: Final = 32
NONCE_BYTES: Final = 32
_MAC_BYTES = 32
_BODY_BYTES = 1 + 1 + 8 + 4 + NONCE_BYTES
TOKEN_CHARACTERS: Final = (_BODY_BYTES + _MAC_BYTES) * 4 // 3
_VERSION = 1
_SIMULATED = 1
_DOMAIN = "kms-challenge/v1"
_ASK_AGAIN = "request a new challenge and collect new evidence for it"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedChallenge:
    """A challenge of this service that is still valid: its nonce, 32 bytes, and the end of its validity, excluded.

    It may have been used already.
    """

    nonce: bytes
    expires_at: datetime

    @property
    def nonce_digest(self) -> bytes:
        """SHA-256 of the nonce, as stored and logged."""
        return sha256(self.nonce).digest()


class ChallengeIssuer:
    """Issuer and verifier of challenges.

    Args:
        mac_key: 32 secret bytes, the same for every replica.
        audience: the service's verifier key text.
        lifetime_seconds: of the challenges issued from now on.
        simulated: True if simulated evidence is accepted.
        random: source of nonces.
        not_before: challenges issued earlier are refused, since it is unknown which of them were used.
    """

    def __init__(
        self,
        *,
        mac_key: SecretBytes,
        audience: str,
        lifetime_seconds: int,
        simulated: bool,
        random: RandomBytes,
        not_before: datetime | None = None,
    ) -> None:
        self._not_before = not_before
        self._mac_key = mac_key
        self._audience = audience
        self._lifetime_seconds = lifetime_seconds
        self._flags = _SIMULATED if simulated else 0
        self._random = random

    def issue(self, *, at: datetime) -> Challenge:
        """Issue a challenge that is valid from this moment."""
        issued = milliseconds(at)
        nonce = self._random(NONCE_BYTES)
        body = b"".join(
            (
                bytes((_VERSION, self._flags)),
                issued.to_bytes(8, "big"),
                self._lifetime_seconds.to_bytes(4, "big"),
                nonce,
            )
        )
        return Challenge(
            token=base64url_text(body + self._mac(body)),
            nonce=nonce,
            audience=self._audience,
            expires_at=moment_of(issued) + timedelta(seconds=self._lifetime_seconds),
        )

    def open(self, token: str, *, at: datetime) -> OpenedChallenge:
        """Verify a challenge: ``issued_at <= at < expires_at``.

        Raises:
            ChallengeError: ``challenge-invalid`` (altered, of another service, version or setting) or
                ``challenge-from-the-future``.
            ChallengeExpiredError: ``challenge-expired``.
        """
        # (1) MAC: nothing is read before it is compared.
        body = self._authentic(token)
        # (2) Version, and issued under the setting that is in force now.
        if body[0] != _VERSION or body[1] != self._flags:
            raise _not_ours()
        # (3) Validity.
        issued_at = moment_of(int.from_bytes(body[2:10], "big"))
        expires_at = issued_at + timedelta(seconds=int.from_bytes(body[10:14], "big"))
        _require_in_time(issued_at, expires_at, at)
        self._require_recorded(issued_at)
        return OpenedChallenge(nonce=body[14:], expires_at=expires_at)

    def _require_recorded(self, issued_at: datetime) -> None:
        if self._not_before is not None and issued_at < self._not_before:
            raise ChallengeExpiredError(
                "the challenge was issued before the service started, or before its data was restored",
                code="challenge-expired",
                expected=f"issued from {rfc3339_text(self._not_before)} on",
                got=rfc3339_text(issued_at),
                hint=_ASK_AGAIN,
            )

    def _authentic(self, token: str) -> bytes:
        if len(token) != TOKEN_CHARACTERS:
            raise _not_ours()
        try:
            content = base64url_bytes(token, what="challenge")
        except EvidenceError as exc:
            raise _not_ours() from exc
        body, mac = content[:_BODY_BYTES], content[_BODY_BYTES:]
        if not hmac.compare_digest(mac, self._mac(body)):
            raise _not_ours()
        return body

    def _mac(self, body: bytes) -> bytes:
        message = cbor_bytes((_DOMAIN, self._audience, body))
        return self._mac_key.lend(EXPORT, lambda key: hmac.digest(key, message, "sha256"))


def _require_in_time(issued_at: datetime, expires_at: datetime, at: datetime) -> None:
    window = f"{rfc3339_text(issued_at)} <= now < {rfc3339_text(expires_at)}"
    if at < issued_at:
        raise ChallengeError(
            "the challenge was issued in the future",
            code="challenge-from-the-future",
            expected=window,
            got=rfc3339_text(at),
            hint="the service's clock was set back, or the clocks of its replicas differ; " + _ASK_AGAIN,
        )
    if at >= expires_at:
        raise ChallengeExpiredError(
            "the challenge has expired",
            code="challenge-expired",
            expected=window,
            got=rfc3339_text(at),
            hint=_ASK_AGAIN,
        )


def _not_ours() -> ChallengeError:
    return ChallengeError("this is not a challenge of this service", code="challenge-invalid", hint=_ASK_AGAIN)
