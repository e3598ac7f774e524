"""Is verified evidence acceptable? Policy in, a result with every check out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NoReturn

from attest.checks import Check, Outcome, Tier, Unchecked
from attest.errors import AppraisalError
from attest.evidence.eventlog.facts import EventLogFacts, facts_of
from attest.evidence.gpu.device_set import DeviceSet
from attest.evidence.gpu.verify import VerifiedGpu
from attest.policy.load import Policy
from attest.policy.rules import Rule, Subject
from attest.verification import Freshness, VerifiedEvidence, VerifiedItem

__all__ = ["AttestationResult", "appraise", "freshness_check"]

_WORST_FIRST = (Tier.CONTRAINDICATED, Tier.NONE, Tier.WARNING, Tier.AFFIRMING)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestationResult:
    """What a Relying Party is told: the state of the Attester, judged by one policy at one moment.

    It is no condition: ask ``affirmed``, or call ``require``.

    Attributes:
        verified: the evidence that was judged.
        policy: the policy that judged it.
        at: the moment of appraisal.
        policy_checks: one check for every rule, whatever the others said.
        categories: AR4SI trustworthiness claim of each rule, by check id.
        unchecked: every relaxation that was in force, the caller's and the policy's.
    """

    verified: VerifiedEvidence
    policy: Policy
    at: datetime
    policy_checks: tuple[Check, ...]
    categories: Mapping[str, str]
    unchecked: tuple[Unchecked, ...]

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that stand against the Attester."""
        return tuple(check for check in self.policy_checks if check.outcome is Outcome.FAIL)

    @property
    def affirmed(self) -> bool:
        """Whether nothing failed. Derived from the checks each time it is asked."""
        return not self.failed

    @property
    def status(self) -> Tier:
        """The worst tier of the policy's checks; a relaxed check lowers nothing but shows."""
        tiers = {check.tier for check in self.policy_checks} - {Tier.NONE}
        return next(tier for tier in _WORST_FIRST if tier in tiers)

    @property
    def trustworthiness(self) -> Mapping[str, Tier]:
        """The AR4SI vector: the worst tier in each category that the policy speaks of."""
        vector: dict[str, Tier] = {}
        for check in self.policy_checks:
            category = self.categories.get(check.id)
            if category is not None:
                vector[category] = min(vector.get(category, Tier.AFFIRMING), check.tier, key=_WORST_FIRST.index)
        return vector

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check, of verification and of the policy. Freshness is told once, as the policy judges it."""
        return (*(check for check in self.verified.checks if check.id != "freshness"), *self.policy_checks)

    def require(self) -> None:
        """Raise unless affirmed.

        Raises:
            AppraisalError: ``not-affirmed``, with the failed checks in its text and all checks attached.
        """
        if self.failed:
            first = self.failed[0]
            error = AppraisalError(
                f"{len(self.failed)} of {len(self.policy_checks)} checks of policy {self.policy.name!r} failed: "
                + "; ".join(f"{c.id}: expected {c.expected}, got {c.got}" for c in self.failed),
                code="not-affirmed",
                check=first.id,
                expected=first.expected,
                got=first.got,
                clause=first.clause,
            )
            error.checks = self.checks
            raise error

    def __bool__(self) -> NoReturn:
        """Refuse to be a condition."""
        msg = "an AttestationResult is no condition; ask .affirmed or call .require()"
        raise TypeError(msg)


def appraise(verified: VerifiedEvidence, *, policy: Policy, at: datetime) -> AttestationResult:
    """Judge verified evidence by a policy.

    Args:
        verified: what ``verify`` returned.
        policy: what is demanded.
        at: moment of appraisal, the same as that of verification.

    Returns:
        A result that lists every check. It says nothing about whether anything is released: that is ``decide``.

    Raises:
        ValueError: the moment differs from that of verification.
    """
    if at != verified.at:
        msg = f"evidence that was verified for {verified.at} cannot be appraised for {at}"
        raise ValueError(msg)
    unchecked = tuple(dict.fromkeys((*verified.unchecked, *policy.unchecked)))
    # Of two reasons for one thing the first is told: the caller's.
    reasons = {entry.check: entry.reason for entry in reversed(unchecked)}
    item_checks = [check for item in verified.items for check in _judge_item(item, policy, at, reasons)]
    devices = device_set(verified)
    set_checks = [rule.judge(devices, at=at, item=None, reasons=reasons) for rule in policy.set_rules]
    return AttestationResult(
        verified=verified,
        policy=policy,
        at=at,
        policy_checks=(
            freshness_check(verified.freshness, reasons.get("freshness")),
            _simulation(verified, policy),
            *set_checks,
            *item_checks,
        ),
        categories={rule.id: rule.category for rules in (policy.set_rules, *policy.rules.values()) for rule in rules},
        unchecked=unchecked,
    )


def _judge_item(item: VerifiedItem, policy: Policy, at: datetime, reasons: Mapping[str, str]) -> Iterator[Check]:
    """Apply the rules for the device's kind; a kind that the policy does not speak of is refused."""
    rules = policy.rules.get(item.kind)
    if rules is None:
        yield Check(
            id="policy.kind",
            outcome=Outcome.FAIL,
            expected=f"one of {', '.join(policy.rules)}",
            got=item.kind,
            clause="must-check.md 8",
            item=item.name,
        )
        return
    subjects = {Subject.DEVICE: item.verified, Subject.EVENT_LOG: _facts(item, rules)}
    for rule in rules:
        yield rule.judge(subjects[rule.subject], at=at, item=item.name, reasons=reasons)


def _facts(item: VerifiedItem, rules: tuple[Rule, ...]) -> EventLogFacts | None:
    """Read the facts of the event log, when there is one and a rule asks for it."""
    if item.eventlog is None or all(rule.subject is not Subject.EVENT_LOG for rule in rules):
        return None
    return facts_of(item.eventlog)


def device_set(verified: VerifiedEvidence) -> DeviceSet:
    """Return the GPUs and switches of verified evidence as a set."""
    devices = [item.verified for item in verified.items if isinstance(item.verified, VerifiedGpu)]
    cpu = next((item for item in verified.items if not isinstance(item.verified, VerifiedGpu)), None)
    return DeviceSet(
        gpus=tuple(device for device in devices if device.kind == "nvidia-gpu"),
        switches=tuple(device for device in devices if device.kind == "nvidia-switch"),
        cpu_kind=None if cpu is None else cpu.kind,
        # A binding that does not fit REPORT_DATA or the devices is never verified.
        bound=cpu is not None and verified.binding is not None,
    )


def freshness_check(freshness: Freshness, relaxed: str | None) -> Check:
    """Judge freshness: evidence that answers nobody's question may be a year old.

    Args:
        freshness: what verification found.
        relaxed: why it need not match, or None.
    """
    if freshness is Freshness.MATCHED:
        outcome = Outcome.PASS
    else:
        outcome = Outcome.FAIL if relaxed is None else Outcome.NOT_EVALUATED
    return Check(
        id="freshness",
        outcome=outcome,
        expected="a nonce or report data that matches" if relaxed is None else f"unchecked: {relaxed}",
        got=str(freshness),
        clause="RFC 9334, section 10; must-check.md 1",
    )


def _simulation(verified: VerifiedEvidence, policy: Policy) -> Check:
    """Judge the anchor: what the simulator signed proves nothing about hardware."""
    if not verified.simulated:
        outcome, got = Outcome.PASS, "the vendor's root"
    else:
        outcome = Outcome.FAIL if policy.simulated is None else Outcome.NOT_EVALUATED
        got = "SIMULATED: the simulator's root"
    return Check(
        id="policy.not_simulated",
        outcome=outcome,
        expected="hardware" if policy.simulated is None else f"unchecked: {policy.simulated}",
        got=got,
        clause="DESIGN 5; must-check.md 17",
    )
