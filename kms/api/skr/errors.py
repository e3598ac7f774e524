"""Refusals in the form of the protocol: ``{"error": {"code", "message", "innererror"}}``.

Spec: specs/azure-skr.md, section 13.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Literal

from starlette.responses import Response

from attest.errors import AttestError, ConfigurationError, EndorsementError, EvidenceError
from kms.api.problems import status_of
from kms.domain.errors import KeyConflictError, KeyUnknownError, RateLimitedError, ReleaseDeniedError, UnavailableError

_log = logging.getLogger("kms")
_DENIED: Final = "AccessDenied"
Code = Literal[
    "BadParameter",
    "Conflict",
    "Forbidden",
    "InternalServerError",
    "KeyNotFound",
    "MethodNotAllowed",
    "NotFound",
    "ServiceUnavailable",
    "Throttled",
    "Unauthorized",
]
"""Names of refusals that clients know."""
_CODES: Final[dict[int, Code]] = {
    HTTPStatus.UNAUTHORIZED: "Unauthorized",
    HTTPStatus.FORBIDDEN: "Forbidden",
    HTTPStatus.NOT_FOUND: "NotFound",
    HTTPStatus.METHOD_NOT_ALLOWED: "MethodNotAllowed",
    HTTPStatus.CONFLICT: "Conflict",
    HTTPStatus.TOO_MANY_REQUESTS: "Throttled",
    HTTPStatus.INTERNAL_SERVER_ERROR: "InternalServerError",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailable",
}


@dataclass(eq=False)
class SkrRefusal(Exception):  # noqa: N818  a refusal is the protocol's answer, not a failure
    """A refusal with its status, its name in the protocol, a text, which clients print, and our code."""

    status: HTTPStatus
    code: Code
    text: str
    inner: str
    headers: dict[str, str] | None = None

    def response(self) -> Response:
        """Return the response."""
        text = f"{self.text} [{self.inner}]"
        return refusal_response(self.status, self.code, text, inner=self.inner, headers=self.headers)


def refusal_response(
    status: HTTPStatus, code: Code, message: str, *, inner: str | None = None, headers: dict[str, str] | None = None
) -> Response:
    """Return a refusal as a response. A refusal by policy or permission is ``AccessDenied``, around our code."""
    error: dict[str, object] = {"code": code, "message": message}
    if inner is not None:
        ours: dict[str, object] = {"code": inner}
        error["innererror"] = {"code": _DENIED, "innererror": ours} if status is HTTPStatus.FORBIDDEN else ours
    content = json.dumps({"error": error}, separators=(",", ":"))
    return Response(content, status_code=int(status), media_type="application/json", headers=headers)


def code_of(status: int) -> Code:
    """Return the protocol's name of a refusal with this status."""
    return _CODES.get(status, "BadParameter")


def refusal_of(error: AttestError) -> SkrRefusal:
    """Return the refusal for an error of this service."""
    text, inner = error.message, error.code
    if isinstance(error, RateLimitedError):
        headers = {"Retry-After": str(error.retry_seconds)}
        return SkrRefusal(HTTPStatus.TOO_MANY_REQUESTS, "Throttled", text, inner, headers)
    if isinstance(error, UnavailableError):
        return SkrRefusal(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable", text, inner, {"Retry-After": "1"})
    if isinstance(error, KeyUnknownError):
        return SkrRefusal(HTTPStatus.NOT_FOUND, "KeyNotFound", text, inner)
    if isinstance(error, KeyConflictError):
        return SkrRefusal(HTTPStatus.CONFLICT, "Conflict", text, inner)
    if isinstance(error, EndorsementError | ReleaseDeniedError):
        return denied(text, inner)
    if isinstance(error, ConfigurationError | EvidenceError):
        return bad_parameter(text, inner)
    status = status_of(error)
    if status is HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.error("internal: %s: %s", error.code, error.message)
        return SkrRefusal(status, "InternalServerError", "the service's own data is damaged", inner)
    return SkrRefusal(status, code_of(status), text, inner)


def bad_parameter(text: str, inner: str) -> SkrRefusal:
    """Return the refusal of a malformed request."""
    return SkrRefusal(HTTPStatus.BAD_REQUEST, "BadParameter", text, inner)


def denied(text: str, inner: str) -> SkrRefusal:
    """Return the refusal by a policy or a permission."""
    return SkrRefusal(HTTPStatus.FORBIDDEN, "Forbidden", text, inner)


def no_key(name: str) -> SkrRefusal:
    """Return the refusal for a key that does not exist."""
    text = f"A key with (name/id) {name[:127]} was not found in this key vault"
    return SkrRefusal(HTTPStatus.NOT_FOUND, "KeyNotFound", text, "key-unknown")
