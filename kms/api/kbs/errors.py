"""Refusals in the form of the protocol: ``{"type", "detail"}``, the only form that its clients read.

Spec: specs/kbs-protocol.md, section 18.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Literal

from starlette.responses import Response

from attest.errors import AttestError, ConfigurationError
from kms.api.problems import status_of
from kms.domain.errors import KeyUnknownError, RateLimitedError, ReleaseDeniedError, UnavailableError

_TYPE: Final = "https://github.com/confidential-containers/kbs/errors/"
_log = logging.getLogger("kms")
Variant = Literal[
    "AdminAuthAccess",
    "AdminAuthInitialization",
    "AttestationError",
    "HTTPFailed",
    "InvalidRequestPath",
    "ParsePolicyError",
    "PluginInternalError",
    "PluginNotFound",
    "PolicyDeny",
    "PolicyEngineError",
    "RvpsError",
    "TokenNotFound",
    "TokenVerifierError",
]
"""Names of refusals that clients know; ``HTTPFailed`` is every one that has no name of its own."""


@dataclass(eq=False)
class KbsRefusal(Exception):  # noqa: N818  the protocol's own word is error, which every variant's name has
    """A refusal with its status, its name in the protocol, a text, which clients print, and our code.

    401 makes a client attest again and repeat the request, so it is used only where that can help.
    """

    status: HTTPStatus
    variant: Variant
    text: str
    code: str
    retry_seconds: int | None = None

    def response(self) -> Response:
        """Return the response."""
        retry = {} if self.retry_seconds is None else {"Retry-After": str(self.retry_seconds)}
        return refusal_response(self.status, self.variant, f"{self.text} [{self.code}]", headers=retry)


def refusal_response(
    status: HTTPStatus, variant: Variant, detail: str, *, headers: dict[str, str] | None = None
) -> Response:
    """Return a refusal as a response."""
    content = json.dumps({"type": _TYPE + variant, "detail": detail}, separators=(",", ":"))
    return Response(content, status_code=int(status), media_type="application/json", headers=headers)


def refusal_of(error: AttestError, *, variant: Variant, unauthorized: bool = False) -> KbsRefusal:
    """Return the refusal for an error of this service.

    ``unauthorized`` answers 401 where attesting again helps: for errors of the handshake itself.
    """
    text, code = error.message, error.code
    if isinstance(error, RateLimitedError):
        return KbsRefusal(HTTPStatus.TOO_MANY_REQUESTS, "HTTPFailed", text, code, error.retry_seconds)
    if isinstance(error, UnavailableError):
        return KbsRefusal(HTTPStatus.SERVICE_UNAVAILABLE, "HTTPFailed", text, code, 1)
    if isinstance(error, KeyUnknownError):
        return KbsRefusal(HTTPStatus.NOT_FOUND, "PluginInternalError", text, code)
    if isinstance(error, ReleaseDeniedError):
        return KbsRefusal(HTTPStatus.FORBIDDEN, "PolicyDeny", text, code)
    if isinstance(error, ConfigurationError) and not unauthorized:
        return KbsRefusal(HTTPStatus.BAD_REQUEST, variant, text, code)
    status = HTTPStatus.FORBIDDEN if isinstance(error, ConfigurationError) else status_of(error)
    if status is HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.error("internal: %s: %s", error.code, error.message)
        return KbsRefusal(status, "HTTPFailed", "the service's own data is damaged", code)
    return KbsRefusal(HTTPStatus.UNAUTHORIZED if unauthorized else status, variant, text, code)
