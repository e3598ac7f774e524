"""Claims of sample evidence: two that it states, and constants of Trustee's verifier for it.

The constants let policies for such evidence be tried out. No machine has measured them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attest.evidence.claims import Claim, ClaimType, ClaimValue, Origin, claim_finder
from attest.evidence.sample.structure import CLAUSE
from attest.evidence.sample.verify import VerifiedSample

LAUNCH_DIGEST: Final = "abcde"


def _claim(name: str, kind: ClaimType, get: Callable[[VerifiedSample], ClaimValue]) -> Claim:
    return Claim(name=name, type=kind, origin=Origin.GUEST, clause=CLAUSE, get=get)


SAMPLE_DEVICE_CLAIMS: tuple[Claim, ...] = (
    _claim("svn", ClaimType.TEXT, lambda v: v.evidence.svn),
    _claim("report_data", ClaimType.BYTES, lambda v: v.evidence.report_data),
)
SAMPLE_CLAIMS: tuple[Claim, ...] = (
    *SAMPLE_DEVICE_CLAIMS,
    _claim("launch_digest", ClaimType.TEXT, lambda _: LAUNCH_DIGEST),
    _claim("platform_version.major", ClaimType.INTEGER, lambda _: 1),
    _claim("platform_version.minor", ClaimType.INTEGER, lambda _: 4),
    _claim("debug", ClaimType.BOOLEAN, lambda _: False),
)
sample_claim = claim_finder(SAMPLE_CLAIMS)
