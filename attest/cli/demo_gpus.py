"""The third machine of the demonstration: a SEV-SNP guest with two GPUs, judged as one."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from attest.cli.demo_machines import SnpMachine
from attest.cli.simulated_nvidia import device_bundle
from attest.encoding import JsonValue
from attest.evidence.binding import Binding
from attest.evidence.envelope import MEDIA_BINDING, Evidence, EvidenceItem
from attest.simulator.nvidia import SimulatedBoard
from attest.simulator.nvidia.board import device_items

__all__ = ["GpuMachine"]

GPUS = 2
_DAYS = 1
_Items = tuple[EvidenceItem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMachine:
    """A guest with GPUs of its own.

    Attributes:
        cpu: the guest.
        board: its GPUs.
    """

    cpu: SnpMachine
    board: SimulatedBoard

    label = "SNP+GPU"

    @staticmethod
    def beside(cpu: SnpMachine) -> GpuMachine:
        """Give a guest its GPUs."""
        return GpuMachine(cpu=cpu, board=SimulatedBoard.of("demo", gpus=GPUS, switches=0))

    def bound(self, binding: Binding) -> Evidence:
        """Collect the GPUs' evidence under the challenge, then the CPU's, which commits to it."""
        return self._bound(binding, shown=lambda items: items)

    def without_one(self, binding: Binding) -> Evidence:
        """Show one GPU fewer than the CPU's report commits to."""
        return self._bound(binding, shown=lambda items: items[:-1])

    def with_one_twice(self, binding: Binding) -> Evidence:
        """Show one GPU under two names, and let the CPU's report commit to that."""
        return self._bound(binding, collected=lambda items: (items[0], replace(items[1], value=items[0].value)))

    def with_old_evidence(self, binding: Binding) -> Evidence:
        """Show what the GPUs said to an earlier challenge, and let the CPU's report commit to that."""
        earlier = replace(binding, nonce=secrets.token_bytes(32))
        return self._bound(binding, collected=lambda _: device_items(self.board.devices, earlier.gpu_nonce()))

    def _bound(
        self,
        binding: Binding,
        *,
        collected: Callable[[_Items], _Items] = lambda items: items,
        shown: Callable[[_Items], _Items] = lambda items: items,
    ) -> Evidence:
        items = collected(device_items(self.board.devices, binding.gpu_nonce()))
        committed = replace(binding, devices=tuple(item.digest for item in items))
        bound = EvidenceItem(name="binding", media_type=MEDIA_BINDING, value=committed.to_bytes())
        return Evidence(items=(*self.cpu.evidence(committed.report_data()).items, *shown(items), bound))

    def endorsement_file(self, at: datetime) -> bytes:
        """Return what NVIDIA says of the GPUs, as a bundle for a service."""
        return device_bundle(self.board, at=at, days=_DAYS)

    def policy(self, name: str) -> str:
        """Return a policy of its own, as JSON: the guest, its GPUs, and that they belong together."""
        section, demands, _ = self.cpu.policy()
        document: dict[str, JsonValue] = {
            "schema": "attest.policy/1",
            "name": name,
            "version": 1,
            "simulated": {"unchecked": "attest demo runs on simulated hardware"},
            "reference_values": {
                f"{section}-workload": {"values": [self.cpu.measurement.hex()], "origin": "attest demo"}
            },
            section: demands,
            "gpu": {
                "architectures": ["hopper"],
                "driver_versions": {"at_least": "570.86"},
                "vbios_versions": {"at_least": "96.00.5E.00.01", "below": "97"},
            },
            "devices": {"gpus": GPUS},
        }
        return json.dumps(document)
