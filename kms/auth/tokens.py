"""Reading a bearer token (JWT, RFC 7519; RFC 9068 where its issuer says so): pure, strict, and in a fixed order.

Whose keys count is what the operator's file says for the issuer that the token names. The header chooses nothing: no
``jku``, ``jwk``, ``x5u`` or ``x5c`` is read (MC-14), ``crit`` is refused, ``alg`` must be one of the operator's and
``kid`` only finds a key. Signatures are checked by ``attest.results.jose``.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final

from attest.encoding import JsonValue, base64url_bytes, base64url_text, json_value
from attest.errors import EndorsementError, EvidenceError, SignatureError
from attest.results import TokenKey, verify_token
from kms.auth.issuers import BearerIssuer
from kms.auth.names import MAX_NAME_CHARACTERS, jwt_identity
from kms.domain.actors import Actor
from kms.domain.errors import UnauthenticatedError

MAX_BEARER_CHARACTERS: Final = 16 * 1024
MAX_SUBJECT_CHARACTERS: Final = 255
_TYPES: Final = frozenset({None, "jwt", "at+jwt", "application/jwt", "application/at+jwt"})
"""In lower case. Tokens of other purposes, such as those of logout or DPoP, say so and are refused (RFC 8725, 3.11)."""
_SAME: Final = {"Ed25519": "EdDSA"}
_WHAT: Final = "the bearer token"
_CNF_CERTIFICATE: Final = "x5t#S256"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedBearer:
    """A verified token of a subject, as its issuer names it.

    ``single_use`` is the SHA-256 that stands for a token that counts once. ``expires_at`` is the first moment at which
    it no longer counts, the skew included.
    """

    identity: Actor
    single_use: bytes | None
    expires_at: datetime


def issuer_of(text: str, issuers: tuple[BearerIssuer, ...]) -> BearerIssuer:
    """Return the configured issuer that a token names; nothing of the token is trusted yet.

    Raises:
        UnauthenticatedError: ``token-malformed`` or ``token-issuer-unknown``.
    """
    if len(text) > MAX_BEARER_CHARACTERS:
        raise _refused("it is too long", "token-malformed", expected=f"at most {MAX_BEARER_CHARACTERS} characters")
    try:
        words = text.split(".")
        claims = json_value(base64url_bytes(words[1] if len(words) == 3 else "", what=_WHAT), what=_WHAT)
    except EvidenceError as exc:
        raise _refused("it cannot be read", "token-malformed", expected="a signed JWT in compact form") from exc
    named = claims.get("iss") if isinstance(claims, dict) else None
    found = next((one for one in issuers if one.issuer == named), None)
    if found is None:
        raise _refused("its issuer is not one of those configured", "token-issuer-unknown", field="iss")
    return found


def usable_keys(keys: tuple[TokenKey, ...], issuer: BearerIssuer) -> tuple[TokenKey, ...]:
    """Return the keys of a key set that may sign tokens of this issuer; keys for encryption stand there too."""
    allowed = (None, *_algorithms(issuer))
    return tuple(
        key
        for key in keys
        if key.jwk.get("use", "sig") == "sig" and key.jwk.get("alg") in allowed and _may_verify(key.jwk.get("key_ops"))
    )


def _algorithms(issuer: BearerIssuer) -> frozenset[str]:
    """Return the names that may stand in a header; EdDSA has two."""
    return frozenset(issuer.algorithms) | ({"Ed25519"} if "EdDSA" in issuer.algorithms else frozenset())


def _may_verify(operations: JsonValue) -> bool:
    return operations is None or (isinstance(operations, list) and "verify" in operations)


def verify_bearer(
    text: str, *, issuer: BearerIssuer, keys: tuple[TokenKey, ...], certificate: bytes | None, at: datetime
) -> VerifiedBearer:
    """Check a token of an issuer.

    Args:
        text: compact serialisation.
        issuer: configured by the operator, found by ``issuer_of``.
        keys: its keys that may sign.
        certificate: client certificate of the connection in DER, verified by the TLS listener, or None.
        at: moment of the check, aware.

    Raises:
        UnauthenticatedError: the check that failed, by its code.
    """
    # (1) The signature, by a key of this issuer and no other, with an algorithm that the operator allows.
    claims = _signed(text, issuer, keys)
    # (2) It is for this service alone: a token that others accept too could be handed on by them.
    if claims.get("iss") != issuer.issuer:
        raise _refused("its iss is another one", "token-issuer-unknown", field="iss")
    audience = claims.get("aud")
    if audience not in (issuer.audience, [issuer.audience]):
        raise _refused("it is for another audience", "token-audience-mismatch", field="aud", expected=issuer.audience)
    # (3) It is in time, and not valid for longer than the operator allows.
    expires_at = _require_time(claims, issuer, at)
    # (4) What the operator demands besides.
    for name, wanted in issuer.required_claims.items():
        if not _holds(claims.get(name), wanted):
            raise _refused(f"its claim {name!r} is not as demanded", "token-claim-refused", field=name)
    # (5) A token that is bound to a certificate comes with it (RFC 8705); no other binding is understood.
    _require_confirmed(claims.get("cnf"), certificate)
    # (6) Its id, where one is needed.
    token_id = claims.get("jti")
    if issuer.jti != "optional" and not (isinstance(token_id, str) and 0 < len(token_id) <= MAX_SUBJECT_CHARACTERS):
        raise _refused("it has no id", "token-claim-missing", field="jti")
    # (7) Who it is about.
    return VerifiedBearer(
        identity=_identity(claims.get("sub"), issuer),
        single_use=_use_digest(issuer, str(token_id)) if issuer.jti == "single-use" else None,
        expires_at=expires_at,
    )


def _signed(text: str, issuer: BearerIssuer, keys: tuple[TokenKey, ...]) -> Mapping[str, JsonValue]:
    try:
        token = verify_token(text, keys=keys, algorithms=_algorithms(issuer), what=_WHAT)
    except EvidenceError as exc:
        raise _refused("it cannot be read, or its header is not understood", "token-malformed") from exc
    except EndorsementError as exc:
        raise _refused("no key of its issuer is called so", "token-key-unknown", field="kid") from exc
    except SignatureError as exc:
        raise UnauthenticatedError(exc.message, code=exc.code, field=exc.field, expected=exc.expected) from exc
    key = next(one for one in keys if one.kid == token.kid)
    meant = key.jwk.get("alg")
    if meant is not None and _SAME.get(str(meant), meant) != _SAME.get(token.algorithm, token.algorithm):
        raise _refused(
            "its key is for another algorithm", "token-algorithm-refused", field="alg", expected=str(meant)[:40]
        )
    if (None if token.typ is None else token.typ.lower()) not in _TYPES:
        raise _refused("it is a token of another kind", "token-type-refused", field="typ", expected="JWT or at+jwt")
    return token.claims


def _require_time(claims: Mapping[str, JsonValue], issuer: BearerIssuer, at: datetime) -> datetime:
    """Compare whole seconds: ``iat``, ``nbf`` <= now + skew, now < ``exp`` + skew, and ``exp`` - ``iat`` bounded."""
    skew = timedelta(seconds=issuer.skew_seconds)
    issued, expires = (_moment(claims, name) for name in ("iat", "exp"))
    begins = issued if claims.get("nbf") is None else max(issued, _moment(claims, "nbf"))
    if at < begins - skew:
        raise _refused("it is not valid yet", "token-not-yet-valid", field="nbf")
    if at >= expires + skew:
        raise _refused("it has expired", "token-expired", field="exp")
    if not timedelta(0) < expires - issued <= timedelta(seconds=issuer.max_lifetime_seconds):
        limit = f"at most {issuer.max_lifetime_seconds} s from iat to exp"
        raise _refused("it is valid for too long", "token-lifetime-refused", field="exp", expected=limit)
    return expires + skew


def _moment(claims: Mapping[str, JsonValue], name: str) -> datetime:
    """Read a NumericDate; whole seconds, as issuers write it."""
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _refused(f"it has no {name}", "token-claim-missing", field=name, expected="whole seconds since 1970")
    try:
        return datetime.fromtimestamp(value, tz=UTC)
    except (OverflowError, ValueError, OSError) as exc:
        raise _refused(f"its {name} is no time", "token-claim-missing", field=name) from exc


def _holds(value: JsonValue, wanted: str | int | bool) -> bool:  # noqa: FBT001  a claim's value
    """Compare values of the same kind only (MC-41): true is not 1, and nothing equals what is missing."""
    found = value if isinstance(value, list) else [value]
    return any(type(one) is type(wanted) and one == wanted for one in found)


def _require_confirmed(cnf: JsonValue, certificate: bytes | None) -> None:
    if cnf is None:
        return
    digest = None if certificate is None else base64url_text(sha256(certificate).digest())
    bound = cnf.get(_CNF_CERTIFICATE) if isinstance(cnf, dict) and set(cnf) == {_CNF_CERTIFICATE} else None
    if digest is None or not isinstance(bound, str) or not hmac.compare_digest(bound.encode(), digest.encode()):
        raise _refused(
            "it is bound to something else than the client certificate of this connection",
            "token-binding-mismatch",
            field="cnf",
        )


def _identity(subject: JsonValue, issuer: BearerIssuer) -> Actor:
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT_CHARACTERS:
        raise _refused("it names nobody", "token-claim-missing", field="sub")
    identity = jwt_identity(issuer.issuer, subject)
    if not subject.isprintable() or subject != subject.strip() or len(identity.name) > MAX_NAME_CHARACTERS:
        raise _refused("its subject is no name", "token-claim-missing", field="sub")
    return identity


def _use_digest(issuer: BearerIssuer, token_id: str) -> bytes:
    """Return what stands for a token among what was used; a challenge's nonce is never its preimage."""
    name = issuer.issuer.encode()
    return sha256(b"kms bearer token v1\0" + len(name).to_bytes(2, "big") + name + token_id.encode()).digest()


def _refused(problem: str, code: str, *, field: str | None = None, expected: str | None = None) -> UnauthenticatedError:
    return UnauthenticatedError(f"{_WHAT} is refused: {problem}", code=code, field=field, expected=expected)
