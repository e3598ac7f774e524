"""Simulated GPUs and NVSwitches: their reports, certificates and endorsements.

Spec: specs/nvidia-gpu.md, sections 2 to 7, 13 and 16.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from attest.encoding import JsonValue
from attest.endorsements.ocsp_answers import OcspAnswer, parse_ocsp
from attest.endorsements.pool import Endorsements
from attest.endorsements.x509 import parse_certificate
from attest.evidence.gpu.evidence import GpuSettings, device_json
from attest_simulator.nvidia.authorities import Authority, provisioner_authority, reference_issuer
from attest_simulator.nvidia.certificates import pem_bytes
from attest_simulator.nvidia.device_chain import PDI_BYTES, DeviceKeys, firmware_id
from attest_simulator.nvidia.firmware import measurements_of
from attest_simulator.nvidia.keys import derived_bytes
from attest_simulator.nvidia.ocsp import SimulatedOcsp
from attest_simulator.nvidia.products import PRODUCTS, Product
from attest_simulator.nvidia.responder import NONCE_BYTES, ReportTemplate, opaque_data, text_field, vbios_field
from attest_simulator.nvidia.rims import RimTemplate, driver_rim, firmware_rim, rim_signer_template, signed_in

DRIVER: Final = "580.95.05"
"""Default driver of a simulated GPU."""
GPU_LINKS: Final = 18
SWITCH_PORTS: Final = 64
MAX_GPUS_OF_A_SWITCH: Final = 8

Mode = Literal["spt", "mpt", "ppcie"]
"""One GPU passed through, several, or a whole board behind protected PCIe (section 14)."""

_FLAGS: Mapping[Mode, int] = {"spt": 0, "mpt": 1, "ppcie": 2}
_OFF, _ON = b"\x55", b"\xaa"
_BRANCH_WITH_FWID = 550
_BRANCH_WITH_VERSION = 580
_CPR_INFO = bytes.fromhex("00c00100")
_GPU_COUNTERS, _SWITCH_COUNTERS = 64, 27
_ENABLED_SYSTEM = b"\x07\x07"
_FLOOR_SWEPT = bytes.fromhex("ec00")
_NOT_CONNECTED = 0xFF


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedDevice(ABC):
    """Common base of GPU and switch.

    Attributes:
        product: kind of device.
        label: public text that determines identifiers and keys.
        driver: version of the driver; for a switch, its BIOS version again.
        vbios: version of the VBIOS or BIOS, upper case.
        changed: measurements that differ from the reference values, by index: 48 bytes each.
    """

    product: Product
    label: str
    driver: str
    vbios: str
    changed: Mapping[int, bytes] = field(default_factory=dict[int, bytes])

    # -- identity

    @property
    def keys(self) -> DeviceKeys:
        """Keys and certificates of the device with its present firmware."""
        return DeviceKeys(product=self.product, label=self.label, fwid=firmware_id(self.product, self.driver))

    @property
    def pdi(self) -> bytes:
        """Its id in reports of other devices, 8 bytes."""
        return self.keys.pdi

    @property
    def certificates(self) -> tuple[bytes, ...]:
        """DER of L5, L4, L3, L2 and the root."""
        return self.keys.certificates()

    @property
    def chain_pem(self) -> bytes:
        """The certificates as PEM, in the form of NVML and NSCQ."""
        return pem_bytes(self.certificates)

    @property
    def arch(self) -> str:
        """Its architecture in evidence files."""
        return self.product.architecture.upper()

    @property
    def uuid(self) -> str | None:
        """NVML's id of the device; empty for a switch."""
        return None

    @property
    def settings(self) -> GpuSettings | None:
        """NVML's modes of the machine; empty for a switch."""
        return None

    # -- evidence

    @property
    def measurements(self) -> tuple[bytes, ...]:
        """Measurements, 48 bytes for each block."""
        found = measurements_of(self.product, driver=self.driver, vbios=self.vbios, protected_pcie=self._is_protected())
        return tuple(self.changed.get(index, value) for index, value in enumerate(found))

    def report_template(self, nonce: bytes) -> ReportTemplate:
        """Return an unsigned report.

        Raises:
            ValueError: the nonce is not 32 bytes.
        """
        if len(nonce) != NONCE_BYTES:
            raise ValueError(f"a nonce has {NONCE_BYTES} bytes, got {len(nonce)}")
        return ReportTemplate(
            nonce=nonce,
            responder_nonce=derived_bytes(NONCE_BYTES, "responder nonce", self.label, nonce.hex()),
            measurements=self.measurements,
            opaque=opaque_data(self.opaque_entries()),
            key=self.keys.report_key(),
        )

    def report(self, nonce: bytes) -> bytes:
        """Return a signed report: SPDM request and response.

        Args:
            nonce: 32 bytes, the verifier's challenge.

        Raises:
            ValueError: the nonce is not 32 bytes.
        """
        return self.report_template(nonce).issue()

    @abstractmethod
    def opaque_entries(self) -> tuple[tuple[int, bytes], ...]:
        """Return types and values of the opaque data, in the device's order."""

    def json_object(self, nonce: bytes, *, report: bytes | None = None) -> dict[str, JsonValue]:
        """Return the device's object in an evidence file of NVIDIA's SDK.

        Args:
            nonce: 32 bytes.
            report: to include instead of a new one.
        """
        return {
            "arch": self.arch,
            "nonce": nonce.hex(),
            "evidence": _base64(self.report(nonce) if report is None else report),
            "certificate": _base64(self.chain_pem),
        }

    def device_item(self, nonce: bytes, *, report: bytes | None = None) -> bytes:
        """Return an item of ``MEDIA_NVIDIA_DEVICE``: the object with any UUID and settings.

        Args:
            nonce: 32 bytes.
            report: to include instead of a new one.
        """
        made = self.report(nonce) if report is None else report
        return device_json(made, self.chain_pem, self.arch, self.settings, self.uuid)

    # -- endorsements

    def rims(self, *, at: datetime) -> tuple[RimTemplate, ...]:
        """Return its RIMs that are current at ``at``: driver and VBIOS, or a switch's BIOS alone."""
        issued = signed_in(at)
        firmware = firmware_rim(self.product, self.vbios, issued=issued)
        if not self.product.driver_active:
            return (firmware,)
        return (driver_rim(self.product, self.driver, issued=issued), firmware)

    def questions(self, *, at: datetime) -> tuple[tuple[Authority, int], ...]:
        """Return issuer and serial number of every certificate with a revocation check: L4 to L2 of both chains."""
        device, reference = provisioner_authority(self.product), reference_issuer(self.product)
        return (
            (device, self.keys.device_template().serial),
            *_above(device),
            (reference, rim_signer_template(self.product, signed_in(at)).serial),
            *_above(reference),
        )

    def endorsements(self, *, at: datetime, ocsp: SimulatedOcsp | None = None) -> Endorsements:
        """Return all endorsements of this device at a moment: certificates, RIMs and OCSP answers.

        Args:
            at: aware.
            ocsp: the responder; None is one without revocations.
        """
        return device_endorsements((self,), at=at, ocsp=ocsp)

    def _is_protected(self) -> bool:
        return False


def device_endorsements(
    devices: tuple[SimulatedDevice, ...], *, at: datetime, ocsp: SimulatedOcsp | None = None
) -> Endorsements:
    """Return all endorsements of these devices at a moment, without repetition."""
    responder = ocsp or SimulatedOcsp.of(at)
    rims = {rim.id: rim for device in devices for rim in device.rims(at=at)}
    asked = {
        (issuer.common_name, serial): (issuer, serial)
        for device in devices
        for issuer, serial in device.questions(at=at)
    }
    answers: tuple[OcspAnswer, ...] = tuple(
        parse_ocsp(responder.template(issuer, serial).issue()) for issuer, serial in asked.values()
    )
    return Endorsements(
        certificates=tuple(parse_certificate(der) for device in devices for der in device.certificates),
        rims=tuple(rim.document() for rim in rims.values()),
        ocsp=answers,
    )


def _above(authority: Authority) -> tuple[tuple[Authority, int], ...]:
    """Return issuer and serial number of the certificates of an authority and its issuers, without the root."""
    if authority.issuer is None:
        return ()
    return ((authority.issuer, authority.template.serial), *_above(authority.issuer))


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedGpu(SimulatedDevice):
    """A simulated GPU. Make one with ``SimulatedGpu.of``.

    Attributes:
        mode: of its passing through to the guest.
        links: PDI of the switch at each of its 18 links, 8 zero bytes for an unused link; empty without switches.
        dev_tools_mode: NVML reports developer tools; reports do not contain it.
    """

    mode: Mode = "spt"
    links: tuple[bytes, ...] = ()
    dev_tools_mode: bool = False

    @staticmethod
    def of(
        label: str = "gpu 0",
        *,
        architecture: Literal["hopper", "blackwell"] = "hopper",
        driver: str = DRIVER,
        vbios: str | None = None,
        mode: Mode = "spt",
        dev_tools_mode: bool = False,
        changed: Mapping[int, bytes] | None = None,
    ) -> SimulatedGpu:
        """Return an ordinary GPU; ``dataclasses.replace`` modifies it.

        Args:
            label: determines the GPU.
            architecture: of the GPU.
            driver: version, such as ``580.95.05``.
            vbios: version, such as ``96.00.9F.00.01``; None is the product's default.
            mode: of its passing through.
            dev_tools_mode: NVML reports developer tools.
            changed: measurements that differ from the reference values.
        """
        product = PRODUCTS[architecture]
        return SimulatedGpu(
            product=product,
            label=label,
            driver=driver,
            vbios=(vbios or product.vbios).upper(),
            mode=mode,
            dev_tools_mode=dev_tools_mode,
            changed=dict(changed or {}),
        )

    def linked_to(self, links: tuple[bytes, ...]) -> SimulatedGpu:
        """Return the GPU with the PDI of a switch at each link."""
        return replace(self, links=links)

    @property
    def uuid(self) -> str | None:
        """NVML's id of the device."""
        found = UUID(bytes=derived_bytes(16, "UUID", self.product.chip, self.label), version=4)
        return f"GPU-{found}"

    @property
    def settings(self) -> GpuSettings | None:
        """NVML's modes of the machine."""
        return GpuSettings(
            environment="production",
            cc_mode=True,
            dev_tools_mode=self.dev_tools_mode,
            multi_gpu_mode="protected-pcie" if self.mode == "ppcie" else "none",
            ready=True,
            driver_version=self.driver,
        )

    def opaque_entries(self) -> tuple[tuple[int, bytes], ...]:
        """Return types and values in the known order: 6, 14 to 19, 3, 4, 12, 13, 11, then those of newer drivers."""
        product = self.product
        chip_sku_size, modifier_size = (4, 2) if self._branch < _BRANCH_WITH_FWID else (9, 5)
        head = (
            (6, vbios_field(self.vbios)),
            (14, product.board.to_bytes(4, "little")),
            (15, text_field(product.chip_sku, chip_sku_size)),
            (16, text_field("0", modifier_size)),
            (17, text_field(product.project, 5)),
            (18, text_field(product.project_sku, 5)),
            (19, bytes(2)),
            (3, text_field(self.driver)),
            (4, product.gpu_info.ljust(8, b"\0")),
            (12, _counters(self.measurements, _GPU_COUNTERS)),
            (13, _CPR_INFO),
            (11, _OFF),
        )
        return (*head, *self._newer_entries())

    def _newer_entries(self) -> tuple[tuple[int, bytes], ...]:
        """Return the additional entries of drivers from 550 and from 580 on."""
        if self._branch < _BRANCH_WITH_FWID:
            return ()
        found = [(20, self.keys.fwid), (21, _ON if self._is_protected() else _OFF)]
        if self.links:
            found.append((22, b"".join(pdi[::-1] for pdi in self.links)))
        if self.product.architecture == "blackwell":
            found.append((33, _ENABLED_SYSTEM))
        if self._branch >= _BRANCH_WITH_VERSION:
            found += [(34, (1).to_bytes(2, "little")), (36, _FLAGS[self.mode].to_bytes(2, "little"))]
        return tuple(found)

    @property
    def _branch(self) -> int:
        return int(self.driver.partition(".")[0])

    def _is_protected(self) -> bool:
        return self.mode == "ppcie"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedNvSwitch(SimulatedDevice):
    """A simulated NVSwitch. Make one with ``SimulatedNvSwitch.of``.

    Attributes:
        position: its number on the board.
        locked: its configuration is locked.
        gpus: PDIs of connected GPUs, at most eight.
        ports: index in ``gpus`` for each port; missing ports are unconnected.
        stated_pdi: its own PDI in reports, if it differs from the certificate's.
    """

    position: int = 0
    locked: bool = True
    gpus: tuple[bytes, ...] = ()
    ports: tuple[int, ...] = ()
    stated_pdi: bytes | None = None

    @staticmethod
    def of(label: str = "switch 0", *, bios: str | None = None, position: int = 0) -> SimulatedNvSwitch:
        """Return an ordinary, unconnected switch; ``dataclasses.replace`` modifies it.

        Args:
            label: determines the switch.
            bios: version, such as ``96.10.73.00.01``; None is the default.
            position: its number on the board.
        """
        product = PRODUCTS["ls10"]
        version = (bios or product.vbios).upper()
        return SimulatedNvSwitch(product=product, label=label, driver=version, vbios=version, position=position)

    def opaque_entries(self) -> tuple[tuple[int, bytes], ...]:
        """Return types and values in the known order: 6, 22, 12, 26, 23, 24, 25."""
        pdis = b"".join(self.gpus).ljust(MAX_GPUS_OF_A_SWITCH * PDI_BYTES, b"\0")
        ports = bytes(self.ports).ljust(SWITCH_PORTS, bytes([_NOT_CONNECTED]))
        return (
            (6, self.vbios.encode("ascii")),
            (22, self.pdi if self.stated_pdi is None else self.stated_pdi),
            (12, _counters(self.measurements, _SWITCH_COUNTERS)),
            (26, pdis + ports),
            (23, _FLOOR_SWEPT),
            (24, self.position.to_bytes(2, "little")),
            (25, int(self.locked).to_bytes(2, "little")),
        )


def _counters(measurements: tuple[bytes, ...], count: int) -> bytes:
    """Return MSRSCNT: the number of extensions of each measurement, u32 little-endian; 1 for nonzero ones."""
    return b"".join(int(any(value)).to_bytes(4, "little") for value in measurements[:count])
