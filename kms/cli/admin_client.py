"""The client of the administration API: of the application in this process, or of the one at a server.

A command sends the same requests to both. In this process a refusal is raised through the application; from a server it
comes as problem details, and is made into the same error.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import httpx

from attest.errors import AttestError, ConfigurationError
from attest.secret_files import read_secret
from kms.admin_api.context import MATERIAL
from kms.cli.options import JsonObject
from kms.domain.errors import IntegrityError, KmsError, UnauthenticatedError, UnavailableError

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.types import ASGIApp, Receive, Scope, Send

    from kms.domain.secret import SecretBytes

TIMEOUT_SECONDS: Final = 60
MAX_TOKEN_BYTES: Final = 16 * 1024
_PROBLEM: Final = "application/problem+json"
_CLASSES: Final[dict[int, type[AttestError]]] = {
    401: UnauthenticatedError,
    422: ConfigurationError,
    500: IntegrityError,
    503: UnavailableError,
}


class AdminClient:
    """The administration API, of another process if ``is_remote``; the first request connects."""

    def __init__(self, connect: Callable[[], httpx.Client], *, is_remote: bool) -> None:
        """Connect to nothing yet."""
        self._connect = connect
        self.is_remote = is_remote

    @cached_property
    def _http(self) -> httpx.Client:
        return self._connect()

    def close(self) -> None:
        """Close what was opened."""
        if "_http" in self.__dict__:
            self._http.close()

    def get(self, where: str, **query: object) -> JsonObject:
        """Read something; members of the query that are None are left out."""
        given = {name: value for name, value in query.items() if value is not None}
        answer: JsonObject = self._send("GET", where, params=given).json()
        return answer

    def post(
        self, where: str, document: JsonObject | None = None, *, material: SecretBytes | None = None
    ) -> JsonObject:
        """Send a command to a path of the API; without a document the body is an empty one.

        Raises:
            ValueError: material of a key for a server; the application in this process alone takes it.
        """
        if material is not None and self.is_remote:
            raise ValueError("a key goes to a server sealed or not at all")
        extensions: dict[str, object] | None = None if material is None else {MATERIAL: material}
        answer: JsonObject = self._send("POST", where, json=document or {}, extensions=extensions).json()
        return answer

    def note(self, method: str, where: str, **query: object) -> str:
        """Return an answer that is a signed note."""
        document: JsonObject | None = {} if method == "POST" else None
        return self._send(method, where, params=query, json=document).text

    def _send(
        self,
        method: str,
        where: str,
        *,
        params: Mapping[str, Any] | None = None,  # Any: what httpx writes into a query
        json: JsonObject | None = None,
        extensions: dict[str, object] | None = None,
    ) -> httpx.Response:
        try:
            answer = self._http.request(method, where, params=params, json=json, extensions=extensions)
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            raise _unreachable(exc) from exc
        if not answer.is_success:
            raise _refusal(answer)
        return answer


# -- in this process


class InThisProcess(httpx.BaseTransport):
    """Sends requests, one after another, to an application of this process that raises what it refuses."""

    def __init__(self, app: ASGIApp, *, close: Callable[[], None]) -> None:
        """Begin no request yet."""
        self._app = app
        self._close = close
        self._loop = asyncio.new_event_loop()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request when the application has."""
        return self._loop.run_until_complete(self._answer(request))

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        material = request.extensions.get(MATERIAL)

        async def extended(scope: Scope, receive: Receive, send: Send) -> None:
            scope["extensions"] = {MATERIAL: material}
            await self._app(scope, receive, send)

        answer = await httpx.ASGITransport(app=extended).handle_async_request(request)
        content = await answer.aread()
        return httpx.Response(answer.status_code, headers=answer.headers, content=content)

    def close(self) -> None:
        """Close what is behind the application."""
        self._loop.close()
        self._close()


# -- at a server


def at_server(
    server: str, *, ca: Path | None, client_cert: Path | None, client_key: Path | None, token_file: Path | None
) -> AdminClient:
    """Return the client of the administration API at an ``https`` address.

    All files but that of the token are PEM. Without ``ca`` the authorities of the system count; without ``client_key``
    the file of the certificate has the key as well.

    Raises:
        ConfigurationError: ``server-invalid``; a file cannot be read, or other users can read a secret one.
    """
    if httpx.URL(server).scheme != "https" or not httpx.URL(server).host:
        raise ConfigurationError(
            f"{server!r} is no address of an administration API", code="server-invalid", field="--server",
            expected="https://HOST:PORT",
        )  # fmt: skip
    context = _context(ca, client_cert, client_key)
    headers = {} if token_file is None else {"Authorization": f"Bearer {_token(token_file)}"}

    def connect() -> httpx.Client:
        return httpx.Client(base_url=server, verify=context, headers=headers, timeout=TIMEOUT_SECONDS, trust_env=False)

    return AdminClient(connect, is_remote=True)


def _context(ca: Path | None, certificate: Path | None, key: Path | None) -> ssl.SSLContext:
    where: object = ca or "the system's authorities"
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
        if certificate is not None:
            where = certificate
            context.load_cert_chain(certificate, key)
            read_secret(key or certificate, 0)  # a look at its mode: OpenSSL read it, whoever else can
    except (OSError, ssl.SSLError) as exc:
        raise ConfigurationError(
            f"cannot read {where}: {exc.strerror or exc}", code="file-unreadable", field=str(where), expected="PEM"
        ) from exc
    return context


def _token(file: Path) -> str:
    try:
        token = read_secret(file, MAX_TOKEN_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigurationError(f"cannot read a token in {file}", code="file-unreadable", field=str(file)) from exc
    if not token or not token.isprintable() or " " in token:
        raise ConfigurationError(f"there is no token in {file}", code="token-file-invalid", field=str(file))
    return token


_UNTRUSTED = "name the authority of its certificate with --ca, and the server as its certificate does"
_AWAY = "does 'kms serve' run there, with an administration listener at this address?"
_ENDED = (
    "if it asks for a client certificate, give one that it accepts with --client-cert and --client-key; look whether "
    "the change was made before you repeat it"
)


def _unreachable(error: Exception) -> KmsError:
    text = str(error) or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return KmsError(f"the server is not trusted: {text}", code="server-untrusted", hint=_UNTRUSTED)
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.InvalidURL):
        problem = f"the server cannot be reached: {text}"
        return UnavailableError(problem, code="server-unreachable", hint=_AWAY, retryable=True)
    return UnavailableError(f"the server ended the connection: {text}", code="server-disconnected", hint=_ENDED)


def _refusal(answer: httpx.Response) -> AttestError:
    """Make the error that a problem document tells of."""
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
        f"the server answered {answer.status_code}, and not as an administration API does",
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
        return "name a file with a token in --token-file, or a certificate with --client-cert and --client-key"
    if answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
        return f"repeat the command in {answer.headers.get('retry-after', 'a few')} s"
    return _text(problem, "hint")


def _text(problem: JsonObject, member: str) -> str | None:
    found = problem.get(member)
    return found if isinstance(found, str) else None
