"""Verifying the machine of a service: with endorsements at hand, and where they do not suffice, with the vendors'."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.errors import EndorsementError
from attest.evidence.binding import ExpectedBinding
from attest.evidence.envelope import Evidence
from attest.policy.load import Policy
from attest.verification import VerifiedEvidence, verify

__all__ = ["Expectation", "verify_service"]


class Expectation(Protocol):
    """What is relied on where a service proves its machine."""

    @property
    def policy(self) -> Policy:
        """What the machine has to meet; what it leaves unchecked and tolerates counts for verification."""
        ...

    @property
    def anchors(self) -> TrustAnchors:
        """Whose hardware counts."""
        ...

    @property
    def endorsements(self) -> Endorsements:
        """What vendors say, as far as it is at hand."""
        ...

    @property
    def fetch(self) -> Callable[[Evidence, datetime], Endorsements] | None:
        """Asks the vendors for the rest; None asks nobody."""
        ...


def verify_service(
    evidence: Evidence, *, expect: Expectation, expected: ExpectedBinding, at: datetime
) -> VerifiedEvidence:
    """Verify what a service proves of its machine; vendors are asked only where endorsements do not suffice.

    Args:
        evidence: the service's; not trusted yet.
        expect: what is relied on.
        expected: what the evidence has to be bound to.
        at: the moment of appraisal.

    Raises:
        AttestError: as ``verify``, and as ``expect.fetch``.
    """

    def verified_with(endorsements: Endorsements) -> VerifiedEvidence:
        return verify(
            evidence,
            endorsements=endorsements,
            anchors=expect.anchors,
            at=at,
            expected=expected,
            unchecked=expect.policy.unchecked,
            tolerances=expect.policy.tolerances,
        )

    try:
        return verified_with(expect.endorsements)
    except EndorsementError:
        if expect.fetch is None:
            raise
    return verified_with(expect.endorsements.merged(expect.fetch(evidence, at)))
