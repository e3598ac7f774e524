"""Freshness: the challenge that evidence must carry, and the result of comparing it."""

from __future__ import annotations

import enum
from dataclasses import dataclass

REPORT_DATA_BYTES = 64


class Freshness(enum.StrEnum):
    """Result of comparing the evidence with the Relying Party's challenge."""

    MATCHED = "matched"
    MISMATCHED = "mismatched"
    NOT_EVALUATED = "not evaluated"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedFreshness:
    """The challenge that the evidence must carry.

    Attributes:
        nonce: 1 to 64 bytes. With a binding: the binding's nonce. Without: REPORT_DATA, left-aligned, rest zero, and
            the request nonce of every GPU and switch, which has 32 bytes. Behind a virtual TPM (Azure): extraData of
            its quote, whole.
        report_data: all 64 bytes of REPORT_DATA; on Azure those of the user data, which alone are no freshness.

    Raises:
        ValueError: neither is given, a length is wrong, or the two contradict each other.
    """

    nonce: bytes | None = None
    report_data: bytes | None = None

    def __post_init__(self) -> None:
        if self.nonce is None and self.report_data is None:
            raise ValueError("expected a nonce, report data, or both")
        if self.nonce is not None and not 0 < len(self.nonce) <= REPORT_DATA_BYTES:
            raise ValueError(f"a nonce has 1 to {REPORT_DATA_BYTES} bytes, got {len(self.nonce)}")
        if self.report_data is not None and len(self.report_data) != REPORT_DATA_BYTES:
            raise ValueError(f"report data has {REPORT_DATA_BYTES} bytes, got {len(self.report_data)}")
