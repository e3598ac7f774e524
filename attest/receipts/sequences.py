"""Several receipts, compared: a contradiction that one receipt alone cannot show."""

from __future__ import annotations

from collections.abc import Iterable

from attest.errors import VerificationError
from attest.receipts.claims import ReceiptClaims


def require_consistent(receipts: Iterable[ReceiptClaims]) -> None:
    """Require that no two different receipts of one statement have one sequence number.

    A gap in the numbers is an exchange of another client, and no contradiction.

    Raises:
        VerificationError: ``receipt-sequence-repeated``.
    """
    by_number: dict[tuple[bytes, int], ReceiptClaims] = {}
    for claims in receipts:
        other = by_number.setdefault((claims.statement, claims.sequence), claims)
        if other != claims:
            raise VerificationError(
                f"two exchanges have the number {claims.sequence} of one machine",
                code="receipt-sequence-repeated",
                field="claims.sequence",
                expected="a number for each exchange",
                got=f"{other.receipt_id.hex()} and {claims.receipt_id.hex()}",
                clause="docs/receipts.md, sequence",
                hint="keep both receipts: together they prove that a holder of the machine's keys contradicts itself",
            )
