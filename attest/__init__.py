"""Attestation and key release for confidential AI.

Bytes are parsed, verified, appraised::

    evidence = read_evidence([("report.bin", report)]).evidence
    expected = ExpectedFreshness(nonce=nonce)
    verified = verify(evidence, endorsements=pool, anchors=TrustAnchors.vendors(), at=now, expected=expected)
    appraise(verified, policy=load_policy(text), at=now).require()

Everything in that line is a pure function: no network, no files, no clock, no randomness.

Keys come to programs on machines that prove themselves (``attest.session``), which is all of these::

    with Session() as session:
        key = session.key("llama-70b")

Importing this package loads nothing but this file; each name brings its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attest.lazy_names import lazy_names

if TYPE_CHECKING:
    from attest.appraisal import AttestationResult, appraise
    from attest.checks import Caution, Check, Outcome, Tier, Unchecked
    from attest.endorsements.anchors import TrustAnchors
    from attest.endorsements.pool import Endorsements
    from attest.errors import AttestError
    from attest.evidence.binding import Binding, ExpectedBinding
    from attest.evidence.endorsement_files import read_endorsements
    from attest.evidence.envelope import Evidence, EvidenceItem, parse_envelope
    from attest.evidence.input_files import read_evidence
    from attest.policy import Policy, load_policy
    from attest.session import AsyncSession, Session
    from attest.verification import ExpectedFreshness, ExpectedRuntimeData, Freshness, VerifiedEvidence, verify

__version__ = "0.1.0"
__distribution__ = "attest-kms"
"""The mark by which the commands know this package from that of the unrelated distribution ``attest``."""

__all__ = [
    "AsyncSession",
    "AttestError",
    "AttestationResult",
    "Binding",
    "Caution",
    "Check",
    "Endorsements",
    "Evidence",
    "EvidenceItem",
    "ExpectedBinding",
    "ExpectedFreshness",
    "ExpectedRuntimeData",
    "Freshness",
    "Outcome",
    "Policy",
    "Session",
    "Tier",
    "TrustAnchors",
    "Unchecked",
    "VerifiedEvidence",
    "appraise",
    "load_policy",
    "parse_envelope",
    "read_endorsements",
    "read_evidence",
    "verify",
]

__getattr__ = lazy_names(
    __name__,
    {
        "attest.appraisal": ("AttestationResult", "appraise"),
        "attest.checks": ("Caution", "Check", "Outcome", "Tier", "Unchecked"),
        "attest.endorsements.anchors": ("TrustAnchors",),
        "attest.endorsements.pool": ("Endorsements",),
        "attest.errors": ("AttestError",),
        "attest.evidence.binding": ("Binding", "ExpectedBinding"),
        "attest.evidence.endorsement_files": ("read_endorsements",),
        "attest.evidence.envelope": ("Evidence", "EvidenceItem", "parse_envelope"),
        "attest.evidence.input_files": ("read_evidence",),
        "attest.policy": ("Policy", "load_policy"),
        "attest.session": ("AsyncSession", "Session"),
        "attest.verification": ("ExpectedFreshness", "ExpectedRuntimeData", "Freshness", "VerifiedEvidence", "verify"),
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
