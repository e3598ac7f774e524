"""Refusals as problem details (RFC 9457): one table from error classes to statuses, without internal details."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from attest.checks import Outcome
from attest.encoding import JsonValue
from attest.errors import (
    AppraisalError,
    AttestError,
    EndorsementError,
    EvidenceError,
    VerificationError,
)
from kms.domain.errors import (
    AttestationOffError,
    BodyTooLargeError,
    ChallengeError,
    ChallengeExpiredError,
    ChallengeUsedError,
    IntegrityError,
    KeyUnknownError,
    LogBrokenError,
    LogTileUnknownError,
    MediaTypeError,
    QuorumRequiredError,
    RateLimitedError,
    ReleaseDeniedError,
    RequestError,
    SchemaError,
    UnauthenticatedError,
    UnavailableError,
)
from kms.domain.log_decisions import check_members
from kms.running.logs import current_request

PROBLEM_MEDIA_TYPE: Final = "application/problem+json"
REQUEST_HEADER: Final = "X-Request-Id"
_TYPE = "tag:attest,2026:kms/"

STATUS: Final[tuple[tuple[type[AttestError], HTTPStatus], ...]] = (
    (BodyTooLargeError, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (MediaTypeError, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    (SchemaError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (RequestError, HTTPStatus.BAD_REQUEST),
    (ChallengeUsedError, HTTPStatus.CONFLICT),
    (ChallengeExpiredError, HTTPStatus.GONE),
    (ChallengeError, HTTPStatus.BAD_REQUEST),
    (KeyUnknownError, HTTPStatus.NOT_FOUND),
    (LogTileUnknownError, HTTPStatus.NOT_FOUND),
    (AttestationOffError, HTTPStatus.NOT_FOUND),
    (UnauthenticatedError, HTTPStatus.UNAUTHORIZED),
    (ReleaseDeniedError, HTTPStatus.FORBIDDEN),
    (QuorumRequiredError, HTTPStatus.FORBIDDEN),
    (RateLimitedError, HTTPStatus.TOO_MANY_REQUESTS),
    (UnavailableError, HTTPStatus.SERVICE_UNAVAILABLE),
    (IntegrityError, HTTPStatus.INTERNAL_SERVER_ERROR),
    (LogBrokenError, HTTPStatus.INTERNAL_SERVER_ERROR),
    (EvidenceError, HTTPStatus.BAD_REQUEST),
    (VerificationError, HTTPStatus.FORBIDDEN),
    (EndorsementError, HTTPStatus.SERVICE_UNAVAILABLE),
    (AppraisalError, HTTPStatus.FORBIDDEN),
)
"""The first matching class applies; any other error is 500 without details."""

_ROUTE_CODES = {
    HTTPStatus.NOT_FOUND: "route-unknown",
    HTTPStatus.METHOD_NOT_ALLOWED: "method-not-allowed",
    HTTPStatus.BAD_REQUEST: "request-malformed",
}
_RETRY_AFTER_SECONDS = "1"
_log = logging.getLogger("kms")
Statuses = tuple[tuple[type[AttestError], HTTPStatus], ...]


def status_of(error: AttestError, statuses: Statuses = STATUS) -> HTTPStatus:
    """Return the status of an error."""
    return next((status for kind, status in statuses if isinstance(error, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)


def problem(
    *,
    status: HTTPStatus,
    code: str,
    detail: str,
    simulated: bool,
    more: dict[str, JsonValue] | None = None,
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """Return a response with problem details."""
    request = current_request()
    document: dict[str, JsonValue] = {
        "type": _TYPE + code,
        "title": status.phrase,
        "status": int(status),
        "detail": detail,
        "code": code,
        **(more or {}),
    }
    if simulated:
        document["simulated"] = True
    named = {}
    if request is not None:
        document["request_id"] = request
        named = {REQUEST_HEADER: request}
    # Set here as well: the response to a bug does not pass the middleware.
    return JSONResponse(
        document,
        status_code=int(status),
        media_type=PROBLEM_MEDIA_TYPE,
        headers={"Cache-Control": "no-store", **named, **(headers or {})},
    )


def of_error(error: AttestError, *, simulated: bool, statuses: Statuses = STATUS) -> JSONResponse:
    """Return the response of a documented refusal."""
    status = status_of(error, statuses)
    if status is HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.error("internal: %s: %s", error.code, error.message)
        return problem(status=status, code=error.code, detail="the service's own data is damaged", simulated=simulated)
    more, headers = _context(error), None
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        more["retryable"], headers = True, {"Retry-After": _RETRY_AFTER_SECONDS}
    elif isinstance(error, RateLimitedError):
        headers = {"Retry-After": str(error.retry_seconds)}
    elif status is HTTPStatus.UNAUTHORIZED:
        headers = {"WWW-Authenticate": _challenge(error)}
    return problem(
        status=status, code=error.code, detail=error.message, simulated=simulated, more=more, headers=headers
    )


def _context(error: AttestError) -> dict[str, JsonValue]:
    """Return the context of an error and its failed checks, without the members that a key does not disclose."""
    shown = {"hint", "field", "expected", "got", "retryable"}
    more: dict[str, JsonValue] = {name: value for name, value in error.context().items() if name in shown}
    failed: list[JsonValue] = [
        {name: value for name, value in check_members(check).items() if value != ""}
        for check in error.checks
        if check.outcome is Outcome.FAIL
    ]
    return more | {"failed_checks": failed} if failed else more


def _challenge(error: AttestError) -> str:
    """Return the authentication scheme (RFC 6750, section 3), with the error of a token that was sent."""
    return 'Bearer realm="kms"' + (', error="invalid_token"' if error.code.startswith("token-") else "")


def add_problem_handlers(app: FastAPI, *, simulated: bool, statuses: Statuses = STATUS) -> None:
    """Return problem details for every refusal of an application, with the status of the first matching class.

    ``simulated`` marks responses of a service that accepts evidence of the simulator.
    """

    @app.exception_handler(AttestError)
    async def on_error(_: Request, exc: AttestError) -> JSONResponse:
        return of_error(exc, simulated=simulated, statuses=statuses)

    @app.exception_handler(Exception)
    async def on_bug(request: Request, exc: Exception) -> JSONResponse:
        # The traceback goes to the log without local variables; the caller gets none of it.
        _log.error("internal error in %s %s", request.method, request.url.path, exc_info=exc)
        return problem(
            status=HTTPStatus.INTERNAL_SERVER_ERROR,
            code="internal-error",
            detail="the service failed; nothing was released",
            simulated=simulated,
        )

    add_request_handlers(app, simulated=simulated)


def add_request_handlers(app: FastAPI, *, simulated: bool) -> None:
    """Return problem details for requests that match no route or shape; any other refusal is raised."""

    @app.exception_handler(HTTPException)
    async def on_http(_: Request, exc: HTTPException) -> JSONResponse:
        status = HTTPStatus(exc.status_code)
        code = _ROUTE_CODES.get(status, "http-error")
        headers = dict(exc.headers) if exc.headers else None
        return problem(status=status, code=code, detail=str(exc.detail), simulated=simulated, headers=headers)

    @app.exception_handler(RequestValidationError)
    async def on_validation(_: Request, _exc: RequestValidationError) -> JSONResponse:
        return problem(
            status=HTTPStatus.UNPROCESSABLE_ENTITY,
            code="request-schema",
            detail="the request does not have the shape of the protocol",
            simulated=simulated,
        )
