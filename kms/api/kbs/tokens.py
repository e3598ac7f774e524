"""The token of ``/attest``: an EAR in the profile of Trustee, signed by this service.

Beside the claims that clients and policies read, ``kms.attestation`` carries what the guest sent, compressed. The
release of a resource verifies that evidence again, under the key's policy and at that moment: a token alone releases
nothing.

Spec: specs/kbs-protocol.md, section 11.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from attest import __version__
from attest.encoding import JsonValue, base64url_bytes, base64url_text
from attest.errors import AttestError, EvidenceError
from attest.results import SigningKey, TokenKey, TrustVector, verify_token

PROFILE: Final = "tag:github.com,2024:confidential-containers/Trustee"
ALGORITHM: Final = "ES256"
MAX_TOKEN_CHARACTERS: Final = 126 * 1024
"""Longest token: with the other headers it fits into the head of a request, see ``kms.api.limits``."""
MAX_BODY_BYTES: Final = 2 * 1024 * 1024
_WHAT: Final = "the attestation token"
_MEMBER: Final = "kms.attestation"
_LONG_TEXT: Final = 1024
"""Evidence of devices that is longer than this is left out of the shown claims; it is in ``kms.attestation``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submodule:
    """The appraisal of one device in a token: its name (``cpu0``), vector, and claims as policies read them."""

    name: str
    vector: TrustVector
    claims: Mapping[str, JsonValue]
    extensions: Mapping[str, JsonValue]

    def members(self) -> dict[str, JsonValue]:
        """Return it as JSON members."""
        return {
            "ear.status": str(self.vector.tier),
            "ear.trustworthiness-vector": dict(self.vector.items()),
            "ear.appraisal-policy-id": "default",
            "ear.veraison.annotated-evidence": dict(self.claims),
            **self.extensions,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SentAttestation:
    """The body that a guest sent to ``/attest``, as the token carries it.

    Attributes:
        tee: the TEE's name.
        version: of the protocol.
        nonce: of the challenge, as text.
        body: the whole body.
    """

    tee: str
    version: str
    nonce: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedToken:
    """A token that this service signed and that is in time.

    Attributes:
        claims: as resource policies read them: all but the attestation itself.
        expires_at: the end of its validity, excluded.
    """

    claims: Mapping[str, JsonValue]
    sent: SentAttestation
    expires_at: datetime


class TokenIssuer:
    """Issuer and verifier of tokens.

    Args:
        key: P-256.
        issuer: the service's verifier key text, which names origin and key.
        lifetime_seconds: of a token.
    """

    def __init__(self, key: SigningKey, *, issuer: str, lifetime_seconds: int) -> None:
        self._key = key
        self._issuer = issuer
        self._lifetime = timedelta(seconds=lifetime_seconds)
        self._trusted = (TokenKey(kid=key.kid, jwk=key.jwk),)
        public = {name: key.jwk[name] for name in ("alg", "kty", "crv", "x", "y")}
        self._header = _encoded({"typ": "JWT", "alg": ALGORITHM, "kid": key.kid, "jwk": public})

    @property
    def jwks(self) -> dict[str, JsonValue]:
        """The key set by which others verify tokens."""
        return {"keys": [self._key.jwk]}

    def issue(self, submodules: tuple[Submodule, ...], sent: SentAttestation, *, simulated: bool, at: datetime) -> str:
        """Sign a token.

        Raises:
            EvidenceError: ``kbs-token-too-large``: the evidence does not fit into the head of a later request.
        """
        issued = int(at.timestamp())
        compressed = zlib.compress(sent.body, level=9)
        claims: dict[str, JsonValue] = {
            "eat_profile": PROFILE,
            "iat": issued,
            "exp": issued + int(self._lifetime.total_seconds()),
            "iss": self._issuer,
            "ear.verifier-id": {"developer": "attest", "build": f"kms {__version__}"},
            "submods": {one.name: one.members() for one in submodules},
            **({"simulated": True} if simulated else {}),
            _MEMBER: {
                "tee": sent.tee,
                "version": sent.version,
                "nonce": sent.nonce,
                "body": base64url_text(compressed),
            },
        }
        signed = f"{self._header}.{_encoded(claims)}"
        token = f"{signed}.{base64url_text(self._key.sign(signed.encode()))}"
        if len(token) > MAX_TOKEN_CHARACTERS:
            raise EvidenceError(
                "the evidence is too large for a token, which later requests carry in their heads",
                code="kbs-token-too-large",
                field="tee-evidence",
                expected=f"a token of at most {MAX_TOKEN_CHARACTERS} characters",
                got=f"{len(token)} characters",
                hint="send fewer devices with one attestation",
            )
        return token

    def open(self, token: str, *, at: datetime) -> OpenedToken:
        """Verify a token: this service signed it, and ``iat <= at < exp``.

        Raises:
            EvidenceError: ``token-malformed``, or ``token-expired``.
            EndorsementError: ``token-key-unknown``.
            SignatureError: ``token-signature-invalid`` or ``token-algorithm-refused``.
        """
        if len(token) > MAX_TOKEN_CHARACTERS:
            raise _malformed("it is too long")
        ignored = frozenset({"jwk"})
        signed = verify_token(
            token, keys=self._trusted, algorithms=frozenset({ALGORITHM}), what=_WHAT, ignored_header=ignored
        )
        claims = signed.claims
        issued, expires = claims.get("iat"), claims.get("exp")
        if claims.get("iss") != self._issuer or not isinstance(issued, int) or not isinstance(expires, int):
            raise _malformed("it was not issued by this service for this protocol")
        if not issued <= at.timestamp() < expires:
            raise EvidenceError(
                f"{_WHAT} has expired", code="token-expired", field="exp", hint="attest again, which gives a new token"
            )
        return OpenedToken(
            claims={name: claim for name, claim in claims.items() if name != _MEMBER},
            sent=_sent(claims.get(_MEMBER)),
            expires_at=datetime.fromtimestamp(expires, tz=at.tzinfo),
        )


def _sent(value: JsonValue) -> SentAttestation:
    members = value if isinstance(value, dict) else {}
    texts = {name: members.get(name) for name in ("tee", "version", "nonce", "body")}
    given = {name: text for name, text in texts.items() if isinstance(text, str)}
    if len(given) != len(texts):
        raise _malformed("it carries no attestation")
    unpacked = zlib.decompressobj()
    try:
        body = unpacked.decompress(base64url_bytes(given["body"], what=_MEMBER), MAX_BODY_BYTES + 1)
    except (zlib.error, AttestError) as exc:
        raise _malformed("its attestation cannot be read") from exc
    if len(body) > MAX_BODY_BYTES or not unpacked.eof:
        raise _malformed("its attestation is too long, or cut")
    return SentAttestation(tee=given["tee"], version=given["version"], nonce=given["nonce"], body=body)


def shown_claims(claims: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return runtime data for a token, without a long text of device evidence."""
    return {name: one for name, one in claims.items() if not (isinstance(one, str) and len(one) > _LONG_TEXT)}


def _encoded(document: Mapping[str, JsonValue]) -> str:
    return base64url_text(json.dumps(document, separators=(",", ":")).encode())


def _malformed(problem: str) -> EvidenceError:
    return EvidenceError(f"{_WHAT} is refused: {problem}", code="token-malformed")
