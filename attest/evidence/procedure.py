"""The runner of numbered procedures.

A procedure is one straight function. It opens each step in a ``with`` block, keeps what the step finds in local
variables, and ends the block with what the step expected and what it got::

    procedure = Procedure(SnpStep)
    ...
    with procedure.step(SnpStep.TCB) as step:
        require_tcb(leaf.tcb, tcbs.reported)
        step.tell(leaf.tcb, tcbs.reported)
    ...
    return VerifiedSnpReport(..., findings=procedure.finish())

The steps are the members of an enumeration, in order, each with the id and the clause of its check. There are two ways
to open one:

``procedure.step``
    for a step that all later ones stand on: its refusal ends the procedure.
``procedure.attempt``
    for a step that others can do without: its refusal is held back, and ``finish`` raises the worst one. Whatever the
    block assigns has a value before it, and a later step that cannot do without it says so (``step.need``).

A refusal carries the checks of all steps; those that were not reached are not evaluated.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from datetime import datetime
from types import TracebackType
from typing import NamedTuple, Self, TypeAlias, TypeVar

from attest.checks import Check, Outcome, Unchecked
from attest.encoding import rfc3339_text
from attest.errors import AttestError, ConfigurationError, EndorsementError

__all__ = ["Fact", "Finding", "Procedure", "Step", "checks_of", "reasons", "tolerated"]

Fact: TypeAlias = object
"""A text, or a value that becomes text only when a check is read: bytes in hex, a moment as in RFC 3339, a tuple as its
first member (a format string) with the other members filled in, anything else by its ``str``."""

_T = TypeVar("_T")


class Step(enum.Enum):
    """Base of the enumerations of steps; a member is ``NAME = "id of the check", "clause"``."""

    def __init__(self, check_id: str, clause: str) -> None:
        self.id = check_id
        self.clause = clause


class Finding(NamedTuple):
    """How one step came out, as facts."""

    check_id: str
    clause: str
    outcome: Outcome
    expected: Fact
    got: Fact


def checks_of(findings: Iterable[Finding]) -> tuple[Check, ...]:
    """Render findings as checks."""
    return tuple(
        Check(id=check_id, outcome=outcome, expected=_text(expected), got=_text(got), clause=clause)
        for check_id, clause, outcome, expected, got in findings
    )


def _text(fact: Fact) -> str:
    match fact:
        case bytes():
            return fact.hex()
        case datetime():
            return rfc3339_text(fact)
        case (str() as template, *facts):
            # Numbers stay numbers, because a template may ask for a base.
            return template.format(*(each if isinstance(each, int) else _text(each) for each in facts))
        case _:
            return str(fact)


def tolerated(failure: AttestError, unchecked: tuple[Unchecked, ...], *names: str) -> tuple[Unchecked, ...]:
    """Return the decisions by which something may be missing or stale, those of the first name that has any.

    Raises:
        AttestError: the failure, when it says anything else or nothing of these names is left unchecked.
    """
    for name in names:
        decisions = tuple(decision for decision in unchecked if decision.check == name)
        if decisions and isinstance(failure, EndorsementError):
            return decisions
    raise failure


def reasons(decisions: Iterable[Unchecked]) -> str:
    """Say why something was left unchecked."""
    return f"unchecked: {'; '.join(decision.reason for decision in decisions)}"


class Procedure:
    """One run of a procedure: the finding of each step, and the refusals that were held back.

    Args:
        steps: every step that applies, in order.
        prefix: stands before the id of each check, for steps that several kinds of evidence share.
        independent: the steps judge pieces that do not stand on each other. An attempt then holds back every refusal,
            and a later step still passes. Otherwise it holds back only that an endorsement is missing or stale, so
            that evidence that is plainly false is called false; and after that no step counts as passed.
    """

    def __init__(self, steps: Iterable[Step], *, prefix: str = "", independent: bool = False) -> None:
        self._steps = tuple(steps)
        self._prefix = prefix
        self._independent = independent
        self._findings: dict[Step, Finding] = {}
        self._held: list[AttestError] = []

    def step(self, step: Step) -> _OpenStep:
        """Open a step whose refusal ends the procedure."""
        return _OpenStep(self, step)

    def attempt(self, step: Step) -> _OpenAttempt:
        """Open a step whose refusal is held back until the end."""
        return _OpenAttempt(self, step)

    def finish(self) -> tuple[Finding, ...]:
        """Return the finding of every step.

        Raises:
            AttestError: the worst refusal that was held back: the lowest exit code, the first of them. A wrong
                configuration comes last, because it hides nothing of the evidence.
        """
        if self._held:
            raise self._worst()
        return self._all()

    def require(self, found: _T | None) -> _T:
        """Return what an attempt found, which is there once nothing was refused.

        Raises:
            AttestError: as ``finish``.
        """
        if self._held or found is None:
            raise self._worst()
        return found

    def refusal(self, failure: AttestError) -> AttestError:
        """Return a refusal with the checks of all steps."""
        failure.checks = checks_of(self._all())
        return failure

    def record(self, step: Step, outcome: Outcome, expected: Fact, got: Fact) -> None:
        """Keep how a step came out; an open step calls it."""
        if self._independent or not self._held or outcome is Outcome.FAIL:
            self._findings[step] = Finding(self._prefix + step.id, step.clause, outcome, expected, got)

    def refuse(self, step: Step, failure: AttestError) -> None:
        """Keep that a step failed; an open step calls it."""
        failure.check, failure.clause = self._prefix + step.id, failure.clause or step.clause
        self.record(step, Outcome.FAIL, failure.expected or "", failure.got or failure.message)

    def hold(self, failure: AttestError) -> bool:
        """Hold a refusal back, unless it ends this procedure; an open attempt calls it."""
        if self._independent or isinstance(failure, EndorsementError):
            self._held.append(failure)
            return True
        self.refusal(failure)
        return False

    def _worst(self) -> AttestError:
        return self.refusal(min(self._held, key=_severity))

    def _all(self) -> tuple[Finding, ...]:
        return tuple(self._findings.get(step) or self._not_reached(step) for step in self._steps)

    def _not_reached(self, step: Step) -> Finding:
        return Finding(self._prefix + step.id, step.clause, Outcome.NOT_EVALUATED, "", "an earlier check failed")


def _severity(failure: AttestError) -> tuple[bool, int]:
    return isinstance(failure, ConfigurationError), failure.exit_code


class _Open:
    """A step that is being taken."""

    __slots__ = ("_procedure", "_step")

    def __init__(self, procedure: Procedure, step: Step) -> None:
        self._procedure = procedure
        self._step = step

    def __enter__(self) -> Self:
        return self

    def tell(self, expected: Fact, got: Fact, outcome: Outcome = Outcome.PASS) -> None:
        """Say what the step expected and what it got, once nothing in it can be refused any more."""
        self._procedure.record(self._step, outcome, expected, got)


class _OpenStep(_Open):
    """A step whose refusal ends the procedure."""

    __slots__ = ()

    def __exit__(self, _: object, failure: BaseException | None, _traceback: TracebackType | None) -> None:
        if isinstance(failure, AttestError):
            self._procedure.refuse(self._step, failure)
            self._procedure.refusal(failure)


class _OpenAttempt(_Open):
    """A step whose refusal is held back."""

    __slots__ = ()

    def need(self, found: _T | None, otherwise: str) -> _T:
        """Return what an earlier step found; without it, end this step as not evaluated for the reason given."""
        if found is None:
            raise _LackingError(otherwise)
        return found

    def __exit__(self, _: object, failure: BaseException | None, _traceback: TracebackType | None) -> bool:
        if isinstance(failure, _LackingError):
            self.tell("", str(failure), Outcome.NOT_EVALUATED)
            return True
        if isinstance(failure, AttestError):
            self._procedure.refuse(self._step, failure)
            return self._procedure.hold(failure)
        return False


class _LackingError(Exception):
    """A step cannot be evaluated; the attempt that raises it catches it."""
