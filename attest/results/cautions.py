"""Cautions: gaps of a result, although the evidence is genuine or acceptable. They do not change the outcome."""

from __future__ import annotations

from collections.abc import Iterator

from attest.appraisal import AttestationResult
from attest.checks import Caution
from attest.evidence.gpu.verify import VerifiedGpu
from attest.evidence.snp.verify import VerifiedSnpReport
from attest.evidence.tolerances import value_names
from attest.policy.snp import EXTRACTED_PRODUCTS
from attest.verification import Freshness, VerifiedEvidence

_KEYS_EXTRACTED = (
    "report keys of {product} were extracted by software, as published (arXiv 2605.12990): "
    "any of its reports may be forged"
)
_NOT_UNDERSTOOD = "values without a known meaning were accepted, because the policy names them: {named}"
_NO_FRESHNESS = Caution(
    code="freshness-not-evaluated",
    message="no nonce was compared: the evidence may be of any age, or replayed",
)
_NO_POLICY = Caution(
    code="policy-not-judged",
    message="no policy was applied: the evidence is genuine, but its machine was not appraised",
)
_BASELINE = Caution(
    code="baseline-used",
    message="the baseline is not a production policy: it checks neither the software (measurement) nor the firmware; "
    "write a policy, and give it with --policy",
)


def verified_cautions(verified: VerifiedEvidence) -> tuple[Caution, ...]:
    """Return the cautions of evidence that no policy judged."""
    return _distinct((*verified.cautions, *_of_evidence(verified), _NO_POLICY))


def appraised_cautions(result: AttestationResult) -> tuple[Caution, ...]:
    """Return the cautions of evidence that a policy judged."""
    baseline = () if result.policy.production else (_BASELINE,)
    return _distinct((*result.verified.cautions, *_of_evidence(result.verified), *baseline))


def token_cautions(freshness: Freshness, *, policy: bool, baseline: bool) -> tuple[Caution, ...]:
    """Return the cautions of a token that a policy judged, the baseline, or neither."""
    judged = (_BASELINE,) if baseline else () if policy else (_NO_POLICY,)
    return (*_of_freshness(freshness), *judged)


def _of_evidence(verified: VerifiedEvidence) -> Iterator[Caution]:
    for item in verified.items:
        report = item.silicon
        if isinstance(report, VerifiedSnpReport) and report.product in EXTRACTED_PRODUCTS:
            message = _KEYS_EXTRACTED.format(product=report.product)
            yield Caution(code="report-keys-extracted", message=message)
    named = "; ".join(
        f"{item.name}: {', '.join(names)}"
        for item in verified.items
        if isinstance(item.silicon, VerifiedGpu | VerifiedSnpReport) and (names := value_names(item.silicon.accepted))
    )
    if named:
        yield Caution(code="value-not-understood", message=_NOT_UNDERSTOOD.format(named=named))
    yield from _of_freshness(verified.freshness)


def _of_freshness(freshness: Freshness) -> Iterator[Caution]:
    if freshness is Freshness.NOT_EVALUATED:
        yield _NO_FRESHNESS


def _distinct(cautions: tuple[Caution, ...]) -> tuple[Caution, ...]:
    """Keep the first caution of each code: that of a document names its machines."""
    found: dict[str, Caution] = {}
    for caution in cautions:
        found.setdefault(caution.code, caution)
    return tuple(found.values())
