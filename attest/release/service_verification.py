"""Verification of a service's machine with endorsements from files, completed from the vendors if necessary."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.errors import EndorsementError
from attest.evidence.binding import ExpectedBinding
from attest.evidence.envelope import Evidence
from attest.policy.loader import Policy
from attest.verification import VerifiedEvidence, verify


def verify_service(
    evidence: Evidence,
    *,
    policy: Policy,
    anchors: TrustAnchors,
    endorsements: Endorsements,
    fetch: Callable[[Evidence, datetime], Endorsements] | None,
    expected: ExpectedBinding,
    at: datetime,
) -> VerifiedEvidence:
    """Verify a service's evidence with the policy's relaxations; ``fetch`` runs only if endorsements are missing.

    Raises:
        AttestError: as ``verify``, and as ``fetch``.
    """
    verified_with = partial(
        verify,
        evidence,
        anchors=anchors,
        at=at,
        expected=expected,
        unchecked=policy.unchecked,
        tolerances=policy.tolerances,
    )
    try:
        return verified_with(endorsements=endorsements)
    except EndorsementError:
        if fetch is None:
            raise
    return verified_with(endorsements=endorsements.merged(fetch(evidence, at)))
