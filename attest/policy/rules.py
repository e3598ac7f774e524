"""Demands as rules over claims: one claim, one test, one check in the result.

A rule is prepared once, when the policy is loaded: its test is a function of one value, its text is written. So an
appraisal is a loop over rules, and each yields its check regardless of the others.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from attest.checks import Check, Outcome
from attest.evidence.claims import Claim, ClaimValue, value_text
from attest.policy.decoder import Demand, RelaxedDemand
from attest.policy.references import ReferenceValues, ends_of, reference_text

Test = Callable[[Any, datetime], bool]  # Any: the claim's own type, which the rule's maker knows


class Subject(enum.Enum):
    """The subject of a rule."""

    DEVICE = enum.auto()
    """The verified evidence, as the procedure of its format returned it."""
    EVENT_LOG = enum.auto()
    """The facts of the event log that replays to its registers; None where no log was given."""
    DSTACK = enum.auto()
    """The facts of dstack in such a log, none of another log; None where no log was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One demand on one claim.

    Attributes:
        id: stable dotted name of the check (``policy.snp.measurement``).
        category: the AR4SI trustworthiness claim that it contributes to.
        claim: the claim under test; if the evidence does not carry it, the rule fails.
        holds: the test, given the value and the moment of appraisal.
        otherwise: how a test that does not hold counts: ``FAIL``, or ``WARNING`` for information.
        relaxed: the reason of the policy's author to leave the test out, or None.
        subject: the object that ``claim`` is read from.
        tolerated_by: the name in ``Unchecked.NAMES`` that tolerates that the claim is absent, or, of a rule over an
            event log, that no log was given; None: nothing does. A claim that is there is judged all the same.
        failure_text: writes a value for which the test does not hold; None: as any other value.
    """

    id: str
    category: str
    claim: Claim
    expected: str
    holds: Test
    otherwise: Outcome = Outcome.FAIL
    relaxed: str | None = None
    subject: Subject = Subject.DEVICE
    tolerated_by: str | None = None
    failure_text: Callable[[Any], str] | None = None  # Any: as of ``Test``

    def judge(
        self,
        subject: object,
        *,
        at: datetime,
        item: str | None,
        reasons: Mapping[str, str] = MappingProxyType({}),
        branch: str | None = None,
    ) -> Check:
        """Return the check for one device, or for all of them together.

        ``item`` is None for a rule over the evidence as a whole, and ``branch`` for the policy itself. ``reasons`` has
        the relaxations in force: name in ``Unchecked.NAMES`` to its reason.
        """
        value = self.claim.read(subject)
        reason = self._relaxation(subject, value, reasons)
        got = value_text(value)
        if reason is not None:
            outcome, expected = Outcome.NOT_EVALUATED, f"unchecked: {reason}"
        elif value is not None and self.holds(value, at):
            outcome, expected = Outcome.PASS, self.expected
        else:
            outcome, expected = self.otherwise, self.expected
            got = got if value is None or self.failure_text is None else self.failure_text(value)
        return Check(
            id=self.id,
            outcome=outcome,
            expected=expected,
            got=got,
            clause=self.claim.clause,
            item=item,
            branch=branch,
        )

    def _relaxation(self, subject: object, value: ClaimValue, reasons: Mapping[str, str]) -> str | None:
        """Return the author's reason to leave the test out, or the caller's for an absent claim or log."""
        # A gap in a log that was given relaxes nothing: the sender of the log chose the gap.
        missing = value if self.subject is Subject.DEVICE else subject
        if self.relaxed is not None or missing is not None or self.tolerated_by is None:
            return self.relaxed
        return reasons.get(self.tolerated_by)


# -- tests


def one_of(values: Iterable[str | int | bytes]) -> Test:
    """Test that a value is among these."""
    allowed = frozenset(values)
    return lambda value, _at: value in allowed


def none_of(values: Iterable[str | int | bytes]) -> Test:
    """Test that a value is not among these."""
    denied = frozenset(values)
    return lambda value, _at: value not in denied


def is_(wanted: bool) -> Test:  # noqa: FBT001
    """Test that a value is this boolean, and no value that only compares equal to it."""
    return lambda value, _at: value is wanted


def at_least(minimum: int) -> Test:
    """Test that a number reaches a minimum, which is included."""
    return lambda value, _at: value >= minimum


def has_bits(mask: int) -> Test:
    """Test that every bit of a mask is set."""
    return lambda value, _at: value & mask == mask


def matches(references: Iterable[ReferenceValues]) -> Test:
    """Test that a measurement is among reference values; each counts until its last moment, which is included."""
    ends = ends_of(references)
    return lambda value, at: value in ends and ((end := ends[value]) is None or at <= end)


# -- making


@dataclass(frozen=True, slots=True)
class RuleMaker:
    """Maker of the rules of one section. Each method makes no rule for a demand that is not made.

    A claim is given by its name, or itself where it is made of several; without one it has the name of the rule.

    Attributes:
        section: the section as in the ids of its rules: ``snp`` for ``policy.snp.measurement``.
    """

    section: str
    claim_of: Callable[[str], Claim]

    def rule(
        self,
        name: str,
        demand: Demand[Any] | None,  # Any: the demand's own type, which the caller pairs with its test
        test: Callable[[Any], Test],
        *,
        category: str,
        claim: Claim | str | None = None,
        expected: Callable[[Any], str] | None = None,
        subject: Subject = Subject.DEVICE,
        tolerated_by: str | None = None,
        failure_text: Callable[[Any], Callable[[Any], str]] | None = None,
    ) -> Iterator[Rule]:
        """Make the rule for a demand."""
        if demand is None:
            return
        value = demand.value
        holds: Test
        if isinstance(value, RelaxedDemand):
            text, holds, relaxed, shown = "", _never, value.reason, None
        else:
            text, holds, relaxed = (expected or list_text)(value), test(value), None
            shown = None if failure_text is None else failure_text(value)
        yield Rule(
            id=f"policy.{self.section}.{name}",
            category=category,
            claim=claim if isinstance(claim, Claim) else self.claim_of(claim or name),
            expected=text,
            holds=holds,
            relaxed=relaxed,
            subject=subject,
            tolerated_by=tolerated_by,
            failure_text=shown,
        )

    def reference(
        self, name: str, names: Demand[tuple[str, ...]] | None, values: Mapping[str, ReferenceValues], *, claim: str
    ) -> Iterator[Rule]:
        """Make the rule for a measurement that must be among reference values, which are shown by their names."""
        return self.rule(
            name,
            names,
            lambda chosen: matches([values[one] for one in chosen]),
            category="executables",
            claim=claim,
            expected=lambda chosen: "; ".join(reference_text(one, values[one]) for one in chosen),
        )

    def minimum(
        self, name: str, minimum: int | None, *, category: str, claim: str, tolerated_by: str | None = None
    ) -> Iterator[Rule]:
        """Make the rule for a least value, which is included."""
        return self.rule(
            name,
            None if minimum is None else Demand(minimum),
            at_least,
            category=category,
            claim=claim,
            expected=lambda least: f"at least {least}",
            tolerated_by=tolerated_by,
        )

    def denial(
        self, name: str, denied: tuple[bytes, ...], *, claim: Claim | str, test: Callable[[Any], Test] | None = None
    ) -> Iterator[Rule]:
        """Make the rule that refuses named instances; for an empty list, none."""
        return self.rule(
            name,
            Demand(denied) if denied else None,
            test or none_of,
            category="instance-identity",
            claim=claim,
            expected=lambda values: "none of " + ", ".join(value.hex() for value in values),
        )


def _never(_value: ClaimValue, _at: datetime) -> bool:
    return False


def list_text(value: ClaimValue | tuple[ClaimValue, ...]) -> str:
    """Write one value, or the choice of several, for people."""
    if isinstance(value, tuple):
        return "one of " + ", ".join(value_text(member) for member in value)
    return value_text(value)
