"""Refusals of the key-release service: the error of ``attest.errors`` for each unsuccessful answer."""

from __future__ import annotations

from collections.abc import Mapping

from attest.encoding import JsonValue
from attest.errors import KeyUnknownError, LeaseEndedError, PolicyNotMetError, ReleaseRefusedError

_NEXT = {
    "policy-not-met": "compare this machine with the key's policy: 'attest collect evidence', then 'attest appraise'",
    "below-floor": "bring this machine to the firmware that the failed checks name; the service demands it",
    "key-unknown": "check the name and the version; a key can also be hidden from machines that do not conform",
}
"""Advice for operators of the workload, in addition to the service's text."""
_KINDS: Mapping[str, type[ReleaseRefusedError]] = {
    "policy-not-met": PolicyNotMetError,
    "below-floor": PolicyNotMetError,
    "key-unknown": KeyUnknownError,
    "lease-ended": LeaseEndedError,
    "lease-expired": LeaseEndedError,
    "lease-of-another-holder": LeaseEndedError,
    "lease-of-another-key": LeaseEndedError,
    "lease-stopped": LeaseEndedError,
    "lease-unknown": LeaseEndedError,
}


def refused(document: JsonValue, status: int, *, retry_after: float | None = None) -> ReleaseRefusedError:
    """Return the error for an unsuccessful answer.

    The document is problem details, or any other body; ``retry_after`` is in seconds.
    """
    problem = document if isinstance(document, dict) else {}
    checks, code, hint = problem.get("failed_checks"), str(problem.get("code") or "service-error"), problem.get("hint")
    return _KINDS.get(code, ReleaseRefusedError)(
        str(problem.get("detail") or problem.get("title") or "no reason given"),
        code=code,
        status=status,
        failed_checks=tuple(checks) if isinstance(checks, list) else (),
        retry_after=retry_after,
        hint="; ".join(one for one in (_NEXT.get(code), hint) if isinstance(one, str)) or None,
    )
