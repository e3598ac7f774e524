"""The output of ``verify`` and ``appraise`` when the input is a token: another Verifier's result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias, TypeVar

from attest.appraisal import Judgement
from attest.cli.ear import EarCase, appraise_ear_case, judge_ear_case, show_ear, verify_ear_case
from attest.cli.output import RefusedEvidence, show_refusal, take_refusal
from attest.cli.service_tokens import ServiceCase, appraise_service, judge_service, show_service, verify_service_case
from attest.cli.tokens import TokenCase, appraise_token, judge_token, require_for_tokens, show_token, verify_token_case
from attest.policy.loader import Policy

_T = TypeVar("_T")
AnyTokenCase: TypeAlias = TokenCase | ServiceCase | EarCase


def verify_any_token(case: AnyTokenCase) -> int:
    """Verify the token and print the outcome; return 0, 3, 4 or 5."""
    question = case.question
    if isinstance(case, TokenCase):
        return _answer(case, "verify", partial(verify_token_case, case), partial(show_token, question=question))
    if isinstance(case, ServiceCase):
        show = partial(show_service, question=question)
        return _answer(case, "verify", partial(verify_service_case, case), show)
    return _answer(case, "verify", partial(verify_ear_case, case), partial(show_ear, question=question))


def appraise_token_case(case: AnyTokenCase, *, policies: Sequence[Policy]) -> int:
    """Appraise the token and print the outcome; return 0, 1, 3, 4 or 5.

    Args:
        case: the token.
        policies: those that were named; none for the baseline of its kind.

    Raises:
        ConfigurationError: ``policy-not-for-tokens``, one of them names no Verifier.
    """
    require_for_tokens(policies)
    question = case.question
    if isinstance(case, TokenCase):
        judge = partial(appraise_token, question=question, policies=policies)
        return _answer(case, "appraise", partial(verify_token_case, case), judge)
    if isinstance(case, ServiceCase):
        judge_service = partial(appraise_service, question=question, policies=policies)
        return _answer(case, "appraise", partial(verify_service_case, case), judge_service)
    judge_ear = partial(appraise_ear_case, question=question, policies=policies)
    return _answer(case, "appraise", partial(verify_ear_case, case), judge_ear)


def judge_token_case(case: AnyTokenCase, policy: Policy) -> Judgement:
    """Verify a token and appraise it by one policy, without output.

    Raises:
        AttestError: the token is refused; ``policy-not-for-tokens``.
    """
    require_for_tokens([policy])
    if isinstance(case, TokenCase):
        return judge_token(verify_token_case(case), policy, question=case.question)
    if isinstance(case, ServiceCase):
        return judge_service(verify_service_case(case), policy, question=case.question)
    return judge_ear_case(verify_ear_case(case), policy, question=case.question)


def _answer(case: AnyTokenCase, command: str, verify: Callable[[], _T], show: Callable[[_T], int]) -> int:
    verified = take_refusal(verify)
    if isinstance(verified, RefusedEvidence):
        question = case.question
        return show_refusal(verified, command=command, at=case.at, question=question, unchecked=question.unchecked)
    return show(verified)
