"""Requirements that tokens of every kind share, and the checks of a refused token: those made, and the failed one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from attest.checks import Check, Outcome
from attest.encoding import rfc3339_text
from attest.errors import AttestError, BindingError, VerificationError
from attest.verification import Freshness

_FRESHNESS = "RFC 9334, section 10; must-check.md 1"


def passed(check_id: str, expected: str, got: str, *, clause: str) -> Check:
    """Return a check that passed."""
    return Check(id=check_id, outcome=Outcome.PASS, expected=expected, got=got, clause=clause)


def not_in_time(
    code: str, *, problem: str, at: datetime, expected: str, clause: str, field: str | None = None
) -> VerificationError:
    """Return the refusal of a token that is not valid at a moment."""
    return VerificationError(
        f"the token is {problem} at {rfc3339_text(at)}",
        code=code,
        field=field,
        expected=expected,
        got=rfc3339_text(at),
        clause=clause,
        hint="ask for a new one, or judge it at its time with --at",
    )


def require_nonce(
    checks: list[Check], nonce: bytes | None, *, answers: Callable[[bytes], bool], got: str, field: str
) -> Freshness:
    """Require that a token answers the expected nonce, and add the check.

    Args:
        checks: those made so far; gets one more unless the token is refused.
        nonce: the expected one; None leaves freshness not evaluated.
        answers: compares in constant time.
        got: the nonces of the token, in hex.
        field: the claim that holds them.

    Raises:
        BindingError: ``nonce-mismatch``.
    """
    if nonce is None:
        outcome, wanted = Outcome.NOT_EVALUATED, "a nonce to compare with"
        checks.append(Check(id="freshness", outcome=outcome, expected=wanted, got="none was given", clause=_FRESHNESS))
        return Freshness.NOT_EVALUATED
    if not answers(nonce):
        raise BindingError(
            "the nonce in the token is not the expected one",
            code="nonce-mismatch",
            check="freshness",
            field=field,
            expected=nonce.hex(),
            got=got,
            clause=_FRESHNESS,
            hint="this token answers another question: an old one, or somebody else's",
        )
    checks.append(passed("freshness", nonce.hex(), got, clause=_FRESHNESS))
    return Freshness.MATCHED


def tell_failed(
    exc: AttestError,
    made: Iterable[Check],
    *,
    check_of: Mapping[str, str],
    otherwise: str,
    expected: str,
    clause: str,
) -> None:
    """Add the checks to a refusal: those that passed, and the one that failed.

    Args:
        exc: the refusal; it gets ``check`` and ``checks``.
        made: the checks that were passed.
        check_of: code of a refusal to the check that it fails.
        otherwise: the check that any other code fails.
        expected: used where the refusal states none.
        clause: likewise.
    """
    exc.check = exc.check or check_of.get(exc.code, otherwise)
    failed = Check(
        id=exc.check,
        outcome=Outcome.FAIL,
        expected=exc.expected or expected,
        got=exc.got or exc.message,
        clause=exc.clause or clause,
    )
    exc.checks = (*made, failed)
