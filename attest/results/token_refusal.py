"""How a refused token is told: every check that was made, and the one that failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attest.checks import Check, Outcome
from attest.errors import AttestError

__all__ = ["tell_failed"]


def tell_failed(
    exc: AttestError,
    made: Iterable[Check],
    *,
    check_of: Mapping[str, str],
    otherwise: str,
    expected: str,
    clause: str,
) -> None:
    """Give a refusal its checks, so that a reader sees how far the token came.

    Args:
        exc: the refusal; it gets ``check`` and ``checks``.
        made: the checks that were passed.
        check_of: code of a refusal to the check that it fails.
        otherwise: the check that any other code fails.
        expected: told where the refusal does not say.
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
