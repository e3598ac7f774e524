"""A policy over what another Verifier found: the passport model of RFC 9334.

The services of Azure, Intel, Google and NVIDIA state claims, which are put to the same rules as verified evidence. An
EAR carries a result and no claims, so it counts when its Verifier applied this very policy, or one that this policy
names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from attest.appraisal import Judgement, freshness_check, judge_items, reasons_of, simulation_check
from attest.checks import Check, Tier, Unchecked, judged
from attest.encoding import base64url_text
from attest.evidence.claims import StatedClaims, StatedItem
from attest.evidence.gpu.device_set import stated_devices
from attest.policy.loader import Policy
from attest.policy.verifiers import verifier_checks
from attest.results.ear_details import EarDetails, PolicyRef
from attest.results.ear_verify import VerifiedEar, appraise_ear
from attest.results.nvidia_token_claims import MEASUREMENTS_DIFFER, members
from attest.results.token_facts import TokenFacts
from attest.verification import Freshness

_SPOKEN_OF = frozenset(
    {"policy.token.debug", "policy.token.tcb_status", "policy.token.measres", "policy.token.not_simulated"}
)
"""Checks of the baseline for which policies have demands of their own, strict ones where they are left out."""
_REVOKED = frozenset({"Revoked"})
_CLAUSE = "RFC 9334, 5.1; docs/policy.md"


def judge_facts(
    facts: tuple[TokenFacts, ...],
    *,
    freshness: Freshness,
    policy: Policy,
    at: datetime,
    baseline: tuple[Check, ...],
    unchecked: tuple[Unchecked, ...] = (),
) -> Judgement:
    """Judge what a genuine token states about an Attester.

    The policy has to name the token's issuer among its ``verifiers``. The Verifier's own results in ``baseline``, the
    checks of the token's baseline, count here too: a policy that accepts its claims accepts its refusals.
    """
    whole = tuple(dict.fromkeys((*unchecked, *policy.unchecked)))
    reasons = reasons_of(whole)
    frame = facts[0].frame
    items = [StatedItem(name=one.name, kind=one.kind, verified=StatedClaims(values=one.claims)) for one in facts]
    checks, set_aside = judge_items(
        items,
        devices=lambda: stated_devices(items, bound=False),  # no token says that a CPU's report commits to them
        policy=policy,
        at=at,
        reasons=reasons,
    )
    return Judgement(
        policy=policy,
        at=at,
        policy_checks=(
            freshness_check(freshness, reasons.get("freshness")),
            *_simulation(facts, policy),
            *verifier_checks(
                policy.verifiers,
                issuer=frame.issuer,
                issued=frame.issued,
                policy_ids=_policies_of(facts),
                at=at,
                statements=[one.statements for one in facts],
            ),
            *(check for check in baseline if check.id not in _SPOKEN_OF),
            *_negative(facts),
            *_each_once(facts),
            *checks,
        ),
        categories=policy.categories,
        unchecked=whole,
        set_aside=set_aside,
    )


def _simulation(facts: Iterable[TokenFacts], policy: Policy) -> Iterator[Check]:
    """Judge simulated evidence where the Verifier states that it is or is not; the services themselves do not."""
    stated = [one.simulated for one in facts if one.simulated is not None]
    if stated:
        yield simulation_check(simulated=any(stated), tolerated=policy.simulated)


def _negative(facts: Iterable[TokenFacts]) -> Iterator[Check]:
    """Refuse negative statements of the Verifier that no policy can allow in evidence either."""
    for one in facts:
        words = members(one.claims.get("nvidia"))
        for check_id, word, refused in (
            ("policy.token.not_revoked", one.claims.get("tcb_status"), _REVOKED),
            ("policy.token.no_mismatch", words.get("measres"), MEASUREMENTS_DIFFER),
        ):
            if isinstance(word, str) and word in refused:
                expected = f"anything but {' or '.join(sorted(refused))}"
                yield judged(check_id, holds=False, expected=expected, got=word, clause=_CLAUSE, item=one.name)


def _each_once(facts: Iterable[TokenFacts]) -> Iterator[Check]:
    """Require several devices to be different ones: one report sent eight times is no board of eight."""
    devices = [one.claims.get("ueid") for one in facts if one.kind.startswith("nvidia")]
    if len(devices) > 1:
        stated = [ueid for ueid in devices if isinstance(ueid, str)]
        different = len(set(stated))
        yield judged(
            "policy.token.devices",
            holds=different == len(devices),
            expected=f"{len(devices)} different devices, by their ueid",
            got=f"{different} different, {len(devices) - len(stated)} without one",
            clause="RFC 9711, 4.2.1; docs/tokens.md",
        )


def _policies_of(facts: Iterable[TokenFacts]) -> tuple[str, ...]:
    """Return what the services call the policies that they applied: MAA's hash, and the ids that matched of ITA."""
    found: list[str] = []
    for one in facts:
        digest, matched = one.statements.get("policy_hash"), one.statements.get("policies_matched")
        if isinstance(digest, bytes):
            found.append(base64url_text(digest))
        if isinstance(matched, tuple):
            found += [str(entry["id"]) for entry in matched if isinstance(entry, dict)]
    return tuple(dict.fromkeys(found))


def judge_ear(
    token: VerifiedEar,
    *,
    policy: Policy,
    at: datetime,
    unchecked: tuple[Unchecked, ...] = (),
    freshness: Freshness | None = None,
) -> Judgement:
    """Judge a genuine EAR: its Verifier applied this very policy, or one that this policy names, and affirms.

    The policy has to name the EAR's issuer among its ``verifiers``. Without ``freshness`` that of the EAR's nonce
    counts; a caller whose own challenge was signed by the key that the EAR names passes ``MATCHED``.
    """
    whole = tuple(dict.fromkeys((*unchecked, *policy.unchecked)))
    named, issued = _named_by_all(token), datetime.fromtimestamp(token.ear.issued_at, tz=UTC)
    verifier = verifier_checks(policy.verifiers, issuer=token.issuer, issued=issued, policy_ids=named, at=at)
    details = token.ear.details
    applied = () if details is None else tuple(one for one in details.policies if one.digest == policy.digest)
    if details is not None and applied:
        # A Verifier that applied this very policy need not have applied another one.
        outcome = (
            *(check for check in verifier if check.id != "policy.verifier.policy_ids"),
            _by_our_references(applied, policy),
            *_as_by_ourselves(token, details, policy),
        )
    else:
        affirming = (check for check in appraise_ear(token) if check.id != "policy.token.not_simulated")
        outcome = (*verifier, _names_another(policy, token.issuer, named), *affirming)
    simulated = token.simulated
    return Judgement(
        policy=policy,
        at=at,
        policy_checks=(
            freshness_check(freshness or token.freshness, reasons_of(whole).get("freshness")),
            *(() if simulated is None else (simulation_check(simulated=simulated, tolerated=policy.simulated),)),
            *outcome,
        ),
        categories=policy.categories,
        unchecked=whole,
    )


def _by_our_references(applied: Iterable[PolicyRef], policy: Policy) -> Check:
    """Require that the policy judged by the reference values that count here.

    Its digest does not cover those of documents that it names by their signers: another Verifier may still have the
    document with a value that a newer one withdraws.
    """
    found = [one.references for one in applied]
    return _check(
        "policy.verifier.references",
        f"the reference values that apply here, digest {policy.reference_digest.hex()}",
        ", ".join("not stated" if one is None else one.hex() for one in dict.fromkeys(found)),
        holds=all(one == policy.reference_digest for one in found),
    )


def _as_by_ourselves(token: VerifiedEar, details: EarDetails, policy: Policy) -> Iterator[Check]:
    """Judge the result of a Verifier that applied this policy: the policy's own relaxations apply here too.

    Such a relaxation makes the EAR's status a warning. A relaxation by the Verifier's operator beyond the policy counts
    against the EAR: it was not decided here.
    """
    yield _check("policy.verifier.applied", f"this policy, digest {policy.digest.hex()}", "this policy", holds=True)
    stated = "affirmed" if details.affirmed else f"failed {', '.join(one.check for one in details.failed) or 'a check'}"
    yield _check("policy.verifier.affirmed", "affirmed", stated, holds=details.affirmed)
    own = {(entry.check, entry.reason) for entry in policy.unchecked}
    beyond = [entry for entry in details.relaxed if (entry.check, entry.reason) not in own]
    shown = "; ".join(f"{entry.check}: {entry.reason}" for entry in beyond) or "nothing else"
    yield _check("policy.verifier.relaxed", "nothing but what this policy relaxes", shown, holds=not beyond)
    sound = token.status in (Tier.AFFIRMING, Tier.WARNING)
    yield _check("policy.token.status", "affirming, or warning of what is relaxed", str(token.status), holds=sound)


def _named_by_all(token: VerifiedEar) -> tuple[str, ...]:
    """Return the policies that every submodule was judged by: one for the CPU alone does not count for a GPU."""
    first, *others = (one.policy_ids for one in token.ear.submods.values())
    return tuple(name for name in first if all(name in ids for ids in others))


def _names_another(policy: Policy, issuer: str, named: tuple[str, ...]) -> Check:
    """Require that the policy names another one that its Verifier may apply; ``policy_ids`` has a check of its own."""
    stated = any(one.issuer == issuer and one.policy_ids is not None for one in policy.verifiers)
    return _check(
        "policy.verifier.applied",
        f"this policy, digest {policy.digest.hex()}, or one of its policy_ids",
        ", ".join(named)[:200] or "no policy that was applied to every submodule",
        holds=stated,
    )


def _check(check_id: str, expected: str, got: str, *, holds: bool) -> Check:
    return judged(check_id, holds=holds, expected=expected, got=got, clause=_CLAUSE)
