"""Verified passports and their appraisal by a policy, in the form that decisions use. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from attest.appraisal import Judgement
from attest.checks import Check, Unchecked
from attest.evidence import NO_DEVICE_TOLERANCES, Binding, DeviceTolerances
from attest.policy import Policy
from attest.release import Passport
from attest.results import VerifiedEar, judge_ear
from attest.verification import Freshness, VerifiedItem


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedPassport:
    """A passport whose EAR a trusted Verifier signed, and whose request is signed by the key that the EAR confirms.

    Built by ``PassportVerifier.verify`` only. It has the members of verified evidence that a decision uses.

    Attributes:
        evidence: the passport; its digest is that of the EAR.
        binding: purpose of the signed request, and the key to seal to.
    """

    evidence: Passport
    token: VerifiedEar
    binding: Binding
    at: datetime

    @property
    def simulated(self) -> bool:
        """True if the Verifier appraised simulated evidence, or does not state it."""
        return self.token.simulated is not False

    @property
    def freshness(self) -> Freshness:
        """``MATCHED``: the key in the EAR signed the challenge. The policy limits the age of the EAR."""
        return Freshness.MATCHED

    @property
    def unchecked(self) -> tuple[Unchecked, ...]:
        """Empty: its verification is never relaxed. The policy appraises relaxations by its Verifier."""
        return ()

    @property
    def tolerances(self) -> DeviceTolerances:
        """Empty: no tolerance for devices is granted."""
        return NO_DEVICE_TOLERANCES

    @property
    def items(self) -> tuple[VerifiedItem, ...]:
        """Empty: an EAR states the result of a policy, not the devices."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PassportResult(Judgement):
    """The appraisal of a passport by one policy."""

    verified: VerifiedPassport

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check, of verification and of the policy. Freshness appears once, as the policy appraises it."""
        return (*(check for check in self.verified.token.checks if check.id != "freshness"), *self.policy_checks)


def appraise_passport(verified: VerifiedPassport, *, policy: Policy, at: datetime) -> PassportResult:
    """Appraise a verified passport by a policy, which must name the EAR's issuer among its ``verifiers``."""
    found = judge_ear(verified.token, policy=policy, at=at, freshness=verified.freshness)
    return PassportResult(
        verified=verified,
        policy=found.policy,
        at=found.at,
        policy_checks=found.policy_checks,
        categories=found.categories,
        unchecked=found.unchecked,
        set_aside=found.set_aside,
    )
