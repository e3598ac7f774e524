"""Verified passports and their appraisal by a policy, in the form that decisions use. Pure.

A passport is the word of another Verifier: an EAR, or a token of a service (Azure, Intel, Google). A policy appraises
the claims of such a token as it appraises verified evidence, and a claim that the token does not state counts against
the workload.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha384

from attest.appraisal import Judgement, simulation_check
from attest.checks import Check, Unchecked
from attest.evidence import NO_DEVICE_TOLERANCES, Binding, DeviceTolerances
from attest.policy import Policy
from attest.release import Passport
from attest.results import VerifiedEar, VerifiedServiceToken, appraise_service_token, judge_ear, judge_facts
from attest.verification import Freshness, VerifiedItem


class FreshBy(enum.StrEnum):
    """The reason why a passport counts as fresh. In every case the policy also limits the age of the token."""

    SIGNED_REQUEST = "signed-request"
    """The key that the token confirms signed the challenge of this exchange."""
    BOUND_RECIPIENT = "bound-recipient"
    """The token, of limited age, confirms the key that the answer is encrypted to, so that a copy opens nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentedToken:
    """A token of a service as it was presented through a foreign protocol."""

    content: bytes = field(repr=False)

    @property
    def digest(self) -> bytes:
        """SHA-384 of the token without white space around it, in place of the digest of evidence.

        Readers of tokens ignore that white space, and one token has one digest.
        """
        return sha384(self.content.decode("latin-1").strip().encode("latin-1")).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedPassport:
    """A token that a trusted Verifier signed, about a workload that is bound to the exchange.

    Built by ``PassportVerifier`` and ``kms.release.foreign`` only. It has the members of verified evidence that a
    decision uses.

    Attributes:
        evidence: the passport, or the token of a foreign protocol; its digest is that of the token.
        binding: purpose of the request, and the key to seal to.
        fresh_by: the reason why it counts as fresh; None if there is none.
    """

    evidence: Passport | PresentedToken
    token: VerifiedEar | VerifiedServiceToken
    binding: Binding
    at: datetime
    fresh_by: FreshBy | None

    @property
    def issuer(self) -> str:
        """The Verifier, as its tokens name it."""
        return self.token.issuer if isinstance(self.token, VerifiedEar) else self.token.frame.issuer

    @property
    def simulated(self) -> bool:
        """True if the Verifier appraised simulated evidence, or does not state it; the services accept none."""
        return self.token.simulated is not False

    @property
    def freshness(self) -> Freshness:
        """``MATCHED`` if there is a reason for it."""
        return Freshness.NOT_EVALUATED if self.fresh_by is None else Freshness.MATCHED

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
        """Empty: a token has the statements of its Verifier, and no device."""
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
    """Appraise a verified passport by a policy, which must name the token's issuer among its ``verifiers``."""
    token = verified.token
    if isinstance(token, VerifiedEar):
        found = judge_ear(token, policy=policy, at=at, freshness=verified.freshness)
        unstated = False
    else:
        found = judge_facts(
            token.facts,
            freshness=verified.freshness,
            policy=policy,
            at=at,
            baseline=appraise_service_token(token),
        )
        unstated = token.simulated is None
    anchor = (simulation_check(simulated=True, tolerated=policy.simulated),) if unstated else ()
    return PassportResult(
        verified=verified,
        policy=found.policy,
        at=found.at,
        policy_checks=(*anchor, *found.policy_checks),
        categories=found.categories,
        unchecked=found.unchecked,
        set_aside=found.set_aside,
    )
