"""What ``verify`` and ``appraise`` answer when the input is a token: another Verifier's result."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias, TypeVar

from attest.cli.answering import Refusal, show_refusal, take_refusal
from attest.cli.ear import EarCase, appraise_ear_case, show_ear, verify_ear_case
from attest.cli.service_tokens import ServiceCase, appraise_service, show_service, verify_service_case
from attest.cli.tokens import TokenCase, appraise_token, show_token, verify_token_case

__all__ = ["appraise_token_case", "verify_any_token"]

_T = TypeVar("_T")
_AnyCase: TypeAlias = TokenCase | ServiceCase | EarCase


def verify_any_token(case: _AnyCase) -> int:
    """Say whether the token is genuine, and return 0, 3, 4 or 5."""
    question = case.question
    if isinstance(case, TokenCase):
        return _answer(case, "verify", partial(verify_token_case, case), partial(show_token, question=question))
    if isinstance(case, ServiceCase):
        show = partial(show_service, question=question)
        return _answer(case, "verify", partial(verify_service_case, case), show)
    return _answer(case, "verify", partial(verify_ear_case, case), partial(show_ear, question=question))


def appraise_token_case(case: _AnyCase, *, policies: tuple[str, ...]) -> int:
    """Say whether what the token says is acceptable, and return 0, 1, 3, 4 or 5."""
    question = case.question
    if isinstance(case, TokenCase):
        judge = partial(appraise_token, question=question, policies=policies)
        return _answer(case, "appraise", partial(verify_token_case, case), judge)
    if isinstance(case, ServiceCase):
        judge_service = partial(appraise_service, question=question, policies=policies)
        return _answer(case, "appraise", partial(verify_service_case, case), judge_service)
    judge_ear = partial(appraise_ear_case, question=question, policies=policies)
    return _answer(case, "appraise", partial(verify_ear_case, case), judge_ear)


def _answer(case: _AnyCase, command: str, verify: Callable[[], _T], show: Callable[[_T], int]) -> int:
    verified = take_refusal(verify)
    if isinstance(verified, Refusal):
        question = case.question
        return show_refusal(verified, command=command, at=case.at, question=question, unchecked=question.unchecked)
    return show(verified)
