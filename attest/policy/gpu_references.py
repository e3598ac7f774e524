"""Rules that compare the measurements of NVIDIA devices with the reference values that NVIDIA signed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from attest.evidence.claims import Claim, ClaimType, ClaimValue, Origin, StatedClaims
from attest.evidence.gpu.measurements import NVDEC_WAIVER
from attest.evidence.gpu.verify import VerifiedGpu
from attest.policy.accepted_values import accepted_opaque, accepted_rules
from attest.policy.decoder import OFF, STRICT_OFF, Demand, RelaxedDemand, demand, hex_list, hex_of, key, list_of
from attest.policy.rules import Rule, RuleMaker, Test, is_, one_of
from attest.policy.versions import Numbering, VersionRange, ranges_of

_EQUAL = "every measurement equal to a reference value that NVIDIA signed"
GPU_RIMS: tuple[str, ...] = ("driver_rim", "vbios_rim")
SWITCH_RIMS: tuple[str, ...] = ("vbios_rim",)


IDENTITY_BYTES = 9
"""Type byte and PDI."""
FWID_BYTES = 48
_IDENTITIES = list_of(hex_of(IDENTITY_BYTES))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceDemands:
    """Demands on each NVIDIA device; None: no demand. See docs/policy.md for each key."""

    vbios_versions: Demand[tuple[VersionRange, ...]] = field(metadata=key(demand(ranges_of(Numbering.HEX))))
    rim: Demand[bool]
    fwids: Demand[tuple[bytes, ...]] | None = field(default=None, metadata=key(hex_list(FWID_BYTES)))
    device_identities: Demand[tuple[bytes, ...]] | None = field(default=None, metadata=key(demand(_IDENTITIES)))
    denied_device_identities: tuple[bytes, ...] = field(default=(), metadata=key(_IDENTITIES))
    waived_measurements: Mapping[str, str]
    accepted_opaque: Mapping[str, str] = field(default_factory=dict[str, str], metadata=key(accepted_opaque))
    held_rim_signers: Demand[bool] = field(default=OFF, metadata=STRICT_OFF)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tolerated:
    """The deviations that one section of a policy tolerates: measurements by index, and signers of RIMs on hold.

    The evidence may have been verified under another policy, or as the other kind of device, that tolerates more.
    """

    indices: frozenset[int] = frozenset()
    held: bool = False


def measurement_rules(make: RuleMaker, demands: DeviceDemands, rims: tuple[str, ...]) -> Iterator[Rule]:
    """Make the rules for the firmware of a device: equal to what NVIDIA published, and each deviation tolerated."""
    held = demands.held_rim_signers
    tolerated = _Tolerated(
        indices=frozenset(map(int, demands.waived_measurements)), held=isinstance(held.value, RelaxedDemand)
    )
    yield from comparison_rule(make, demands.rim, rims, tolerated)
    yield from make.rule("fwids", demands.fwids, one_of, category="executables", claim="fwid")
    for index, reason in demands.waived_measurements.items():
        waived: Demand[bool] = Demand(RelaxedDemand(reason=reason))
        claim = _waived(make.claim_of, int(index))
        yield from make.rule(f"waived_measurements.{index}", waived, is_, category="executables", claim=claim)
    yield from accepted_rules(make, "accepted_opaque", demands.accepted_opaque)
    if tolerated.held:
        claim = _revocation(make.claim_of, rims)
        yield from make.rule("held_rim_signers", held, is_, category="executables", claim=claim)


def comparison_rule(
    make: RuleMaker, wanted: Demand[bool], rims: tuple[str, ...], tolerated: _Tolerated = _Tolerated()
) -> Iterator[Rule]:
    """Make the rule that every measurement equals a reference value, except for those that the policy tolerates."""
    but = ", ".join(map(str, sorted(tolerated.indices)))
    return make.rule(
        "rim",
        wanted,
        lambda _: _equals_references(tolerated),
        category="executables",
        claim=_comparison(make.claim_of, rims),
        expected=lambda _: f"{_EQUAL}, but for {but}" if but else _EQUAL,
    )


def _comparison(claim: Callable[[str], Claim], rims: tuple[str, ...]) -> Claim:
    """Return the claim that sums up the comparison, with the missing RIMs: one of two covers half of the firmware."""
    versions = {name: claim(f"{name}.version") for name in rims}
    revocations = {name: claim(f"{name}.revocation") for name in rims}

    def get(v: VerifiedGpu) -> ClaimValue:
        found = v.measurements
        if found is None:
            return None
        return {
            "compared": found.compared,
            "matched": found.matched,
            "mismatches": len(found.mismatches),
            "waived": tuple(result.index for result in found.waived if result.waived != NVDEC_WAIVER),
            "waived_by_nvidia": tuple(result.index for result in found.waived if result.waived == NVDEC_WAIVER),
            "missing": tuple(name for name, version in versions.items() if version.get(v) is None),
            # Answers only; a revocation that was not judged shows as ``revocation`` among the unchecked.
            "held": tuple(name for name, answer in revocations.items() if answer.get(v) not in {None, "good"}),
        }

    def stated(subject: StatedClaims) -> ClaimValue:
        mismatches = subject.values.get("measurements.mismatches")
        if not isinstance(mismatches, tuple):
            return None
        answers = {name: answer.read(subject) for name, answer in revocations.items()}
        return {
            "matched": "not counted",
            "mismatches": len(mismatches),
            "waived": (),
            # No caller left revocation unjudged here: a RIM without an answer about its signers counts as missing.
            "missing": tuple(name for name in rims if None in (subject.values.get(f"{name}.expires"), answers[name])),
            "held": tuple(name for name, answer in answers.items() if answer not in {None, "good"}),
        }

    clause, origin = claim("measurements.compared").clause, Origin.HARDWARE
    return Claim(name="measurements", type=ClaimType.OBJECT, origin=origin, clause=clause, get=get, stated=stated)


def _equals_references(tolerated: _Tolerated) -> Test:
    """Test a summary: measurements were compared, with every RIM, and every difference is tolerated here."""

    def holds(found: Mapping[str, Any], _at: datetime) -> bool:  # Any: numbers, indices, names of RIMs
        whole = found["matched"] != 0 and not found["missing"] and not found["mismatches"]
        return whole and tolerated.indices.issuperset(found["waived"]) and (tolerated.held or not found["held"])

    return holds


def _waived(claim: Callable[[str], Claim], index: int) -> Claim:
    """Return the claim for the outcome of a waived measurement."""
    compared = claim("measurements.compared")

    def get(v: VerifiedGpu) -> ClaimValue:
        results = () if v.measurements is None else v.measurements.results
        return next(("matched" if r.matched else "differs" for r in results if r.index == index), None)

    return replace(compared, name=f"measurements.{index}", type=ClaimType.TEXT, get=get)


def _revocation(claim: Callable[[str], Claim], rims: tuple[str, ...]) -> Claim:
    """Return the claim for the revocation answers about the signers of RIMs."""
    claims = {name: claim(f"{name}.revocation") for name in rims}

    def get(v: VerifiedGpu) -> ClaimValue:
        found = {name: one.get(v) for name, one in claims.items()}
        return {name: value for name, value in found.items() if value is not None} or None

    origin, clause = Origin.CERTIFICATE, "NVIDIA nvtrust, RIM certificates"
    return Claim(name="rim_signers", type=ClaimType.OBJECT, origin=origin, clause=clause, get=get)
