"""What a service says when it says no, sorted by what a workload does next."""

from __future__ import annotations

from attest.encoding import JsonValue
from attest.errors import AttestError

__all__ = [
    "KeyUnknownError",
    "LeaseEndedError",
    "LeaseLostError",
    "PolicyNotMetError",
    "ReleaseRefusedError",
    "refused",
]

_ASK_AGAIN = frozenset({409, 410, 429, 502, 503, 504})
"""A challenge that was used or is too old, too many requests, and a service or a proxy that cannot say now."""
_NEXT = {
    "policy-not-met": "compare this machine with the key's policy: 'attest collect evidence', then 'attest appraise'",
    "key-unknown": "check the name and the version; a key may also be kept from machines that do not conform",
}
"""What a workload's people can do, beside what the service says."""
_LEASES = frozenset({
    "lease-ended",
    "lease-expired",
    "lease-of-another-holder",
    "lease-of-another-key",
    "lease-stopped",
    "lease-unknown",
})  # fmt: skip


class ReleaseRefusedError(AttestError):
    """The service refused; code, text and failed checks are its own words.

    Attributes:
        status: HTTP status of the answer.
        failed_checks: the checks that stood against this workload, as the service reports them; which of them it
            tells, and with what, is the key owner's choice.
        retry_after: seconds after which the service wants to be asked again, if it says so.
    """

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int,
        failed_checks: tuple[JsonValue, ...],
        retry_after: float | None = None,
        hint: str | None = None,
    ) -> None:
        """Keep the service's problem details."""
        super().__init__(message, code=code, hint=hint, retryable=status in _ASK_AGAIN)
        self.status = status
        self.failed_checks = failed_checks
        self.retry_after = retry_after

    @property
    def failed_check_ids(self) -> tuple[str, ...]:
        """The ids of the failed checks, each once, in the service's order."""
        ids = (check.get("id") for check in self.failed_checks if isinstance(check, dict))
        return tuple(dict.fromkeys(one for one in ids if isinstance(one, str)))


class PolicyNotMetError(ReleaseRefusedError):
    """This machine, or what runs on it, is not what the key's policy asks for."""


class KeyUnknownError(ReleaseRefusedError):
    """There is no such key, or its owner tells this workload nothing of it."""


class LeaseEndedError(ReleaseRefusedError):
    """A lease that was to be renewed counts no more, or the operator stopped its renewals."""


class LeaseLostError(AttestError):
    """A key that was held is to be used no more; the cause says why.

    Attributes:
        failed_checks: what the service says that stood against this workload, if it refused.
    """

    exit_code = 1

    def __init__(self, message: str, *, code: str, cause: AttestError | None = None, hint: str | None = None) -> None:
        """Keep what the service said."""
        super().__init__(message, code=code, got=None if cause is None else cause.code, hint=hint)
        self.failed_checks: tuple[JsonValue, ...] = (
            cause.failed_checks if isinstance(cause, ReleaseRefusedError) else ()
        )
        self.__cause__ = cause

    def __reduce__(self) -> str | tuple[object, ...]:
        """Let it be pickled without its cause, which stays where it happened."""
        return _restored, (self.message, self.code, self.hint)


def _restored(message: str, code: str, hint: str | None) -> LeaseLostError:
    return LeaseLostError(message, code=code, hint=hint)


def refused(document: JsonValue, status: int, *, retry_after: float | None = None) -> ReleaseRefusedError:
    """Make an error of an answer that is no success.

    Args:
        document: problem details, or whatever came.
        status: of HTTP.
        retry_after: seconds, as the answer's header says.
    """
    problem = document if isinstance(document, dict) else {}
    checks, code, hint = problem.get("failed_checks"), str(problem.get("code") or "service-error"), problem.get("hint")
    return _kind(code)(
        str(problem.get("detail") or problem.get("title") or "no reason given"),
        code=code,
        status=status,
        failed_checks=tuple(checks) if isinstance(checks, list) else (),
        retry_after=retry_after,
        hint="; ".join(one for one in (_NEXT.get(code), hint) if isinstance(one, str)) or None,
    )


def _kind(code: str) -> type[ReleaseRefusedError]:
    if code in _LEASES:
        return LeaseEndedError
    return {"policy-not-met": PolicyNotMetError, "key-unknown": KeyUnknownError}.get(code, ReleaseRefusedError)
