"""The protocol's endpoints, below ``/kbs/v0``: one dispatcher, as clients expect one.

Every refusal is JSON of one shape, also for a path or a method that does not exist.

Spec: specs/kbs-protocol.md, sections 4 and 18.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from attest.errors import AttestError
from kms.api.body import read_body
from kms.api.context import Context
from kms.api.kbs.administrators import Administrators, bearer_of
from kms.api.kbs.errors import KbsRefusal, Variant, refusal_of
from kms.api.kbs.handshake import Answer, Handshake
from kms.api.kbs.policies import Policies
from kms.api.kbs.resources import PLUGIN, Resources
from kms.api.kbs.sessions import PATH, cookie_of, set_cookie
from kms.api.kbs.tokens import OpenedToken, TokenIssuer
from kms.api.kbs.uploads import Uploads
from kms.domain.actors import Actor
from kms.domain.errors import BodyTooLargeError, RequestError
from kms.telemetry import counted

MAX_BODY_BYTES: Final = 2 * 1024 * 1024
_SHORT_BODY_BYTES: Final = 4096
_METHODS: Final = frozenset({"GET", "POST", "PUT", "DELETE"})
_JSON: Final = "application/json"
KEY_SET: Final = "jwks.json"
"""Path of the keys by which others verify tokens."""
_log = logging.getLogger("kms")


@dataclass(frozen=True, slots=True, kw_only=True)
class KbsServices:
    """Services behind the endpoints."""

    handshake: Handshake
    tokens: TokenIssuer
    resources: Resources
    uploads: Uploads
    policies: Policies
    administrators: Administrators


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One request.

    Attributes:
        segments: of the path below ``/kbs/v0``, percent-decoded once.
        addresses: path and query as sent, and with the path decoded; a role must permit both.
    """

    method: str
    segments: tuple[str, ...]
    addresses: tuple[str, str]
    query: Mapping[str, str]
    authorization: list[str]
    cookie: str | None
    body: bytes

    @property
    def rest(self) -> str:
        """The path after its first segment."""
        return "/".join(self.segments[1:])


class KbsApp:
    """The ASGI application of the protocol, mounted below its path."""

    def __init__(self, services: KbsServices, context: Context) -> None:
        self._services = services
        self._context = context
        self._routes: Mapping[tuple[str, str], Callable[[_Asked], Response]] = {
            ("POST", "auth"): self._begin,
            ("POST", "attest"): self._attest,
            ("GET", KEY_SET): self._key_set,
            ("GET", PLUGIN): self._read_resource,
            ("POST", PLUGIN): self._write_resource,
            ("DELETE", PLUGIN): self._delete_resource,
            ("POST", "resource-policy"): self._set_resource_policy,
            ("GET", "resource-policy"): self._list_resource_policies,
            ("POST", "attestation-policy"): self._set_attestation_policy,
            ("POST", "reference-value"): self._set_reference_values,
            ("GET", "reference-value"): self._read_reference_value,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope, receive)
        response = await self._answered(request)
        await response(scope, receive, send)

    async def _answered(self, request: Request) -> Response:
        try:
            path = request.scope["path"].removeprefix(PATH)
            _require_method(request.method)
            seconds = self._context.settings.request_seconds
            body = await read_body(request, limit=MAX_BODY_BYTES, seconds=seconds)
            asked = _asked(request, path, body)
            route = self._routes.get((asked.method, asked.segments[0]), self._no_plugin)
            if route == self._begin and len(body) <= _SHORT_BODY_BYTES:
                return route(asked)  # nothing of it blocks, and a thread would cost more than it does
            return await self._context.run(partial(route, asked))
        except KbsRefusal as exc:
            return exc.response()
        except BodyTooLargeError as exc:
            text = f"payload reached size limit: {exc.message}"
            return KbsRefusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "HTTPFailed", text, exc.code).response()
        except RequestError as exc:
            return KbsRefusal(HTTPStatus.BAD_REQUEST, "HTTPFailed", exc.message, exc.code).response()
        except AttestError as exc:
            return refusal_of(exc, variant="HTTPFailed").response()
        except Exception as exc:  # noqa: BLE001  a bug is a refusal in the protocol's form; the log has the cause
            _log.error("internal error in %s %s", request.method, request.url.path, exc_info=exc)
            text = "the service failed; nothing was released"
            return KbsRefusal(HTTPStatus.INTERNAL_SERVER_ERROR, "HTTPFailed", text, code="internal-error").response()

    # -- guests

    def _begin(self, asked: _Asked) -> Response:
        try:
            return self._with_cookie(self._services.handshake.begin(asked.body))
        except AttestError as exc:
            raise _handshake_refusal("Auth", exc) from exc

    def _attest(self, asked: _Asked) -> Response:
        try:
            return self._with_cookie(self._services.handshake.attest(asked.body, cookie=asked.cookie))
        except AttestError as exc:
            raise _handshake_refusal("Attest", exc) from exc

    def _with_cookie(self, answer: Answer) -> Response:
        secure = self._context.settings.tls_certificate_file is not None
        response = _json(answer.document)
        response.headers["Set-Cookie"] = set_cookie(answer.cookie, expires_at=answer.expires_at, secure=secure)
        return response

    def _key_set(self, asked: _Asked) -> Response:
        if len(asked.segments) > 1:
            return self._no_plugin(asked)
        return _json(self._services.tokens.jwks)

    def _read_resource(self, asked: _Asked) -> Response:
        token = self._token(asked)
        # A guest's program writes the path after a slash of its own; no other segment may be empty.
        path = asked.rest.removeprefix("/")
        try:
            found = counted(partial(self._services.resources.read, path, token, query=asked.query))
        except AttestError as exc:
            raise refusal_of(exc, variant="PluginInternalError", unauthorized=False) from exc
        return Response(found, media_type=_JSON)

    def _token(self, asked: _Asked) -> OpenedToken:
        """Return the token of the session, or of the request if there is no session that has one.

        Raises:
            KbsRefusal: the token is missing or does not verify; the guest must attest again.
        """
        bearer, problem = bearer_of(asked.authorization), None
        for text in (asked.cookie, bearer):
            if text is None:
                continue
            try:
                return self._services.tokens.open(text, at=self._context.services.clock())
            except AttestError as exc:
                problem = exc if text is bearer or problem is None else problem
        if bearer is None or problem is None:
            text = "Attestation Token not found: attest first"
            raise KbsRefusal(HTTPStatus.UNAUTHORIZED, "TokenNotFound", text, code="token-missing")
        text = f"Token Verifier error: {problem.message}"
        raise KbsRefusal(HTTPStatus.UNAUTHORIZED, "TokenVerifierError", text, problem.code)

    # -- administrators

    def _write_resource(self, asked: _Asked) -> Response:
        actor = self._administrator(asked, "AdminAuthInitialization")
        _uploaded(partial(self._services.uploads.write, asked.rest, asked.body, actor=actor))
        return Response(b"")

    def _delete_resource(self, asked: _Asked) -> Response:
        actor = self._administrator(asked, "AdminAuthInitialization")
        _uploaded(partial(self._services.uploads.delete, asked.rest, actor=actor))
        return Response(b"")

    def _set_resource_policy(self, asked: _Asked) -> Response:
        actor = self._administrator(asked, "AdminAuthAccess")
        self._services.policies.set_resource_policy(asked.body, actor=actor)
        return Response(b"")

    def _list_resource_policies(self, asked: _Asked) -> Response:
        self._administrator(asked, "AdminAuthAccess")
        return Response(self._services.policies.resource_policies(), media_type=_JSON)

    def _set_attestation_policy(self, asked: _Asked) -> Response:
        actor = self._administrator(asked, "AdminAuthAccess")
        self._services.policies.set_attestation_policy(asked.body, actor=actor)
        return Response(b"")

    def _set_reference_values(self, asked: _Asked) -> Response:
        actor = self._administrator(asked, "AdminAuthAccess")
        self._services.policies.set_reference_values(asked.body, actor=actor)
        return Response(b"", media_type=_JSON)

    def _read_reference_value(self, asked: _Asked) -> Response:
        self._administrator(asked, "AdminAuthAccess")
        return Response(self._services.policies.reference_value(asked.rest), media_type=_JSON)

    def _administrator(self, asked: _Asked, variant: Variant) -> Actor:
        at = self._context.services.clock()
        return self._services.administrators.require(asked.authorization, asked.addresses, variant=variant, at=at)

    def _no_plugin(self, asked: _Asked) -> Response:
        first = asked.segments[0]
        if not first:
            text = "the path names nothing"
            raise KbsRefusal(HTTPStatus.NOT_FOUND, "InvalidRequestPath", text, code="route-unknown")
        if first == PLUGIN:
            text = f"{asked.method} is not a method of resources"
            raise KbsRefusal(HTTPStatus.METHOD_NOT_ALLOWED, "PluginInternalError", text, code="method-not-allowed")
        raise KbsRefusal(
            HTTPStatus.NOT_FOUND, "PluginNotFound", f"Plugin {first[:80]} not found", code="plugin-unknown"
        )


def _require_method(method: str) -> None:
    if method not in _METHODS:
        text = f"{method} is not a method of this protocol"
        raise KbsRefusal(HTTPStatus.METHOD_NOT_ALLOWED, "HTTPFailed", text, code="method-not-allowed")


def _asked(request: Request, path: str, body: bytes) -> _Asked:
    raw = (request.scope.get("raw_path") or b"").decode("ascii", errors="replace")
    query = request.scope["query_string"].decode("ascii", errors="replace")
    suffix = f"?{query}" if query else ""
    return _Asked(
        method=request.method,
        segments=tuple(path.removeprefix("/").split("/")),
        addresses=(raw + suffix, request.scope["path"] + suffix),
        query=dict(request.query_params),
        authorization=request.headers.getlist("authorization"),
        cookie=cookie_of(request.headers.getlist("cookie")),
        body=body,
    )


def _handshake_refusal(step: str, error: AttestError) -> KbsRefusal:
    """Return the refusal of a step of the handshake, with the words by which clients recognise it."""
    refusal = refusal_of(error, variant="AttestationError", unauthorized=True)
    refusal.text = f"Attestation error: RCAR handshake {step} failed: {refusal.text}"
    return refusal


def _uploaded(work: Callable[[], None]) -> None:
    try:
        work()
    except AttestError as exc:
        raise refusal_of(exc, variant="PluginInternalError") from exc


def _json(document: Mapping[str, object]) -> Response:
    return Response(json.dumps(document, separators=(",", ":")), media_type=_JSON)
