"""`attest simulate machine -- PROGRAM`: a program that asks the kernel, and not `attest`, gets a report."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from attest.collect.tsm import CONFIGFS
from attest_simulator.guest import SimulatedGuest
from attest_simulator.intel import SimulatedTd
from attest_simulator.machines import MachineKind, SimulatedMachine
from tests.go_programs import go_program

REPORTS = f"/{CONFIGFS}/tsm/report"
DATA = bytes(range(64))
NO_KERNEL = "note: the kernel of the real machine answers this program"


def simulate(
    *arguments: object, stdin: bytes = b"", before: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*before, sys.executable, "-m", "attest.cli.main", "simulate", "machine", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module", autouse=True)
def shown() -> None:
    """Skip where the kernel gives no mount namespace or no FUSE; ATTEST_REQUIRE_FUSE=1 says that it does."""
    ran = simulate("--", "true")
    assert ran.returncode == 0, ran.stderr
    if NO_KERNEL.encode() in ran.stderr:
        give_up = pytest.fail if os.environ.get("ATTEST_REQUIRE_FUSE") == "1" else pytest.skip
        give_up(ran.stderr.decode()[:300])


def in_shell(script: str, *options: object, stdin: bytes = DATA) -> subprocess.CompletedProcess[bytes]:
    return simulate(*options, "--", "sh", "-ec", f"cd {REPORTS} && mkdir one && cd one && {script}", stdin=stdin)


def expected_report(kind: MachineKind, data: bytes) -> bytes:
    cpu = SimulatedMachine.of(kind).cpu
    match cpu:
        case SimulatedGuest():
            return cpu.report(data)
        case SimulatedTd():
            return cpu.quote(data)
    raise TypeError("no kernel of this one gives reports")


@pytest.mark.parametrize("kind", ["snp", "tdx"])
def test_a_shell_gets_the_report_of_the_machine(kind: MachineKind) -> None:
    ran = in_shell("cat > inblob && cat outblob", "--kind", kind)
    assert (ran.returncode, ran.stdout) == (0, expected_report(kind, DATA)), ran.stderr


def test_a_request_lists_the_attributes_of_the_kernel() -> None:
    ran = in_shell("ls; cat provider privlevel_floor generation; cat > inblob; cat generation; cd ..; rmdir one; ls")
    listed = ["auxblob", "generation", "inblob", "outblob", "privlevel", "privlevel_floor", "provider"]
    assert ran.stdout.decode().split() == [*listed, "sev_guest", "0", "0", "1"], ran.stderr


def test_data_written_in_pieces_is_one_write() -> None:
    ran = in_shell("{ dd bs=24 count=1 status=none; cat; } > inblob; cat generation outblob")
    assert ran.stdout == b"1\n" + expected_report("snp", DATA), ran.stderr


REFUSED = {
    "cat outblob": "Invalid argument",
    "echo short > inblob; cat outblob": "Invalid argument",
    "head -c 65 /dev/zero > inblob": "File too large",
    "cat < inblob": "Permission denied",
    "echo 1 > outblob": "Permission denied",
    "cat nothing": "No such file",
    "echo 1 > file": "Permission denied",
    "mkdir deeper": "not permitted",
    "rmdir ../../report": "not permitted",
    "mkdir ../one": "File exists",
}


def test_what_the_kernel_refuses_is_refused() -> None:
    script = "; ".join(f"({line}) && echo accepted >&2" for line in REFUSED)
    ran = in_shell(f"set +e; {script}; true")
    said = [line for line in ran.stderr.decode().splitlines() if ": " in line and "SIMULATED" not in line]
    assert [wanted in line for line, wanted in zip(said, REFUSED.values(), strict=True)] == [True] * len(REFUSED), said


@pytest.mark.parametrize("kind", ["snp", "tdx"])
def test_the_program_sees_the_machines_processor_and_log(kind: str) -> None:
    script = "grep -o -e AuthenticAMD -e GenuineIntel /proc/cpuinfo; wc -c < /sys/firmware/acpi/tables/data/CCEL"
    ran = simulate("--kind", kind, "--", "sh", "-c", script)
    assert ran.stdout.split() == {"snp": [b"AuthenticAMD"], "tdx": [b"GenuineIntel", b"65536"]}[kind], ran.stderr


def _shown() -> tuple[object, ...]:
    """What this process sees where a simulated machine stands over the real one. Other programs mount elsewhere."""
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if _COVERED.match(line)]
    return mounts, Path("/proc/cpuinfo").read_text(), sorted(Path("/sys/kernel").iterdir())


# Of a line of mountinfo, the fifth field is the place.
_COVERED = re.compile(r"(?:\S+ ){4}/(?:proc|sys|dev)/")


def test_nothing_outside_of_the_program_changes() -> None:
    before = _shown()
    in_shell("true")
    assert _shown() == before


def test_the_entries_of_a_covered_directory_stay() -> None:
    ran = simulate("--", "ls", "/sys/kernel")
    assert {*ran.stdout.decode().split()} == {*(path.name for path in Path("/sys/kernel").iterdir()), "config"}


def serving(marker: str) -> list[int]:
    """Processes with this word in their command line, and the file system's server among them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    marker = f"simulated-{os.getpid()}-{tmp_path.name}"
    script = f"cd {shlex.quote(REPORTS)}; echo {marker}; exec sleep 600"
    command = [sys.executable, "-m", "attest.cli.main", "simulate", "machine", "--", "sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
        yield program, marker
        program.kill()


def test_the_file_system_ends_with_the_program(started: tuple[subprocess.Popen[bytes], str]) -> None:
    program, marker = started
    assert program.stdout is not None
    assert program.stdout.readline().decode().strip() == marker
    assert serving(marker), "the file system's server has the program's command line"
    program.send_signal(signal.SIGTERM)
    assert program.wait(timeout=60) == 128 + signal.SIGTERM
    while serving(marker):  # ends, or the time limit of the test
        time.sleep(0.01)


def test_where_the_kernel_forbids_mounts_the_program_runs_after_a_note() -> None:
    without = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
    if os.geteuid() != 0:
        pytest.skip("root alone can give up a capability that it has")
    ran = simulate("--", "sh", "-c", "exit 7", before=without)
    assert (ran.returncode, NO_KERNEL in ran.stderr.decode()) == (7, True), ran.stderr


def test_a_program_that_is_not_there_is_the_usual_error() -> None:
    ran = simulate("--", "no-such-program")
    assert (ran.returncode, b"no-such-program" in ran.stderr) == (2, True), ran.stderr


@pytest.mark.parametrize("kind", ["snp", "tdx"])
def test_googles_client_gets_the_report_of_the_machine(kind: MachineKind, tmp_path: Path) -> None:
    client = go_program(Path(__file__).parent / "golang", tmp_path)
    wanted = ["aux"] if kind == "snp" else []
    ran = simulate("--kind", kind, "--", client, DATA.hex(), *wanted)
    assert ran.returncode == 0, ran.stderr
    provider, report, *aux = ran.stdout.decode().split()
    assert (provider, bytes.fromhex(report)) == (
        f"{'sev' if kind == 'snp' else kind}_guest",
        expected_report(kind, DATA),
    )
    cpu = SimulatedMachine.of(kind).cpu
    assert aux == ([cpu.chip.certificate_table().hex()] if isinstance(cpu, SimulatedGuest) else [])
