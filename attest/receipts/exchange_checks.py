"""Checks of the exchange itself: its bodies, its challenge and its time."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from attest.checks import Outcome
from attest.encoding import rfc3339_text
from attest.errors import BindingError, VerificationError
from attest.evidence.procedure import Procedure, require_equal
from attest.receipts.claims import ReceiptClaims, ResponseClaim
from attest.receipts.statement import ReceiptStatement

SKEW: Final = timedelta(seconds=120)
"""Difference between the clocks of the machine and of the person who checks; as for the channel's requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyDigest:
    """The size and SHA-256 of a body that a person has."""

    size: int
    sha256: bytes

    @staticmethod
    def of(body: bytes) -> BodyDigest:
        """Return that of bytes in memory."""
        return BodyDigest(size=len(body), sha256=sha256(body).digest())


def require_body(procedure: Procedure, given: BodyDigest | None, stated: BodyDigest, *, name: str, code: str) -> None:
    """Compare a body with the stated one, and record the open step.

    Raises:
        BindingError: of this code.
    """
    if given is None:
        procedure.record(stated.sha256, f"no {name} was given", Outcome.NOT_EVALUATED)
        return
    if given.size == stated.size and hmac.compare_digest(given.sha256, stated.sha256):
        procedure.record(stated.sha256, given.sha256)
        return
    raise BindingError(
        f"the {name} is not that of the receipt",
        code=code,
        field=f"claims.{name}",
        expected=f"{stated.size} bytes, SHA-256 {stated.sha256.hex()}",
        got=f"{given.size} bytes, SHA-256 {given.sha256.hex()}",
        hint="give the body byte for byte, as it was sent, without transfer coding",
    )


def require_complete(procedure: Procedure, response: ResponseClaim, *, allow_incomplete: bool) -> None:
    """Require that the application ended the answer itself, and record the open step.

    Raises:
        VerificationError: ``receipt-answer-incomplete``.
    """
    state = "complete" if response.complete else f"cut off after {response.size} bytes"
    if not response.complete and not allow_incomplete:
        raise VerificationError(
            f"the answer was {state}",
            code="receipt-answer-incomplete",
            field="claims.response.complete",
            expected="complete",
            got=state,
            hint="send the request again, or accept a part of the answer with --allow-incomplete",
        )
    procedure.record("complete", state, Outcome.PASS if response.complete else Outcome.WARNING)


def require_challenge(procedure: Procedure, found: bytes | None, wanted: bytes | None) -> None:
    """Compare the challenge of the client, and record the open step.

    Raises:
        BindingError: ``receipt-challenge-mismatch``.
    """
    if wanted is None:
        procedure.record("", "none was given", Outcome.NOT_EVALUATED)
        return
    require_equal(
        wanted,
        found or b"",
        "the receipt answers another challenge",
        code="receipt-challenge-mismatch",
        field="claims.nonce",
        hint="the receipt is of another exchange, perhaps of an equal one",
    )
    procedure.record(wanted, found or b"")


def require_validity(claims: ReceiptClaims, statement: ReceiptStatement) -> None:
    """Require that the time of a receipt is inside the validity of its keys, both ends included.

    Raises:
        VerificationError: ``receipt-time-invalid``.
    """
    if statement.not_before <= claims.issued_at <= statement.not_after:
        return
    raise VerificationError(
        "the receipt's time is outside the validity of its keys",
        code="receipt-time-invalid",
        field="claims.iat",
        expected=f"from {rfc3339_text(statement.not_before)} to {rfc3339_text(statement.not_after)}",
        got=rfc3339_text(claims.issued_at),
        clause="docs/receipts.md, time",
        hint="the machine's clock was set, or its receipt keys are overdue for replacement",
    )


def require_time(claims: ReceiptClaims, at: datetime, max_age: timedelta | None) -> None:
    """Require a time that is not in the future, and not too long ago; both bounds are included.

    Raises:
        VerificationError: ``receipt-time-invalid``.
    """
    earliest = None if max_age is None else at - max_age
    if claims.issued_at <= at + SKEW and (earliest is None or earliest <= claims.issued_at):
        return
    begin = "any time" if earliest is None else rfc3339_text(earliest)
    raise VerificationError(
        "the receipt's time is in the future, or too long ago",
        code="receipt-time-invalid",
        field="claims.iat",
        expected=f"from {begin} to {rfc3339_text(at + SKEW)}",
        got=rfc3339_text(claims.issued_at),
        hint="check the clock of this computer, or give --at",
    )
