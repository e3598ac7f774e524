"""The runner of numbered procedures.

A procedure is one straight function. It opens each step in a ``with`` block, keeps what the step finds in local
variables, and ends the block with what the step expected and what it got::

    procedure = Procedure(_STEPS)
    ...
    with procedure.step(_STEPS.tcb):
        require_tcb(leaf.tcb, tcbs.reported)
        procedure.record(leaf.tcb, tcbs.reported)
    ...
    return VerifiedSnpReport(..., findings=procedure.finish())

The steps are a named tuple, in order, each with the id of its check and its clause. There are two ways to open one:

``procedure.step``
    for a step that all later ones depend on: its refusal ends the procedure.
``procedure.attempt``
    for a step that others can do without: its refusal is held back, and ``finish`` raises the worst one. Whatever the
    block assigns has a value before it, and a later step that depends on it states so (``procedure.need``).

A refusal carries the checks of all steps; those that were not reached are not evaluated.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from datetime import datetime
from types import TracebackType
from typing import NamedTuple, Self, TypeAlias, TypeVar, cast

from attest.checks import Check, Outcome, Unchecked
from attest.encoding import rfc3339_text
from attest.errors import AttestError, BindingError, ConfigurationError, EndorsementError

Fact: TypeAlias = object
"""A text, or a value that becomes text only when a check is read: bytes in hex, a moment as in RFC 3339, a tuple as its
first member (a format string) with the other members filled in, anything else by its ``str``."""

_T = TypeVar("_T")
_NOT_REACHED: tuple[Outcome, Fact, Fact] = (Outcome.NOT_EVALUATED, "", "an earlier check failed")


class Step(NamedTuple):
    """One step: the id of its check, and the clause that it implements."""

    id: str
    clause: str


_StepOutcome: TypeAlias = tuple[Step, Outcome, Fact, Fact]


class Findings(NamedTuple):
    """Outcomes of the steps of one procedure, as facts.

    Attributes:
        prefix: stands before the id of each check.
    """

    prefix: str
    steps: tuple[Step, ...]
    outcomes: tuple[_StepOutcome, ...]

    @property
    def checks(self) -> tuple[Check, ...]:
        """The check of every step."""
        outcomes = {step: (outcome, expected, got) for step, outcome, expected, got in self.outcomes}
        return tuple(self._check(step, *outcomes.get(step, _NOT_REACHED)) for step in self.steps)

    def _check(self, step: Step, outcome: Outcome, expected: Fact, got: Fact) -> Check:
        check_id = self.prefix + step.id
        return Check(id=check_id, outcome=outcome, expected=_text(expected), got=_text(got), clause=step.clause)


def _text(fact: Fact) -> str:
    match fact:
        case bytes():
            return fact.hex()
        case datetime():
            return rfc3339_text(fact)
        case tuple():
            template, *facts = cast("tuple[Fact, ...]", fact)  # of anything; each member is a fact again
            # Numbers stay numbers, because a template may ask for a base.
            return str(template).format(*(each if isinstance(each, int) else _text(each) for each in facts))
        case _:
            return str(fact)


def tolerated(failure: AttestError, unchecked: tuple[Unchecked, ...], *names: str) -> tuple[Unchecked, ...]:
    """Return the decisions by which something may be missing or stale, those of the first name that has any.

    Raises:
        AttestError: the failure, when it is of another kind, or nothing of these names is left unchecked.
    """
    for name in names:
        decisions = tuple(decision for decision in unchecked if decision.check == name)
        if decisions and isinstance(failure, EndorsementError):
            return decisions
    raise failure


def require_equal(
    wanted: bytes,
    got: bytes,
    problem: str,
    *,
    code: str,
    field: str,
    offset: int | None = None,
    clause: str | None = None,
    hint: str | None = None,
) -> None:
    """Require two values to be equal, compared in constant time; a difference is refused with both in hex.

    Raises:
        BindingError: of this code.
    """
    if not hmac.compare_digest(wanted, got):
        raise BindingError(
            problem,
            code=code,
            field=field,
            offset=offset,
            expected=wanted.hex(),
            got=got.hex(),
            clause=clause,
            hint=hint,
        )


def reasons(decisions: Iterable[Unchecked]) -> str:
    """Return the reasons for which something was left unchecked."""
    return f"unchecked: {'; '.join(decision.reason for decision in decisions)}"


class Procedure:
    """One run of a procedure: the outcomes so far, and the refusals that were held back.

    Args:
        prefix: stands before the id of each check, for steps that several kinds of evidence share.
        independent: the steps check pieces that do not depend on each other. An attempt then holds back every refusal,
            and a later step still passes. Otherwise it holds back only that an endorsement is missing or stale, so
            that evidence that is plainly false is called false; and after that no step counts as passed.
    """

    __slots__ = ("_held", "_independent", "_open", "_outcomes", "_prefix", "_steps")

    def __init__(self, steps: tuple[Step, ...], *, prefix: str = "", independent: bool = False) -> None:
        self._steps = steps
        self._outcomes: list[_StepOutcome] = []
        self._prefix = prefix
        self._independent = independent
        self._held: list[AttestError] = []
        self._open = steps[0]

    def step(self, step: Step) -> Self:
        """Open a step whose refusal ends the procedure."""
        self._open = step
        return self

    def attempt(self, step: Step) -> _Attempt:
        """Open a step whose refusal is held back until the end."""
        self._open = step
        return _Attempt(self)

    def parsed(self, step: Step, expected: Fact, got: Fact) -> None:
        """Record the facts of a step that parsing took already: evidence that fails it is never parsed."""
        self._outcomes.append((step, Outcome.PASS, expected, got))

    def record(self, expected: Fact, got: Fact, outcome: Outcome = Outcome.PASS) -> None:
        """Record the expected and the found facts of the open step, after its last possible refusal."""
        self._outcomes.append((self._open, outcome, expected, got))

    def need(self, found: _T | None, otherwise: str) -> _T:
        """Return what an earlier step found; without it, end this attempt as not evaluated for the reason given."""
        if found is None:
            raise _LackingError(otherwise)
        return found

    def finish(self) -> Findings:
        """Return the outcome of every step.

        Raises:
            AttestError: the worst refusal that was held back: the lowest exit code, the first of them. A wrong
                configuration comes last, because it hides nothing of the evidence.
        """
        if self._held:
            raise self._worst()
        return Findings(self._prefix, self._steps, tuple(self._outcomes))

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
        outcomes = self._outcomes if self._independent else _until_refused(self._outcomes)
        failure.checks = Findings(self._prefix, self._steps, tuple(outcomes)).checks
        return failure

    def refuse(self, failure: AttestError) -> None:
        """Let the open step fail."""
        failure.check, failure.clause = self._prefix + self._open.id, failure.clause or self._open.clause
        self.record(failure.expected or "", failure.got or failure.message, Outcome.FAIL)

    def hold(self, failure: AttestError) -> bool:
        """Hold the refusal of the open step back, unless it ends this procedure."""
        if self._independent or isinstance(failure, EndorsementError):
            self._held.append(failure)
            return True
        self.refusal(failure)
        return False

    def _worst(self) -> AttestError:
        return self.refusal(min(self._held, key=lambda held: (isinstance(held, ConfigurationError), held.exit_code)))

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, failure: BaseException | None, _traceback: TracebackType | None) -> None:
        if failure is not None and isinstance(failure, AttestError):
            self.refuse(failure)
            self.refusal(failure)


def _until_refused(outcomes: list[_StepOutcome]) -> list[_StepOutcome]:
    """Return the outcomes up to the first refusal, and after it only the other refusals."""
    refused = [number for number, (_, outcome, _, _) in enumerate(outcomes) if outcome is Outcome.FAIL]
    first = refused[0] if refused else len(outcomes)
    return [*outcomes[:first], *(outcomes[number] for number in refused)]


class _Attempt:
    """The open step of a procedure, when its refusal is held back."""

    __slots__ = ("_procedure",)

    def __init__(self, procedure: Procedure) -> None:
        self._procedure = procedure

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, failure: BaseException | None, _traceback: TracebackType | None) -> bool:
        if isinstance(failure, AttestError):
            self._procedure.refuse(failure)
            return self._procedure.hold(failure)
        if isinstance(failure, _LackingError):
            self._procedure.record("", str(failure), Outcome.NOT_EVALUATED)
            return True
        return False


class _LackingError(Exception):
    """A step cannot be evaluated; the attempt that raises it catches it."""
