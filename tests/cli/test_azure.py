"""Azure VMs at the command line: verified, told to people, inspected, and nonce and user data kept apart."""

import json
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from attest.evidence.azure.forms import raw_tpm_quote_bytes
from attest.evidence.azure.structure import HclReportType
from attest_simulator.revocation_lists import simulated_crl
from attest_simulator.tpm_log import (
    extended,
    replayed_pcrs,
    startup_locality,
    typical_tpm_boot,
    write_tpm_log,
)
from tests.cli.conftest import LAB, Attest, Ran
from tests.evidence.azure.made import CHIP, NONCE, PLATFORM, AzureVm, quote
from tests.evidence.azure.test_event_log import booted
from tests.samples import AT

SNP, TDX = AzureVm(), AzureVm(kind=HclReportType.TDX)
Ask = Callable[..., Ran]


@pytest.fixture
def ask(attest: Attest, tmp_path: Path) -> Ask:
    """Return a question about a VM, with everything that its CPU's vendor says at hand."""

    def asked(command: str, vm: AzureVm, *options: str) -> Ran:
        folder = tmp_path / "endorsements"
        folder.mkdir(exist_ok=True)
        leaf, intermediate, root = CHIP.certificates()
        parts = {"leaf": leaf, "ask": intermediate, "ark": root, "crl": simulated_crl(CHIP.product, at=AT)}
        for name, der in parts.items():
            (folder / f"{name}.der").write_bytes(der)
        (folder / "intel.json").write_bytes(PLATFORM.collateral("tdx", at=AT).to_json())
        (tmp_path / "vm.json").write_bytes(vm.json)
        return attest(command, tmp_path / "vm.json", *LAB, "--endorsements", folder, *options)

    return asked


def test_a_vm_is_verified_and_its_claims_hold_the_cpus(ask: Ask) -> None:
    for vm, inner in ((SNP, "snp"), (TDX, "tdx")):
        ran = ask("verify", vm, "--nonce", NONCE.hex(), "--json")
        assert ran.code == 0, ran.err
        (item,) = ran.document["items"]
        assert (item["kind"], ran.document["freshness"]) == (f"azure-{inner}", "matched")
        assert item["claims"][inner]["report_data"] == vm.committed.hex()
        assert len(item["claims"]["pcrs"]) == 24


def test_people_are_told_the_registers_before_the_paravisor(ask: Ask) -> None:
    for vm, name in ((SNP, "AMD Genoa"), (TDX, "Intel TDX")):
        ran = ask("verify", vm, "--nonce", NONCE.hex())
        assert ran.code == 0
        for word in (name, "secure boot on", "serial console off", "PCR 7", "PCR 11", "2 resets", "paravisor"):
            assert word in ran.out, word
        assert "PCR 1 " not in ran.out
    whole = ask("verify", SNP, "--nonce", NONCE.hex(), "--verbose").out
    assert "vm_configuration.secure_boot" in whole
    assert "snp.measurement" in whole


def test_a_bare_vm_is_told_too(ask: Ask) -> None:
    claims: dict[str, Any] = json.loads(SNP.runtime_data)
    few = {"keys": claims["keys"], "vm-configuration": {"secure-boot": False}}
    ran = ask("verify", AzureVm(runtime=json.dumps(few).encode()), "--nonce", NONCE.hex())
    assert "secure boot OFF, serial console ON" in ran.out


def test_nonce_and_user_data_are_two_fields(ask: Ask) -> None:
    mine = bytes(range(64))
    vm = AzureVm(claims={"user-data": mine.hex()})
    both = ask("verify", vm, "--nonce", NONCE.hex(), "--report-data", mine.hex(), "--json")
    assert (both.code, both.document["freshness"]) == (0, "matched")
    alone = ask("verify", vm, "--report-data", mine.hex(), "--json")
    assert (alone.code, alone.document["freshness"]) == (0, "not evaluated")
    other = ask("verify", vm, "--nonce", NONCE.hex(), "--report-data", "00" * 64, "--json")
    assert (other.code, other.document["error"]["code"]) == (4, "report-data-mismatch")
    assert ask("verify", replace(vm, tpm=quote(extra_data=b"?")), "--nonce", NONCE.hex(), "--json").code == 4
    assert ask("verify", vm, "--nonce", "").code == 2


BOOT = typical_tpm_boot(command_line="ro quiet")


def logged(tmp_path: Path, data: bytes = write_tpm_log(BOOT)) -> tuple[str, str]:
    """Return the option that names a log."""
    (tmp_path / "log").write_bytes(data)
    return "--eventlog", str(tmp_path / "log")


def test_the_log_of_the_boot_replays_to_the_pcrs(ask: Ask, tmp_path: Path) -> None:
    for kind in HclReportType:
        ran = ask("verify", booted(BOOT, kind=kind), "--nonce", NONCE.hex(), *logged(tmp_path), "--json")
        assert ran.code == 0, ran.err
        claims = ran.document["items"][0]["claims"]["eventlog"]
        assert [line["text"] for line in claims["kernel_command_lines"]] == ["ro quiet"]
        assert claims["secure_boot"]["register"] == "PCR7"
    page = ask("verify", booted(BOOT), "--nonce", NONCE.hex(), *logged(tmp_path)).out
    assert f"eventlog.replay: {len(BOOT)} events replay" in page
    assert "replays to the registers" in page


def test_a_log_that_does_not_is_refused(ask: Ask, tmp_path: Path) -> None:
    fresh = ("--nonce", NONCE.hex(), "--json")
    other = ask("verify", booted(), *fresh, *logged(tmp_path))
    assert (other.code, other.document["error"]["code"]) == (4, "eventlog-register-mismatch")
    broken = ask("verify", booted(BOOT), *fresh, *logged(tmp_path, b"log"))
    assert (broken.code, broken.document["error"]["code"]) == (3, "eventlog-malformed")


def test_what_the_system_extended_since_can_be_left_unjudged(ask: Ask, tmp_path: Path) -> None:
    vm = booted(BOOT, changed={8: bytes(range(32))})
    arguments = ("--nonce", NONCE.hex(), *logged(tmp_path), "--json")
    refused = ask("verify", vm, *arguments)
    assert (refused.code, refused.document["error"]["field"]) == (4, "PCR8")
    assert "--unchecked eventlog=REASON" in refused.document["error"]["hint"]
    ran = ask("verify", vm, *arguments, "--unchecked", "eventlog=init data")
    assert ran.code == 0
    assert ran.check("eventlog.replay")["outcome"] == "not evaluated"
    assert "kernel_command_lines" not in ran.document["items"][0]["claims"]["eventlog"]


def test_a_known_good_boot_tells_which_event_differs(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "good").write_bytes(write_tpm_log(typical_tpm_boot()))
    given = ("--nonce", NONCE.hex(), "--reference-log", str(tmp_path / "good"), "--json")
    late = {10: bytes(range(32)), 1: extended(replayed_pcrs(BOOT)[1], sha256(b"os-separator").digest())}
    told = ask("verify", booted(BOOT, changed=late), *given, *logged(tmp_path)).document["reference_log"]
    assert [register["register"] for register in told["registers"]] == ["PCR8", "PCR9"]
    first = told["registers"][0]
    assert (first["position"], first["got_event"]["text"]) == (1, "grub_cmd: linux ro quiet")
    assert "/vmlinuz" in first["expected_event"]["text"]
    same = ask("verify", booted(changed=late), *given).document["reference_log"]
    assert (same["agrees"], same["eventlog"]) == (True, False)
    few = ask("verify", booted(selected=(4, 7)), *given).document["reference_log"]
    assert few["agrees"] is True
    (tmp_path / "good").write_bytes(b"no log")
    ran = ask("verify", booted(), *given)
    assert (ran.code, "binary_bios_measurements" in ran.err) == (2, True)


def test_a_log_alone_is_inspected(attest: Attest, tmp_path: Path) -> None:
    boot = (startup_locality(3), *BOOT)
    (tmp_path / "log").write_bytes(write_tpm_log(boot))
    (file,) = attest("inspect", tmp_path / "log", "--json").document["files"]
    assert (file["form"], file["event_log"]["kind"]) == ("ccel", "TCG2")
    values = replayed_pcrs(boot)
    assert file["event_log"]["replayed"] == {f"pcr{index}": values[index].hex() for index in (*range(10), 14)}
    assert attest("inspect", tmp_path / "log").code == 0


def test_inspection_shows_every_layer_and_verifies_none(attest: Attest, tmp_path: Path) -> None:
    for vm, inner in ((SNP, "report"), (TDX, "quote")):
        path = tmp_path / "vm.json"
        path.write_bytes(vm.json)
        (item,) = attest("inspect", path, "--json").document["files"][0]["evidence"]["items"]
        assert item["tpm_quote"]["extra_data"] == NONCE.hex()
        assert item["runtime_claims"]["vm_configuration"]["secure_boot"] is True
        assert item["hcl_report"]["report_type"] == f"az-{vm.kind.name.lower()}"
        assert inner in item


def test_inspection_shows_what_can_be_read_of_the_rest(attest: Attest, tmp_path: Path) -> None:
    path = tmp_path / "vm.json"
    unreadable = AzureVm(runtime=b"{}")
    document = json.loads(unreadable.json)
    document["tpm_quote"]["message"] = ""
    path.write_text(json.dumps(document))
    (item,) = attest("inspect", path, "--json").document["files"][0]["evidence"]["items"]
    assert set(item["runtime_claims"]) == set(item["tpm_quote"]) == {"unreadable"}
    more = AzureVm(claims={"new": 1})
    runtime = json.loads(more.runtime_data)
    del runtime["user-data"]
    path.write_bytes(AzureVm(runtime=json.dumps(runtime).encode()).json)
    (item,) = attest("inspect", path, "--json").document["files"][0]["evidence"]["items"]
    assert item["runtime_claims"]["unknown"] == {"new": "1"}


def test_raw_pieces_are_given_together(attest: Attest, tmp_path: Path) -> None:
    for name, data in (("hcl-report.bin", SNP.hcl), ("quote.bin", raw_tpm_quote_bytes(SNP.raw_quote))):
        (tmp_path / name).write_bytes(data)
    alone = attest("verify", tmp_path / "hcl-report.bin", *LAB, "--json")
    assert (alone.code, alone.document["error"]["code"]) == (3, "azure-incomplete")
    both = attest("verify", tmp_path / "hcl-report.bin", tmp_path / "quote.bin", *LAB, "--json")
    assert (both.code, both.document["error"]["code"]) == (5, "snp-leaf-missing")


def test_the_baseline_asks_of_the_cpus_report_what_it_asks_of_any(ask: Ask) -> None:
    for vm, inner in ((SNP, "snp"), (TDX, "tdx")):
        ran = ask("appraise", vm, "--nonce", NONCE.hex(), "--json")
        assert ran.code == 1
        failed = {check["id"] for check in ran.document["checks"] if check["outcome"] == "fail"}
        assert failed == {"policy.not_simulated"}
        assert any(check["id"].startswith(f"policy.{inner}.") for check in ran.document["checks"])
