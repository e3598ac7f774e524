"""An EAR from appraisals: checks to values, values to tiers, tiers to one status; nothing is set by hand.

``VALUES`` and the exceptions below it are the mapping that AR4SI requires a Verifier to publish; ``docs/tokens.md``
explains it. Every check of verification and policy about an Attester yields at most one value for one claim of its
vector; of several values the gravest counts.

A check that an operator left out yields a warning value, not an affirming one: a Relying Party that does not know the
operator's reason must not read "affirming". Simulated evidence yields no affirming value either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Final

from attest.appraisal import AttestationResult
from attest.checks import Check, Outcome, Tier
from attest.evidence.intel.status import TcbStatus
from attest.evidence.intel.verify import VerifiedIntelQuote
from attest.results.ear import (
    NONCE_BYTES,
    VECTOR_LABELS,
    Ear,
    EarAppraisal,
    TrustVector,
    VerifierId,
    tier_of_value,
    worst,
)
from attest.results.ear_details import BoundKey, CheckRef, EarDetails, PolicyRef, Relaxation
from attest.results.relied_on import relied_on, seconds, tcb_states
from attest.verification import VerifiedItem

RELAXED: Final = -33
"""Private warning value: a check of this claim was left out, by name and with a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Values:
    """The values of a claim, by the outcome of a check."""

    passed: int
    warning: int
    failed: int
    relaxed: int = RELAXED

    def of(self, outcome: Outcome) -> int:
        """Return the value for an outcome."""
        return {
            Outcome.PASS: self.passed,
            Outcome.WARNING: self.warning,
            Outcome.FAIL: self.failed,
            Outcome.NOT_EVALUATED: self.relaxed,
        }[outcome]


VALUES: Final[Mapping[str, _Values]] = {
    "instance-identity": _Values(passed=2, warning=RELAXED, failed=97),
    "configuration": _Values(passed=2, warning=32, failed=96, relaxed=36),
    "executables": _Values(passed=3, warning=32, failed=33),
    **dict.fromkeys(
        ("file-system", "hardware", "runtime-opaque", "storage-opaque", "sourced-data"),
        _Values(passed=2, warning=32, failed=96),
    ),
}
"""Trustworthiness values of a policy's checks by AR4SI claim; 3 for executables means: approved at boot. No rule of
this version covers file-system, storage-opaque or sourced-data."""
_UNKNOWN_HARDWARE = 97
_KNOWN_WEAKNESSES = 32
_APPROVED_AT_RUN_TIME = 2
_OF_PRODUCTS = (".products", ".architectures", "policy.kind")
"""Checks that compare with a table of what is supported."""
_WHOLE = {"freshness": "instance-identity", "policy.not_simulated": "hardware", "policy.kind": "hardware"}
"""Checks of every policy that no rule makes. They count against an Attester, never for it."""
_CPU_KINDS = frozenset({"sev-snp", "tdx", "sgx", "azure-snp", "azure-tdx", "sample"})
_OF_EXECUTABLES = ("eventlog.", "rim", ".measurements", ".fwid")
"""Parts of the names of verification's checks that are about what runs; the others are about the hardware."""


def build_ear(
    results: Sequence[AttestationResult],
    *,
    verifier: VerifierId,
    issuer: str | None = None,
    lifetime: timedelta | None = None,
    token_id: str | None = None,
    nonce: bytes | None = None,
    audience: tuple[str, ...] = (),
    raw_evidence: bool = False,
) -> Ear:
    """Return the EAR of one or several appraisals of the same evidence, all of which count.

    ``results`` has one for each policy, in the order applied. Their moment becomes ``iat``; without a ``lifetime`` the
    result has no end. ``token_id`` is random base64url from the caller; ``nonce`` is the Relying Party's, as received,
    8 to 64 bytes. ``raw_evidence`` includes the evidence as its JSON collection: with GPUs some 100 KiB.

    Raises:
        ValueError: no result, results of different evidence or moments, or a value that no EAR may have.
    """
    if not results or any(
        (r.verified.evidence, r.at) != (results[0].verified.evidence, results[0].at) for r in results
    ):
        raise ValueError("expected appraisals of one evidence at one moment")
    verified, at = results[0].verified, results[0].at
    policy_ids = tuple(dict.fromkeys(policy_id_of(result) for result in results))
    submods = {item.name: _appraisal(item, results, policy_ids) for item in verified.items}
    issued_at = seconds(at)
    return Ear(
        issued_at=issued_at,
        verifier=verifier,
        submods=submods,
        status=worst(one.status for one in submods.values()),
        issuer=issuer,
        audience=audience,
        expires=None if lifetime is None else issued_at + int(lifetime.total_seconds()),
        token_id=token_id,
        nonce=() if nonce is None else (nonce,),
        raw_evidence=verified.evidence.to_json() if raw_evidence else None,
        details=_details(results),
    )


def policy_id_of(result: AttestationResult) -> str:
    """Name a policy in ``ear_appraisal_policy_ids``: name, version, and the digest that decides."""
    policy = result.policy
    return f"{policy.name[:200]}/{policy.version}#sha256:{policy.digest.hex()}"


def _appraisal(item: VerifiedItem, results: Sequence[AttestationResult], policy_ids: tuple[str, ...]) -> EarAppraisal:
    about = [
        (result, check)
        for result in results
        for check in result.checks
        if result.counts(check) and check.item in (None, item.name)
    ]
    found: dict[str, int] = {}
    for label, value in _values(item, about):
        found[label] = max(found.get(label, value), value, key=_gravity)
    vector = TrustVector.of({label: found[label] for label in VECTOR_LABELS if label in found}) if found else None
    tiers = [check.tier for _, check in about if check.outcome in (Outcome.FAIL, Outcome.WARNING)]
    return EarAppraisal(
        status=worst([Tier.NONE if vector is None else vector.tier, *tiers]),
        vector=vector,
        policy_ids=policy_ids,
        nonce=_evidence_nonce(item, results[0]),
    )


def _values(item: VerifiedItem, about: list[tuple[AttestationResult, Check]]) -> Iterator[tuple[str, int]]:
    """Yield claim and value for each check about a claim."""
    for result, check in about:
        for label, value in _of_check(item, result, check):
            affirming = tier_of_value(value) is Tier.AFFIRMING
            yield label, RELAXED if affirming and result.verified.simulated else value
    if isinstance(item.silicon, VerifiedIntelQuote):
        evaluation = item.silicon.evaluation
        if evaluation is None:
            yield "hardware", RELAXED
        elif evaluation.tcb_status is not TcbStatus.UP_TO_DATE:
            yield "hardware", _KNOWN_WEAKNESSES


def _of_check(item: VerifiedItem, result: AttestationResult, check: Check) -> Iterator[tuple[str, int]]:
    label = result.categories.get(check.id)
    if label is None:
        yield from _of_fixed_check(check)
        return
    if check.item is None and check.outcome is Outcome.PASS:
        return  # what holds of all devices together asserts nothing about one of them
    value = VALUES[label].of(check.outcome)
    if check.outcome is Outcome.FAIL and label == "hardware" and check.id.endswith(_OF_PRODUCTS):
        value = _UNKNOWN_HARDWARE
    if check.outcome is Outcome.PASS and label == "executables" and item.kind not in _CPU_KINDS:
        value = _APPROVED_AT_RUN_TIME  # of a device, all that runs is measured
    yield label, value
    if item.kind in _CPU_KINDS and label == "configuration" and check.id.endswith(".debug"):
        yield "runtime-opaque", VALUES["runtime-opaque"].of(check.outcome)


def _of_fixed_check(check: Check) -> Iterator[tuple[str, int]]:
    """Yield for checks that every policy has, and for those of verification, which hold or were left out."""
    if check.id in _WHOLE:
        label = _WHOLE[check.id]
    else:
        label = "executables" if any(part in check.id for part in _OF_EXECUTABLES) else "hardware"
    if check.outcome is Outcome.FAIL:
        yield label, _UNKNOWN_HARDWARE if label == "hardware" else VALUES[label].failed
    elif check.outcome is not Outcome.PASS:
        yield label, RELAXED
    elif check.id == "nvidia.measurements":
        yield label, _APPROVED_AT_RUN_TIME


def _gravity(value: int) -> tuple[int, int]:
    """Order values as AR4SI demands: by tier, standard before private; then by size."""
    tier = (Tier.NONE, Tier.AFFIRMING, Tier.WARNING, Tier.CONTRAINDICATED).index(tier_of_value(value))
    return 2 * tier + (value > 0), abs(value)


def _evidence_nonce(item: VerifiedItem, result: AttestationResult) -> tuple[bytes, ...]:
    """Return what the Evidence carries in place of a nonce: the binding's, or what the device's report has."""
    if item.kind in _CPU_KINDS and result.verified.binding is not None:
        return (result.verified.binding.nonce,)
    for claim in item.format.claims:
        if claim.name in ("report_data", "nonce", "tpm.extra_data"):
            value = claim.get(item.verified)
            if isinstance(value, bytes) and len(value) in NONCE_BYTES:
                return (value,)
    return ()


def _details(results: Sequence[AttestationResult]) -> EarDetails:
    verified = results[0].verified
    binding = verified.binding
    return EarDetails(
        simulated=any(result.verified.simulated for result in results),
        affirmed=all(result.affirmed for result in results),
        freshness=str(verified.freshness),
        evidence=verified.evidence.digest,
        policies=tuple(
            PolicyRef(
                name=r.policy.name,
                version=r.policy.version,
                digest=r.policy.digest,
                references=r.policy.reference_digest,
            )
            for r in results
        ),
        endorsements=relied_on(verified),
        binding=None
        if binding is None
        else BoundKey(
            context=binding.context, role=binding.role, audience=binding.audience, key=sha256(binding.key).digest()
        ),
        failed=_refs(results, Outcome.FAIL),
        not_evaluated=_refs(results, Outcome.NOT_EVALUATED),
        relaxed=tuple(
            dict.fromkeys(
                Relaxation(check=entry.check, reason=entry.reason) for result in results for entry in result.unchecked
            )
        ),
        tcb=tcb_states(verified),
        ignored_items=verified.ignored,
    )


def _refs(results: Sequence[AttestationResult], outcome: Outcome) -> tuple[CheckRef, ...]:
    checks = (
        check for result in results for check in result.checks if result.counts(check) and check.outcome is outcome
    )
    return tuple(dict.fromkeys(CheckRef(check=check.id, item=check.item) for check in checks))
