"""Deviations of NVIDIA devices that a Verifier Owner tolerates by name. The result shows each of them."""

from __future__ import annotations

from dataclasses import dataclass

from attest.checks import is_visible

MAX_MEASUREMENT_INDEX = 63
"""A GPU has 64 measurement blocks, counted from 0; a switch has 31 (specs/nvidia-gpu.md, section 2)."""


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
        held_rim_signers: the reason why a RIM signer on hold (reason certificateHold) counts all the same; None
            tolerates none. It never applies to device chains.

    Raises:
        ValueError: one index twice, or an empty reason.
    """

    waived_measurements: tuple[WaivedMeasurement, ...] = ()
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
    """Relaxations by kind: the indices of a switch mean other things than those of a GPU."""

    gpus: GpuTolerances = NO_TOLERANCES
    switches: GpuTolerances = NO_TOLERANCES


NO_DEVICE_TOLERANCES = DeviceTolerances()
