"""Callers of a vault: their bearer tokens and permissions, and the challenge of a request without a token.

Spec: specs/azure-skr.md, sections 4 and 5.1.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from http import HTTPStatus
from typing import Final

from attest.encoding import JsonValue
from attest.errors import AttestError
from attest.results import read_unverified, verify_token
from kms.api.skr.errors import SkrRefusal, denied
from kms.config.skr import CallerIssuer, Permission, Vault
from kms.domain.actors import Actor, Means

_ALGORITHMS: Final = frozenset({"RS256", "PS256", "ES256", "ES384"})
_IGNORED: Final = frozenset({"x5t", "x5t#S256"})
_LEEWAY_SECONDS: Final = 60
_MAX_CHARACTERS: Final = 16 * 1024
_MAX_NAME: Final = 200
_DIGITS: Final = 32
_SCHEME: Final = "bearer"
_WHAT: Final = "the bearer token"


class Caller:
    """A caller whose token verified."""

    def __init__(self, actor: Actor, actions: frozenset[str]) -> None:
        self.actor = actor
        self._actions = actions

    def require(self, action: str) -> Actor:
        """Return the actor, who may do this.

        Raises:
            SkrRefusal: 403 ``skr-permission-missing``.
        """
        if action not in self._actions:
            raise denied(f"the caller does not have keys {action} permission", "skr-permission-missing")
        return self.actor


class Callers:
    """Authentication and permissions of callers."""

    def __init__(self, issuers: tuple[CallerIssuer, ...]) -> None:
        self._issuers = issuers

    @staticmethod
    def token(authorization: list[str], vault: Vault) -> str:
        """Return the token of a request.

        Raises:
            SkrRefusal: 401 with the challenge: there is none.
        """
        token = _bearer_of(authorization)
        if token is None:
            raise _challenge(vault, "Request is missing a Bearer or PoP token.", "skr-token-missing")
        return token

    def identify(self, token: str, vault: Vault, *, at: datetime) -> Caller:
        """Return the caller of a token.

        Raises:
            SkrRefusal: 401 with the challenge: none of the keys signed it, it is for another service, or out of time.
        """
        issuer, claims = self._signed(token, vault)
        now = at.timestamp()
        expires, begins = _moment(claims.get("exp")), _moment(claims.get("nbf", 0))
        if expires is None or begins is None or not begins - _LEEWAY_SECONDS <= now < expires:
            raise _challenge(vault, f"{_WHAT} has expired, or is not valid yet", "skr-token-expired")
        return Caller(_actor(claims), _actions(issuer.permissions, claims, vault))

    def _signed(self, token: str, vault: Vault) -> tuple[CallerIssuer, Mapping[str, JsonValue]]:
        try:
            _, claimed = read_unverified(token.encode())
        except AttestError:
            claimed = {}
        for one in self._issuers:
            # What the token claims selects the one key that is tried.
            if _is_for(one, claimed) and _is_for(one, found := _verified(token, one)):
                return one, found
        problem = f"{_WHAT} was signed by none of the configured keys, or is for another service"
        raise _challenge(vault, problem, "skr-token-unverified")


def _is_for(one: CallerIssuer, claims: Mapping[str, JsonValue]) -> bool:
    audience = claims.get("aud")
    return claims.get("iss") == one.issuer and one.audience in (audience if isinstance(audience, list) else [audience])


def _verified(token: str, issuer: CallerIssuer) -> Mapping[str, JsonValue]:
    """Return the claims of a token that the issuer's key of this name signed, or nothing; an only key needs no name."""
    with contextlib.suppress(AttestError):
        return verify_token(
            token,
            keys=issuer.keys,
            algorithms=_ALGORITHMS,
            what=_WHAT,
            ignored_header=_IGNORED,
            by_kid=len(issuer.keys) > 1,
        ).claims
    return {}


def _bearer_of(authorization: list[str]) -> str | None:
    scheme, _, token = (authorization[0] if len(authorization) == 1 else "").partition(" ")
    token = token.strip()
    return token if scheme.lower() == _SCHEME and 0 < len(token) <= _MAX_CHARACTERS else None


def _challenge(vault: Vault, text: str, inner: str) -> SkrRefusal:
    """Return the 401 by which clients learn where to get a token; they parse the header by commas and equals signs."""
    header = f'Bearer authorization="{vault.login}", resource="{vault.resource}"'
    message = f"AKV10000: {text}"
    return SkrRefusal(HTTPStatus.UNAUTHORIZED, "Unauthorized", message, inner, {"WWW-Authenticate": header})


def _moment(value: JsonValue) -> float | None:
    """Return a time in seconds; integers stay, since one may be too large for a float."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _application(claims: Mapping[str, JsonValue]) -> JsonValue:
    return claims.get("appid", claims.get("azp"))


def _actions(permissions: tuple[Permission, ...], claims: Mapping[str, JsonValue], vault: Vault) -> frozenset[str]:
    roles = claims.get("roles")
    named = roles if isinstance(roles, list) else []
    # With scopes it is the token of a user who signed in through the application, which is not the caller.
    application = None if "scp" in claims else _application(claims)
    found = [
        one.actions
        for one in permissions
        if (one.vaults is None or vault.host in one.vaults)
        and (one.role in named if one.appid is None else one.appid == application)
    ]
    return frozenset().union(*found)


def _actor(claims: Mapping[str, JsonValue]) -> Actor:
    """Return the caller as ``issuer|subject|application``; two callers have two names, also where these are long."""
    names = (claims.get("iss"), claims.get("sub") or claims.get("oid"), _application(claims))
    text = "|".join(one if isinstance(one, str) and one.isprintable() else "" for one in names).rstrip("|")
    if len(text) > _MAX_NAME:
        text = f"{text[:_MAX_NAME]}~{sha256(text.encode()).hexdigest()[:_DIGITS]}"
    return Actor(name=text, means=Means.SKR)
