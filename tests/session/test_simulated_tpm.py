"""`attest simulate machine --kind azure-... -- PROGRAM`: a program that opens the TPM, and not `attest`, has one."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from attest.evidence.azure.forms import RawTpmQuote, azure_json
from attest_simulator.azure import SimulatedAzureVm, SimulatedSnpHost, SimulatedTdxHost
from attest_simulator.kernel.tpm import TpmDevice
from attest_simulator.kernel.tpm_commands import COMMAND_SIZE
from attest_simulator.machines import MachineKind, SimulatedMachine
from tests.go_programs import go_program
from tests.session.programs import simulate, verified

NONCE = bytes(range(32))
OTHER = bytes(reversed(range(32)))
DATA = bytes(range(64))
TOOLS = ("swtpm", "tpm2_quote")
NO_KERNEL = b"note: the kernel of the real machine answers this program"
COLLECT = """
tpm2_nvread -Q -C o 0x01400001 -o "$0/hcl"
tpm2_quote -Q -c 0x81000003 -l sha256:{all} -q {nonce} -m "$0/message" -s "$0/signature" -f plain
tpm2_pcrread -Q sha256:all -o "$0/pcrs"
"""
USER_DATA = """
tpm2_nvdefine -Q -C o -s 64 0x01400002
tpm2_nvwrite -Q -C o -i "$0/data" 0x01400002
"""
LEAVES_MEMORY = """
for one in 1 2 3 4 5; do tpm2_createprimary -Q -C o -G ecc; done
printf '\\200\\001\\0\\0\\0\\026\\0\\0\\001\\172\\0\\0\\0\\005\\0\\0\\0\\0\\0\\0\\0\\001' > /dev/tpm0
printf '\\200\\001\\0\\0\\0\\0garbage' > /dev/tpm0
until tpm2_getrandom -Q -o "$0/random" 1; do :; done
"""
"""Five objects, where a TPM has room for three; a question whose answer is not read; and what is no command.

A terminal does not show who closed it when. A program right behind one that left may meet its answer; it asks again."""


@pytest.fixture(scope="module", autouse=True)
def shown() -> None:
    """Skip without swtpm, tpm2-tools or mount namespaces, or fail where ATTEST_REQUIRE_TPM_TOOLS=1 promises them."""
    missing = [name for name in TOOLS if shutil.which(name) is None]
    why = f"no {' and no '.join(missing)}; Debian: swtpm and tpm2-tools" if missing else ""
    if not why:
        ran = simulate("--kind", "azure-snp", "--", "true")
        assert ran.returncode == 0, ran.stderr
        why = ran.stderr.decode() if NO_KERNEL in ran.stderr else ""
    if why:
        give_up = pytest.fail if os.environ.get("ATTEST_REQUIRE_TPM_TOOLS") == "1" else pytest.skip
        give_up(why)


def collected(kind: MachineKind, folder: Path, before: str = "", after: str = "") -> tuple[bytes, RawTpmQuote]:
    """What tpm2-tools collect on a machine: the paravisor's report, and a quote under the nonce."""
    script = before + COLLECT.format(all=",".join(map(str, range(24))), nonce=NONCE.hex()) + after
    ran = simulate("--kind", kind, "--endorsements-out", folder / "vendors", "--", "sh", "-euc", script, folder)
    assert ran.returncode == 0, ran.stderr
    signature, message, pcrs = ((folder / name).read_bytes() for name in ("signature", "message", "pcrs"))
    return (folder / "hcl").read_bytes(), RawTpmQuote(signature, message, in_registers(pcrs))


def in_registers(values: bytes) -> tuple[bytes, ...]:
    return tuple(values[at : at + 32] for at in range(0, len(values), 32))


def vm_of(kind: MachineKind) -> SimulatedAzureVm:
    vm = SimulatedMachine.of(kind).cpu
    assert isinstance(vm, SimulatedAzureVm)
    return vm


def as_judged(folder: Path, kind: MachineKind, hcl: bytes, quote: RawTpmQuote) -> dict[bytes, str]:
    """What `attest verify` says under both nonces, with the addition of the VM's host."""
    host = vm_of(kind).host
    vcek = host.vcek() if isinstance(host, SimulatedSnpHost) else None
    td_quote = host.td_quote(hcl) if isinstance(host, SimulatedTdxHost) else None
    file = folder / "evidence.json"
    file.write_bytes(azure_json(hcl=hcl, tpm=quote, td_quote=td_quote, vcek=vcek, version=1))
    given = (file, "--endorsements", folder / "vendors", "--nonce")
    return {nonce: verified(*given, nonce.hex()) for nonce in (NONCE, OTHER)}


def test_tools_that_know_nothing_of_attest_get_evidence_for_their_own_nonce(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(DATA)
    log = 'cat /sys/kernel/security/tpm0/binary_bios_measurements > "$0/log"'
    hcl, quote = collected("azure-snp", tmp_path, LEAVES_MEMORY + USER_DATA, log)
    assert quote.pcrs == vm_of("azure-snp").tpm.pcrs
    assert as_judged(tmp_path, "azure-snp", hcl, quote) == {NONCE: "verified", OTHER: "nonce-mismatch"}
    given = (tmp_path / "evidence.json", "--endorsements", tmp_path / "vendors", "--nonce", NONCE.hex())
    assert verified(*given, "--report-data", DATA.hex(), "--eventlog", tmp_path / "log") == "verified"
    assert verified(*given, "--report-data", bytes(64).hex()) == "report-data-mismatch"
    assert verified(*given, simulated=False) == "simulated-root-refused"


def test_on_tdx_the_report_has_what_the_hosts_service_makes_a_quote_of(tmp_path: Path) -> None:
    hcl, quote = collected("azure-tdx", tmp_path)
    assert as_judged(tmp_path, "azure-tdx", hcl, quote) == {NONCE: "verified", OTHER: "nonce-mismatch"}


def test_a_go_program_gets_evidence_for_its_own_nonce_by_both_interfaces_of_go_tpm(tmp_path: Path) -> None:
    program = go_program(Path(__file__).parent / "golang_tpm", tmp_path, least=22)
    ran = simulate("--kind", "azure-snp", "--endorsements-out", tmp_path / "vendors", "--", program, NONCE.hex())
    assert ran.returncode == 0, ran.stderr
    hcl, message, signature, pcrs = map(bytes.fromhex, ran.stdout.decode().split())
    quote = RawTpmQuote(signature, message, in_registers(pcrs))
    assert as_judged(tmp_path, "azure-snp", hcl, quote) == {NONCE: "verified", OTHER: "nonce-mismatch"}


def test_collection_itself_finds_nothing_missing_through_the_device() -> None:
    pytest.importorskip("tpm2_pytss", reason="tpm2-pytss is not installed (make install-tpm)")
    command = (sys.executable, "-I", "-m", "attest.cli.main", "doctor", "--json")
    ran = simulate("--kind", "azure-tdx", "--", *command)
    found = {one["id"]: one["outcome"] for one in json.loads(ran.stdout)["findings"]}
    asked = ("interface", "permissions", "tee", "azure.report", "azure.ak", "eventlog")
    assert [found[name] for name in asked] == ["pass"] * len(asked), ran.stdout


def test_an_answer_is_not_left_to_the_next_program_once_its_own_is_gone() -> None:
    left: list[int] = []
    dropped = threading.Event()

    class Looked(TpmDevice):
        """A device that looks for an unread answer before it drops one."""

        def _drop_unread(self) -> None:
            device = os.open(self.path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
            left.append(int.from_bytes(fcntl.ioctl(device, termios.FIONREAD, bytes(4)), sys.byteorder))
            os.close(device)

    device = Looked()
    program = os.open(device.path, os.O_RDWR | os.O_NOCTTY)
    os.write(program, COMMAND_SIZE)
    os.close(program)
    threading.Thread(target=device.serve, args=(lambda command: command, dropped.set), daemon=True).start()
    assert dropped.wait(30)
    assert left == [0]


def test_without_swtpm_the_program_runs_after_a_note_that_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "sh").symlink_to(shutil.which("sh") or "sh")
    ran = simulate("--kind", "azure-snp", "--", "sh", "-c", "exit 7", PATH=str(tmp_path))
    assert (ran.returncode, NO_KERNEL in ran.stderr, b"install swtpm" in ran.stderr) == (7, True, True), ran.stderr


def test_the_tpm_ends_with_the_program(tmp_path: Path) -> None:
    command = ("-m", "attest.cli.main", "simulate", "machine", "--kind", "azure-snp", "--", "sh", "-c")
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, *command, "echo $$; exec sleep 600"], env=environment, stdout=subprocess.PIPE
    ) as machine:
        assert machine.stdout is not None
        program = int(machine.stdout.readline())
        assert swtpms(tmp_path) == 1
        os.kill(program, signal.SIGKILL)
        assert machine.wait(timeout=60) == 128 + signal.SIGKILL
    soon(lambda: swtpms(tmp_path) == 0)
    assert list(tmp_path.iterdir()) == []


def swtpms(folder: Path) -> int:
    """The number of software TPMs whose state is below this folder."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        found += words[0] == b"swtpm" and any(word.startswith(f"dir={folder}".encode()) for word in words)
    return found


def soon(holds: Callable[[], bool]) -> None:
    """Wait until this holds; the time limit of the test ends the wait."""
    while not holds():
        time.sleep(0.01)
