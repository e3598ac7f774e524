"""Demands of a policy on the GPUs and NVSwitches of one Attester together: the key ``devices``, and its rules.

Rules over single devices cannot refuse a missing device. So a policy with demands on GPUs demands at least one GPU, and
that the CPU's signed report commits to all of them: without that, a GPU may be in another machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from attest.encoding import JsonValue
from attest.evidence.gpu.device_set import device_set_claim
from attest.policy.decoder import ON, STRICT_ON, Decoder, Demand, Section, demand, integer, refuse
from attest.policy.rules import Rule, RuleMaker, Test, is_, one_of

_DEVICES = RuleMaker("devices", device_set_claim)
MAX_DEVICES = 64
"""More than any machine has; an evidence of more items is refused before this counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """A number of devices; both bounds are included. None: no upper bound."""

    at_least: int
    at_most: int | None

    def __str__(self) -> str:
        if self.at_least == self.at_most:
            return f"exactly {self.at_least}"
        return f"at least {self.at_least}" + ("" if self.at_most is None else f" and at most {self.at_most}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSetDemands:
    """Demands on all devices together; None: no demand. See docs/policy.md for each key."""

    gpus: Demand[Count] | None
    switches: Demand[Count] | None
    same_architecture: Demand[bool] = field(default=ON, metadata=STRICT_ON)
    same_driver_version: Demand[bool] = field(default=ON, metadata=STRICT_ON)
    bound: Demand[bool] = field(default=ON, metadata=STRICT_ON)


# -- reading


def decode_devices(value: JsonValue, path: str, *, gpus: bool, switches: bool) -> DeviceSetDemands:
    """Read the key ``devices``; omitted demands have their strict defaults.

    ``value`` is an empty mapping for a policy without the key. ``gpus`` and ``switches`` say that the policy has
    demands on such devices, which may be counted only then.
    """
    if not gpus and not switches:
        raise refuse(path, "gpu or nvswitch beside it", "neither")
    section = Section(value, path)
    demands = section.record(
        DeviceSetDemands,
        gpus=_count(section, "gpus", "gpu", demanded=gpus),
        switches=_count(section, "switches", "nvswitch", demanded=switches),
    )
    section.finish()
    return demands


def _count(section: Section, name: str, kind: str, *, demanded: bool) -> Demand[Count] | None:
    """Read how many there must be: one at least, unless something else is stated."""
    if not demanded:
        return section.stated(name, _needs(kind))
    return section.optional(name, demand(_number), default=Demand(Count(at_least=1, at_most=None)))


def _needs(kind: str) -> Decoder[None]:
    def decode(value: JsonValue, path: str) -> None:
        raise refuse(path, f"the key {kind} beside it, without which such a device is refused", value)

    return decode


def _number(value: JsonValue, path: str) -> Count:
    number = integer(0, MAX_DEVICES)
    if not isinstance(value, dict):
        exactly = number(value, path)
        return Count(at_least=exactly, at_most=exactly)
    section = Section(value, path)
    low = section.required("at_least", number)
    high = section.stated("at_most", number)
    section.finish()
    if high is not None and high < low:
        raise refuse(f"{path}.at_most", f"at least {low}", high)
    return Count(at_least=low, at_most=high)


# -- rules


def device_set_rules(devices: DeviceSetDemands, *, cpu_kinds: Iterable[str], gpus: bool) -> tuple[Rule, ...]:
    """Return the rules over all devices of an Attester.

    If the policy has demands on kinds of CPU, evidence of one of them is required: otherwise these demands would be
    met by leaving it out.
    """
    return tuple(_rules(devices, tuple(cpu_kinds), gpus=gpus))


def cpu_rule(kinds: Iterable[str]) -> tuple[Rule, ...]:
    """Return the rule that requires evidence of a CPU of one of these kinds. Nothing relaxes it."""
    return tuple(_DEVICES.rule("cpu", Demand(tuple(kinds)), one_of, category="instance-identity", claim="cpu_kind"))


def _rules(devices: DeviceSetDemands, cpu_kinds: tuple[str, ...], *, gpus: bool) -> Iterator[Rule]:
    if cpu_kinds:
        yield from cpu_rule(cpu_kinds)
    for name, count in (("gpus", devices.gpus), ("switches", devices.switches)):
        yield from _DEVICES.rule(name, count, _within, category="hardware", expected=str)
    yield from _DEVICES.rule("bound", devices.bound, is_, category="instance-identity")
    if gpus:
        for name, claim, same in (
            ("same_architecture", "architectures", devices.same_architecture),
            ("same_driver_version", "driver_versions", devices.same_driver_version),
        ):
            yield from _DEVICES.rule(
                name, same, _all_one, category="hardware", claim=claim, expected=lambda _: "one for all GPUs"
            )


def _within(count: Count) -> Test:
    """Test that a number is within both bounds."""
    return lambda value, _at: value >= count.at_least and (count.at_most is None or value <= count.at_most)


def _all_one(_wanted: bool) -> Test:  # noqa: FBT001  the demand, which is always true
    """Test that nothing differs. Of no GPU nothing does: how many there must be is another demand."""

    def holds(values: tuple[str, ...], _at: datetime) -> bool:
        return len(values) <= 1

    return holds
