"""The refusals of the service: the status of each error, and problem details (RFC 9457)."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Final

from starlette.responses import Response

from attest.encoding import JsonValue
from attest.errors import AttestError, EvidenceError
from rag_demo.enclave.errors import (
    AnswerError,
    DocumentError,
    DocumentLimitError,
    DocumentReaderError,
    RefusedError,
    StoreClosedError,
    StoreConflictError,
    StoreInputError,
    StoreLimitError,
    StoreUnavailableError,
)

_STATUS: Final[tuple[tuple[type[AttestError], HTTPStatus], ...]] = (
    (DocumentLimitError, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (DocumentReaderError, HTTPStatus.SERVICE_UNAVAILABLE),
    (DocumentError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (StoreInputError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (StoreLimitError, HTTPStatus.CONFLICT),
    (StoreConflictError, HTTPStatus.CONFLICT),
    (StoreClosedError, HTTPStatus.SERVICE_UNAVAILABLE),
    (StoreUnavailableError, HTTPStatus.SERVICE_UNAVAILABLE),
    (AnswerError, HTTPStatus.BAD_GATEWAY),
    (EvidenceError, HTTPStatus.UNPROCESSABLE_ENTITY),
)
"""The first matching class counts; any other error is a defect of the service."""

PROBLEM_MEDIA_TYPE: Final = "application/problem+json"
_TYPE: Final = "tag:attest,2026:rag/"
_SHOWN: Final = frozenset({"field", "expected", "got", "hint", "retryable"})


def invalid(field: str, expected: str, got: str) -> RefusedError:
    """Return the refusal of a part of a request that has the wrong shape."""
    return RefusedError(
        f"{field}: expected {expected}, got {got}",
        code="rag-request-invalid",
        status=HTTPStatus.UNPROCESSABLE_ENTITY,
        field=field,
        expected=expected,
        got=got,
    )


def defect(detail: str = "the service failed") -> RefusedError:
    """Return the refusal after a defect of the service."""
    return RefusedError(detail, code="rag-defect", status=HTTPStatus.INTERNAL_SERVER_ERROR)


def status_of(error: AttestError) -> HTTPStatus:
    """Return the HTTP status of an error."""
    if isinstance(error, RefusedError):
        return error.status
    return next((status for kind, status in _STATUS if isinstance(error, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)


def members_of(error: AttestError) -> dict[str, JsonValue]:
    """Return an error as the members of problem details."""
    status = status_of(error)
    shown: dict[str, JsonValue] = {name: value for name, value in error.context().items() if name in _SHOWN}
    return {
        "type": _TYPE + error.code,
        "title": status.phrase,
        "status": int(status),
        "detail": error.message,
        "code": error.code,
        **shown,
    }


def problem(error: AttestError) -> Response:
    """Return the response to a refused request."""
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    if isinstance(error, RefusedError):
        if error.retry_seconds is not None:
            headers["retry-after"] = str(error.retry_seconds)
        if error.status is HTTPStatus.UNAUTHORIZED:
            headers["www-authenticate"] = 'Bearer realm="rag"'
    return Response(
        json.dumps(members_of(error)).encode(),
        status_code=int(status_of(error)),
        headers=headers,
        media_type=PROBLEM_MEDIA_TYPE,
    )
