"""`attest collect evidence` and `attest doctor`, on machines made for the test."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from attest.cli.main import cli
from attest.collect.access import MachineAccess
from attest.collect.tpm import Tpm
from attest.evidence.binding import parse_binding
from attest.evidence.envelope import parse_envelope
from attest.policy.reference_values.reference_documents import read_reference_document
from attest.release.wire import Challenge
from tests.cli.conftest import LAB, Ran, attest  # noqa: F401  a fixture
from tests.cli.test_endorsements import kds  # noqa: F401  a fixture
from tests.collect.azure_vm import SNP, AzureMachine, software_vm
from tests.collect.fake_machine import FakeMachine, plain_machine, snp_guest, snp_machine, tdx_machine, with_gpus
from tests.collect.swtpm import swtpm_vm
from tests.samples import AT

On = Callable[..., Ran]
NONCE = "5f" * 32
LAX = ("--unchecked", "revocation=a test")
POLICY = """
schema: attest.policy/1
name: unit
version: 1
simulated: {unchecked: "a test on the simulator"}
unchecked: {revocation: "a test without a CRL"}
reference_values:
  good: {origin: "the simulator", values: ["%s"]}
snp:
  products: [Genoa]
  measurement: [good]
  minimum_tcb:
    Genoa: {bootloader: 9, tee: 0, snp: 26, microcode: 80}
"""


@dataclass(frozen=True)
class Named:
    """A machine by how it is reached alone."""

    access: MachineAccess


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> On:
    """Run `attest` on a machine, in an empty directory."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")

    def run(machine: FakeMachine | AzureMachine | Named, *arguments: str) -> Ran:
        found = CliRunner().invoke(cli, arguments, obj=machine.access)
        assert "Traceback" not in found.output
        return Ran(code=found.exit_code, out=found.stdout, err=found.stderr)

    return run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


def challenge() -> bytes:
    made = Challenge(token="t", nonce=bytes(32), audience="kms.example", expires_at=AT)
    return json.dumps(made.to_json()).encode()


# -- attest collect evidence


def test_what_is_collected_is_what_verification_reads(on: On, root: Path) -> None:
    machine = snp_machine(root)
    ran = on(machine, "collect", "evidence", "--nonce", NONCE, "-o", "evidence.json")
    assert (ran.code, ran.err) == (0, "")
    assert "sev-snp" in ran.out
    ran = on(machine, "verify", "evidence.json", "--nonce", NONCE, *LAB, *LAX, "--json")
    assert (ran.code, ran.document["freshness"]) == (0, "matched")
    assert on(machine, "verify", "evidence.json", "--nonce", "00" * 32, *LAB, *LAX).code == 4


def test_standard_output_holds_the_envelope_alone(on: On, root: Path) -> None:
    for options in ([], ["--json"], ["--quiet"]):
        ran = on(
            tdx_machine(root / str(len(options)) / "".join(options)), "collect", "evidence", "--nonce", NONCE, *options
        )
        assert (ran.code, ran.err) == (0, "")
        assert [item.name for item in parse_envelope(ran.out.encode()).items] == ["cpu", "eventlog"]


def test_a_nonce_made_up_here_is_told(on: On, root: Path) -> None:
    ran = on(snp_machine(root), "collect", "evidence")
    assert ran.err == f"nonce: {1:064x}\n"
    assert on(snp_machine(root / "other"), "collect", "evidence", "-q").err == ""


def test_what_was_written_is_told_to_programs(on: On, root: Path) -> None:
    machine = with_gpus(tdx_machine(root))
    told = on(machine, "collect", "evidence", "--nonce", NONCE, "-o", "a.json", "--json").document
    assert (told["schema"], told["tee"], told["interface"]) == ("attest.collected-evidence/1", "tdx", "configfs-tsm")
    assert [item["name"] for item in told["items"]] == ["cpu", "eventlog", "gpu0", "gpu1", "binding"]
    assert len(told["digest"]) == 96
    assert told["notes"] == []
    assert on(machine, "collect", "evidence", "--nonce", NONCE, "-o", "b.json", "-q").out == ""


def test_gpus_and_log_can_be_left_out(on: On, root: Path) -> None:
    ran = on(with_gpus(tdx_machine(root)), "collect", "evidence", "--nonce", "ab", "--no-gpus", "--no-eventlog")
    assert [item.name for item in parse_envelope(ran.out.encode()).items] == ["cpu"]


def test_what_was_left_out_is_warned_of(on: On, root: Path) -> None:
    machine = tdx_machine(root)
    (root / "sys/firmware/acpi/tables/data/CCEL").unlink()
    ran = on(machine, "collect", "evidence", "--nonce", NONCE)
    assert ran.err.startswith("warning: this machine's firmware left no event log")


def test_all_of_report_data_can_be_given(on: On, root: Path) -> None:
    machine = snp_machine(root)
    assert on(machine, "collect", "evidence", "--report-data", "07" * 64, "-o", "a.json").code == 0
    assert on(machine, "verify", "a.json", "--report-data", "07" * 64, *LAB, *LAX).code == 0


def test_a_challenge_of_a_service_is_answered_for_a_key(on: On, root: Path) -> None:
    Path("challenge.json").write_bytes(challenge())
    options = ("--challenge", "challenge.json", "--key", "0020" + "11" * 32)
    ran = on(with_gpus(snp_machine(root), 1), "collect", "evidence", *options)
    item = parse_envelope(ran.out.encode()).item("binding")
    assert item is not None
    bound = parse_binding(item.value)
    assert (bound.context, bound.role, bound.audience) == ("kms-release/v1", "workload", "kms.example")
    assert (bound.nonce, bound.key, len(bound.devices)) == (bytes(32), b"\0\x20" + b"\x11" * 32, 1)


def test_a_vmpl_can_be_chosen(on: On, root: Path) -> None:
    machine = snp_machine(root, floor=1)
    assert on(machine, "collect", "evidence", "--vmpl", "2", "-o", "a.json").code == 0
    ran = on(machine, "collect", "evidence", "--vmpl", "0", "-o", "b.json")
    assert (ran.code, ran.out) == (6, "")
    assert not Path("b.json").exists()


def test_a_file_that_is_there_stays_unless_forced(on: On, root: Path) -> None:
    Path("a.json").write_text("mine")
    machine = snp_machine(root)
    assert on(machine, "collect", "evidence", "-o", "a.json").code == 2
    assert Path("a.json").read_text() == "mine"
    assert on(machine, "collect", "evidence", "-o", "a.json", "--force").code == 0


@pytest.mark.parametrize(
    "options",
    [
        ("--nonce", NONCE, "--report-data", "00" * 64),
        ("--nonce", NONCE, "--challenge", "challenge.json", "--key", "0020"),
        ("--challenge", "challenge.json"),
        ("--key", "0020"),
        ("--challenge", "nothing.json", "--key", "0020"),
        ("--challenge", "broken.json", "--key", "0020"),
        ("--nonce", ""),
        ("--nonce", "00" * 65),
        ("--nonce", "00"),
        ("--report-data", "00" * 64),
        ("--report-data", "00" * 63),
        ("--vmpl", "4"),
    ],
)
def test_options_that_do_not_fit_are_wrong_usage(on: On, options: tuple[str, ...], root: Path) -> None:
    Path("challenge.json").write_bytes(challenge())
    Path("broken.json").write_text("{}")
    ran = on(with_gpus(snp_machine(root)), "collect", "evidence", *options)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")


def test_without_a_tee_there_is_a_friendly_answer_in_under_a_second(on: On, root: Path) -> None:
    machine = plain_machine(root)
    started = time.process_time()
    ran = on(machine, "collect", "evidence", "-o", "a.json")
    assert time.process_time() - started < 1
    assert (ran.code, ran.out) == (6, "")
    error, hint = ran.err.splitlines()
    assert error == "error: no TEE here: this virtual machine is no confidential one"
    assert hint.startswith("hint: ask for a SEV-SNP or TDX guest")
    assert not Path("a.json").exists()


# -- attest doctor


def test_a_machine_that_is_ready_is_exit_0(on: On, root: Path) -> None:
    ran = on(with_gpus(tdx_machine(root)), "doctor")
    assert (ran.code, ran.err) == (0, "")
    assert "READY" in ran.out
    assert on(snp_machine(root / "other"), "doctor", "-q").out == ""


def test_what_is_missing_is_exit_6_with_a_fix(on: On, root: Path) -> None:
    started = time.process_time()
    ran = on(plain_machine(root), "doctor")
    assert time.process_time() - started < 1
    assert ran.code == 6
    assert "fix: ask for a SEV-SNP or TDX guest" in ran.out
    assert "MISSING  tee" in ran.out


def test_findings_are_told_to_programs(on: On, root: Path) -> None:
    told = on(plain_machine(root), "doctor", "--json").document
    assert (told["schema"], told["outcome"]) == ("attest.doctor/1", "missing")
    assert "tee" not in told
    assert {one["id"] for one in told["findings"]} >= {"tee", "interface", "permissions", "clock", "cache"}
    told = on(snp_machine(root / "snp"), "doctor", "--json").document
    assert (told["outcome"], told["tee"], told["interface"], told["hypervisor"]) == (
        "ready",
        "sev-snp",
        "configfs-tsm",
        "QEMU",
    )


def test_a_place_for_the_cache_is_looked_for(on: On, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = snp_machine(root)
    assert str(root / "mine") in on(machine, "doctor", "--cache", str(root / "mine"), "--json").out
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", "")
    ran = on(machine, "doctor", "--json")
    assert (ran.code, "XDG_CACHE_HOME" in ran.out) == (6, True)


def test_a_policy_that_would_be_met_is_told(on: On, root: Path) -> None:
    Path("p.yaml").write_text(POLICY % snp_guest().measurement.hex())
    ran = on(snp_machine(root), "doctor", "--policy", "p.yaml", "--allow-simulated", "--json")
    assert ran.code == 0, ran.out
    by_id = {one["id"]: one for one in ran.document["findings"]}
    assert by_id["evidence"]["found"] == "sev-snp by configfs-tsm, 0 GPUs"
    assert by_id["policy unit"]["found"].startswith("would be affirmed")


def test_a_policy_takes_its_documents_of_reference_values(on: On, root: Path) -> None:
    values = {"workload": {"kind": "snp-measurement", "values": [snp_guest().measurement.hex()]}}
    head = {"schema": "attest.references/1", "name": "images", "version": 1, "origin": "a test"}
    dates = {"issued": "2020-01-01T00:00:00Z", "expires": {"unchecked": "a test that runs whenever it runs"}}
    data = json.dumps({**head, **dates, "values": values}).encode()
    Path("images.json").write_bytes(data)
    begin, _, rest = POLICY.partition("reference_values:")
    row = f'references:\n  - {{document: images, sha256: "{read_reference_document(data).digest.hex()}"}}\n'
    Path("p.yaml").write_text(begin + row + rest[rest.index("snp:") :].replace("[good]", "[workload]"))
    asked = ("doctor", "--policy", "p.yaml", "--allow-simulated", "--json")
    ran = on(snp_machine(root), *asked, "--references", "images.json")
    assert (ran.code, "would be affirmed" in ran.out) == (0, True)
    ran = on(snp_machine(root / "other"), *asked)
    assert (ran.code, "--references" in ran.err) == (2, True)


def test_each_failure_of_a_policy_comes_with_a_fix(on: On, root: Path) -> None:
    Path("p.yaml").write_text(POLICY % ("00" * 48))
    ran = on(snp_machine(root), "doctor", "--policy", "p.yaml", "--allow-simulated", "--json")
    assert ran.code == 6
    (failed,) = [one for one in ran.document["findings"] if one["outcome"] == "fail"]
    assert failed["id"] == "policy unit"
    assert "policy.snp.measurement" in failed["found"]
    assert "attest measure snp" in failed["fix"]


def test_evidence_that_does_not_verify_is_told(on: On, root: Path) -> None:
    Path("p.yaml").write_text(POLICY % snp_guest().measurement.hex())
    ran = on(snp_machine(root), "doctor", "--policy", "p.yaml", "--json")
    assert ran.code == 6
    assert "simulated-root-refused" in ran.out


def test_endorsements_that_are_missing_are_told_and_nothing_is_fetched(on: On, root: Path) -> None:
    strict = POLICY.replace('unchecked: {revocation: "a test without a CRL"}\n', "")
    Path("p.yaml").write_text(strict % snp_guest().measurement.hex())
    ran = on(snp_machine(root), "doctor", "--policy", "p.yaml", "--allow-simulated", "--json")
    failed = [one for one in ran.document["findings"] if one["outcome"] == "fail"]
    assert [one["fix"] for one in failed] == ["fetch it with --online, or pass it with --endorsements"]


def test_endorsements_can_be_given(on: On, root: Path) -> None:
    strict = POLICY.replace('unchecked: {revocation: "a test without a CRL"}\n', "")
    Path("p.yaml").write_text(strict % snp_guest().measurement.hex())
    assert on(plain_machine(root / "x"), "simulate", "endorsements", "-o", "chip.endorsements").code == 0
    options = ("--policy", "p.yaml", "--allow-simulated", "--endorsements", "chip.endorsements", "--json")
    ran = on(snp_machine(root), "doctor", *options)
    assert ran.code == 0, ran.out


@pytest.mark.loopback
def test_what_is_missing_is_fetched_when_that_is_allowed(on: On, root: Path, kds: tuple[str, list[str]]) -> None:  # noqa: F811
    strict = POLICY.replace('unchecked: {revocation: "a test without a CRL"}\n', "")
    Path("p.yaml").write_text(strict % snp_guest().measurement.hex())
    url, asked = kds
    options = ("--policy", "p.yaml", "--allow-simulated", "--online", "--kds", url, "--json")
    ran = on(snp_machine(root), "doctor", *options)
    assert ran.code == 0, ran.out
    assert asked


def test_a_policy_without_evidence_to_judge_is_told(on: On, root: Path) -> None:
    Path("p.yaml").write_text(POLICY % snp_guest().measurement.hex())
    ran = on(plain_machine(root), "doctor", "--policy", "p.yaml", "--json")
    assert ran.code == 6
    assert {one["id"] for one in ran.document["findings"] if one["outcome"] == "fail"} == {"tee", "evidence"}


def test_options_for_a_policy_need_one(on: On, root: Path) -> None:
    assert on(snp_machine(root), "doctor", "--allow-simulated").code == 2
    assert on(snp_machine(root / "a"), "doctor", "--policy", "none.yaml").code == 2


# -- attest doctor --online


@pytest.mark.loopback
def test_services_that_answer_and_services_that_do_not_are_told(on: On, root: Path) -> None:
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        machine = with_gpus(snp_machine(root))
        options = ("--kds", address, "--rim-url", address, "--ocsp-url", "http://127.0.0.1:1")
        ran = on(machine, "doctor", "--online", *options, "--json")
        server.shutdown()
    told = {one["id"]: one["outcome"] for one in ran.document["findings"] if one["id"].startswith("service.")}
    assert told == {"service.amd": "pass", "service.nvidia-rim": "pass", "service.nvidia-ocsp": "fail"}
    assert ran.code == 6


# -- Azure


def test_an_azure_vm_is_collected_and_verified(on: On, root: Path) -> None:
    vm, _, _ = software_vm(root)
    ran = on(vm, "collect", "evidence", "--nonce", NONCE, "-o", "a.json", "--json")
    assert (ran.code, ran.document["tee"], ran.document["interface"]) == (0, "azure-snp", "azure-vtpm")
    assert on(vm, "verify", "a.json", "--nonce", NONCE, *LAB, *LAX).code == 0
    assert on(vm, "verify", "a.json", "--nonce", "00" * 32, *LAB, *LAX).code == 4


def test_all_of_the_user_data_can_be_given(on: On, root: Path) -> None:
    vm, _, _ = software_vm(root)
    assert on(vm, "collect", "evidence", "--report-data", "07" * 64, "-o", "a.json").code == 0
    assert on(vm, "verify", "a.json", "--report-data", "07" * 64, *LAB, *LAX).code == 0


def test_a_nonce_that_no_tpm_quotes_is_wrong_usage(on: On, root: Path) -> None:
    vm, _, _ = software_vm(root)
    assert on(vm, "collect", "evidence", "--nonce", "ab" * 48, "-o", "a.json").code == 0
    for size in (49, 64):
        ran = on(vm, "collect", "evidence", "--nonce", "ab" * size, "-o", "b.json")
        assert (ran.code, ran.out) == (2, "")
        assert "at most 48 bytes" in ran.err


def test_another_way_to_the_tpm_can_be_named(on: On, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vm, tpm, _ = software_vm(root)
    (root / "dev/tpmrm0").unlink()
    assert on(vm, "collect", "evidence").code == 6
    opened: list[str] = []

    def open_tpm(tcti: str) -> Tpm:
        opened.append(tcti)
        return tpm

    access = replace(vm.access, open_tpm=open_tpm)
    assert on(Named(access), "collect", "evidence", "--tcti", "swtpm:port=1").code == 0
    monkeypatch.setenv("ATTEST_TCTI", "swtpm:port=2")
    assert on(Named(access), "collect", "evidence").code == 0
    assert on(Named(access), "doctor").code == 0
    assert opened == ["swtpm:port=1", "swtpm:port=2", "swtpm:port=2"]
    assert on(Named(access), "collect", "evidence", "--tcti", "").code == 2


def test_a_policy_that_says_nothing_of_azure_refuses_for_that_alone(on: On, root: Path) -> None:
    vm, _, _ = software_vm(root)
    Path("policy.yaml").write_text(POLICY % SNP.guest.measurement.hex())
    assert on(vm, "collect", "evidence", "--nonce", NONCE, "-o", "a.json").code == 0
    ran = on(vm, "appraise", "a.json", "--nonce", NONCE, "--policy", "policy.yaml", *LAB, "--json")
    assert (ran.code, ran.document["freshness"]) == (1, "matched")
    assert {check["id"] for check in ran.document["checks"] if check["outcome"] == "fail"} == {"policy.kind"}
    told = on(vm, "doctor", "--policy", "policy.yaml", "--allow-simulated", "--json")
    assert told.code == 6
    assert [one["id"] for one in told.document["findings"] if one["outcome"] == "fail"] == ["policy unit"]


@pytest.mark.loopback
def test_a_real_tpm_is_asked_through_the_way_that_is_named(on: On, tmp_path: Path) -> None:
    with swtpm_vm(tmp_path / "vm") as (vm, tpm):
        plain = replace(vm.access, tcti=None)
        ran = on(Named(plain), "doctor", "--tcti", tpm.tcti, "--json")
        assert {one["id"] for one in ran.document["findings"] if one["outcome"] == "fail"} == set()
        ran = on(Named(plain), "collect", "evidence", "--tcti", tpm.tcti, "--nonce", NONCE, "-o", "a.json")
        assert ran.code == 0
        assert "no log of its boot" in ran.err  # a TPM in software has none
        assert on(Named(plain), "collect", "evidence", "--tcti", "device:/nowhere/tpmrm0").code == 6
        assert on(Named(plain), "verify", "a.json", "--nonce", NONCE, *LAB, *LAX).code == 0
