"""Tokens of Azure, Intel and Google as input, verified with keys that the operator names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from attest.appraisal import Judgement
from attest.checks import Check
from attest.cli.options import VerificationOptions
from attest.cli.output import tell_verified
from attest.cli.tokens import TokenTrust, appraise_stated, judge_stated, read_trust
from attest.encoding import JsonValue
from attest.errors import ConfigurationError
from attest.policy.loader import Policy
from attest.results.document import service_token_document
from attest.results.service_appraise import appraise_service_token
from attest.results.service_token import VerifiedServiceToken, verify_service_token
from attest.results.token_services import service_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCase:
    """A token with the keys, moment and options of its verification."""

    data: bytes
    trust: TokenTrust
    nonce: bytes | None
    audience: str | None
    at: datetime
    question: VerificationOptions


def open_service(
    files: Sequence[tuple[str, bytes]], question: VerificationOptions, *, nonce: bytes | None, at: datetime
) -> ServiceCase | None:
    """Return the token, if the one input is a token. Call this before EARs are tried: Google's look like one.

    Raises:
        ConfigurationError: options that mean nothing for a token, or keys that cannot be read.
    """
    if len(files) != 1 or service_of(files[0][1]) is None:
        return None
    if question.report_data is not None:
        raise ConfigurationError(
            "--report-data: a token is asked by its nonce",
            code="option-not-applicable",
            hint="give --nonce: a token repeats one",
        )
    return ServiceCase(
        data=files[0][1], trust=read_trust(question), nonce=nonce, audience=question.audience, at=at, question=question
    )


def verify_service_case(case: ServiceCase) -> VerifiedServiceToken:
    """Verify the token; errors as ``verify_service_token``."""
    return verify_service_token(
        case.data,
        trusted=case.trust.keys,
        roots=case.trust.roots,
        at=case.at,
        nonce=case.nonce,
        audience=case.audience,
    )


def show_service(token: VerifiedServiceToken, *, question: VerificationOptions) -> int:
    """Print that the token is genuine, and return 0."""
    return tell_verified(service_token_document(token, unchecked=question.unchecked), display=question.display)


def judge_service(token: VerifiedServiceToken, policy: Policy, *, question: VerificationOptions) -> Judgement:
    """Appraise the token by one policy."""
    return judge_stated(token, policy, baseline=appraise_service_token(token), question=question)


def appraise_service(token: VerifiedServiceToken, *, question: VerificationOptions, policies: Sequence[Policy]) -> int:
    """Appraise the token by policies; without one by the baseline: a compliant TEE without debugging, and fresh."""

    def document(checks: tuple[Check, ...] | None) -> dict[str, JsonValue]:
        return service_token_document(token, unchecked=question.unchecked, policy_checks=checks)

    baseline = appraise_service_token(token)
    return appraise_stated(token, policies, baseline=baseline, document=document, question=question)
