"""Refusals in MAA's form: ``{"error": {"code", "message", "innererror": {"code"}}}``; the inner code is ours."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from starlette.responses import Response

from attest.checks import Outcome
from attest.errors import AppraisalError, AttestError, EndorsementError
from kms.api.problems import status_of
from kms.domain.errors import RateLimitedError, UnavailableError

_NAMES: Final = {
    HTTPStatus.BAD_REQUEST: "InvalidParameter",
    HTTPStatus.FORBIDDEN: "AttestationFailed",
    HTTPStatus.NOT_FOUND: "NotFound",
    HTTPStatus.METHOD_NOT_ALLOWED: "MethodNotAllowed",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "RequestTooLarge",
    HTTPStatus.TOO_MANY_REQUESTS: "Throttled",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailable",
}
_RETRIED: Final = (UnavailableError, EndorsementError)
_log = logging.getLogger("kms")


@dataclass(eq=False)
class MaaRefusal(Exception):  # noqa: N818  a refusal, as in the other protocols
    """A refusal with its status, a text, and our code."""

    status: HTTPStatus
    text: str
    code: str
    retry_seconds: int | None = None

    def response(self) -> Response:
        """Return the response."""
        retry = {} if self.retry_seconds is None else {"Retry-After": str(self.retry_seconds)}
        return refusal_response(self.status, self.text, code=self.code, headers=retry)


def refusal_response(status: HTTPStatus, text: str, *, code: str, headers: dict[str, str] | None = None) -> Response:
    """Return a refusal as a response."""
    name = _NAMES.get(status, "InternalError" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "BadRequest")
    content = json.dumps(
        {"error": {"code": name, "message": text, "innererror": {"code": code}}}, separators=(",", ":")
    )
    return Response(content, status_code=int(status), media_type="application/json", headers=headers)


def refusal_of(error: AttestError) -> MaaRefusal:
    """Return the refusal for an error of this service."""
    if isinstance(error, RateLimitedError):
        return MaaRefusal(HTTPStatus.TOO_MANY_REQUESTS, error.message, error.code, error.retry_seconds)
    status = status_of(error)
    if status is HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.error("internal: %s: %s", error.code, error.message)
        return MaaRefusal(status, "the service's own data is damaged", error.code)
    if isinstance(error, AppraisalError) and error.code == "not-affirmed":
        failed = (
            ", ".join(dict.fromkeys(check.id for check in error.checks if check.outcome is Outcome.FAIL)) or error.code
        )
        return MaaRefusal(status, f"the evidence does not meet the policy of this service: {failed}", error.code)
    return MaaRefusal(status, error.message, error.code, 1 if isinstance(error, _RETRIED) else None)
