"""The runner of numbered procedures, by procedures of three steps."""

from datetime import UTC, datetime
from typing import NamedTuple

import pytest

from attest.checks import Outcome, Unchecked
from attest.errors import AttestError, BindingError, ConfigurationError, EndorsementError, EvidenceError
from attest.evidence.procedure import Procedure, Step, reasons, tolerated


class Steps(NamedTuple):
    first: Step = Step("first", "clause 1")
    second: Step = Step("second", "clause 2")
    third: Step = Step("third", "clause 3")


STEPS = Steps()
STALE = EndorsementError("stale", code="stale", expected="a newer one")
FALSE = BindingError("false", code="false", got="another", clause="clause of its own")


def outcomes(found: AttestError) -> list[tuple[str, Outcome]]:
    return [(check.id, check.outcome) for check in found.checks]


def test_facts_become_text_when_a_check_is_read() -> None:
    procedure = Procedure(STEPS, prefix="of.")
    procedure.parsed(STEPS.first, b"\x01\xff", datetime(2026, 7, 1, tzinfo=UTC))
    with procedure.step(STEPS.second):
        procedure.record(("{} and {:#x}", b"\x02", 255), None)
    with procedure.step(STEPS.third):
        procedure.record("text with {braces}", ("{}", "{}"), Outcome.WARNING)
    first, second, third = procedure.finish().checks
    assert (first.id, first.expected, first.got) == ("of.first", "01ff", "2026-07-01T00:00:00Z")
    assert (second.expected, second.got, second.clause) == ("02 and 0xff", "None", "clause 2")
    assert (third.expected, third.got, third.outcome) == ("text with {braces}", "{}", Outcome.WARNING)


def test_a_refused_step_ends_the_procedure_and_leaves_the_rest_unevaluated() -> None:
    procedure = Procedure(STEPS)
    procedure.parsed(STEPS.first, "", "")
    refusal = BindingError("the text", code="false")
    with pytest.raises(BindingError) as refused, procedure.step(STEPS.second):
        raise refusal
    assert outcomes(refused.value) == [
        ("first", Outcome.PASS),
        ("second", Outcome.FAIL),
        ("third", Outcome.NOT_EVALUATED),
    ]
    assert (refused.value.check, refused.value.clause) == ("second", "clause 2")
    _, second, third = refused.value.checks
    assert (second.expected, second.got, third.got) == ("", "the text", "an earlier check failed")


def test_a_step_that_tells_nothing_has_not_passed() -> None:
    procedure = Procedure(STEPS)
    with procedure.step(STEPS.first):
        pass
    assert {check.outcome for check in procedure.finish().checks} == {Outcome.NOT_EVALUATED}


def test_what_is_missing_is_held_back_and_what_is_false_ends_the_procedure() -> None:
    procedure = Procedure(STEPS)
    with procedure.attempt(STEPS.first):
        raise STALE
    with procedure.attempt(STEPS.second):
        procedure.record("", "passed, and does not count after a refusal")
    with pytest.raises(BindingError) as refused, procedure.attempt(STEPS.third):
        raise FALSE
    assert outcomes(refused.value) == [
        ("first", Outcome.FAIL),
        ("second", Outcome.NOT_EVALUATED),
        ("third", Outcome.FAIL),
    ]
    assert refused.value.clause == "clause of its own"


def test_what_is_missing_refuses_in_the_end() -> None:
    procedure = Procedure(STEPS)
    with procedure.attempt(STEPS.first):
        raise STALE
    with pytest.raises(EndorsementError, match="stale"):
        procedure.finish()
    with pytest.raises(EndorsementError, match="stale"):
        procedure.require("found all the same")


def test_independent_steps_pass_whatever_failed_before_and_the_worst_refusal_is_raised() -> None:
    procedure = Procedure(STEPS, independent=True)
    malformed = EvidenceError("malformed", code="malformed")
    for step, failure in zip(STEPS, (ConfigurationError("no library", code="library"), FALSE, malformed), strict=True):
        with procedure.attempt(step):
            raise failure
    with pytest.raises(EvidenceError, match="malformed"):
        procedure.finish()
    procedure = Procedure(STEPS, independent=True)
    with procedure.attempt(STEPS.first):
        raise FALSE
    with procedure.attempt(STEPS.second):
        procedure.record("", "passed")
    with pytest.raises(BindingError) as refused:
        procedure.finish()
    assert outcomes(refused.value)[1] == ("second", Outcome.PASS)


def test_an_attempt_without_what_it_needs_is_not_evaluated() -> None:
    procedure = Procedure(STEPS)
    found: str | None = None
    with procedure.attempt(STEPS.first):
        procedure.need(found, "nothing was found")
    with procedure.attempt(STEPS.second):
        procedure.record(procedure.need("found", "nothing was found"), "")
    first, second, _ = procedure.finish().checks
    assert (first.outcome, first.got) == (Outcome.NOT_EVALUATED, "nothing was found")
    assert (second.outcome, second.expected) == (Outcome.PASS, "found")
    assert procedure.require("found") == "found"


def test_our_own_mistakes_are_no_refusals() -> None:
    procedure = Procedure(STEPS, independent=True)
    with pytest.raises(KeyError), procedure.step(STEPS.first):
        raise KeyError
    with pytest.raises(KeyError), procedure.attempt(STEPS.first):
        raise KeyError


def test_only_what_is_missing_is_tolerated_and_only_by_name() -> None:
    decision = Unchecked(check="rim", reason="none here")
    assert tolerated(STALE, (decision,), "revocation", "rim") == (decision,)
    assert reasons((decision, decision)) == "unchecked: none here; none here"
    with pytest.raises(EndorsementError):
        tolerated(STALE, (decision,), "revocation")
    with pytest.raises(BindingError):
        tolerated(FALSE, (decision,), "rim")
