"""`attest simulate azure` and `imds`: evidence of confidential VMs, and the service beside them."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from attest.evidence.azure.forms import parse_azure_evidence
from attest.evidence.azure.runtime import parse_runtime_claims
from attest.evidence.binding import parse_binding
from attest.evidence.envelope import parse_envelope
from tests.cli.conftest import LAB, WHEN, Attest, Files

NONCE = "0123456789abcdef" * 4
OUT = ("-o", "vm", "--endorsements-out", "e", "--at", WHEN, "--force")
ASK = ("--nonce", NONCE)
VERIFY = ("verify", "vm", "--endorsements", "e", *LAB, *ASK, "--json")


@pytest.mark.parametrize("tee", ["snp", "tdx"])
@pytest.mark.parametrize("form", ["coco-v0", "coco-v1", "coco-v2", "attestation-rs", "envelope"])
def test_a_vm_verifies_in_the_laboratory_and_nowhere_else(attest: Attest, tee: str, form: str) -> None:
    made = attest("simulate", "azure", "--tee", tee, "--form", form, *ASK, *OUT)
    assert (made.code, made.out) == (0, ""), made.err
    assert "SIMULATED" in made.err
    ran = attest(*VERIFY)
    assert ran.code == 0, ran.err
    (item,) = ran.document["items"]
    assert (item["kind"], ran.document["freshness"]) == (f"azure-{tee}", "matched")
    real = attest("verify", "vm", "--endorsements", "e", "--offline", "--at", WHEN, *ASK)
    assert real.code == 4


def test_the_options_say_what_a_policy_asks_for(attest: Attest, files: Files) -> None:
    options = ("--no-secure-boot", "--no-console", "--vm-id", "my VM", "--measurement", "ab" * 48)
    registers = ("--pcr", f"11={'cd' * 32}", "--pcr", f"4={'ef' * 32}")
    data = "5a" * 64
    made = attest("simulate", "azure", *options, *registers, *ASK, "--report-data", data, *OUT)
    assert made.code == 0, made.err
    claims = attest(*VERIFY, "--report-data", data).document["items"][0]["claims"]
    assert claims["vm_configuration"] == {
        "console_enabled": False,
        "secure_boot": False,
        "tpm_enabled": True,
        "vm_unique_id": "my VM",
    }
    assert (claims["pcrs"]["11"], claims["pcrs"]["4"]) == ("cd" * 32, "ef" * 32)
    assert claims["snp"]["measurement"] == "ab" * 48
    assert claims["user_data"] == data
    parsed = parse_azure_evidence((files.folder / "vm").read_bytes())
    assert parse_runtime_claims(parsed.hcl.runtime_data).unknown == {}


def test_a_host_that_intel_calls_out_of_date(attest: Attest) -> None:
    attest("simulate", "azure", "--tee", "tdx", "--out-of-date", "--measurement", "07" * 48, *ASK, *OUT)
    claims = attest(*VERIFY).document["items"][0]["claims"]
    assert (claims["tdx"]["tcb_status"], claims["tdx"]["mr_td"]) == ("OutOfDate", "07" * 48)


def test_the_same_options_give_the_same_bytes_and_other_names_other_vms(attest: Attest, files: Files) -> None:
    made = {"a": [], "b": [], "c": ["--vm", "VM 1"], "d": ["--host", "host 1"], "e": ["--product", "Milan"]}
    for name, options in made.items():
        assert attest("simulate", "azure", *ASK, *options, "--at", WHEN, "-o", name).code == 0
    found = [(files.folder / name).read_bytes() for name in made]
    assert found[0] == found[1]
    assert len(set(found)) == 4


@pytest.mark.parametrize("tee", ["snp", "tdx"])
def test_a_vm_with_a_gpu_is_one_machine(attest: Attest, files: Files, tee: str) -> None:
    options = ("--gpus", 1, "--form", "envelope", "--device-endorsements-out", "g")
    made = attest("simulate", "azure", "--tee", tee, *options, *ASK, *OUT)
    assert made.code == 0, made.err
    ran = attest(*VERIFY, "--endorsements", "g")
    assert ran.code == 0, ran.err
    assert [item["kind"] for item in ran.document["items"]] == [f"azure-{tee}", "nvidia-gpu"]
    evidence = parse_envelope((files.folder / "vm").read_bytes())
    cpu, bound = evidence.item("cpu"), evidence.item("binding")
    assert cpu is not None
    assert bound is not None
    binding, parsed = parse_binding(bound.value), parse_azure_evidence(cpu.value)
    assert (parsed.stated_user_data, parsed.stated_extra_data) == (binding.report_data(), binding.extra_data())


def test_wrong_options(attest: Attest) -> None:
    for options in (
        ["--tee", "sgx"],
        ["--out-of-date"],
        ["--pcr", "24=" + "00" * 32],
        ["--pcr", "11"],
        ["--pcr", "11=00"],
        ["--pcr", "11=" + "00" * 32, "--pcr", "11=" + "01" * 32],
        ["--nonce", "00" * 49],
        ["--nonce-text", "x" * 49],
        ["--report-data", "00"],
        ["--measurement", "00"],
        ["--gpus", "1"],
        ["--gpus", "1", "--form", "envelope", "--nonce", "00"],
        ["--nonce", "00", "--nonce-text", "other"],
    ):
        ran = attest("simulate", "azure", *options, "-o", "x", "--force")
        assert (ran.code, ran.out) == (2, ""), options


@pytest.mark.loopback
def test_the_service_beside_a_vm_is_busy_and_answers(attest: Attest) -> None:
    command = [sys.executable, "-c", "from attest.cli.main import main; raise SystemExit(main())"]
    process = subprocess.Popen(
        [*command, "simulate", "imds", "--product", "Milan", "--busy", "503", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        asked = urllib.request.Request(f"{url}/metadata/THIM/amd/certification", headers={"Metadata": "true"})  # noqa: S310  loopback
        with pytest.raises(urllib.error.HTTPError) as busy:
            urllib.request.urlopen(asked, timeout=10)  # noqa: S310  loopback
        assert busy.value.code == 503
        busy.value.close()
        with urllib.request.urlopen(asked, timeout=10) as answer:  # noqa: S310  loopback
            assert json.loads(answer.read())["tcbm"] == "DB18000000000004"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=10)
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("tee", ["snp", "tdx"])
def test_the_log_of_the_boot_leads_to_the_quoted_registers(attest: Attest, tee: str) -> None:
    options = ("--tee", tee, "--eventlog-out", "boot.log", "--command-line", "ro mine", "--no-secure-boot")
    made = attest("simulate", "azure", *options, *ASK, *OUT)
    assert made.code == 0, made.err
    ran = attest(*VERIFY, "--eventlog", "boot.log")
    assert ran.code == 0, ran.err
    facts = ran.document["items"][0]["claims"]["eventlog"]
    assert facts["secure_boot"]["enabled"] is False
    assert [line["text"] for line in facts["kernel_command_lines"]] == ["ro mine"]


def test_a_log_beside_a_register_that_was_named_does_not_replay(attest: Attest) -> None:
    attest("simulate", "azure", "--eventlog-out", "boot.log", "--pcr", "4=" + "ef" * 32, *ASK, *OUT)
    assert attest(*VERIFY, "--eventlog", "boot.log").document["error"]["code"] == "eventlog-register-mismatch"


def test_without_a_log_a_vm_is_as_it_was_and_has_no_command_line(attest: Attest) -> None:
    ran = attest("simulate", "azure", "--command-line", "ro", *ASK, *OUT)
    assert ran.code == 2
    assert "--eventlog-out" in ran.err


def test_a_policy_drafted_with_the_log_of_a_boot_asks_for_it_again(attest: Attest) -> None:
    attest("simulate", "azure", "--eventlog-out", "boot.log", *ASK, *OUT)
    files = ("vm", "--endorsements", "e", *LAB, *ASK)
    made = attest("policy", "init", "--from", *files, "--eventlog", "boot.log", "-o", "p.yaml", "--json")
    assert made.code == 0, made.err
    judged = attest("appraise", *files, "--policy", "p.yaml", "--eventlog", "boot.log", "--json")
    assert judged.code == 0, judged.err
    without = attest("appraise", *files, "--policy", "p.yaml", "--json")
    assert without.code == 1
    failed = {check["id"] for check in without.document["checks"] if check["outcome"] == "fail"}
    assert failed == {"policy.azure.event_log.required", "policy.azure.event_log.secure_boot"}
