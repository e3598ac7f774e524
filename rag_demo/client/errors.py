"""The client's branch of the error tree, ordered by who must act.

::

    AttestError
    ├── AppraisalError, VerificationError, …   the machine is not what the user demands; nothing was sent      exit 1, 4
    ├── RagRefusedError                        the service refused, inside the encryption                      exit 1
    ├── RagAnswerError                         its answer breaks its interface, or ends too early              exit 3
    ├── RagUnreachableError                    no answer: try later                                            exit 5
    ├── ChannelError                           altered, cut or refused on the way                              exit 3-5
    └── ConfigurationError                     a file or a setting of the user is wrong                        exit 2
"""

from __future__ import annotations

import re
from typing import Final

import httpx

from attest.encoding import JsonValue
from attest.errors import AppraisalError, AttestError, ChannelError, EndorsementError, VerificationError

_MAX_TEXT: Final = 500
"""Characters that are kept of a service's text."""
_MAX_REASON: Final = 160
_ERRNO: Final = re.compile(r"^\[Errno -?\d+\] ")
_PASSING: Final = frozenset({429, 502, 503, 504})


class RagRefusedError(AttestError):
    """The service refused, inside the encryption, so the refusal is its own."""

    exit_code = 1

    def __init__(self, message: str, *, code: str, status: int, hint: str | None = None) -> None:
        super().__init__(message, code=code, hint=hint, retryable=status in _PASSING)
        self.status = status


class RagAnswerError(ChannelError):
    """The service's answer breaks its interface, or ends too early."""


class RagUnreachableError(EndorsementError):
    """The service cannot be reached."""


def refused(document: JsonValue, status: int) -> RagRefusedError:
    """Return an error for problem details, or for any other body of a refusal."""
    members = document if isinstance(document, dict) else {}

    def text(name: str) -> str | None:
        value = members.get(name)
        return value[:_MAX_TEXT] if isinstance(value, str) and value else None

    detail = text("detail") or text("title") or f"status {status}"
    return RagRefusedError(
        f"the service refused: {detail}", code=text("code") or "rag-refused", status=status, hint=text("hint")
    )


def unreachable(url: str, exc: httpx.HTTPError) -> RagUnreachableError:
    """Return the error for a missing answer; the request may have arrived."""
    late = isinstance(exc, httpx.TimeoutException)
    return RagUnreachableError(
        f"{url} {'does not answer in time' if late else 'cannot be reached'}: {_reason(exc)}",
        code="rag-unreachable",
        got=str(exc)[:_MAX_TEXT] or None,
        hint="check the address, and that the service runs; nothing but sealed bytes was sent",
        retryable=True,
    )


def _reason(exc: httpx.HTTPError) -> str:
    """Return the system's reason, where there is one: connection refused, unknown name, wrong certificate."""
    reason = str(exc).strip() if isinstance(exc, httpx.ConnectError) else ""
    return _ERRNO.sub("", reason)[:_MAX_REASON] or type(exc).__name__


def unjudged(exc: Exception) -> VerificationError:
    """Return the error for evidence that could not be appraised because of a defect in this client."""
    return VerificationError(
        f"the evidence of the machine could not be appraised: {type(exc).__name__}",
        code="rag-proof-unjudged",
        hint="nothing was sent, and the machine is no longer trusted: this is an internal error of this client",
    )


def unproven_hint(error: AttestError) -> str:
    """Return a hint for a machine that did not prove itself, where the error has none."""
    if isinstance(error, AppraisalError):
        return "nothing was sent: this machine does not meet your policy; /why and 'check' show every check"
    if isinstance(error, VerificationError):
        return "nothing was sent: the answering machine is not the expected one, or the connection is intercepted"
    if isinstance(error, EndorsementError):
        return "nothing was sent: omit --offline, or name the vendors' endorsements with --endorsements"
    return "nothing was sent: the answer is not that of the expected service"
