"""Deviations that a Verifier Owner tolerates by name. The result shows each of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from attest.checks import is_visible
from attest.errors import AttestError

MAX_MEASUREMENT_INDEX = 63
"""A GPU has 64 measurement blocks, counted from 0; a switch has 31 (specs/nvidia-gpu.md, section 2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedValue:
    """One value without a known meaning, in a place that the vendor extends. It counts as accepted, not as understood.

    Attributes:
        value: its name: ``36:0300`` for these bytes of type 36 in the opaque data of a GPU's report, ``spl4:3`` for
            this level in the certificate of a report's key.

    Raises:
        ValueError: no reason.
    """

    value: str
    reason: str

    def __post_init__(self) -> None:
        if not is_visible(self.reason):
            raise ValueError("accepting a value that is not understood needs a reason")

    def __str__(self) -> str:
        return f"{self.value} ({self.reason})"


class UnknownValue(NamedTuple):
    """A value without a known meaning in evidence, and the refusal for a policy that does not name it."""

    name: str
    refusal: AttestError


def require_named(unknown: Iterable[UnknownValue], named: tuple[AcceptedValue, ...]) -> tuple[AcceptedValue, ...]:
    """Require every unknown value to be named exactly, and return what was named.

    Raises:
        AttestError: the refusal of the first value that is not named.
    """
    by_name = {accepted.value: accepted for accepted in named}
    found: list[AcceptedValue] = []
    for value in unknown:
        if value.name not in by_name:
            raise value.refusal
        found.append(by_name[value.name])
    return tuple(found)


def value_names(accepted: tuple[AcceptedValue, ...]) -> tuple[str, ...] | None:
    """Return the names of accepted values as a claim; None without any."""
    return tuple(one.value for one in accepted) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaivedMeasurement:
    """One index whose mismatch is shown and does not refuse; it never counts as matched.

    Attributes:
        index: RIM index, 0 to 63.

    Raises:
        ValueError: another index, or no reason.
    """

    index: int
    reason: str

    def __post_init__(self) -> None:
        if not 0 <= self.index <= MAX_MEASUREMENT_INDEX:
            raise ValueError(f"a measurement index is 0 to {MAX_MEASUREMENT_INDEX}, not {self.index}")
        if not is_visible(self.reason):
            raise ValueError("a waived measurement needs a reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTolerances:
    """Relaxations of the verification of a GPU or switch.

    Attributes:
        accepted_opaque: values of opaque data that are not understood.
        held_rim_signers: the reason why a RIM signer on hold (reason certificateHold) counts all the same; None
            tolerates none. It never applies to device chains.

    Raises:
        ValueError: one index twice, or an empty reason.
    """

    waived_measurements: tuple[WaivedMeasurement, ...] = ()
    accepted_opaque: tuple[AcceptedValue, ...] = ()
    held_rim_signers: str | None = None

    def __post_init__(self) -> None:
        indices = [waived.index for waived in self.waived_measurements]
        if len(set(indices)) != len(indices):
            raise ValueError("one measurement index is waived twice")
        if self.held_rim_signers is not None and not is_visible(self.held_rim_signers):
            raise ValueError("tolerating RIM signers on hold needs a reason")


NO_TOLERANCES = GpuTolerances()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTolerances:
    """Relaxations by kind: the indices of a switch mean other things than those of a GPU.

    Attributes:
        spls: levels that are not understood, in the certificate of a SEV-SNP report's key.
    """

    gpus: GpuTolerances = NO_TOLERANCES
    switches: GpuTolerances = NO_TOLERANCES
    spls: tuple[AcceptedValue, ...] = ()


NO_DEVICE_TOLERANCES = DeviceTolerances()
