"""`attest doctor` on an Azure VM: each thing that can be missing, and what to do about it."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from attest.cli.firmware_options import built_in_table
from attest.collect.access import MachineAccess
from attest.collect.azure import REPORT_INDEX
from attest.collect.boot_log import TCG_LOG
from attest.collect.doctor import examine
from attest.collect.findings import DoctorFinding
from attest.errors import CollectionError
from tests.collect.azure_vm import BOOT, SNP, TDX, AzureMachine, software_vm
from tests.collect.fake_machine import plain_machine
from tests.samples import AT

LOST = CollectionError("nobody answers", code="azure-host-unreachable", hint="let it out")


def found(access: MachineAccess) -> dict[str, DoctorFinding]:
    findings = examine(access, at=AT, cache=access.root / "cache", timeout=5, firmware=built_in_table())
    assert len({one.id for one in findings}) == len(findings)
    for one in findings:
        assert one.outcome not in ("fail", "warning") or one.fix
    return {one.id: one for one in findings}


def on(vm: AzureMachine) -> dict[str, DoctorFinding]:
    return found(vm.access)


@pytest.mark.parametrize("host", [SNP, TDX], ids=["snp", "tdx"])
def test_a_vm_is_ready(host: object, tmp_path: Path) -> None:
    vm, tpm, _ = software_vm(tmp_path, host)  # type: ignore[arg-type]
    vm.boot()
    told = on(vm)
    assert {name for name, one in told.items() if one.outcome != "pass"} == {"gpu.driver"}
    assert told["tee"].found.startswith("azure-snp" if host is SNP else "azure-tdx")
    assert tpm.written == []


def test_every_row_is_there(tmp_path: Path) -> None:
    vm, _, _ = software_vm(tmp_path)
    names = ["interface", "permissions", "tpm.binding", "tee", "azure.report", "azure.ak", "azure.host", "eventlog"]
    assert list(on(vm))[: len(names)] == names


def test_without_the_package_the_rest_is_not_known(tmp_path: Path) -> None:
    vm, tpm, _ = software_vm(tmp_path)
    tpm.errors["open"] = [CollectionError("no package", code="tpm-binding-missing", hint="install it")]
    told = on(vm)
    assert told["tpm.binding"] == DoctorFinding(id="tpm.binding", outcome="fail", found="no package", fix="install it")
    assert {told[name].outcome for name in ("tee", "azure.report", "azure.ak", "azure.host")} == {"not evaluated"}
    assert told["interface"].outcome == "pass"


def test_a_device_that_is_missing_or_not_permitted_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vm, _, _ = software_vm(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        assert on(vm)["permissions"].outcome == "fail"
    access = replace(vm.access, tcti=f"device:{tmp_path}/dev/tpm7")
    told = found(access)
    assert (told["interface"].outcome, told["permissions"].outcome) == ("fail", "not evaluated")


def test_a_device_that_cannot_be_looked_for_is_missing(tmp_path: Path) -> None:
    vm, _, _ = software_vm(tmp_path)
    assert found(replace(vm.access, tcti="device:/" + "x" * 5000))["interface"].outcome == "fail"


def test_another_way_than_a_device_needs_no_permission(tmp_path: Path) -> None:
    vm, _, _ = software_vm(tmp_path)
    told = found(replace(vm.access, tcti="swtpm:port=2321"))
    assert (told["interface"].outcome, told["permissions"].outcome) == ("pass", "not evaluated")


def test_a_vm_without_a_report_is_no_confidential_one(tmp_path: Path) -> None:
    vm, tpm, _ = software_vm(tmp_path)
    tpm.drop(REPORT_INDEX)
    told = on(vm)
    assert told["azure.report"].outcome == "fail"
    assert "ConfidentialVM" in (told["azure.report"].fix or "")
    assert told["tee"].outcome == "not evaluated"


def test_a_key_of_somebody_else_is_told(tmp_path: Path) -> None:
    vm, tpm, _ = software_vm(tmp_path)
    tpm.swap_ak(there=True)
    assert on(vm)["azure.ak"].outcome == "fail"


def test_a_host_that_does_not_answer_is_needed_for_quotes_alone(tmp_path: Path) -> None:
    vm, _, services = software_vm(tmp_path / "snp")
    services.error = LOST
    assert on(vm)["azure.host"].outcome == "warning"
    services.error = None
    services.status = 429
    assert on(vm)["azure.host"].outcome == "warning"
    vm, _, services = software_vm(tmp_path / "tdx", TDX)
    services.status = 404
    assert on(vm)["azure.host"].outcome == "pass"
    services.error = LOST
    assert on(vm)["azure.host"].outcome == "fail"


def test_the_log_of_the_boot_is_looked_for(tmp_path: Path) -> None:
    vm, _, _ = software_vm(tmp_path)
    assert "securityfs" in (on(vm)["eventlog"].fix or "")
    vm.machine.has(str(TCG_LOG))
    assert "securityfs" in (on(vm)["eventlog"].fix or "")
    (tmp_path / TCG_LOG).write_bytes(b"log")
    assert (on(vm)["eventlog"].outcome, "cannot be read" in on(vm)["eventlog"].found) == ("warning", True)
    (tmp_path / TCG_LOG).unlink()
    (tmp_path / TCG_LOG).mkdir()
    assert on(vm)["eventlog"].outcome == "warning"


def test_the_log_of_the_boot_is_compared_with_the_tpm(tmp_path: Path) -> None:
    vm, tpm, _ = software_vm(tmp_path)
    vm.boot()
    assert "lead to the TPM's registers" in on(vm)["eventlog"].found
    tpm.extend(4)
    told = on(vm)["eventlog"]
    assert (told.outcome, told.found[:8]) == ("warning", "PCR4 is ")
    tpm.errors["open"] = [CollectionError("no package", code="tpm-binding-missing", hint="install it")]
    alone = on(vm)["eventlog"]
    assert (alone.outcome, alone.found) == ("pass", f"/{TCG_LOG}, {len(BOOT)} events")


def test_on_a_machine_without_a_tee_neither_tpm_nor_host_is_asked(tmp_path: Path) -> None:
    vm, tpm, services = software_vm(tmp_path / "azure")
    tpm.errors["open"] = [LOST]
    services.error = LOST
    machine = plain_machine(tmp_path / "plain")
    told = found(replace(machine.access, open_tpm=vm.tpm.open, azure=services))
    assert told["tee"].outcome == "fail"
    assert not {"tpm.binding", "azure.report", "azure.host"} & told.keys()
    assert tpm.errors["open"] == [LOST]
