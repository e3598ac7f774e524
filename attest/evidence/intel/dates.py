"""Dates of a set of collateral: the earliest and latest issue, and the earliest end, over all of its pieces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

Validity = tuple[datetime, datetime]
"""First and last moment of one piece."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollateralDates:
    """Dates over certificates, lists and documents together (specs/intel-tdx-sgx.md, section 15).

    Attributes:
        earliest_issue: issue date of the oldest piece.
        latest_issue: issue date of the newest piece.
        earliest_expiration: the moment after which the set no longer counts as a whole.
    """

    earliest_issue: datetime
    latest_issue: datetime
    earliest_expiration: datetime


def dates_of(pieces: Iterable[Validity]) -> CollateralDates:
    """Summarise the validities of pieces.

    Raises:
        ValueError: there is no piece.
    """
    begins, ends = zip(*pieces, strict=True)
    return CollateralDates(earliest_issue=min(begins), latest_issue=max(begins), earliest_expiration=min(ends))
