"""Kinds of devices, with their names and firmware.

Spec: specs/nvidia-gpu.md, sections 4.1, 6.1, 9.1, 9.2 and 9.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

Architecture = Literal["hopper", "blackwell", "ls10"]
"""Hopper and Blackwell are GPUs, LS10 is the third generation of NVSwitch."""

_2020, _2023 = datetime(2020, 10, 17, tzinfo=UTC), datetime(2023, 6, 20, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Product:
    """One kind of device, with a single object each.

    Attributes:
        architecture: of the device.
        chip: its name in RIMs (``GH100``).
        name: its name in certificates, with revision and processor (``GH100 A01 GSP``).
        identity: CN of L2.
        provisioner: CN of L3.
        reference_ca: CN of the RIM chain's L2.
        reference_issuer: CN of the RIM chain's L3.
        reference_signer: CN of the RIM chain's L4.
        crl: file name of the list in L3's distribution point.
        made: notBefore of L4 and L5, a constant of the product line.
        provisioned: notBefore of L3.
        type_byte: first byte of L4's serial number: 0x41 GPU, 0x50 switch.
        blocks: measurement blocks in a report.
        gpu_info: first two bytes of opaque field 4; empty for a switch.
        firmware_active: indices in the VBIOS or BIOS RIM.
        driver_active: indices in the driver RIM; empty for a switch.
        alternatives: number of reference values of an index, if more than one.
        unused: indices in a RIM with zero measurements.
        vbios: default VBIOS or BIOS.
        project: NUL-free text of opaque field 17.
        project_sku: of field 18.
        chip_sku: of field 15.
        board: number in opaque field 14.
    """

    architecture: Architecture
    chip: str
    name: str
    identity: str
    provisioner: str
    reference_ca: str
    reference_issuer: str
    reference_signer: str
    crl: str
    made: datetime
    provisioned: datetime
    type_byte: int
    blocks: int
    gpu_info: bytes
    firmware_active: frozenset[int]
    driver_active: frozenset[int]
    alternatives: Mapping[int, int]
    unused: frozenset[int]
    vbios: str
    project: str
    project_sku: str
    chip_sku: str
    board: int

    @property
    def is_switch(self) -> bool:
        """True if it is an NVSwitch."""
        return self.architecture == "ls10"

    @property
    def edition(self) -> str:
        """Its kind in RIMs."""
        return "SWITCH" if self.is_switch else "GPU"

    def driver_rim_id(self, driver: str) -> str:
        """Return the RIM service's id of a driver's RIM (section 9.1)."""
        kind = "CC_DRIVER" if self.architecture == "blackwell" else "DRIVER"
        return f"NV_GPU_{kind}_{self.chip}_{driver}"

    def firmware_rim_id(self, vbios: str) -> str:
        """Return the RIM service's id of the RIM of a VBIOS or a switch's BIOS (section 9.1)."""
        kind = "SWITCH_BIOS" if self.is_switch else "GPU_VBIOS"
        return f"NV_{kind}_{self.project}_{self.project_sku}_{self.chip_sku}_{vbios.replace('.', '')}".upper()


_HOPPER = Product(
    architecture="hopper",
    chip="GH100",
    name="GH100 A01 GSP",
    identity="NVIDIA GH100 Identity",
    provisioner="NVIDIA GH100 Provisioner ICA 1",
    reference_ca="NVIDIA Reference Value GH100 CA",
    reference_issuer="NVIDIA Reference Value L3 GH100 002",
    reference_signer="HCC RIM L4 Signer",
    crl="l2-gh100.crl",
    made=_2020,
    provisioned=datetime(2022, 3, 1, tzinfo=UTC),
    type_byte=0x41,
    blocks=64,
    gpu_info=b"\x80\x01",
    firmware_active=frozenset((*range(7), *range(8, 13))),
    driver_active=frozenset((7, *range(21, 41))),
    alternatives={12: 4, 23: 2, 24: 2},
    unused=frozenset((0, 8, 10, 28)),
    vbios="96.00.9F.00.01",
    project="1010",
    project_sku="0200",
    chip_sku="882",
    board=945,
)
_BLACKWELL = Product(
    architecture="blackwell",
    chip="GB100",
    name="GB100 A01 GSP",
    identity="NVIDIA GB100 Identity",
    provisioner="NVIDIA GB100 Provisioner ICA 00000",
    reference_ca="NVIDIA Reference Value GB1XX CA 001",
    reference_issuer="NVIDIA Reference Value L3 GB100-CC 001",
    reference_signer="HCC RIM L4 Signer",
    crl="l2-gb100.crl",
    made=_2023,
    provisioned=_2023,
    type_byte=0x41,
    blocks=64,
    gpu_info=b"\xa0\x01",
    firmware_active=frozenset((*range(14), *range(15, 21))),
    driver_active=frozenset(range(21, 41)),
    alternatives={6: 2, 23: 2, 24: 2},
    unused=frozenset((0, 1, 5)),
    vbios="97.00.83.00.09",
    project="G525",
    project_sku="0200",
    chip_sku="895",
    board=1141,
)
_LS10 = Product(
    architecture="ls10",
    chip="LS10",
    name="LS_10 A01 FSP",
    identity="NVIDIA GH100 Identity",
    provisioner="NVIDIA LS_10 Provisioner ICA 1",
    reference_ca="NVIDIA Reference Value LS10 CA",
    reference_issuer="NVIDIA Reference Value L3 LS10 001",
    reference_signer="NVIDIA Reference Value L4 LS10",
    crl="l2-gh100.crl",
    made=_2020,
    provisioned=datetime(2022, 3, 1, tzinfo=UTC),
    type_byte=0x50,
    blocks=31,
    gpu_info=b"",
    firmware_active=frozenset(range(31)),
    driver_active=frozenset(),
    alternatives=dict.fromkeys(range(9, 26), 4),
    unused=frozenset((7, 27, 28, 29, 30)),
    vbios="96.10.73.00.01",
    project="5612",
    project_sku="0002",
    chip_sku="890",
    board=0,
)
PRODUCTS: Final[Mapping[Architecture, Product]] = {p.architecture: p for p in (_HOPPER, _BLACKWELL, _LS10)}
"""Every product by its architecture. Blackwell's project and SKU are invented; those of LS10 are constants."""
