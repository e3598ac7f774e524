"""Client of the administration API of a server; it turns problem details into the errors of the application."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

import httpx

from attest.errors import AttestError, ConfigurationError
from attest.secret_files import read_secret
from kms.cli.options import JsonObject
from kms.domain.errors import IntegrityError, KmsError, UnauthenticatedError, UnavailableError

TIMEOUT_SECONDS: Final = 60
MAX_TOKEN_BYTES: Final = 16 * 1024
_PROBLEM: Final = "application/problem+json"
_CLASSES: Final[dict[int, type[AttestError]]] = {
    401: UnauthenticatedError,
    422: ConfigurationError,
    500: IntegrityError,
    503: UnavailableError,
}


def at_server(
    server: str, *, ca: Path | None, client_cert: Path | None, client_key: Path | None, token_file: Path | None
) -> Callable[[], httpx.Client]:
    """Return a client of the administration API at an ``https`` address.

    All files except the token's are PEM. Without ``ca`` the system's CA certificates apply; without ``client_key`` the
    file of the certificate contains the key.

    Raises:
        ConfigurationError: ``server-invalid``; a file cannot be read, or other users can read a secret one.
    """
    if httpx.URL(server).scheme != "https" or not httpx.URL(server).host:
        raise ConfigurationError(
            f"{server!r} is not an address of an administration API", code="server-invalid", field="--server",
            expected="https://HOST:PORT",
        )  # fmt: skip
    context = tls_context(ca, client_cert, client_key)
    headers = {} if token_file is None else {"Authorization": f"Bearer {_token(token_file)}"}

    def connect() -> httpx.Client:
        return httpx.Client(base_url=server, verify=context, headers=headers, timeout=TIMEOUT_SECONDS, trust_env=False)

    return connect


def tls_context(ca: Path | None, certificate: Path | None = None, key: Path | None = None) -> ssl.SSLContext:
    """Return the context of a client; all files are PEM, and without ``ca`` the system's CA certificates apply.

    Raises:
        ConfigurationError: a file cannot be read, or other users can read a secret one.
    """
    where: object = ca or "the system's CA certificates"
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
        if certificate is not None:
            where = certificate
            context.load_cert_chain(certificate, key)
            read_secret(key or certificate, 0)  # check its mode: OpenSSL reads it even if other users can
    except (OSError, ssl.SSLError) as exc:
        raise ConfigurationError(
            f"cannot read {where}: {exc.strerror or exc}", code="file-unreadable", field=str(where), expected="PEM"
        ) from exc
    return context


def _token(file: Path) -> str:
    try:
        token = read_secret(file, MAX_TOKEN_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigurationError(f"cannot read the token file {file}", code="file-unreadable", field=str(file)) from exc
    if not token or not token.isprintable() or " " in token:
        raise ConfigurationError(f"there is no token in {file}", code="token-file-invalid", field=str(file))
    return token


_UNTRUSTED = "give the CA of its certificate with --ca, and address the server by the name in its certificate"
_AWAY = "check that 'kms serve' is running there with an administration listener at this address"
_ENDED = (
    "if the server requires a client certificate, give an accepted one with --client-cert and --client-key; before you "
    "repeat the command, check whether the change was made"
)


def unreachable(error: Exception) -> KmsError:
    """Return the error of a request without a response."""
    text = str(error) or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return KmsError(f"the server is not trusted: {text}", code="server-untrusted", hint=_UNTRUSTED)
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.InvalidURL):
        problem = f"cannot reach the server: {text}"
        return UnavailableError(problem, code="server-unreachable", hint=_AWAY, retryable=True)
    return UnavailableError(f"the server closed the connection: {text}", code="server-disconnected", hint=_ENDED)


def refusal(answer: httpx.Response) -> AttestError:
    """Return the error that a response with problem details describes."""
    problem = _problem(answer)
    if problem is None:
        return _no_answer_of_the_api(answer)
    kind = _CLASSES.get(answer.status_code, KmsError)
    return kind(
        str(problem.get("detail", answer.reason_phrase)),
        code=str(problem.get("code", "server-refused")),
        field=_text(problem, "field"),
        expected=_text(problem, "expected"),
        got=_text(problem, "got"),
        hint=_hint(answer, problem),
        retryable=problem.get("retryable") is True,
    )


def _no_answer_of_the_api(answer: httpx.Response) -> KmsError:
    return KmsError(
        f"the server answered {answer.status_code}, not in the form of an administration API",
        code="server-answer-unreadable",
        expected=_PROBLEM,
        got=answer.headers.get("content-type", "nothing")[:100],
        hint="name the address of the administration listener",
    )


def _problem(answer: httpx.Response) -> JsonObject | None:
    if not answer.headers.get("content-type", "").startswith(_PROBLEM):
        return None
    try:
        document = json.loads(answer.content)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _hint(answer: httpx.Response, problem: JsonObject) -> str | None:
    if problem.get("code") == "authentication-required":
        return "authenticate with --token-file, or with --client-cert and --client-key; or sign in: 'kms login'"
    if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
        return f"repeat the command in {answer.headers.get('retry-after', 'a few')} s"
    return _text(problem, "hint")


def _text(problem: JsonObject, member: str) -> str | None:
    found = problem.get(member)
    return found if isinstance(found, str) else None
