"""A simulated HGX board: eight GPUs and four NVSwitches with mutual references.

Spec: specs/nvidia-gpu.md, sections 13 and 14.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal

from attest.endorsements.pool import Endorsements
from attest.evidence.binding import Binding
from attest.evidence.envelope import MEDIA_BINDING, MEDIA_NVIDIA_DEVICE, Evidence, EvidenceItem
from attest_simulator.nvidia.device import (
    DRIVER,
    GPU_LINKS,
    Mode,
    SimulatedDevice,
    SimulatedGpu,
    SimulatedNvSwitch,
    device_endorsements,
)
from attest_simulator.nvidia.ocsp import SimulatedOcsp

GPUS: Final = 8
SWITCHES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedBoard:
    """GPUs and switches of one machine. Make one with ``SimulatedBoard.of``.

    Attributes:
        gpus: by number.
        switches: by number.
    """

    gpus: tuple[SimulatedGpu, ...]
    switches: tuple[SimulatedNvSwitch, ...]

    @staticmethod
    def of(
        label: str = "board 0",
        *,
        architecture: Literal["hopper", "blackwell"] = "hopper",
        driver: str = DRIVER,
        gpus: int = GPUS,
        switches: int = SWITCHES,
        mode: Mode | None = None,
    ) -> SimulatedBoard:
        """Return an ordinary board.

        A board behind protected PCIe is always fully wired: the included devices still name
        omitted ones.

        Args:
            label: determines the board.
            architecture: of the GPUs.
            driver: version.
            gpus: number of GPUs; behind protected PCIe at most eight.
            switches: number of switches, at most four; 0 leaves the GPUs unconnected.
            mode: None is protected PCIe with switches, single pass-through for one GPU, multiple for several.

        Raises:
            ValueError: no device, or more than a board has.
        """
        chosen = mode or _usual_mode(gpus, switches)
        wired = chosen == "ppcie"
        if gpus + switches < 1 or (wired and gpus > GPUS) or switches > SWITCHES:
            raise ValueError(
                f"{gpus} GPUs, {switches} switches: expected a device, at most {GPUS} GPUs behind {SWITCHES} switches"
            )
        all_gpus = tuple(
            SimulatedGpu.of(f"{label}, GPU {number}", architecture=architecture, driver=driver, mode=chosen)
            for number in range(GPUS if wired else gpus)
        )
        all_switches = tuple(
            SimulatedNvSwitch.of(f"{label}, switch {number}", position=number)
            for number in range(SWITCHES if wired else switches)
        )
        whole = _connected(all_gpus, all_switches) if wired else SimulatedBoard(gpus=all_gpus, switches=all_switches)
        return SimulatedBoard(gpus=whole.gpus[:gpus], switches=whole.switches[:switches])

    @property
    def devices(self) -> tuple[tuple[str, SimulatedDevice], ...]:
        """Every device by the name of its evidence item: ``gpu0``, ``nvswitch0`` and so on."""
        gpus = ((f"gpu{number}", gpu) for number, gpu in enumerate(self.gpus))
        switches = ((f"nvswitch{number}", switch) for number, switch in enumerate(self.switches))
        return (*gpus, *switches)

    def items(self, nonce: bytes) -> tuple[EvidenceItem, ...]:
        """Return the evidence of all devices under one nonce, one item each.

        Args:
            nonce: 32 bytes.
        """
        return device_items(self.devices, nonce)

    def evidence_json(self, nonce: bytes, *, settings: bool = False) -> bytes:
        """Return the evidence of all devices as one file of NVIDIA's SDK: an array of objects.

        Args:
            nonce: 32 bytes.
            settings: include UUIDs and NVML's data, as ``attest collect gpu`` does.
        """
        if settings:
            return b"[%s]" % b",".join(device.device_item(nonce) for _, device in self.devices)
        return json.dumps([device.json_object(nonce) for _, device in self.devices]).encode("utf-8")

    def endorsements(self, *, at: datetime, ocsp: SimulatedOcsp | None = None) -> Endorsements:
        """Return all endorsements of the devices at a moment; see ``SimulatedDevice.endorsements``."""
        return device_endorsements(tuple(device for _, device in self.devices), at=at, ocsp=ocsp)


def device_items(devices: tuple[tuple[str, SimulatedDevice], ...], nonce: bytes) -> tuple[EvidenceItem, ...]:
    """Return the evidence of devices under one nonce, one item of ``MEDIA_NVIDIA_DEVICE`` each."""
    return tuple(
        EvidenceItem(name=name, media_type=MEDIA_NVIDIA_DEVICE, value=device.device_item(nonce))
        for name, device in devices
    )


def bound_evidence(
    binding: Binding,
    devices: tuple[tuple[str, SimulatedDevice], ...],
    cpu: Callable[[bytes], tuple[EvidenceItem, ...]],
) -> Evidence:
    """Return evidence of a whole machine: the devices under the binding's nonce, then the CPU, which commits to them.

    Args:
        binding: the Relying Party's; its list of devices is replaced.
        devices: by the names of their items.
        cpu: returns the CPU's items for 64 bytes of REPORT_DATA.
    """
    items = device_items(devices, binding.gpu_nonce())
    in_order = sorted(items, key=lambda item: item.name)
    committed = replace(binding, devices=tuple(item.digest for item in in_order))
    bound = EvidenceItem(name="binding", media_type=MEDIA_BINDING, value=committed.to_bytes())
    return Evidence(items=(*cpu(committed.report_data()), *items, bound))


def _usual_mode(gpus: int, switches: int) -> Mode:
    if switches:
        return "ppcie"
    return "spt" if gpus == 1 else "mpt"


def _connected(gpus: tuple[SimulatedGpu, ...], switches: tuple[SimulatedNvSwitch, ...]) -> SimulatedBoard:
    """Return the devices with a switch at each link of the GPUs, and the GPUs at the switches' ports."""
    wiring = tuple(
        tuple((number + link) % len(switches) for link in range(GPU_LINKS)) for number in range(len(gpus))
    )  # With four switches 4, 4, 5 and 5 links; the switch with five varies by GPU, as on real boards.
    linked = tuple(
        gpu.linked_to(tuple(switches[switch].pdi for switch in row)) for gpu, row in zip(gpus, wiring, strict=True)
    )
    pdis = tuple(gpu.pdi for gpu in gpus)
    connected = tuple(
        replace(switch, gpus=pdis, ports=_ports(number, wiring)) for number, switch in enumerate(switches)
    )
    return SimulatedBoard(gpus=linked, switches=connected)


def _ports(switch: int, wiring: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """Return the GPU at each port of a switch, one port for each link."""
    return tuple(gpu for gpu, row in enumerate(wiring) for end in row if end == switch)
