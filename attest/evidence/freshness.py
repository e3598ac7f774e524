"""Freshness: the challenge that evidence must carry, and the result of comparing it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias

from attest.evidence.binding import ExpectedBinding

REPORT_DATA_BYTES = 64
DEVICE_NONCE_BYTES = 32
"""SPDM has no other nonces (nvidia-gpu.md 2)."""
_DIGEST_BYTES = range(32, REPORT_DATA_BYTES + 1)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedRuntimeData:
    """The digests of runtime data that evidence of the KBS protocol must carry.

    The caller has hashed the runtime data over the devices' evidence as received, and has made the items of devices
    from these bytes. So the digest in the CPU's report commits to exactly these devices.

    Attributes:
        digest: 32 to 64 bytes. REPORT_DATA, left-aligned, rest zero. Behind a virtual TPM (Azure): extraData of its
            quote, whole, and the beginning of user data that is not all zero.
        device_digest: 32 to 64 bytes; its first 32 are the request nonce of every GPU and switch.

    Raises:
        ValueError: a length is wrong.
    """

    digest: bytes
    device_digest: bytes

    def __post_init__(self) -> None:
        for name in ("digest", "device_digest"):
            length = len(getattr(self, name))
            if length not in _DIGEST_BYTES:
                raise ValueError(f"{name}: a digest of runtime data has 32 to {REPORT_DATA_BYTES} bytes, got {length}")


Expectation: TypeAlias = ExpectedFreshness | ExpectedBinding | ExpectedRuntimeData | None
"""The challenge that evidence must carry, in one of its forms; None: freshness is not evaluated."""
