"""Guests: sources of evidence over the digests of a handshake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from attest.collect import NONCE_BYTES, THIS_MACHINE, MachineAccess, collect_machine
from attest.collect.azure import read_hcl_report
from attest.collect.detect import Detected, no_tee
from attest.encoding import JsonValue
from attest.errors import CollectionError
from attest.evidence.azure.structure import HclReportType
from attest.kbs.evidence_forms import (
    NVIDIA,
    SAMPLE_DEVICE,
    Tee,
    cpu_document,
    nvidia_document,
    sample_document,
)

_GPU_SECONDS: Final = 60.0
_TEES: Final[Mapping[str, Tee]] = {"sev-snp": "snp", "tdx": "tdx"}
"""The protocol's name of a TEE by this project's."""
_PARAVISORS: Final[Mapping[HclReportType, Tee]] = {
    HclReportType.SNP: "az-snp-vtpm",
    HclReportType.TDX: "az-tdx-vtpm",
}


class Guest(Protocol):
    """A source of evidence. Evidence of devices is collected first, since that of the CPU commits to it."""

    @property
    def tee(self) -> Tee:
        """Its TEE by the protocol's name."""

    @property
    def device_kinds(self) -> tuple[str, ...]:
        """The kinds of devices whose evidence ``devices`` returns."""

    def devices(self, digest: bytes) -> Mapping[str, JsonValue]:
        """Return the evidence of devices over a digest, by the names of their kinds; empty without devices."""

    def cpu(self, digest: bytes) -> JsonValue:
        """Return the evidence of the CPU over a digest of 48 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineGuest:
    """This machine with its GPUs. Make one with ``MachineGuest.of``."""

    tee: Tee
    access: MachineAccess
    with_gpus: bool

    @staticmethod
    def of(
        access: MachineAccess = THIS_MACHINE, *, tee: Tee | None = None, with_gpus: bool | None = None
    ) -> MachineGuest:
        """Return this machine as a guest.

        Args:
            access: to the machine.
            tee: required TEE; None accepts the machine's own.
            with_gpus: True requires GPUs, False omits them, None includes them if NVIDIA's driver is loaded.

        Raises:
            CollectionError: ``tee-missing``, ``tsm-missing`` or ``tee-differs``; on Azure also those of the TPM.
        """
        detected = access.detect()
        found = _tee_of(access, detected, tee)
        if tee is not None and tee != found:
            raise CollectionError(
                f"this machine is a guest of {found}, not of {tee}",
                code="tee-differs",
                field="tee",
                expected=tee,
                got=found,
                hint="leave --tee out",
            )
        return MachineGuest(tee=found, access=access, with_gpus=detected.gpus if with_gpus is None else with_gpus)

    @property
    def device_kinds(self) -> tuple[str, ...]:
        """``nvidia``, or none."""
        return (NVIDIA,) if self.with_gpus else ()

    def devices(self, digest: bytes) -> Mapping[str, JsonValue]:
        """Return the evidence of GPUs; their nonce is the beginning of the digest.

        Raises:
            CollectionError: see ``docs/errors.md``, "Collection".
        """
        if not self.with_gpus:
            return {}
        found = self.access.collect_gpus(digest[:NONCE_BYTES], timeout=_GPU_SECONDS)
        return {NVIDIA: nvidia_document(one.item() for one in found)}

    def cpu(self, digest: bytes) -> JsonValue:
        """Return the evidence of the CPU.

        Raises:
            CollectionError: see ``docs/errors.md``, "Collection".
            EvidenceError: ``kbs-evidence-unsuited``.
        """
        return cpu_document(collect_machine(digest, access=self.access, with_gpus=False), tee=self.tee)


def _tee_of(access: MachineAccess, detected: Detected, wanted: Tee | None) -> Tee:
    """Return the TEE of this machine. On Azure the paravisor's report states it."""
    if detected.interface == "azure-vtpm":
        return _PARAVISORS[read_hcl_report(access.tpm()).report_type]
    if detected.interface is not None and detected.tee is not None:
        return _TEES[detected.tee]
    if detected.interface is not None and wanted is not None and wanted in _TEES.values():
        return wanted  # its evidence shows whether it is true
    raise no_tee(detected)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleGuest:
    """A guest without a TEE: its evidence proves nothing, and services refuse it unless configured for tests."""

    with_device: bool = False

    @property
    def tee(self) -> Tee:
        """``sample``."""
        return "sample"

    @property
    def device_kinds(self) -> tuple[str, ...]:
        """``sampledevice``, or none."""
        return (SAMPLE_DEVICE,) if self.with_device else ()

    def devices(self, digest: bytes) -> Mapping[str, JsonValue]:
        """Return sample evidence of a device."""
        return {SAMPLE_DEVICE: sample_document(digest, svn="2")} if self.with_device else {}

    def cpu(self, digest: bytes) -> JsonValue:
        """Return sample evidence of the CPU."""
        return sample_document(digest, svn="1")
