"""Sessions without a store: the cookie is the challenge after ``/auth``, and the token after ``/attest``.

Spec: specs/kbs-protocol.md, section 5.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime
from typing import Final

from attest.errors import VerificationError
from kms.api.kbs.messages import AuthRequest
from kms.release.challenges import TOKEN_CHARACTERS

COOKIE: Final = "kbs-session-id"
PATH: Final = "/kbs/v0"
_SEPARATOR: Final = "~"


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A session after ``/auth``: the challenge, as a token, and what the guest said of itself."""

    challenge: str
    request: AuthRequest


def begun_cookie(challenge: str, request: AuthRequest) -> str:
    """Return the value of the cookie after ``/auth``.

    The challenge authenticates itself. TEE and version are the guest's own words, which it could as well change in
    another request to ``/auth``.
    """
    return _SEPARATOR.join((challenge, request.tee, request.version))


def read_begun(value: str | None) -> Begun:
    """Read the cookie of a session that has not attested yet; the challenge is verified by its issuer.

    Raises:
        VerificationError: ``kbs-session-unknown``.
    """
    parts = (value or "").split(_SEPARATOR)
    if len(parts) != 3 or len(parts[0]) != TOKEN_CHARACTERS:
        raise VerificationError(
            "the request is of no session that could attest" if value else "the request has no session",
            code="kbs-session-unknown",
            field="Cookie",
            expected=f"the cookie {COOKIE} of /auth; each session attests once",
            hint="begin again with /auth",
        )
    return Begun(challenge=parts[0], request=AuthRequest(version=parts[2], tee=parts[1]))


def cookie_of(headers: list[str]) -> str | None:
    """Return the session's cookie from the headers ``Cookie``; None if it is absent or repeated."""
    found: list[str] = []
    for header in headers:
        for part in header.split(";"):
            name, equals, value = part.strip().partition("=")
            if equals and name == COOKIE:
                found.append(value)
    return found[0] if len(found) == 1 else None


def set_cookie(value: str, *, expires_at: datetime, secure: bool) -> str:
    """Return the header ``Set-Cookie``.

    ``secure`` only over TLS: a client withholds such a cookie from plain HTTP, except to a loopback address.
    """
    attributes = f"Expires={format_datetime(expires_at, usegmt=True)}; Path={PATH}; HttpOnly; SameSite=Strict"
    return f"{COOKIE}={value}; {attributes}" + ("; Secure" if secure else "")
