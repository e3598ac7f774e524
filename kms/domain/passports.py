"""A passport that is genuine, and what a policy says of it, in the shape in which decisions are made. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from attest.appraisal import Judgement
from attest.checks import Check, Unchecked
from attest.evidence.binding import Binding
from attest.evidence.gpu.tolerances import NO_DEVICE_TOLERANCES, DeviceTolerances
from attest.policy import Policy
from attest.release.passports import Passport
from attest.results import VerifiedEar
from attest.results.token_policy import judge_ear
from attest.verification import Freshness, VerifiedItem

__all__ = ["PassportResult", "VerifiedPassport", "appraise_passport"]

_NOTHING_RELAXED: Final[tuple[Unchecked, ...]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedPassport:
    """A passport whose EAR a trusted Verifier signed, and whose request the key signed that the EAR vouches for.

    Built by ``PassportVerifier.verify`` only. It has the members of verified evidence that a decision looks at.

    Attributes:
        evidence: the passport; its digest is that of the EAR.
        token: the EAR, verified.
        binding: what the request was signed for, and the key to seal to.
        at: the moment for which all this holds.
    """

    evidence: Passport
    token: VerifiedEar
    binding: Binding
    at: datetime

    @property
    def simulated(self) -> bool:
        """Whether the Verifier judged simulated evidence; one that does not say counts as such."""
        return self.token.simulated is not False

    @property
    def freshness(self) -> Freshness:
        """That the key which the EAR vouches for signed the challenge; how old the EAR may be is for the policy."""
        return Freshness.MATCHED

    @property
    def unchecked(self) -> tuple[Unchecked, ...]:
        """What was relaxed in verifying it: nothing. What its Verifier relaxed, the policy judges."""
        return _NOTHING_RELAXED

    @property
    def tolerances(self) -> DeviceTolerances:
        """Likewise."""
        return NO_DEVICE_TOLERANCES

    @property
    def items(self) -> tuple[VerifiedItem, ...]:
        """No device: an EAR says how a policy was met, and not by what."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PassportResult(Judgement):
    """What one policy says of a passport.

    Attributes:
        verified: the passport that was judged.
    """

    verified: VerifiedPassport

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check, of verification and of the policy. Freshness is told once, as the policy judges it."""
        return (*(check for check in self.verified.token.checks if check.id != "freshness"), *self.policy_checks)


def appraise_passport(verified: VerifiedPassport, *, policy: Policy, at: datetime) -> PassportResult:
    """Judge a genuine passport by a policy, which has to name the EAR's issuer among its ``verifiers``."""
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
