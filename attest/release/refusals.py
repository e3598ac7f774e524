"""The refusals of the key-release service: the error of ``attest.errors`` for each answer that is no success."""

from __future__ import annotations

from attest.encoding import JsonValue
from attest.errors import KeyUnknownError, LeaseEndedError, PolicyNotMetError, ReleaseRefusedError

__all__ = ["refused"]

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
