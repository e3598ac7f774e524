"""Issuer of EARs: signs them, publishes its keys, and rotates them without invalidating tokens.

A key is published before it signs (``next``), signs (``current``), and stays published until the last token that it
signed has expired (``retired``). Nothing here reads a clock, draws random numbers or stores a key: time and ``jti``
are arguments, and keys come with the function that signs.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal

from attest.appraisal import AttestationResult
from attest.encoding import JsonValue, base64url_bytes, base64url_json, base64url_text
from attest.results.cbor import ClaimsValue, claims_bytes
from attest.results.cwt import COSE_NUMBERS, sign_cwt
from attest.results.ear import VerifierId
from attest.results.ear_build import build_ear
from attest.results.ear_codec import ear_to_cbor, ear_to_json
from attest.results.raw_signatures import SigningKey, public_jwk

TokenForm = Literal["jwt", "cwt"]
DEFAULT_LIFETIME: Final = timedelta(minutes=5)
MAX_LIFETIME: Final = timedelta(days=1)
MIN_TOKEN_ID_BYTES: Final = 16
_JWT_TYPE: Final = "eat+jwt"
"""RFC 9782, without ``application/`` as RFC 7515 recommends."""
_COSE_CURVES = {"P-256": (2, 1), "P-384": (2, 2), "Ed25519": (1, 6)}
"""JWK curve to COSE key type and curve (RFC 9053, section 7)."""


class SigningKeyState(enum.StrEnum):
    """State of a signing key in its life cycle."""

    NEXT = "next"
    CURRENT = "current"
    RETIRED = "retired"


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerKey:
    """A signing key in its state.

    Attributes:
        until: of a retired key, when the last token that it signed has expired; published before that moment.

    Raises:
        ValueError: a retired key without an end, or another one with an end.
    """

    key: SigningKey
    state: SigningKeyState
    until: datetime | None = None

    def __post_init__(self) -> None:
        """Refuse a key that would be published for ever, or end while it signs."""
        if (self.state is SigningKeyState.RETIRED) != (self.until is not None):
            raise ValueError("only a retired key has a time until which it is published")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenIssuer:
    """Signs Attestation Results under one name.

    Attributes:
        issuer: ``iss``: a URL or another name under which Relying Parties trust its keys.
        keys: exactly one of them current.
        max_lifetime: the longest that any token may live, which is how long a retired key stays published.

    Raises:
        ValueError: no current key or two, or one key in two states.
    """

    issuer: str
    verifier: VerifierId
    keys: tuple[IssuerKey, ...]
    max_lifetime: timedelta = MAX_LIFETIME

    def __post_init__(self) -> None:
        if [entry.state for entry in self.keys].count(SigningKeyState.CURRENT) != 1:
            raise ValueError("exactly one key of an issuer is the current one")
        if len({entry.key.kid for entry in self.keys}) != len(self.keys):
            raise ValueError("one key has two states")
        if self.max_lifetime <= timedelta(0):
            raise ValueError("the lifetime of a token is positive")

    @property
    def current(self) -> SigningKey:
        """The key that signs."""
        return next(entry.key for entry in self.keys if entry.state is SigningKeyState.CURRENT)

    def issue(
        self,
        results: AttestationResult | Sequence[AttestationResult],
        *,
        token_id: bytes,
        lifetime: timedelta = DEFAULT_LIFETIME,
        nonce: bytes | None = None,
        audience: Sequence[str] = (),
        form: TokenForm = "jwt",
        raw_evidence: bool = False,
    ) -> bytes:
        """Sign the EAR of one or several appraisals, affirmed or not; ``iat`` is their moment.

        ``results`` has one for each policy, in the order applied. ``token_id`` has at least 16 random bytes from the
        caller, which become ``jti``. ``nonce`` is the Relying Party's, as received, 8 to 64 bytes; an empty
        ``audience`` is any. The form is JWT (ASCII text), or CWT (COSE_Sign1 with tag 18).

        Raises:
            ValueError: a value that no token may have.
        """
        if len(token_id) < MIN_TOKEN_ID_BYTES:
            raise ValueError(f"a token id has at least {MIN_TOKEN_ID_BYTES} random bytes")
        if not timedelta(seconds=1) <= lifetime <= self.max_lifetime:
            raise ValueError(f"the lifetime of a token is at least one second and at most {self.max_lifetime}")
        ear = build_ear(
            (results,) if isinstance(results, AttestationResult) else tuple(results),
            verifier=self.verifier,
            issuer=self.issuer,
            lifetime=lifetime,
            token_id=base64url_text(token_id),
            nonce=nonce,
            audience=tuple(audience),
            raw_evidence=raw_evidence,
        )
        if form == "jwt":
            return sign_jwt(ear_to_json(ear), self.current).encode()
        return sign_cwt(ear_to_cbor(ear), self.current)

    def published(self, at: datetime) -> tuple[SigningKey, ...]:
        """Return the keys that a Relying Party needs at this moment: current, next, and retired ones in use."""
        order = {SigningKeyState.CURRENT: 0, SigningKeyState.NEXT: 1, SigningKeyState.RETIRED: 2}
        kept = [entry for entry in self.keys if entry.until is None or at < entry.until]
        return tuple(entry.key for entry in sorted(kept, key=lambda entry: order[entry.state]))

    def jwks(self, at: datetime) -> bytes:
        """Return the key set that is published at this moment (RFC 7517)."""
        return json.dumps({"keys": [key.jwk for key in self.published(at)]}, indent=2).encode() + b"\n"

    def cose_key_set(self, at: datetime) -> bytes:
        """Return the same as a COSE_KeySet (RFC 9052, section 7), for readers of CWT alone."""
        return claims_bytes(tuple(_cose_key(key) for key in self.published(at)))

    def with_next(self, key: SigningKey) -> TokenIssuer:
        """Return the issuer that publishes one more key, which does not sign yet."""
        return replace(self, keys=(*self.keys, IssuerKey(key=key, state=SigningKeyState.NEXT)))

    def rotated(self, at: datetime) -> TokenIssuer:
        """Return the issuer that signs with its next key; the current one retires, and expired ones are dropped.

        Raises:
            ValueError: no next key, or several, were published before.
        """
        upcoming = [entry for entry in self.keys if entry.state is SigningKeyState.NEXT]
        if len(upcoming) != 1:
            raise ValueError("a rotation needs exactly one key that was published before")
        until = at + self.max_lifetime
        kept = tuple(entry for entry in self.keys if entry.until is not None and at < entry.until)
        return replace(
            self,
            keys=(
                IssuerKey(key=upcoming[0].key, state=SigningKeyState.CURRENT),
                IssuerKey(key=self.current, state=SigningKeyState.RETIRED, until=until),
                *kept,
            ),
        )


def sign_jwt(claims: Mapping[str, JsonValue], key: SigningKey) -> str:
    """Return the compact serialisation (RFC 7515); members are in the given order."""
    header: dict[str, JsonValue] = {"alg": key.algorithm, "typ": _JWT_TYPE, "kid": key.kid}
    message = f"{base64url_json(header)}.{base64url_json(claims)}"
    return f"{message}.{base64url_text(key.sign(message.encode()))}"


def _cose_key(key: SigningKey) -> ClaimsValue:
    jwk = public_jwk(key.public)
    kind, curve = _COSE_CURVES[str(jwk["crv"])]
    members: dict[int | str, ClaimsValue] = {
        1: kind,
        2: base64url_bytes(key.kid, what="kid"),
        3: COSE_NUMBERS[key.algorithm],
        -1: curve,
        -2: base64url_bytes(str(jwk["x"]), what="x"),
    }
    if "y" in jwk:
        members[-3] = base64url_bytes(str(jwk["y"]), what="y")
    return members
