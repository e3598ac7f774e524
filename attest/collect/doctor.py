"""Readiness check for attestation: one finding for each prerequisite, with its remedy.

The checks reach no further than the machine's host, and make no report: a configfs-tsm request is created and removed,
and an Azure VM's TPM is only read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from attest.collect.access import MachineAccess
from attest.collect.boot_log import collect_event_log
from attest.collect.detect import Detected, Machine
from attest.collect.doctor_azure import examine_azure
from attest.collect.findings import OLD_FIRMWARE_FIX, DoctorFinding, finding_of, may_use
from attest.collect.ioctl import SEV_GUEST
from attest.collect.nvml import GpuState
from attest.collect.tsm import PROVIDERS, is_there, tsm_provider
from attest.errors import CollectionError, ConfigurationError
from attest.policy.firmware_findings import driver_finding
from attest.policy.firmware_table import FirmwareTable

_EARLIEST = datetime(2026, 1, 1, tzinfo=UTC)
"""Before the release of this version: an earlier clock is wrong."""
_LATEST = datetime(2046, 1, 1, tzinfo=UTC)
"""After the end of the vendors' root certificates."""
_SYNCHRONISED = Path("run/systemd/timesync/synchronized")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def examine(
    access: MachineAccess, *, at: datetime, cache: Path | ConfigurationError, timeout: float, firmware: FirmwareTable
) -> tuple[DoctorFinding, ...]:
    """Check all prerequisites of collection and verification on this machine, its clock and its cache included."""
    machine = access.read()
    detected = access.detect()
    return (
        *(_cpu(access, machine, detected) if detected.interface != "azure-vtpm" else examine_azure(access)),
        *_gpus(access, machine, detected, timeout=timeout, firmware=firmware),
        _clock(access.root, at),
        _cache(cache),
    )


def _cpu(access: MachineAccess, machine: Machine, detected: Detected) -> Iterator[DoctorFinding]:
    yield _tee(machine, detected)
    yield from _interface(access, machine, detected)
    yield _event_log(access, detected)


def _tee(machine: Machine, detected: Detected) -> DoctorFinding:
    if detected.tee is None:
        found = detected.reason or "this kernel has configfs-tsm; see 'interface' for a provider"
        return DoctorFinding(
            id="tee", outcome="warning" if detected.interface else "fail", found=found, fix=detected.hint or None
        )
    where = f" on {detected.hypervisor}" if detected.hypervisor else ""
    kernel = f", Linux {machine.kernel}" if machine.kernel else ""
    return DoctorFinding(id="tee", outcome="pass", found=f"{detected.tee} guest{where}{kernel}")


def _interface(access: MachineAccess, machine: Machine, detected: Detected) -> Iterator[DoctorFinding]:
    """Check the kernel's interface and this user's access to it."""
    if detected.interface == "configfs-tsm":
        yield from _configfs(access, machine)
        return
    if detected.interface == "sev-guest":
        yield DoctorFinding(id="interface", outcome="pass", found="/dev/sev-guest (a kernel before configfs-tsm)")
        yield may_use(access.root / SEV_GUEST, f"/{SEV_GUEST}")
        return
    if detected.interface == "tdx-guest":
        yield DoctorFinding(
            id="interface",
            outcome="fail",
            found="/dev/tdx_guest alone: it gives TD reports, which no remote verifier can check, and no quotes",
            fix="Linux 6.7 or later gives quotes through configfs-tsm: modprobe tdx-guest, mount configfs",
        )
    elif detected.tee is None:
        yield DoctorFinding(id="interface", outcome="not evaluated", found="no TEE that could be asked")
    else:
        yield DoctorFinding(id="interface", outcome="fail", found=detected.reason, fix=detected.hint)
    yield DoctorFinding(id="permissions", outcome="not evaluated", found="there is nothing to use")


def _configfs(access: MachineAccess, machine: Machine) -> Iterator[DoctorFinding]:
    try:
        provider = tsm_provider(access.reports(access.root), random=access.random)
    except CollectionError as exc:
        if exc.code == "collection-permission-denied":
            yield DoctorFinding(id="interface", outcome="pass", found="configfs-tsm; only root can see the provider")
            yield finding_of("permissions", exc)
            return
        if exc.code == "tsm-provider-missing" and "sev-guest" in machine.devices:
            yield DoctorFinding(id="interface", outcome="pass", found="/dev/sev-guest; configfs-tsm has no provider")
            yield may_use(access.root / SEV_GUEST, f"/{SEV_GUEST}")
            return
        yield finding_of("interface", exc)
        yield DoctorFinding(id="permissions", outcome="not evaluated", found="there is nothing to use")
        return
    yield DoctorFinding(
        id="interface", outcome="pass", found=f"configfs-tsm, provider {provider} ({PROVIDERS[provider]})"
    )
    yield DoctorFinding(id="permissions", outcome="pass", found="this user can make requests for reports")


def _event_log(access: MachineAccess, detected: Detected) -> DoctorFinding:
    if detected.tee != "tdx":
        return DoctorFinding(
            id="eventlog", outcome="not evaluated", found="only TDX guests have registers that a log explains"
        )
    try:
        log = collect_event_log(access.root)
    except CollectionError as exc:
        return finding_of("eventlog", exc)
    if log is None:
        return DoctorFinding(
            id="eventlog",
            outcome="warning",
            found="the firmware left no event log (CCEL); policies about the boot cannot be met",
            fix="use a guest firmware that writes it, TDVF or OVMF for TDX",
        )
    return DoctorFinding(id="eventlog", outcome="pass", found=f"{len(log)} bytes")


# -- GPUs


def _gpus(
    access: MachineAccess, machine: Machine, detected: Detected, *, timeout: float, firmware: FirmwareTable
) -> Iterator[DoctorFinding]:
    if not detected.gpus:
        if machine.nvidia_pci == 0:
            yield DoctorFinding(id="gpu.driver", outcome="not evaluated", found="no NVIDIA GPU")
            return
        yield DoctorFinding(
            id="gpu.driver",
            outcome="fail",
            found=f"{machine.nvidia_pci} NVIDIA GPUs, and no driver",
            fix="install NVIDIA's driver (branch 550 or later) and load it: modprobe nvidia",
        )
        return
    try:
        state = access.gpu_state(timeout=timeout)
    except CollectionError as exc:
        yield finding_of("gpu.driver", exc)
        return
    yield DoctorFinding(id="gpu.driver", outcome="pass", found=f"driver {state.driver_version}, {_counted(state)}")
    yield from _old_driver(state, firmware)
    yield _mode(state)


def _old_driver(state: GpuState, firmware: FirmwareTable) -> Iterator[DoctorFinding]:
    for kind in sorted({one.architecture.lower() for one in state.gpus}):
        for old in driver_finding(kind, kind, state.driver_version, firmware):
            yield DoctorFinding(id="gpu.firmware", outcome="warning", found=str(old), fix=OLD_FIRMWARE_FIX)


def _counted(state: GpuState) -> str:
    kinds = [one.architecture for one in state.gpus]
    return ", ".join(f"{kinds.count(kind)} x {kind}" for kind in sorted(set(kinds))) or "no GPU"


def _mode(state: GpuState) -> DoctorFinding:
    settings = state.settings
    if not state.attests:
        return DoctorFinding(
            id="gpu.mode",
            outcome="fail",
            found="confidential computing is off, so the GPUs make no attestation reports",
            fix="the host turns CC mode on and resets the GPU; to attest without GPUs: --no-gpus",
        )
    if settings.environment == "simulation":
        return DoctorFinding(
            id="gpu.mode",
            outcome="fail",
            found="confidential computing in its simulation environment, whose reports no NVIDIA key signs",
            fix="start the machine in its production environment",
        )
    if settings.dev_tools_mode:
        return DoctorFinding(
            id="gpu.mode",
            outcome="warning",
            found="developer tools mode is on: the host can read the GPUs' memory, and no report shows it",
            fix="the host turns developer tools mode off and resets the GPU",
        )
    ready = {True: "ready", False: "not ready until it is set", None: "ready state unknown"}[settings.ready]
    return DoctorFinding(id="gpu.mode", outcome="pass", found=f"{_on(state)}, {ready}")


def _on(state: GpuState) -> str:
    multi = state.settings.multi_gpu_mode
    return "confidential computing" if multi == "none" else f"confidential computing, {multi}"


# -- verification


def _clock(root: Path, at: datetime) -> DoctorFinding:
    now = f"{at:%Y-%m-%dT%H:%M:%SZ}"
    if not _EARLIEST <= at < _LATEST:
        return DoctorFinding(
            id="clock",
            outcome="fail",
            found=f"{now} cannot be: certificates and revocation lists are judged by this clock",
            fix="set the clock, and keep it right: timedatectl set-ntp true",
        )
    kept = is_there(root / _SYNCHRONISED)
    return DoctorFinding(
        id="clock", outcome="pass", found=f"{now}, {'synchronised' if kept else 'with an unknown source'}"
    )


def _cache(cache: Path | ConfigurationError) -> DoctorFinding:
    if isinstance(cache, ConfigurationError):
        return finding_of("cache", cache)
    there = cache
    try:
        while not there.exists() and there != there.parent:
            there = there.parent
        usable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
        mode = there.stat().st_mode if there == cache else 0
    except OSError:
        usable, mode = False, 0
    if not usable:
        return DoctorFinding(
            id="cache",
            outcome="fail",
            found=f"{cache} cannot be written",
            fix="name another directory with --cache DIR, or set XDG_CACHE_HOME",
        )
    if mode & _OTHERS:
        return DoctorFinding(
            id="cache",
            outcome="warning",
            found=f"other users can read {cache}, which shows whose evidence was verified here",
            fix=f"chmod 700 {cache}",
        )
    return DoctorFinding(id="cache", outcome="pass", found=f"{cache}" if there == cache else f"{cache} (not made yet)")
