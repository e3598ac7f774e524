"""Validation of a bearer token (JWT, RFC 7519, or RFC 9068 by the settings of its issuer): pure and in a fixed order.

The operator's file determines the keys for the issuer that the token names. The header has no influence on this:
``jku``, ``jwk``, ``x5u`` and ``x5c`` are not read (MC-14), ``crit`` is refused, ``alg`` must be one of the operator's
list, and ``kid`` only selects a key. ``attest.results.jose`` checks signatures.
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
"""Accepted token types, in lower case; logout tokens, DPoP and others are refused (RFC 8725, 3.11)."""
_SAME: Final = {"Ed25519": "EdDSA"}
_WHAT: Final = "the bearer token"
_CNF_CERTIFICATE: Final = "x5t#S256"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedBearer:
    """A verified token of a subject, named by its issuer.

    ``single_use`` is the SHA-256 that identifies a token for one use. ``expires_at`` is the expiry (exclusive),
    including the skew.
    """

    identity: Actor
    single_use: bytes | None
    expires_at: datetime


def issuer_of(text: str, issuers: tuple[BearerIssuer, ...]) -> BearerIssuer:
    """Return the configured issuer that an unverified token names.

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
        raise _refused("its issuer is not configured", "token-issuer-unknown", field="iss")
    return found


def usable_keys(keys: tuple[TokenKey, ...], issuer: BearerIssuer) -> tuple[TokenKey, ...]:
    """Return the signing keys for tokens of this issuer; a key set may also contain encryption keys."""
    allowed = (None, *_algorithms(issuer))
    return tuple(
        key
        for key in keys
        if key.jwk.get("use", "sig") == "sig" and key.jwk.get("alg") in allowed and _may_verify(key.jwk.get("key_ops"))
    )


def _algorithms(issuer: BearerIssuer) -> frozenset[str]:
    """Return the names accepted in a header; EdDSA has two."""
    return frozenset(issuer.algorithms) | ({"Ed25519"} if "EdDSA" in issuer.algorithms else frozenset())


def _may_verify(operations: JsonValue) -> bool:
    return operations is None or (isinstance(operations, list) and "verify" in operations)


def verify_bearer(
    text: str, *, issuer: BearerIssuer, keys: tuple[TokenKey, ...], certificate: bytes | None, at: datetime
) -> VerifiedBearer:
    """Check a token of an issuer.

    Args:
        text: compact serialisation.
        issuer: configured by the operator, returned by ``issuer_of``.
        keys: its keys that may sign.
        certificate: client certificate of the connection in DER, verified by the TLS listener, or None.
        at: moment of the check, aware.

    Raises:
        UnauthenticatedError: with the failed check as code.
    """
    # (1) Signature by a key of this issuer, with an algorithm that the operator allows.
    claims = _signed(text, issuer, keys)
    # (2) Audience: only this service, because another recipient could replay a token that it also accepts.
    if claims.get("iss") != issuer.issuer:
        raise _refused("its iss is different", "token-issuer-unknown", field="iss")
    audience = claims.get("aud")
    if audience not in (issuer.audience, [issuer.audience]):
        raise _refused("it is for another audience", "token-audience-mismatch", field="aud", expected=issuer.audience)
    # (3) Validity period, at most as long as the operator allows.
    expires_at = _require_time(claims, issuer, at)
    # (4) Further claims required by the operator.
    for name, wanted in issuer.required_claims.items():
        if not _holds(claims.get(name), wanted):
            raise _refused(f"its claim {name!r} does not have the required value", "token-claim-refused", field=name)
    # (5) Binding to the client certificate (RFC 8705); no other binding is supported.
    _require_confirmed(claims.get("cnf"), certificate)
    # (6) Id, if required.
    token_id = claims.get("jti")
    if issuer.jti != "optional" and not (isinstance(token_id, str) and 0 < len(token_id) <= MAX_SUBJECT_CHARACTERS):
        raise _refused("it has no id", "token-claim-missing", field="jti")
    # (7) Subject.
    return VerifiedBearer(
        identity=_identity(claims.get("sub"), issuer),
        single_use=_use_digest(issuer, str(token_id)) if issuer.jti == "single-use" else None,
        expires_at=expires_at,
    )


def _signed(text: str, issuer: BearerIssuer, keys: tuple[TokenKey, ...]) -> Mapping[str, JsonValue]:
    try:
        token = verify_token(text, keys=keys, algorithms=_algorithms(issuer), what=_WHAT)
    except EvidenceError as exc:
        raise _refused("it is malformed, or its header is not supported", "token-malformed") from exc
    except EndorsementError as exc:
        raise _refused("its issuer has no key with this id", "token-key-unknown", field="kid") from exc
    except SignatureError as exc:
        raise UnauthenticatedError(exc.message, code=exc.code, field=exc.field, expected=exc.expected) from exc
    key = next(one for one in keys if one.kid == token.kid)
    meant = key.jwk.get("alg")
    if meant is not None and _SAME.get(str(meant), meant) != _SAME.get(token.algorithm, token.algorithm):
        raise _refused(
            "its key is for a different algorithm", "token-algorithm-refused", field="alg", expected=str(meant)[:40]
        )
    if (None if token.typ is None else token.typ.lower()) not in _TYPES:
        raise _refused("it is a different type of token", "token-type-refused", field="typ", expected="JWT or at+jwt")
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
    """Read a NumericDate in whole seconds."""
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _refused(f"it has no {name}", "token-claim-missing", field=name, expected="whole seconds since 1970")
    try:
        return datetime.fromtimestamp(value, tz=UTC)
    except (OverflowError, ValueError, OSError) as exc:
        raise _refused(f"its {name} is not a time", "token-claim-missing", field=name) from exc


def _holds(value: JsonValue, wanted: str | int | bool) -> bool:  # noqa: FBT001  a claim's value
    """Compare values of the same type only (MC-41): true is not 1, and a missing claim equals nothing."""
    found = value if isinstance(value, list) else [value]
    return any(type(one) is type(wanted) and one == wanted for one in found)


def _require_confirmed(cnf: JsonValue, certificate: bytes | None) -> None:
    if cnf is None:
        return
    digest = None if certificate is None else base64url_text(sha256(certificate).digest())
    bound = cnf.get(_CNF_CERTIFICATE) if isinstance(cnf, dict) and set(cnf) == {_CNF_CERTIFICATE} else None
    if digest is None or not isinstance(bound, str) or not hmac.compare_digest(bound.encode(), digest.encode()):
        raise _refused(
            "it is not bound to the client certificate of this connection",
            "token-binding-mismatch",
            field="cnf",
        )


def _identity(subject: JsonValue, issuer: BearerIssuer) -> Actor:
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT_CHARACTERS:
        raise _refused("it has no subject", "token-claim-missing", field="sub")
    identity = jwt_identity(issuer.issuer, subject)
    if not subject.isprintable() or subject != subject.strip() or len(identity.name) > MAX_NAME_CHARACTERS:
        raise _refused("its subject is not a name", "token-claim-missing", field="sub")
    return identity


def _use_digest(issuer: BearerIssuer, token_id: str) -> bytes:
    """Return the digest that identifies a used token; its preimage is never the nonce of a challenge."""
    name = issuer.issuer.encode()
    return sha256(b"kms bearer token v1\0" + len(name).to_bytes(2, "big") + name + token_id.encode()).digest()


def _refused(problem: str, code: str, *, field: str | None = None, expected: str | None = None) -> UnauthenticatedError:
    return UnauthenticatedError(f"{_WHAT} is refused: {problem}", code=code, field=field, expected=expected)
