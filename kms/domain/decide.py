"""The release decision: a pure function of results, key states, the challenge and the moment.

It uses no store, no network, no clock and no wire format. All requested keys are released or none. Anything missing,
unknown or wrong is a reason against the release, and every reason is named.
"""

from __future__ import annotations

import enum
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import NoReturn, TypeAlias

from attest.appraisal import AttestationResult
from attest.checks import Check
from attest.evidence import AcceptedValue, GpuTolerances
from attest.release import KeyName
from attest.verification import Freshness
from kms.domain.devices import products_of
from kms.domain.passports import PassportResult
from kms.domain.wires import NATIVE_ONLY, Wire, wires_text

Result: TypeAlias = AttestationResult | PassportResult
"""The appraisal of verified evidence, or of another Verifier's result, under a key's policy."""


class ReleaseOutcome(enum.StrEnum):
    """The outcome of a decision."""

    ALLOW = "allow"
    DENY = "deny"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceState:
    """A document of reference values that is in force: its name, its author's number, SHA-256 of its content."""

    name: str
    version: int
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseObstacle:
    """Reason why a key is not released to any workload now.

    ``code`` is a stable name (``references-unusable``), ``text`` is a message.
    """

    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenBreakGlass:
    """A named relaxation (break-glass) in force for a key: its number, its text for the log, its end in UTC."""

    number: int
    relaxation: str
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorState:
    """A floor in force for a key: its scope, display name, version, digest (32 bytes), and reasons."""

    scope: str
    name: str
    version: int
    digest: bytes
    because: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyState:
    """The state of a key, as far as the decision depends on it.

    Attributes:
        asked: the key as the request names it.
        version: the version that would be released.
        policy_digest: SHA-256 of the policy that guards it, 32 bytes.
        enabled: False if its owner disabled it.
        reference_digest: SHA-256 over the reference values in force for its policy, 32 bytes; None while the
            policy cannot appraise, for which there is an obstacle.
        references: the documents that those values come from, besides the policy itself.
        obstacles: reasons against any release of the key at this moment.
        frozen_products: names of products (``kms.domain.devices``) whose evidence is refused at this moment.
        break_glass: the relaxations in force; the result, the log entry and the receipt name them.
        floors: the floors that apply in addition to its policy at this moment; no relaxation lifts one.
        via: the protocols through which it may be released.
    """

    asked: str
    name: KeyName
    version: int
    purpose: str
    policy_digest: bytes
    enabled: bool
    reference_digest: bytes | None
    references: tuple[ReferenceState, ...] = ()
    obstacles: tuple[ReleaseObstacle, ...] = ()
    frozen_products: frozenset[str] = frozenset()
    break_glass: tuple[OpenBreakGlass, ...] = ()
    floors: tuple[FloorState, ...] = ()
    via: frozenset[Wire] = NATIVE_ONLY


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseTerms:
    """Demands of the service on every release; none comes from the request.

    ``nonce`` is that of the challenge that was used, 32 bytes; ``purposes`` are those of keys that may be released
    here; ``via`` is the protocol of the request.
    """

    context: str
    role: str
    audience: str
    nonce: bytes
    purposes: frozenset[str]
    allow_simulated: bool
    via: Wire = Wire.NATIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class DenialReason:
    """One reason against a release.

    Attributes:
        code: stable name (``key-disabled``).
        key_id: the key as requested, or None for the request as a whole.
        checks: the failed checks, where a policy is not met.
    """

    code: str
    key_id: str | None
    text: str
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseDecision:
    """The outcome for a request, its recipient and every reason against. Compare ``outcome``; a condition raises.

    Attributes:
        keys: the requested keys that exist, in the order of the request.
        recipient: the workload's public key that the evidence commits to; None unless the outcome is ``ALLOW``.
        reasons: reasons against; empty when the outcome is ``ALLOW``.
    """

    keys: tuple[KeyState, ...]
    recipient: bytes | None
    reasons: tuple[DenialReason, ...]
    at: datetime

    @property
    def outcome(self) -> ReleaseOutcome:
        """``ALLOW`` if there is a recipient and no reason against."""
        return ReleaseOutcome.DENY if self.reasons or self.recipient is None else ReleaseOutcome.ALLOW

    def __bool__(self) -> NoReturn:
        """Refuse to be a condition."""
        raise TypeError("a ReleaseDecision is not a condition; compare .outcome")


def decide(
    *,
    requested: tuple[str, ...],
    keys: Mapping[str, KeyState],
    results: Mapping[str, Result],
    demand: ReleaseTerms,
    at: datetime,
    floors: Mapping[bytes, Result] = MappingProxyType({}),
    objections: tuple[DenialReason, ...] = (),
) -> ReleaseDecision:
    """Decide on the release of all requested keys together.

    Args:
        requested: the keys as the request names them: ``KEY``, ``TENANT/KEY``, or either with ``@VERSION``.
        keys: current state of the keys that exist, by their requested names.
        results: for each key the result of appraising the workload under that key's policy.
        demand: demands of the service.
        at: moment of the decision; every result must be of the same.
        floors: for each floor in force the result of appraising the workload by it, by the floor's digest.
        objections: further reasons against: leases that cannot be renewed, stops, budgets.

    Raises:
        ValueError: ``at`` has no time zone.
    """
    if at.tzinfo is None:
        raise ValueError("the moment of a decision needs a time zone")
    # (1) The request names at least one key, and none twice.
    reasons = _about_request(requested)
    # (2) Each key exists, may be released here, and its own policy affirms this workload now.
    for key_id in dict.fromkeys(requested):
        state = keys.get(key_id)
        if state is None:
            reasons.append(DenialReason(code="key-unknown", key_id=key_id, text=f"there is no key {key_id!r}"))
            continue
        reasons += _about_key(key_id, state, demand)
        reasons += _about_result(state, results.get(key_id), demand, at)
        below = (floor_objection(floor, floors.get(floor.digest), at=at) for floor in state.floors)
        reasons += [replace(reason, key_id=state.asked) for reason in below if reason is not None]
    # (3) All results are about the same evidence, and so about one recipient.
    recipients = {_recipient(results[key_id]) for key_id in requested if key_id in results}
    appraised = (*(results[key_id] for key_id in requested if key_id in results), *floors.values())
    if len({one.verified.evidence.digest for one in appraised}) > 1:
        reasons.append(
            DenialReason(code="results-differ", key_id=None, text="the results are about different evidence")
        )
    # (4) There is no other objection.
    reasons += objections
    return ReleaseDecision(
        keys=tuple(keys[key_id] for key_id in dict.fromkeys(requested) if key_id in keys),
        recipient=recipients.pop() if not reasons and len(recipients) == 1 else None,
        reasons=tuple(reasons),
        at=at,
    )


def _about_request(requested: tuple[str, ...]) -> list[DenialReason]:
    if not requested:
        return [DenialReason(code="nothing-requested", key_id=None, text="no key was requested")]
    if len(set(requested)) != len(requested):
        return [DenialReason(code="key-repeated", key_id=None, text="a key was requested twice")]
    return []


def _about_key(key_id: str, state: KeyState, demand: ReleaseTerms) -> list[DenialReason]:
    reasons: list[DenialReason] = []
    exact = f"{state.name}@{state.version}"
    if state.asked != key_id or key_id not in {str(state.name), exact}:
        reasons.append(DenialReason(code="key-mismatch", key_id=key_id, text=f"the state is that of {exact!r}"))
    if not state.enabled:
        reasons.append(DenialReason(code="key-disabled", key_id=key_id, text=f"the key {key_id!r} is disabled"))
    if state.purpose not in demand.purposes:
        text = f"a key for {state.purpose!r} is not released to a workload"
        reasons.append(DenialReason(code="purpose-mismatch", key_id=key_id, text=text))
    if demand.via not in state.via:
        text = f"the key {key_id!r} is released via {wires_text(state.via)}, not via {demand.via}"
        reasons.append(DenialReason(code="via-not-allowed", key_id=key_id, text=text))
    return reasons + [DenialReason(code=one.code, key_id=key_id, text=one.text) for one in state.obstacles]


def _about_result(state: KeyState, result: Result | None, demand: ReleaseTerms, at: datetime) -> list[DenialReason]:
    """List the reasons against a result; a missing one is itself a reason."""
    if result is None:
        return [
            DenialReason(code="not-appraised", key_id=state.asked, text="the workload was not appraised for this key")
        ]
    found = [(code, text) for holds, code, text in _demands_on(state, result, demand, at) if not holds]
    reasons = [DenialReason(code=code, key_id=state.asked, text=text) for code, text in found]
    frozen = _frozen(state, result) if state.frozen_products else []
    if frozen:
        text = f"no key is released on evidence of {', '.join(frozen)}: the product is frozen"
        reasons.append(DenialReason(code="product-frozen", key_id=state.asked, text=text))
    if not result.affirmed:
        failed = ", ".join(check.id for check in result.failed)
        text = f"the workload does not meet policy {result.policy.name!r} version {result.policy.version}: {failed}"
        reasons.append(DenialReason(code="policy-not-met", key_id=state.asked, text=text, checks=result.failed))
    return reasons


def floor_objection(floor: FloorState, result: Result | None, *, at: datetime) -> DenialReason | None:
    """Return the reason against a workload below a floor; one that was not appraised by it is below it."""
    checks = () if result is None else result.failed
    if result is not None and not checks and result.policy.digest == floor.digest and result.at == at:
        return None
    text = f"the workload is below the {floor.name}, version {floor.version} ({'; '.join(floor.because)})"
    failed = ", ".join(check.id for check in checks) or "not appraised"
    return DenialReason(code="below-floor", key_id=None, text=f"{text}: {failed}", checks=checks)


def _frozen(state: KeyState, result: Result) -> list[str]:
    """Name the frozen products in the evidence. A passport does not state products, so every frozen one counts."""
    products = products_of(result.verified) or state.frozen_products
    return sorted(state.frozen_products & products)


def _demands_on(
    state: KeyState, result: Result, demand: ReleaseTerms, at: datetime
) -> tuple[tuple[bool, str, str], ...]:
    """List the demands on every result that no policy can relax."""
    verified, policy = result.verified, result.policy
    allowed = {entry.check for entry in policy.unchecked}
    relaxed = sorted({entry.check for entry in verified.unchecked} - allowed)
    relaxed += _tolerated_beyond("GPU", verified.tolerances.gpus, policy.gpu_tolerances)
    relaxed += _tolerated_beyond("switch", verified.tolerances.switches, policy.switch_tolerances)
    relaxed += _named_beyond("level", verified.tolerances.spls, policy.accepted_spls)
    return (
        (
            hmac.compare_digest(policy.digest, state.policy_digest),
            "policy-mismatch",
            "the workload was appraised under a policy that is not the key's",
        ),
        (
            state.reference_digest is not None and hmac.compare_digest(policy.reference_digest, state.reference_digest),
            "references-mismatch",
            "the workload was appraised with reference values that are not those in force for the key",
        ),
        (policy.production, "policy-not-production", "the built-in policy cannot guard a key"),
        (result.at == at and verified.at == at, "result-not-current", "the result was made for a different time"),
        (not relaxed, "relaxed-beyond-policy", f"verification skipped checks that the policy requires: {relaxed}"),
        (verified.freshness is Freshness.MATCHED, "not-fresh", "the evidence does not answer a challenge"),
        (_is_bound(result, demand), "not-bound", "the evidence is not bound to this service, challenge and purpose"),
        (
            demand.allow_simulated or not verified.simulated,
            "simulated",
            "the evidence is simulated, and this service does not release keys on simulated evidence",
        ),
    )


def _tolerated_beyond(kind: str, given: GpuTolerances, allowed: GpuTolerances) -> list[str]:
    """Name the tolerances of verification for devices of this kind that the policy does not grant."""
    waived = {entry.index for entry in given.waived_measurements}
    extra = waived - {entry.index for entry in allowed.waived_measurements}
    held = given.held_rim_signers is not None and allowed.held_rim_signers is None
    return [
        *(f"{kind} measurement {index}" for index in sorted(extra)),
        *_named_beyond(f"{kind} value", given.accepted_opaque, allowed.accepted_opaque),
        *[f"{kind} RIM signers on hold"] * held,
    ]


def _named_beyond(what: str, given: tuple[AcceptedValue, ...], allowed: tuple[AcceptedValue, ...]) -> list[str]:
    """Name the values that verification accepted without a known meaning and the policy does not name."""
    return [f"{what} {value}" for value in sorted({one.value for one in given} - {one.value for one in allowed})]


def _is_bound(result: Result, demand: ReleaseTerms) -> bool:
    """Compare the binding again: a release does not rest on one comparison in another package."""
    binding = result.verified.binding
    return (
        binding is not None
        and (binding.context, binding.role, binding.audience) == (demand.context, demand.role, demand.audience)
        and hmac.compare_digest(binding.nonce, demand.nonce)
    )


def _recipient(result: Result) -> bytes | None:
    binding = result.verified.binding
    return None if binding is None else binding.key
