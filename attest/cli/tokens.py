"""Tokens of other Verifiers as input, verified with keys that the command line names for their issuers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from cryptography.x509 import Certificate

from attest.appraisal import Judgement, freshness_check
from attest.checks import Check
from attest.cli.files import read_file, walk_endorsements
from attest.cli.options import VerificationOptions
from attest.cli.output import combined_documents, tell_appraised, tell_verified
from attest.encoding import JsonValue
from attest.errors import ConfigurationError
from attest.evidence.recognition import recognise
from attest.policy.loader import Policy
from attest.results.document import judged_document, token_document
from attest.results.jose import MAX_JWKS_BYTES, TokenKey, is_jwks, read_jwks
from attest.results.nras import (
    NRAS_INTERMEDIATE_SPKI,
    NRAS_ISSUER,
    VerifiedNrasToken,
    appraise_nras,
    verify_nras_token,
)
from attest.results.token_facts import TokenFacts
from attest.results.token_policy import judge_facts
from attest.results.token_roots import is_certificate, read_token_roots
from attest.terminal.display import Display
from attest.verification import Freshness

NONCE_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCase:
    """A token with the keys, moment and options of its verification."""

    data: bytes
    trusted: dict[str, tuple[TokenKey, ...]]
    nonce: bytes | None
    at: datetime
    question: VerificationOptions


def open_token(
    files: Sequence[tuple[str, bytes]], question: VerificationOptions, *, nonce: bytes | None, at: datetime
) -> TokenCase | None:
    """Return the token, if the one input is a token.

    Raises:
        EvidenceError: the input is in no known form.
        ConfigurationError: a token beside other input, options that mean nothing for a token, or a key set that
            cannot be read.
    """
    if len(files) != 1 or recognise(*files[0]).form != "token":
        return None
    if question.report_data is not None:
        raise ConfigurationError(
            "--report-data: a token has none", code="option-not-applicable", hint="give --nonce: a token repeats one"
        )
    if question.audience is not None:
        raise ConfigurationError(
            "--audience: tokens of NVIDIA's service name none",
            code="option-not-applicable",
            field="--audience",
            hint="leave --audience out; a nonce that you handed out yourself shows for whom the token was made",
        )
    if nonce is not None and len(nonce) != NONCE_BYTES:
        raise ConfigurationError(
            f"the nonce of a GPU has {NONCE_BYTES} bytes",
            code="nonce-length",
            expected=f"{NONCE_BYTES} bytes",
            got=f"{len(nonce)} bytes",
        )
    return TokenCase(data=files[0][1], trusted=_trusted(question, at=at), nonce=nonce, at=at, question=question)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTrust:
    """The trusted signers of tokens, by issuer: keys, or roots of the certificates that a token carries."""

    keys: dict[str, tuple[TokenKey, ...]]
    roots: dict[str, tuple[Certificate, ...]]


def read_trust(question: VerificationOptions) -> TokenTrust:
    """Read the key sets and root certificates that ``--trust`` names.

    Raises:
        ConfigurationError: ``file-unreadable``, ``jwks-invalid``, ``token-root-invalid``, or one issuer named twice.
    """
    trust = TokenTrust(keys={}, roots={})
    for issuer, file in question.trust:
        if issuer in trust.keys or issuer in trust.roots:
            raise ConfigurationError(f"--trust names {issuer!r} twice", code="trust-ambiguous")
        data = read_file(file, limit=MAX_JWKS_BYTES, what="--trust")
        try:
            if is_certificate(data):
                trust.roots[issuer] = read_token_roots(data)
            else:
                trust.keys[issuer] = read_jwks(data)
        except ConfigurationError as exc:
            hint = exc.hint or "name the key set (JWKS) that the issuer publishes, or its root certificate (PEM, DER)"
            raise ConfigurationError(f"--trust {file}: {exc.message}", code=exc.code, field=file, hint=hint) from exc
    return trust


def read_trusted(question: VerificationOptions) -> dict[str, tuple[TokenKey, ...]]:
    """Read the key sets that ``--trust`` names; errors as ``read_trust``."""
    return read_trust(question).keys


def _trusted(question: VerificationOptions, *, at: datetime) -> dict[str, tuple[TokenKey, ...]]:
    """Return the named keys; and of key sets among the endorsements those that NVIDIA's pinned CA certifies."""
    trusted = read_trusted(question)
    certified: list[TokenKey] = []
    for name, data in walk_endorsements(question.endorsements, limit=MAX_JWKS_BYTES, warn=question.display.note):
        if not is_jwks(data):
            continue
        try:
            keys = read_jwks(data)
        except ConfigurationError as exc:
            if exc.code != "jwks-invalid":
                raise
            question.display.warn(f"{name}: {exc.message}")
            continue
        found = [key for key in keys if key.is_certified_by(NRAS_INTERMEDIATE_SPKI, at=at)]
        question.display.note(f"{name}: {len(found)} of {len(keys)} keys are certified by NVIDIA's pinned CA")
        certified += found
    if certified and NRAS_ISSUER not in trusted:  # the pin is for NVIDIA's production service only
        trusted[NRAS_ISSUER] = tuple(certified)
    return trusted


def verify_token_case(case: TokenCase) -> VerifiedNrasToken:
    """Verify the token; errors as ``verify_nras_token``."""
    return verify_nras_token(case.data, trusted=case.trusted, at=case.at, nonce=case.nonce)


def show_token(token: VerifiedNrasToken, *, question: VerificationOptions) -> int:
    """Print that the token is genuine, and return 0."""
    return tell_verified(token_document(token, unchecked=question.unchecked), display=question.display)


def require_for_tokens(policies: Sequence[Policy]) -> None:
    """Require that policies name the Verifiers whose tokens they accept.

    Raises:
        ConfigurationError: ``policy-not-for-tokens``, one of them judges evidence alone.
    """
    for policy in policies:
        if not policy.verifiers:
            raise ConfigurationError(
                f"--policy: the policy {policy.name!r} judges evidence, and names no Verifier whose tokens it takes",
                code="policy-not-for-tokens",
                hint="add the key 'verifiers' to it (docs/policy.md); or give the evidence instead of the token",
            )


def tell_judged(
    verified: dict[str, JsonValue], judgements: Sequence[Judgement], checks: Sequence[Check], *, display: Display
) -> int:
    """Print the outcome of each policy for a genuine token, and return 0 when all of them affirm, else 1.

    Args:
        verified: the document that says that the token is genuine.
        judgements: one for each policy, at least one.
        checks: those of the token's verification.
        display: settings of the output.
    """
    documents = [judged_document(verified, judgement, checks) for judgement in judgements]
    return tell_appraised(combined_documents(documents, judgements, checks), display=display)


def freshness_of_token(freshness: Freshness, question: VerificationOptions) -> Check:
    """Judge a token's freshness by the baseline."""
    reason = next((entry.reason for entry in question.unchecked if entry.check == "freshness"), None)
    return freshness_check(freshness, reason)


class StatedToken(Protocol):
    """A genuine token with claims, of any service."""

    @property
    def facts(self) -> tuple[TokenFacts, ...]:
        """The claims about each TEE and device."""
        ...

    @property
    def freshness(self) -> Freshness:
        """The comparison of the token's nonce with the expected one."""
        ...

    @property
    def at(self) -> datetime:
        """The moment for which it is genuine."""
        ...

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks of its verification."""
        ...


def judge_stated(
    token: StatedToken, policy: Policy, *, baseline: tuple[Check, ...], question: VerificationOptions
) -> Judgement:
    """Appraise a token's facts by one policy; ``baseline`` are the checks of its kind's baseline."""
    return judge_facts(
        token.facts,
        freshness=token.freshness,
        policy=policy,
        at=token.at,
        baseline=baseline,
        unchecked=question.unchecked,
    )


def appraise_stated(
    token: StatedToken,
    policies: Sequence[Policy],
    *,
    baseline: tuple[Check, ...],
    document: Callable[[tuple[Check, ...] | None], dict[str, JsonValue]],
    question: VerificationOptions,
) -> int:
    """Appraise a token's facts by policies, or by the baseline where there are none; return 0 or 1.

    Args:
        token: the token, verified.
        policies: those that were named.
        baseline: the checks of its kind's baseline.
        document: states that it is genuine and, given checks of the baseline, whether it is acceptable.
        question: the command line.
    """
    if policies:
        judgements = [judge_stated(token, policy, baseline=baseline, question=question) for policy in policies]
        return tell_judged(document(None), judgements, token.checks, display=question.display)
    checks = (freshness_of_token(token.freshness, question), *baseline)
    return tell_appraised(document(checks), display=question.display)


def judge_token(token: VerifiedNrasToken, policy: Policy, *, question: VerificationOptions) -> Judgement:
    """Appraise the token by one policy."""
    return judge_stated(token, policy, baseline=appraise_nras(token), question=question)


def appraise_token(token: VerifiedNrasToken, *, question: VerificationOptions, policies: Sequence[Policy]) -> int:
    """Appraise the token by policies; without one by the baseline.

    That is: NRAS affirms, every device's measurements matched, and it is fresh.
    """

    def document(checks: tuple[Check, ...] | None) -> dict[str, JsonValue]:
        return token_document(token, unchecked=question.unchecked, policy_checks=checks)

    return appraise_stated(token, policies, baseline=appraise_nras(token), document=document, question=question)
