"""Appraisal of verified evidence by a policy: a result with every check."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NoReturn, TypeAlias

from attest.checks import Check, Outcome, Tier, Unchecked
from attest.errors import AppraisalError
from attest.evidence.claims import StatedItem
from attest.evidence.device_format import CpuFormat
from attest.evidence.dstack.facts import DstackFacts, dstack_facts_of
from attest.evidence.eventlog.facts import EventLogFacts, facts_of
from attest.evidence.gpu.device_set import DeviceSet
from attest.evidence.gpu.verify import VerifiedGpu
from attest.evidence.snp.verify import VerifiedSnpReport
from attest.evidence.tolerances import DeviceTolerances
from attest.policy.loader import Policy
from attest.policy.rule_tree import SET, AllBranch, AnyBranch, AtLeast, Leaf, Node, paths_of
from attest.policy.rules import Rule, Subject
from attest.verification import Freshness, VerifiedEvidence, VerifiedItem

_NO_KINDS: frozenset[str] = frozenset()
_WORST_FIRST = (Tier.CONTRAINDICATED, Tier.NONE, Tier.WARNING, Tier.AFFIRMING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The outcome of one policy at one moment, for evidence or for another Verifier's findings.

    It has no truth value: use ``affirmed``.

    Attributes:
        policy_checks: one check for every rule, regardless of the others.
        categories: AR4SI trustworthiness claim of each rule, by check id.
        unchecked: every relaxation that was in force, the caller's and the policy's.
        set_aside: alternatives of the policy that do not hold, and all branches within them. Their checks are listed
            and do not count: that enough alternatives hold is a check of its own.
    """

    policy: Policy
    at: datetime
    policy_checks: tuple[Check, ...]
    categories: Mapping[str, str]
    unchecked: tuple[Unchecked, ...]
    set_aside: frozenset[str] = frozenset()

    def counts(self, check: Check) -> bool:
        """Return True if a check bears on the result: all do, except those of alternatives that are set aside."""
        return check.branch is None or check.branch not in self.set_aside

    @property
    def counted(self) -> tuple[Check, ...]:
        """The policy's checks that the result rests on."""
        return tuple(check for check in self.policy_checks if self.counts(check))

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that stand against the Attester."""
        return tuple(check for check in self.counted if check.outcome is Outcome.FAIL)

    @property
    def affirmed(self) -> bool:
        """True if no check failed; derived from the checks on each access."""
        return not self.failed

    @property
    def status(self) -> Tier:
        """The worst tier of the policy's checks; a relaxed check lowers nothing but shows."""
        tiers = {check.tier for check in self.counted} - {Tier.NONE}
        return next(tier for tier in _WORST_FIRST if tier in tiers)

    @property
    def trustworthiness(self) -> Mapping[str, Tier]:
        """The AR4SI vector: the worst tier in each category that the policy judges."""
        vector: dict[str, Tier] = {}
        for check in self.counted:
            category = self.categories.get(check.id)
            if category is not None:
                vector[category] = min(vector.get(category, Tier.AFFIRMING), check.tier, key=_WORST_FIRST.index)
        return vector

    def __bool__(self) -> NoReturn:
        raise TypeError(f"an {type(self).__name__} is not a condition; use .affirmed")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestationResult(Judgement):
    """The Attestation Result for a Relying Party: the state of the Attester, appraised by one policy at one moment."""

    verified: VerifiedEvidence

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check, of verification and of the policy. Freshness appears once, as the policy judges it."""
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


def appraise(verified: VerifiedEvidence, *, policy: Policy, at: datetime) -> AttestationResult:
    """Judge verified evidence by a policy.

    Returns:
        A result that lists every check. Release is a decision of its own (``decide``).

    Raises:
        ValueError: the moment differs from that of verification.
    """
    if at != verified.at:
        raise ValueError(f"evidence that was verified for {verified.at} cannot be appraised for {at}")
    unchecked = tuple(dict.fromkeys((*verified.unchecked, *policy.unchecked)))
    reasons = reasons_of(unchecked)
    checks, set_aside = _judge(
        verified.items, sets=lambda: device_sets(verified), policy=policy, at=at, reasons=reasons
    )
    return AttestationResult(
        verified=verified,
        policy=policy,
        at=at,
        policy_checks=(
            freshness_check(verified.freshness, reasons.get("freshness")),
            simulation_check(simulated=verified.simulated, tolerated=policy.simulated),
            *_values_not_named(verified, policy.tolerances),
            *checks,
        ),
        categories=policy.categories,
        unchecked=unchecked,
        set_aside=set_aside,
    )


def _values_not_named(verified: VerifiedEvidence, named: DeviceTolerances) -> Iterator[Check]:
    """Refuse values without a known meaning that verification accepted and this policy does not name."""
    by_kind = {"nvidia-gpu": named.gpus.accepted_opaque, "nvidia-switch": named.switches.accepted_opaque}
    for item in verified.items:
        part = item.silicon
        accepted = part.accepted if isinstance(part, VerifiedGpu | VerifiedSnpReport) else ()
        allowed = {one.value for one in by_kind.get(item.kind, named.spls)}
        extra = [one.value for one in accepted if one.value not in allowed]
        if extra:
            yield Check(
                id="policy.not_understood",
                outcome=Outcome.FAIL,
                expected=f"only {', '.join(sorted(allowed))}" if allowed else "no value without a known meaning",
                got=", ".join(extra),
                clause="docs/policy.md, values without a known meaning",
                item=item.name,
            )


def reasons_of(unchecked: Iterable[Unchecked]) -> Mapping[str, str]:
    """Return the reason for each check that is left out; of two reasons the first, which is the caller's."""
    return {entry.check: entry.reason for entry in reversed(tuple(unchecked))}


Judged: TypeAlias = VerifiedItem | StatedItem
"""One device as a policy sees it: verified evidence, or another Verifier's statements about it."""


def judge_items(
    items: Iterable[Judged],
    *,
    devices: Callable[[], DeviceSet],
    policy: Policy,
    at: datetime,
    reasons: Mapping[str, str],
) -> tuple[tuple[Check, ...], frozenset[str]]:
    """Apply every rule of a policy.

    Args:
        items: the devices.
        devices: makes the set of all GPUs and switches; called when a rule asks for it.
        policy: what is demanded.
        at: the moment of appraisal.
        reasons: the relaxations in force: name in ``Unchecked.NAMES`` to why.

    Returns:
        A check for every rule, a failed check for each item of a kind without demands, and the branches set aside.
    """
    return _judge(items, sets=lambda: ((None, devices()),), policy=policy, at=at, reasons=reasons)


_NamedSets: TypeAlias = tuple[tuple[str | None, DeviceSet], ...]
"""The GPUs and switches of each machine, with its name where there are several."""


def _judge(
    items: Iterable[Judged],
    *,
    sets: Callable[[], _NamedSets],
    policy: Policy,
    at: datetime,
    reasons: Mapping[str, str],
) -> tuple[tuple[Check, ...], frozenset[str]]:
    walk = _Walk(items=tuple(items), sets=sets, at=at, reasons=reasons)
    _, covered = walk.judge(policy.tree)
    unjudged = _kinds(walk.items, [kind for kind in policy.kinds if kind in covered])
    return (*walk.checks, *unjudged), frozenset(walk.set_aside)


def _kinds(items: Iterable[Judged], covered: list[str]) -> Iterator[Check]:
    """Refuse each item of a kind that no demand in force has judged."""
    for item in items:
        if item.kind not in covered:
            yield Check(
                id="policy.kind",
                outcome=Outcome.FAIL,
                expected=f"one of {', '.join(covered)}",
                got=item.kind,
                clause="docs/policy.md",
                item=item.name,
            )


@dataclass(slots=True, kw_only=True)
class _Walk:
    """One walk through a policy's tree, which collects a check for every rule, in order."""

    items: tuple[Judged, ...]
    sets: Callable[[], _NamedSets]
    at: datetime
    reasons: Mapping[str, str]
    checks: list[Check] = field(default_factory=list[Check])
    set_aside: set[str] = field(default_factory=set[str])

    def judge(self, node: Node) -> tuple[bool, frozenset[str]]:
        """Return whether a node holds, and the kinds of Attesters that it has judged."""
        if isinstance(node, Leaf):
            return self._leaf(node), _NO_KINDS if node.kind == SET else frozenset((node.kind,))
        if isinstance(node, AllBranch):
            found = [self.judge(member) for member in node.members]
            return all(holds for holds, _ in found), _NO_KINDS.union(*(kinds for _, kinds in found))
        return self._choice(node)

    def _leaf(self, leaf: Leaf) -> bool:
        """Apply the rules of a section to each item of its kind, or to all devices together."""
        start = len(self.checks)
        branch = leaf.path or None
        if leaf.kind == SET:
            for name, devices in self.sets():
                for rule in leaf.rules:
                    self.checks.append(rule.judge(devices, at=self.at, item=name, reasons=self.reasons, branch=branch))
        else:
            for item in self.items:
                if item.kind == leaf.kind:
                    self._item(item, leaf.rules, branch)
        return all(check.outcome is not Outcome.FAIL for check in self.checks[start:])

    def _item(self, item: Judged, rules: tuple[Rule, ...], branch: str | None) -> None:
        asked = {rule.subject for rule in rules}
        subjects = {
            Subject.DEVICE: item.verified,
            Subject.EVENT_LOG: _facts(item) if Subject.EVENT_LOG in asked else None,
            Subject.DSTACK: _dstack_facts(item) if Subject.DSTACK in asked else None,
        }
        for rule in rules:
            subject = subjects[rule.subject]
            self.checks.append(rule.judge(subject, at=self.at, item=item.name, reasons=self.reasons, branch=branch))

    def _choice(self, node: AnyBranch | AtLeast) -> tuple[bool, frozenset[str]]:
        """Judge every alternative; the check that enough of them hold stands before theirs."""
        place = len(self.checks)
        found = [(member, *self.judge(member)) for member in node.members]
        met = [(member, kinds) for member, holds, kinds in found if holds]
        for member, holds, _ in found:
            if not holds:
                self.set_aside.update(paths_of(member))
        check = _enough(node, [member for member, _ in met])
        self.checks.insert(place, check)
        holds = check.outcome is Outcome.PASS
        # Once enough hold, only what they judged has been judged. Before that the result is a refusal anyway, and
        # need not complain of each device as well.
        judged = met if holds else [(member, kinds) for member, _, kinds in found]
        return holds, _NO_KINDS.union(*(kinds for _, kinds in judged))


def _enough(node: AnyBranch | AtLeast, met: list[AllBranch]) -> Check:
    """Say whether enough alternatives hold, and which."""
    names, holding = (", ".join(member.path for member in members) for members in (node.members, met))
    count, word = (1, "any_of") if isinstance(node, AnyBranch) else (node.count, "at_least")
    return Check(
        id=f"policy.{word}",
        outcome=Outcome.PASS if len(met) >= count else Outcome.FAIL,
        expected=f"at least {count} of {names}",
        got=f"{holding} hold{'s' * (len(met) == 1)}" if met else "none of them holds",
        clause="docs/policy.md",
        branch=node.path or None,
    )


def _facts(item: Judged) -> EventLogFacts | None:
    """Read the facts of the event log, when there is one."""
    return None if item.eventlog is None else facts_of(item.eventlog)


def _dstack_facts(item: Judged) -> DstackFacts | None:
    """Read the facts of dstack, when there is a log."""
    return None if item.eventlog is None else dstack_facts_of(item.eventlog)


def device_set(verified: VerifiedEvidence) -> DeviceSet:
    """Return the GPUs and switches of one machine's verified evidence as a set."""
    return _set_of(verified.items, bound=verified.devices_bound)


def device_sets(verified: VerifiedEvidence) -> _NamedSets:
    """Return the set of each machine of a service's document, or the one of other evidence without a name.

    A gateway has no GPUs of its own: its set counts only where there is no other machine.
    """
    if all(item.machine is None for item in verified.items):
        return ((None, device_set(verified)),)
    serving = [item for item in verified.items if item.role != "gateway"] or list(verified.items)
    machines = dict.fromkeys(item.machine for item in serving)
    # Only a hash of their evidence in REPORT_DATA commits to exactly these devices; an equal nonce does not.
    return tuple(
        (name, _set_of(items, bound=any(item.bound.get("gpu_binding") == "hash" for item in items)))
        for name in machines
        if (items := tuple(item for item in serving if item.machine == name))
    )


def _set_of(items: Iterable[VerifiedItem], *, bound: bool) -> DeviceSet:
    known = tuple(items)
    devices = [item.verified for item in known if isinstance(item.verified, VerifiedGpu)]
    cpu = next((item for item in known if isinstance(item.format, CpuFormat)), None)
    return DeviceSet(
        gpus=tuple(device for device in devices if device.kind == "nvidia-gpu"),
        switches=tuple(device for device in devices if device.kind == "nvidia-switch"),
        cpu_kind=None if cpu is None else cpu.kind,
        # A binding that does not fit REPORT_DATA or the devices is never verified.
        bound=cpu is not None and bound,
    )


def freshness_check(freshness: Freshness, relaxed: str | None) -> Check:
    """Judge freshness: evidence without the expected nonce may be a year old.

    ``relaxed`` is the reason why it need not match, or None.
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
        clause="RFC 9334, section 10",
    )


def simulation_check(*, simulated: bool, tolerated: str | None) -> Check:
    """Judge the anchor: a signature of the simulator proves nothing about hardware."""
    if not simulated:
        outcome, got = Outcome.PASS, "the vendor's root"
    else:
        outcome = Outcome.FAIL if tolerated is None else Outcome.NOT_EVALUATED
        got = "SIMULATED: the simulator's root"
    return Check(
        id="policy.not_simulated",
        outcome=outcome,
        expected="hardware" if tolerated is None else f"unchecked: {tolerated}",
        got=got,
        clause="docs/checks.md, policy.not_simulated",
    )
