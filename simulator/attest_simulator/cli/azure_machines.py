"""Machines of the Azure commands: VMs on named hosts, evidence, endorsements, and a service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import cast

from attest.clock import this_second
from attest.evidence.envelope import MEDIA_AZURE_CVM, Evidence, EvidenceItem
from attest.evidence.snp.tcb import SnpProduct
from attest_simulator import SimulatedChip
from attest_simulator.azure import AzureForm, SimulatedAzureVm, SimulatedImds, SimulatedSnpHost, SimulatedTdxHost
from attest_simulator.azure.metadata_service import imds_handler
from attest_simulator.changing_machine import out_of_date
from attest_simulator.cli.choices import HostChoice
from attest_simulator.cli.services import serve_handler, simulated_bundle
from attest_simulator.intel import SimulatedPlatform
from attest_simulator.intel.eventlog import LogEntry
from attest_simulator.tpm_log import typical_tpm_boot

_BUNDLE_DAYS = 30
_REPORT_VERSION = 3
"""Known text of the firmware of Azure's hosts."""


def host_of(choice: HostChoice, *, at: datetime) -> SimulatedSnpHost | SimulatedTdxHost:
    """Return the host of the options."""
    if choice.tee == "snp":
        chip = SimulatedChip.of(SnpProduct(choice.product), name=choice.host, report_version=_REPORT_VERSION)
        snp = SimulatedSnpHost.of(chip)
        measurement = choice.measurement or snp.guest.measurement
        return replace(snp, guest=replace(snp.guest, measurement=measurement))
    platform = SimulatedPlatform.of(choice.host)
    tdx = SimulatedTdxHost.of(out_of_date(platform, at=at) if choice.out_of_date else platform)
    return replace(tdx, td=replace(tdx.td, mr_td=choice.measurement or tdx.td.mr_td))


def vm_of(
    choice: HostChoice,
    *,
    at: datetime,
    name: str,
    vm_unique_id: str | None,
    secure_boot: bool,
    console_enabled: bool,
    pcrs: Mapping[int, bytes],
    boot: tuple[LogEntry, ...] | None,
) -> SimulatedAzureVm:
    """Return the VM of the options; with a boot log, with its registers."""
    vm = SimulatedAzureVm.of(
        host_of(choice, at=at),
        name=name,
        vm_unique_id=vm_unique_id,
        secure_boot=secure_boot,
        console_enabled=console_enabled,
    )
    vm = vm if boot is None else vm.booted(boot)
    return replace(vm, tpm=vm.tpm.with_pcrs(pcrs))


def boot_of(*, secure_boot: bool, command_line: str | None) -> tuple[LogEntry, ...]:
    """Return the boot's events of the options."""
    if command_line is None:
        return typical_tpm_boot(secure_boot=secure_boot)
    return typical_tpm_boot(secure_boot=secure_boot, command_line=command_line)


def vm_evidence(vm: SimulatedAzureVm, *, form: str, nonce: bytes, user_data: bytes | None) -> bytes:
    """Return a VM's evidence as a document.

    Args:
        vm: to attest.
        form: ``envelope``, or a JSON form.
        nonce: for the TPM's quote.
        user_data: 64 bytes; None is zeros, in version 2 the nonce and zeros.
    """
    usual = nonce.ljust(64, b"\0") if form == "coco-v2" else bytes(64)
    pieces = vm.attest(nonce, user_data=user_data or usual)
    if form == "envelope":
        item = EvidenceItem(name="cpu", media_type=MEDIA_AZURE_CVM, value=pieces.json())
        return Evidence(items=(item,)).to_json()
    return pieces.json(cast("AzureForm", form))  # click has checked it


def host_endorsements(host: SimulatedSnpHost | SimulatedTdxHost, *, at: datetime) -> bytes:
    """Return the endorsements of a host: a bundle of AMD's for 30 days, or Intel's collateral in JSON."""
    if isinstance(host, SimulatedSnpHost):
        return simulated_bundle(host.guest.chip, at=at, days=_BUNDLE_DAYS)
    return host.td.platform.collateral("tdx", at=at).to_json()


def serve_imds(port: int, choice: HostChoice, *, busy: tuple[int, ...]) -> int:
    """Serve the metadata service of a host until interrupted; print its address first.

    Raises:
        ConfigurationError: ``address-in-use``.
    """
    return serve_handler(port, imds_handler(SimulatedImds(host=host_of(choice, at=this_second())), busy=busy))
