"""Administrators of a Key Broker Service: who a bearer token names, and what that role may do.

Clients up to version 0.20 sign their tokens themselves and name no role; a provider can state the role of those.

Spec: specs/kbs-protocol.md, section 16.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Final

from attest.encoding import JsonValue
from attest.errors import AttestError
from attest.results import verify_token
from kms.api.kbs.errors import KbsRefusal, Variant
from kms.config.kbs import IdentityProvider, KbsSettings
from kms.domain.actors import Actor, Means

_ALGORITHMS: Final = frozenset({"EdDSA", "Ed25519", "ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256"})
_LEEWAY_SECONDS: Final = 60
_MAX_CHARACTERS: Final = 16 * 1024
_MAX_NAME: Final = 200
_SCHEME: Final = "Bearer "
_WHAT: Final = "the administrator's token"


def bearer_of(authorization: list[str]) -> str | None:
    """Return the bearer token of a request, or None; the scheme is compared exactly."""
    if len(authorization) != 1 or not authorization[0].startswith(_SCHEME):
        return None
    return authorization[0].removeprefix(_SCHEME).strip() or None


class Administrators:
    """Authentication and permissions of administrators."""

    def __init__(self, settings: KbsSettings) -> None:
        self._providers = settings.administrators
        self._roles = settings.roles

    def require(self, authorization: list[str], addresses: tuple[str, ...], *, variant: Variant, at: datetime) -> Actor:
        """Return the administrator of a request, who may use its address.

        ``addresses`` are the path with its query as the client sent it, and with the path percent-decoded. One role
        must permit both: in ``[^/]+``, an encoded slash would otherwise stand for another route.

        Raises:
            KbsRefusal: there is no token, none of the keys signed it, it has expired, it names no role, or the role may
                not use the address; each with a text of its own.
        """
        token = bearer_of(authorization)
        if token is None or len(token) > _MAX_CHARACTERS:
            raise _refused(variant, "the request has no bearer token", code="admin-token-missing")
        provider, claims = self._signed(token, variant)
        self._require_time(claims, variant, at)
        role = claims.get("role", provider.role)
        if not isinstance(role, str) or not role:
            raise _refused(variant, f"{_WHAT} names no role", code="admin-role-missing")
        if not any(one.role == role and all(map(one.permits, addresses)) for one in self._roles):
            text = f"the role {role[:40]!r} may not use this address"
            raise KbsRefusal(HTTPStatus.FORBIDDEN, variant, text, code="admin-role-refused")
        return _actor(claims, role)

    def _signed(self, token: str, variant: Variant) -> tuple[IdentityProvider, Mapping[str, JsonValue]]:
        for provider in self._providers:
            for key in provider.keys:
                try:
                    found = verify_token(token, keys=(key,), algorithms=_ALGORITHMS, what=_WHAT, by_kid=False)
                except AttestError:
                    continue
                if _is_for(provider, found.claims):
                    return provider, found.claims
        problem = f"{_WHAT} was signed by none of the configured keys, or is for another service"
        raise _refused(variant, problem, code="admin-token-unverified")

    def _require_time(self, claims: Mapping[str, JsonValue], variant: Variant, at: datetime) -> None:
        now = at.timestamp()
        expires, begins = _moment(claims.get("exp")), _moment(claims.get("nbf", 0))
        if expires is None or begins is None:
            raise _refused(variant, f"{_WHAT} states no time in exp", code="admin-token-unverified")
        if not begins - _LEEWAY_SECONDS <= now < expires + _LEEWAY_SECONDS:
            raise _refused(variant, f"{_WHAT} has expired, or is not valid yet", code="admin-token-expired")


def _is_for(provider: IdentityProvider, claims: Mapping[str, JsonValue]) -> bool:
    """Return whether the token is of this issuer and for this service, as far as the provider requires it."""
    audience = claims.get("aud")
    members = audience if isinstance(audience, list) else [audience]
    return (provider.issuer is None or claims.get("iss") == provider.issuer) and (
        provider.audience is None or provider.audience in members
    )


def _moment(value: JsonValue) -> float | None:
    """Return a time in seconds; integers stay, since one may be too large for a float."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _actor(claims: Mapping[str, JsonValue], role: str) -> Actor:
    names = (claims.get("iss"), claims.get("sub"), f"role {role}")
    text = "|".join(one for one in names if isinstance(one, str) and one.isprintable())
    return Actor(name=text[:_MAX_NAME], means=Means.KBS)


def _refused(variant: Variant, problem: str, *, code: str) -> KbsRefusal:
    return KbsRefusal(HTTPStatus.UNAUTHORIZED, variant, problem, code)
