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

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attest.appraisal import AttestationResult, appraise
    from attest.checks import Check, Outcome, Tier, Unchecked
    from attest.endorsements.anchors import TrustAnchors
    from attest.endorsements.pool import Endorsements
    from attest.errors import AttestError
    from attest.evidence.binding import Binding, ExpectedBinding
    from attest.evidence.endorsement_files import read_endorsements
    from attest.evidence.envelope import Evidence, EvidenceItem, parse_envelope
    from attest.evidence.input_files import read_evidence
    from attest.policy import Policy, load_policy
    from attest.session import AsyncSession, Session
    from attest.verification import ExpectedFreshness, Freshness, VerifiedEvidence, verify

__version__ = "0.1.0"

_HOMES = {
    "AsyncSession": "attest.session",
    "AttestError": "attest.errors",
    "AttestationResult": "attest.appraisal",
    "Binding": "attest.evidence.binding",
    "Check": "attest.checks",
    "Endorsements": "attest.endorsements.pool",
    "Evidence": "attest.evidence.envelope",
    "EvidenceItem": "attest.evidence.envelope",
    "ExpectedBinding": "attest.evidence.binding",
    "ExpectedFreshness": "attest.verification",
    "Freshness": "attest.verification",
    "Outcome": "attest.checks",
    "Policy": "attest.policy",
    "Session": "attest.session",
    "Tier": "attest.checks",
    "TrustAnchors": "attest.endorsements.anchors",
    "Unchecked": "attest.checks",
    "VerifiedEvidence": "attest.verification",
    "appraise": "attest.appraisal",
    "load_policy": "attest.policy",
    "parse_envelope": "attest.evidence.envelope",
    "read_endorsements": "attest.evidence.endorsement_files",
    "read_evidence": "attest.evidence.input_files",
    "verify": "attest.verification",
}

__all__ = [
    "AsyncSession",
    "AttestError",
    "AttestationResult",
    "Binding",
    "Check",
    "Endorsements",
    "Evidence",
    "EvidenceItem",
    "ExpectedBinding",
    "ExpectedFreshness",
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


def __getattr__(name: str) -> object:
    """Import a public name's module when the name is first used."""
    try:
        home = _HOMES[name]
    except KeyError:
        msg = f"module 'attest' has no attribute {name!r}"
        raise AttributeError(msg) from None
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
