"""Tokens of other Verifiers as input, verified with keys that the command line names for their issuers.

Three kinds: NVIDIA's (NRAS), those of the attestation services of Azure, Intel and Google, and EARs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Generic, TypeAlias, TypeVar

from cryptography.x509 import Certificate

from attest.appraisal import Judgement, freshness_check, reasons_of
from attest.checks import Check
from attest.cli.ear_output import require_ear_nonce
from attest.cli.files import read_file, walk_endorsements
from attest.cli.options import VerificationOptions
from attest.cli.output import REFUSALS, combined_documents, show_refusal, show_result
from attest.encoding import JsonValue
from attest.errors import ConfigurationError
from attest.evidence.recognition import recognise
from attest.policy.loader import Policy
from attest.results.document import judged_document, token_document
from attest.results.ear_verify import ExpectedEar, VerifiedEar, appraise_ear, is_ear, verify_ear
from attest.results.jose import MAX_JWKS_BYTES, TokenKey, is_jwks, read_jwks
from attest.results.nras import (
    NRAS_INTERMEDIATE_SPKI,
    NRAS_ISSUER,
    VerifiedNrasToken,
    appraise_nras,
    verify_nras_token,
)
from attest.results.service_appraise import appraise_service_token
from attest.results.service_token import VerifiedServiceToken, verify_service_token
from attest.results.token_policy import judge_ear, judge_facts
from attest.results.token_roots import is_certificate, read_token_roots
from attest.results.token_services import service_of

GPU_NONCE_BYTES = 32


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


_T = TypeVar("_T", bound=VerifiedNrasToken | VerifiedServiceToken | VerifiedEar)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCase(Generic[_T]):
    """A token of one kind, with the procedures of that kind and the options of its verification.

    Attributes:
        verify: verifies the token.
        baseline: appraises the token by the baseline of its kind, except for its freshness.
        judge: appraises the token by one policy.
    """

    at: datetime
    question: VerificationOptions
    verify: Callable[[], _T]
    baseline: Callable[[_T], tuple[Check, ...]]
    judge: Callable[[_T, Policy], Judgement]

    def show_verified(self) -> int:
        """Verify the token and print the outcome; return 0, 3, 4 or 5."""
        try:
            token = self.verify()
        except REFUSALS as exc:
            return show_refusal(exc, command="verify", at=self.at, question=self.question)
        return show_result(self._document(token), display=self.question.display)

    def show_appraised(self, policies: Sequence[Policy]) -> int:
        """Appraise the token by policies, or else by the baseline, and print the outcome; return 0, 1, 3, 4 or 5.

        Raises:
            ConfigurationError: ``policy-not-for-tokens``, one of them names no Verifier.
        """
        require_for_tokens(policies)
        try:
            token = self.verify()
        except REFUSALS as exc:
            return show_refusal(exc, command="appraise", at=self.at, question=self.question)
        judgements = [self.judge(token, policy) for policy in policies]
        if judgements:
            verified = self._document(token)
            documents = [judged_document(verified, judgement, token) for judgement in judgements]
            document = combined_documents(documents, judgements, token.checks)
        else:
            fresh = freshness_check(token.freshness, reasons_of(self.question.unchecked).get("freshness"))
            document = self._document(token, (fresh, *self.baseline(token)))
        return show_result(document, display=self.question.display)

    def _document(self, token: _T, checks: tuple[Check, ...] | None = None) -> dict[str, JsonValue]:
        return token_document(token, unchecked=self.question.unchecked, policy_checks=checks)

    def judged_by(self, policy: Policy) -> Judgement:
        """Verify the token and appraise it by one policy, without output.

        Raises:
            AttestError: the token is refused; ``policy-not-for-tokens``.
        """
        require_for_tokens([policy])
        return self.judge(self.verify(), policy)


AnyTokenCase: TypeAlias = TokenCase[VerifiedNrasToken] | TokenCase[VerifiedServiceToken] | TokenCase[VerifiedEar]


def require_for_tokens(policies: Sequence[Policy]) -> None:
    """Require that policies name the Verifiers whose tokens they accept.

    Raises:
        ConfigurationError: ``policy-not-for-tokens``, one of them judges evidence alone.
    """
    for policy in policies:
        if not policy.verifiers:
            raise ConfigurationError(
                f"--policy: the policy {policy.name!r} appraises evidence, and names no Verifier of accepted tokens",
                code="policy-not-for-tokens",
                hint="add the key 'verifiers' to it (docs/policy.md); or pass the evidence instead of the token",
            )


# -- opening


def open_token(
    files: Sequence[tuple[str, bytes]], question: VerificationOptions, *, nonce: bytes | None, at: datetime
) -> AnyTokenCase | None:
    """Return the token, if the one input is a token.

    Raises:
        EvidenceError: the input is in no known form.
        ConfigurationError: options that mean nothing for a token of this kind, or a key set that cannot be read.
    """
    if len(files) != 1:
        return None
    # The order counts: Google's tokens look like EARs, and a CWT is binary, which other forms could claim.
    data = files[0][1]
    if service_of(data) is not None:
        _refuse_report_data(question, "a token has only a nonce")
        return _service_case(data, question, nonce=nonce, at=at)
    if is_ear(data):
        _refuse_report_data(question, "a token has none")
        require_ear_nonce(nonce, what="the nonce")
        return _ear_case(data, question, nonce=nonce, at=at)
    if recognise(*files[0]).form != "token":
        return None
    _refuse_report_data(question, "a token has none")
    _require_nras_options(question, nonce)
    return _nras_case(data, question, nonce=nonce, at=at)


def _nras_case(
    data: bytes, question: VerificationOptions, *, nonce: bytes | None, at: datetime
) -> TokenCase[VerifiedNrasToken]:
    """Open a token of NVIDIA's service. Its baseline: NRAS affirms, and every device's measurements matched."""
    trust = _nras_trust(question, at=at)
    return TokenCase(
        at=at,
        question=question,
        verify=partial(verify_nras_token, data, trusted=trust.keys, at=at, nonce=nonce),
        baseline=appraise_nras,
        judge=lambda token, policy: _judge_facts(token, policy, appraise_nras(token), question),
    )


def _service_case(
    data: bytes, question: VerificationOptions, *, nonce: bytes | None, at: datetime
) -> TokenCase[VerifiedServiceToken]:
    """Open a token of Azure, Intel or Google. Its baseline: a compliant TEE without debugging."""
    trust, audience = read_trust(question), question.audience
    simulated = "--allow-simulated" if question.allow_simulated else None
    return TokenCase(
        at=at,
        question=question,
        verify=partial(
            verify_service_token, data, trusted=trust.keys, roots=trust.roots, at=at, nonce=nonce, audience=audience
        ),
        baseline=partial(appraise_service_token, simulated=simulated),
        judge=lambda token, policy: _judge_facts(token, policy, appraise_service_token(token), question),
    )


def _ear_case(
    data: bytes, question: VerificationOptions, *, nonce: bytes | None, at: datetime
) -> TokenCase[VerifiedEar]:
    """Open an EAR, JWT or CWT. Its baseline: everything affirming, on hardware."""
    expected = ExpectedEar(nonce=nonce, audience=question.audience)
    simulated = "--allow-simulated" if question.allow_simulated else None
    return TokenCase(
        at=at,
        question=question,
        verify=partial(verify_ear, data, trusted=read_trust(question).keys, at=at, expected=expected),
        baseline=partial(appraise_ear, simulated=simulated),
        judge=lambda token, policy: judge_ear(token, policy=policy, at=token.at, unchecked=question.unchecked),
    )


def _judge_facts(
    token: VerifiedNrasToken | VerifiedServiceToken,
    policy: Policy,
    baseline: tuple[Check, ...],
    question: VerificationOptions,
) -> Judgement:
    return judge_facts(
        token.facts,
        freshness=token.freshness,
        policy=policy,
        at=token.at,
        baseline=baseline,
        unchecked=question.unchecked,
    )


def _refuse_report_data(question: VerificationOptions, reason: str) -> None:
    if question.report_data is not None:
        raise ConfigurationError(
            f"--report-data: {reason}", code="option-not-applicable", hint="give --nonce: a token repeats one"
        )


def _require_nras_options(question: VerificationOptions, nonce: bytes | None) -> None:
    if question.audience is not None:
        raise ConfigurationError(
            "--audience: tokens of NVIDIA's service have no audience",
            code="option-not-applicable",
            field="--audience",
            hint="leave out --audience; a nonce that you issued shows that the token was made for you",
        )
    if nonce is not None and len(nonce) != GPU_NONCE_BYTES:
        raise ConfigurationError(
            f"the nonce of a GPU has {GPU_NONCE_BYTES} bytes",
            code="nonce-length",
            expected=f"{GPU_NONCE_BYTES} bytes",
            got=f"{len(nonce)} bytes",
        )


def _nras_trust(question: VerificationOptions, *, at: datetime) -> TokenTrust:
    """Return the named keys; and of key sets among the endorsements those that NVIDIA's pinned CA certifies."""
    trust = read_trust(question)
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
    if certified and NRAS_ISSUER not in trust.keys:  # the pin is for NVIDIA's production service only
        trust.keys[NRAS_ISSUER] = tuple(certified)
    return trust
