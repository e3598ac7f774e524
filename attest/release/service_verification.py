"""Verification of a service's machine with endorsements from files, completed from the vendors if necessary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from attest.checks import Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.errors import EndorsementError
from attest.evidence.envelope import Evidence
from attest.evidence.freshness import Expectation
from attest.policy.loader import Policy
from attest.verification import VerifiedEvidence, verify


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineExpectation:
    """A client's requirements for the machine of a service, and the means to check them.

    Attributes:
        anchors: accepted root keys; an empty set accepts nothing.
        endorsements: of the vendors, from files.
        fetch: obtains missing endorsements; None disables it.
    """

    policy: Policy
    anchors: TrustAnchors
    endorsements: Endorsements
    fetch: Callable[[Evidence, datetime], Endorsements] | None = None


def verify_service(
    evidence: Evidence,
    *,
    expect: MachineExpectation,
    binding: Expectation,
    at: datetime,
    unchecked: tuple[Unchecked, ...] = (),
) -> VerifiedEvidence:
    """Verify a service's evidence; ``fetch`` runs only if endorsements are missing.

    ``unchecked`` are relaxations beside those of the policy.

    Raises:
        AttestError: as ``verify``, and as ``fetch``.
    """
    verified_with = partial(
        verify,
        evidence,
        anchors=expect.anchors,
        at=at,
        expected=binding,
        unchecked=(*expect.policy.unchecked, *unchecked),
        tolerances=expect.policy.tolerances,
    )
    try:
        return verified_with(endorsements=expect.endorsements)
    except EndorsementError:
        if expect.fetch is None:
            raise
    return verified_with(endorsements=expect.endorsements.merged(expect.fetch(evidence, at)))
