"""Verification of a service's machine with endorsements from files, completed from the vendors if necessary."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.errors import EndorsementError
from attest.evidence.binding import ExpectedBinding
from attest.evidence.envelope import Evidence
from attest.policy.loader import Policy
from attest.verification import VerifiedEvidence, verify


class Expectation(Protocol):
    """Inputs for the verification of a service's machine."""

    @property
    def policy(self) -> Policy:
        """Requirements for the machine, with its relaxations of verification."""
        ...

    @property
    def anchors(self) -> TrustAnchors:
        """Accepted root keys."""
        ...

    @property
    def endorsements(self) -> Endorsements:
        """Endorsements at hand."""
        ...

    @property
    def fetch(self) -> Callable[[Evidence, datetime], Endorsements] | None:
        """Obtains missing endorsements; None disables it."""
        ...


def verify_service(
    evidence: Evidence, *, expect: Expectation, expected: ExpectedBinding, at: datetime
) -> VerifiedEvidence:
    """Verify a service's evidence; vendors are queried only if the endorsements do not suffice.

    Args:
        evidence: the service's; not trusted yet.
        expect: the inputs.
        expected: the required binding.
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
