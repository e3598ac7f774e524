"""What `attest doctor` finds: one finding for each thing, with what to do about it."""

import errno
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from attest.cli.firmware_options import built_in_table
from attest.collect import GpuState
from attest.collect.access import MachineAccess
from attest.collect.doctor import examine
from attest.collect.findings import DoctorFinding
from attest.errors import CollectionError, ConfigurationError
from tests.collect.fake_machine import (
    FakeMachine,
    old_snp_machine,
    plain_machine,
    snp_machine,
    tdx_machine,
    with_gpus,
)

NOW = datetime(2026, 11, 21, tzinfo=UTC)
NOWHERE = ConfigurationError("no place", code="endorsement-cache-unusable", hint="set HOME")


def found(
    machine: FakeMachine | MachineAccess, *, at: datetime = NOW, cache: Path | ConfigurationError | None = None
) -> dict[str, DoctorFinding]:
    access = machine if isinstance(machine, MachineAccess) else machine.access
    findings = examine(access, at=at, cache=cache or access.root / "cache", timeout=5, firmware=built_in_table())
    assert len({one.id for one in findings}) == len(findings)
    for one in findings:
        assert one.outcome != "fail" or one.fix
    return {one.id: one for one in findings}


def outcomes(machine: FakeMachine) -> dict[str, str]:
    return {name: one.outcome for name, one in found(machine).items()}


def test_a_snp_guest_is_ready(tmp_path: Path) -> None:
    findings = found(snp_machine(tmp_path))
    assert {one.outcome for one in findings.values()} == {"pass", "not evaluated"}
    assert findings["tee"].found == "sev-snp guest on QEMU, Linux 6.11.0-test"
    assert findings["interface"].found == "configfs-tsm, provider sev_guest (sev-snp)"


def test_a_td_with_gpus_is_ready(tmp_path: Path) -> None:
    findings = found(with_gpus(tdx_machine(tmp_path)))
    assert {one.outcome for one in findings.values()} == {"pass"}
    assert findings["gpu.driver"].found == "driver 575.57.08, 2 x HOPPER"
    assert findings["gpu.mode"].found == "confidential computing, not ready until it is set"


def test_without_a_tee_that_is_what_fails(tmp_path: Path) -> None:
    told = outcomes(plain_machine(tmp_path))
    assert told["tee"] == "fail"
    assert (told["interface"], told["permissions"]) == ("not evaluated", "not evaluated")


def test_no_report_is_made(tmp_path: Path) -> None:
    machine = snp_machine(tmp_path)
    assert machine.tsm is not None
    machine.tsm.errors["outblob"] = [errno.EIO]
    assert outcomes(machine)["interface"] == "pass"
    assert machine.tsm.left == []


@pytest.mark.parametrize(
    ("number", "interface", "permissions"),
    [
        (errno.EACCES, "pass", "fail"),
        (errno.ENOMEM, "fail", "not evaluated"),
        (errno.ENXIO, "pass", "pass"),  # the driver's own device is there
    ],
)
def test_what_the_kernel_says_to_a_request_is_told(
    number: int, interface: str, permissions: str, tmp_path: Path
) -> None:
    machine = snp_machine(tmp_path)
    assert machine.tsm is not None
    machine.tsm.errors["make"] = [number]
    told = outcomes(machine)
    assert (told["interface"], told["permissions"]) == (interface, permissions)


def test_configfs_without_a_known_tee_is_asked_all_the_same(tmp_path: Path) -> None:
    machine = snp_machine(tmp_path)
    machine.has("proc/cpuinfo", "vendor_id: x\n")
    (tmp_path / "dev/sev-guest").unlink()
    told = outcomes(machine)
    assert (told["tee"], told["interface"]) == ("warning", "pass")


def test_a_guest_without_any_interface_fails_there(tmp_path: Path) -> None:
    findings = found(plain_machine(tmp_path, flags="hypervisor sev_snp"))
    assert (findings["tee"].outcome, findings["interface"].outcome) == ("pass", "fail")
    assert "modprobe sev-guest" in (findings["interface"].fix or "")


def test_an_older_kernel_is_told_by_its_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, _ = old_snp_machine(tmp_path)
    assert outcomes(machine)["permissions"] == "pass"
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert outcomes(machine)["permissions"] == "fail"


def test_the_tdx_device_alone_is_not_enough(tmp_path: Path) -> None:
    machine = plain_machine(tmp_path)
    machine.has("dev/tdx_guest")
    assert outcomes(machine)["interface"] == "fail"


@pytest.mark.parametrize(("log", "outcome"), [(None, "warning"), (b"nonsense", "fail")])
def test_an_event_log_that_is_missing_or_broken_is_told(log: bytes | None, outcome: str, tmp_path: Path) -> None:
    machine = tdx_machine(tmp_path)
    place = tmp_path / "sys/firmware/acpi/tables/data/CCEL"
    place.unlink() if log is None else place.write_bytes(log)
    assert outcomes(machine)["eventlog"] == outcome


# -- GPUs


def test_gpus_without_a_driver_are_told(tmp_path: Path) -> None:
    machine = with_gpus(snp_machine(tmp_path))
    (tmp_path / "proc/driver/nvidia/version").unlink()
    assert outcomes(machine)["gpu.driver"] == "fail"


def test_modes_of_gpus_are_told(tmp_path: Path) -> None:
    machine = with_gpus(snp_machine(tmp_path))
    machine.dev_tools = True
    assert outcomes(machine)["gpu.mode"] == "warning"
    machine.cc_mode = False
    assert outcomes(machine)["gpu.mode"] == "fail"


def test_a_driver_that_gives_no_answer_is_told(tmp_path: Path) -> None:
    def refuse(*, timeout: float) -> GpuState:
        raise CollectionError("it hangs", code="nvml-timeout", hint="ask again")

    machine = with_gpus(snp_machine(tmp_path))
    access = MachineAccess(root=machine.root, reports=machine.access.reports, gpu_state=refuse)
    assert found(access)["gpu.driver"] == DoctorFinding(
        id="gpu.driver", outcome="fail", found="it hangs", fix="ask again"
    )


def test_other_states_of_gpus_have_words(tmp_path: Path) -> None:
    from dataclasses import replace

    machine = with_gpus(snp_machine(tmp_path))
    honest = machine.access

    def state_with(**changes: object) -> MachineAccess:
        def ask(*, timeout: float) -> GpuState:
            state = honest.gpu_state(timeout=timeout)
            return replace(state, gpus=(), settings=replace(state.settings, **changes))  # type: ignore[arg-type]

        return replace(honest, gpu_state=ask)

    simulated = found(state_with(environment="simulation"))
    assert simulated["gpu.mode"].outcome == "fail"
    assert simulated["gpu.driver"].found.endswith("no GPU")
    protected = found(state_with(multi_gpu_mode="protected-pcie", ready=True))
    assert protected["gpu.mode"].found == "confidential computing, protected-pcie, ready"
    assert found(state_with(ready=None))["gpu.mode"].found.endswith("ready state unknown")


# -- clock and cache


@pytest.mark.parametrize(
    ("at", "outcome"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), "fail"),
        (datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC), "fail"),
        (datetime(2026, 1, 1, tzinfo=UTC), "pass"),
        (datetime(2045, 12, 31, tzinfo=UTC), "pass"),
        (datetime(2046, 1, 1, tzinfo=UTC), "fail"),
    ],
)
def test_a_clock_that_cannot_be_right_is_told(at: datetime, outcome: str, tmp_path: Path) -> None:
    assert found(snp_machine(tmp_path), at=at)["clock"].outcome == outcome


def test_a_clock_that_is_kept_right_is_told(tmp_path: Path) -> None:
    machine = snp_machine(tmp_path)
    machine.has("run/systemd/timesync/synchronized")
    assert found(machine)["clock"].found.endswith("synchronised")


def test_the_cache_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = snp_machine(tmp_path / "root")
    cache = tmp_path / "cache"
    assert found(machine, cache=cache)["cache"].found == f"{cache} (not made yet)"
    cache.mkdir(mode=0o700)
    assert found(machine, cache=cache)["cache"] == DoctorFinding(id="cache", outcome="pass", found=str(cache))
    cache.chmod(0o755)
    assert found(machine, cache=cache)["cache"].outcome == "warning"
    file = tmp_path / "file"
    file.touch()
    assert found(machine, cache=file)["cache"].outcome == "fail"
    assert found(machine, cache=file / "below")["cache"].outcome == "fail"
    assert found(machine, cache=NOWHERE)["cache"].fix == "set HOME"
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert found(machine, cache=cache)["cache"].outcome == "fail"


def test_files_that_may_not_be_looked_at_are_no_defect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = snp_machine(tmp_path)

    def denied(_: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "exists", denied)
    findings = found(machine)
    assert (findings["clock"].outcome, findings["cache"].outcome) == ("pass", "fail")


def test_a_driver_that_lacks_a_fix_is_told(tmp_path: Path) -> None:
    from dataclasses import replace

    machine = with_gpus(snp_machine(tmp_path))
    honest = machine.access

    def ask(*, timeout: float) -> GpuState:
        return replace(honest.gpu_state(timeout=timeout), driver_version="580.95.05")

    access = MachineAccess(root=machine.root, reports=honest.reports, gpu_state=ask)
    told = found(access)["gpu.firmware"]
    assert told.outcome == "warning"
    assert "driver 580.95.05 is older than the fix of NVIDIA a_id 5821 (580.159.03, 2026-05)" in told.found
    assert "docs/firmware.md" in (told.fix or "")
    assert "gpu.firmware" not in found(honest)
