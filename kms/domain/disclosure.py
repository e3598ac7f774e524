"""Disclosure of refusal reasons to a workload. The operator's log always has all of them.

A refusal concerns all requested keys together, so the most restrictive setting applies. A key that does not exist
counts as one that discloses nothing; a key that discloses nothing is reported as unknown (MC-21, MC-38).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from attest.checks import Check
from kms.domain.decide import DenialReason, ReleaseDecision
from kms.domain.errors import KeyUnknownError, ReleaseDeniedError
from kms.domain.keys import DEFAULT_DISCLOSURE, Disclosure

_HINT: Final = "the decision and its reasons are in the service's log"
_FROM_LEAST: Final = tuple(Disclosure)


def hides(requested: Iterable[str], levels: Mapping[str, Disclosure]) -> str | None:
    """Return the first requested key that discloses nothing, or None; ``levels`` has the keys that exist."""
    return next((one for one in requested if levels.get(one, Disclosure.NONE) is Disclosure.NONE), None)


def denial(
    decision: ReleaseDecision, *, requested: tuple[str, ...], levels: Mapping[str, Disclosure]
) -> ReleaseDeniedError:
    """Return the error for a refused workload; ``levels`` has the keys that exist."""
    hidden = hides(requested, levels)
    if hidden is not None:
        return KeyUnknownError(
            f"there is no key {hidden!r} for this workload", code="key-unknown", field=hidden, hint=_HINT
        )
    level = min((levels[one] for one in requested), key=_FROM_LEAST.index, default=DEFAULT_DISCLOSURE)
    reasons = decision.reasons
    checks = tuple({(c.id, c.item): c for reason in reasons for c in reason.checks}.values())
    text = _words(reasons, checks, level)
    error = ReleaseDeniedError(text, code=reasons[0].code, field=reasons[0].key_id, hint=_HINT)
    if level is Disclosure.FULL:
        error.checks = checks
    elif level is Disclosure.CHECKS:
        error.checks = tuple(replace(check, expected="", got="") for check in checks)
    return error


def _words(reasons: tuple[DenialReason, ...], checks: tuple[Check, ...], level: Disclosure) -> str:
    if level is Disclosure.FULL:
        return "; ".join(dict.fromkeys(reason.text for reason in reasons))
    codes = f"the release is refused: {', '.join(dict.fromkeys(reason.code for reason in reasons))}"
    if level is Disclosure.CHECKS and checks:
        return f"{codes} ({', '.join(dict.fromkeys(check.id for check in checks))})"
    return codes
