"""Attempts of one call: the error after the deadline."""

import pytest

from attest.errors import EndorsementError, ServiceUnreachableError
from attest.release.transport import TIME_OVER
from attest.session.retry import Attempts
from attest.session.schedule import SessionTiming


def error(problem: str) -> EndorsementError:
    return EndorsementError(problem, code="service-unreachable", got=problem, hint=f"hint of {problem}", retryable=True)


def attempts() -> Attempts:
    moments = iter((0.0, 1.0))  # the beginning, and the first attempt
    timing = SessionTiming(ticks=lambda: next(moments, 20.0), random=lambda: 0.5)
    return Attempts(url="https://kms.example", deadline=timing.deadline(10.0))


def test_an_attempt_without_time_does_not_hide_the_cause_of_the_one_before() -> None:
    tried = attempts()
    tried.after(error("refused"))
    with pytest.raises(ServiceUnreachableError, match="2 attempts, the last one: refused") as caught:
        tried.after(error(TIME_OVER))
    assert caught.value.hint == "hint of refused"


def test_a_call_without_any_other_cause_says_that_its_time_is_over() -> None:
    tried = attempts()
    tried.after(error(TIME_OVER))
    with pytest.raises(ServiceUnreachableError, match=f"the last one: {TIME_OVER}"):
        tried.after(error(TIME_OVER))
