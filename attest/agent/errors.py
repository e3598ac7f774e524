"""What the agent says when it says no, and what its clients are told; the same type on both sides of the socket."""

from __future__ import annotations

from http import HTTPStatus

from attest.encoding import JsonValue
from attest.errors import AttestError

__all__ = ["AgentRefusedError", "AgentUnavailableError"]


class AgentRefusedError(AttestError):
    """The agent does not give what was asked for.

    Attributes:
        status: of HTTP.
        headers: that belong to the refusal, such as ``Allow``.
        failed_checks: what the key-release service says that stands against this machine, if that is the reason.
        retry_after: seconds after which it is worth asking again, if the agent says so.
    """

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: HTTPStatus,
        expected: str | None = None,
        hint: str | None = None,
        headers: tuple[tuple[str, str], ...] = (),
        failed_checks: tuple[JsonValue, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        """Keep what HTTP says beside the error."""
        super().__init__(
            message, code=code, expected=expected, hint=hint, retryable=status is HTTPStatus.SERVICE_UNAVAILABLE
        )
        self.status = status
        self.headers = headers
        self.failed_checks = failed_checks
        self.retry_after = retry_after


class AgentUnavailableError(AttestError):
    """Nobody answers at the socket, or an answer broke off: what was received of it counts for nothing."""

    exit_code = 5

    def __init__(self, message: str, *, code: str, hint: str | None = None) -> None:
        """Keep it retryable: it may be another thing in a moment."""
        super().__init__(message, code=code, hint=hint, retryable=True)
