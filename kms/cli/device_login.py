"""Sign-in at an OIDC issuer from a command line: the device authorization grant.

The user signs in with a browser, on any machine; the command never sees a password. Spec: RFC 8628.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from attest.errors import AttestError, ConfigurationError
from kms.cli.remote_admin import tls_context
from kms.domain.bounded_content import bounded_content
from kms.domain.errors import KmsError, UnauthenticatedError, UnavailableError

GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
TIMEOUT_SECONDS: Final = 30
MAX_ANSWER_BYTES: Final = 64 * 1024
_INTERVAL_SECONDS: Final = 5
_SLOWER_SECONDS: Final = 5
_MAX_INTERVAL_SECONDS: Final = 60.0
"""An issuer that asks for a longer pause is asked more often: the command ends in time."""
_MAX_SECONDS: Final = 1800
_HEADERS: Final = {"Accept": "application/json", "Accept-Encoding": "identity"}  # some codings expand a thousandfold

Json = dict[str, Any]  # Any: members that the caller checks


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """The command at an issuer; ``ca`` is the CA of its certificate, None for the system's."""

    issuer: str
    client_id: str
    scope: str
    token: str
    ca: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Instruction for the user: open ``address`` in a browser, and enter ``code`` if it is not already filled in."""

    address: str
    code: str


def sign_in(
    client: Client,
    *,
    show: Callable[[Prompt], None],
    sleep: Callable[[float], None],
    monotonic: Callable[[], float],
) -> str:
    """Return the token that the issuer gives after the user has signed in.

    Raises:
        ConfigurationError: ``login-issuer-invalid``, or ``file-unreadable``: the CA certificate.
        UnavailableError: ``login-unreachable``.
        UnauthenticatedError: ``login-denied`` or ``login-expired``.
        KmsError: ``login-answer-invalid``: the issuer does not follow the standard, or gives no such token.
    """
    _require_https(client.issuer, "the issuer")
    context = tls_context(None if client.ca is None else Path(client.ca))
    with httpx.Client(verify=context, timeout=TIMEOUT_SECONDS, trust_env=False) as http:
        # (1) Where the issuer's endpoints are, by its own signed-for address.
        known = _json(http, "GET", f"{client.issuer.rstrip('/')}/.well-known/openid-configuration")
        if known.get("issuer") != client.issuer:
            raise _unusable(f"the document of {client.issuer} is that of {str(known.get('issuer'))[:100]!r}")
        start, tokens = (_endpoint(known, name) for name in ("device_authorization_endpoint", "token_endpoint"))
        # (2) A code for the device, and one for the user.
        begun = _json(http, "POST", start, {"client_id": client.client_id, "scope": client.scope})
        device = _text(begun, "device_code")
        address = begun.get("verification_uri_complete", begun.get("verification_uri"))
        _require_https(address if isinstance(address, str) else "", "the address for signing in")
        show(Prompt(address=str(address), code=_text(begun, "user_code")))
        # (3) Ask until the user has decided.
        until = monotonic() + min(_seconds(begun, "expires_in", _MAX_SECONDS), _MAX_SECONDS)
        pause = min(_seconds(begun, "interval", _INTERVAL_SECONDS), _MAX_INTERVAL_SECONDS)
        form = {"grant_type": GRANT, "device_code": device, "client_id": client.client_id}
        while monotonic() < until:
            sleep(pause)
            answer = _json(http, "POST", tokens, form, refusals=True)
            error = answer.get("error")
            if error is None:
                return _text(answer, client.token)
            if error == "slow_down":
                pause += _SLOWER_SECONDS
            elif error != "authorization_pending":
                raise _denied(str(error))
    raise _denied("expired_token")


def _json(http: httpx.Client, method: str, url: str, form: Json | None = None, *, refusals: bool = False) -> Json:
    try:
        with http.stream(method, url, data=form, headers=_HEADERS) as answer:
            content = bounded_content(answer.iter_raw(), MAX_ANSWER_BYTES)
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        raise UnavailableError(
            f"cannot reach {url[:200]}: {str(exc) or type(exc).__name__}",
            code="login-unreachable",
            hint="check the address, the network, and 'issuer_ca' of the context",
            retryable=True,
        ) from exc
    except OSError as exc:
        raise _unusable(f"{url[:200]}: {exc}") from exc
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or not (answer.is_success or (refusals and "error" in document)):
        raise _unusable(f"{url[:200]} answered {answer.status_code} without the members that RFC 8628 requires")
    return document


def _endpoint(known: Json, name: str) -> str:
    found = known.get(name)
    if not isinstance(found, str):
        raise _unusable(f"the issuer has no {name}: it does not offer sign-in from a command line")
    _require_https(found, name)
    return found


def _require_https(address: str, what: str) -> None:
    try:
        url = httpx.URL(address)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme != "https" or not url.host or not address.isprintable():
        raise ConfigurationError(
            f"{what} is not an https address: {address[:200]!r}",
            code="login-issuer-invalid",
            expected="https://…",
            got=address[:200],
        )


def _text(document: Json, name: str) -> str:
    found = document.get(name)
    if not isinstance(found, str) or not found or not found.isprintable():
        raise _unusable(f"its answer has no {name}")
    return found


def _seconds(document: Json, name: str, default: int) -> int:
    found = document.get(name, default)
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else default


def _unusable(problem: str) -> KmsError:
    return KmsError(
        f"cannot sign in: {problem}",
        code="login-answer-invalid",
        hint="ask the issuer's operator to permit the device authorization grant for this client",
    )


def _denied(error: str) -> AttestError:
    if error == "expired_token":
        return UnauthenticatedError(
            "the time for signing in has expired", code="login-expired", hint="run 'kms login' again"
        )
    return UnauthenticatedError(
        f"the issuer refused to sign in: {error[:100]}",
        code="login-denied",
        hint="check the user, 'client_id' and 'scope' of the context",
    )


def remove_token(path: Path) -> bool:
    """Remove a token; False: there was none."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True
