"""A software NVIDIA: byte-exact GPU and NVSwitch evidence under roots of its own, which prove nothing.

Everything is deterministic: the same device, firmware and nonce always give the same bytes. All private
keys are public by design (``keys.py``); the verifier accepts them under ``TrustAnchors.simulation()`` alone::

    gpu = SimulatedGpu.of("gpu 0", architecture="hopper", driver="580.95.05")
    evidence = gpu.device_item(nonce)                         # JSON: report and certificate chain
    endorsements = gpu.endorsements(at=at)                    # RIMs, and OCSP answers that are current at `at`
    board = SimulatedBoard.of("board 0")                      # 8 GPUs and 4 switches behind protected PCIe
    items = board.items(nonce)                                # an item of evidence for each
    evidence = bound_evidence(binding, board.devices, cpu)    # with a CPU that commits to them
    service = SimulatedNvidiaService.of(at)                   # RIM service and OCSP responder
    held = SimulatedOcsp.of(at, revoked={serial: Reason.HOLD})
    template = gpu.report_template(nonce)                     # for invalid reports:
    forged = dataclasses.replace(template, measurements=(bytes(48),) * 64).issue()
"""

from __future__ import annotations

from attest_simulator.nvidia.authorities import DEVICE_ROOT, RIM_ROOT
from attest_simulator.nvidia.board import SimulatedBoard, bound_evidence, device_items
from attest_simulator.nvidia.certificates import SIMULATED_NVIDIA, NvidiaCertificateTemplate
from attest_simulator.nvidia.device import (
    Mode,
    SimulatedDevice,
    SimulatedGpu,
    SimulatedNvSwitch,
    device_endorsements,
)
from attest_simulator.nvidia.device_chain import DeviceKeys
from attest_simulator.nvidia.ocsp import OcspTemplate, Reason, SimulatedOcsp
from attest_simulator.nvidia.products import PRODUCTS, Architecture, Product
from attest_simulator.nvidia.responder import ReportTemplate
from attest_simulator.nvidia.rims import RimTemplate, driver_rim, firmware_rim
from attest_simulator.nvidia.service import NvidiaAnswer, SimulatedNvidiaService

__all__ = [
    "DEVICE_ROOT",
    "PRODUCTS",
    "RIM_ROOT",
    "SIMULATED_NVIDIA",
    "Architecture",
    "DeviceKeys",
    "Mode",
    "NvidiaAnswer",
    "NvidiaCertificateTemplate",
    "OcspTemplate",
    "Product",
    "Reason",
    "ReportTemplate",
    "RimTemplate",
    "SimulatedBoard",
    "SimulatedDevice",
    "SimulatedGpu",
    "SimulatedNvSwitch",
    "SimulatedNvidiaService",
    "SimulatedOcsp",
    "bound_evidence",
    "device_endorsements",
    "device_items",
    "driver_rim",
    "firmware_rim",
]
