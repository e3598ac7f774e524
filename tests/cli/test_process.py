"""Commands as real processes: what is imported, pipes, colours, signals, defects."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import LAB, Files

REPOSITORY = Path(__file__).resolve().parents[2]
RUN = "from attest.cli.main import main; raise SystemExit(main())"
PLAIN = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}


def attest(
    *arguments: object, env: dict[str, str] | None = None, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", RUN, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, env={**PLAIN, **(env or {})}, check=False, input=stdin)


def test_half_a_file_is_not_left_behind_and_what_was_there_is_not_removed(tmp_path: Path) -> None:
    small = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); {RUN}"
    command = [sys.executable, "-c", small, "simulate", "evidence", "-o", str(tmp_path / "e.bin")]
    # Python takes half a file for a whole one where it keeps what it compiled, and every later process would read it.
    keeping_nothing = {**PLAIN, "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(command, capture_output=True, env=keeping_nothing, check=False)
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert b"e.bin cannot be written: File too large\nhint: " in ran.stderr
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "e.bin").write_bytes(b"precious")
    ran = subprocess.run(command, capture_output=True, env=keeping_nothing, check=False)
    assert b"already exists" in ran.stderr
    assert (tmp_path / "e.bin").read_bytes() == b"precious"


@pytest.mark.parametrize("module", ["attest.cli.main", "kms.cli.main", "kms"])
def test_a_module_that_is_run_does_not_answer_with_zero_and_nothing(module: str) -> None:
    ran = subprocess.run([sys.executable, "-m", module, "nonsense"], capture_output=True, env=PLAIN, check=False)
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert ran.stderr.startswith(b"error: ")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has it")
@pytest.mark.parametrize(
    ("command", "dumpable"),
    [("key", 0), ("run", 0), ("seal", 0), ("unseal", 0), ("sealed", 0), ("release", 0), ("verify", 1), ("inspect", 1)],
)
def test_a_process_that_gets_keys_leaves_no_core_dump(command: str, dumpable: int) -> None:
    script = (
        "import ctypes, resource; from attest.cli.main import main; before = resource.getrlimit(resource.RLIMIT_CORE);"
        "assert main() == 2; assert resource.getrlimit(resource.RLIMIT_CORE) == before;"  # which programs inherit
        "print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
    )
    line = [sys.executable, "-c", script, command, "--no-such-option"]
    ran = subprocess.run(line, capture_output=True, env=PLAIN, check=False)
    assert ran.stdout.split() == [str(dumpable).encode()], ran.stderr


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["verify", "--help"], ["appraise", "--help"], ["simulate", "--help"]]
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    """150 ms for `attest --help`, interpreter included: what costs time is what is imported."""
    script = f"""
import sys
from attest.cli.main import cli
code = cli.main({arguments!r}, standalone_mode=False)
heavy = {{"cryptography", "cbor2", "rich", "httpx", "pydantic", "ruamel", "sevsnpmeasure", "json", "asyncio"}}
found = sorted(heavy & set(sys.modules))
print(code, found, file=sys.stderr)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, env=PLAIN, check=False)
    assert ran.stderr.decode().splitlines()[-1] == "0 []"


def test_verify_with_json_does_not_import_what_pages_need(files: Files) -> None:
    script = f"""
import sys
from attest.cli.main import cli
code = cli.main({["verify", str(files.extended), *LAB, "--json"]!r}, standalone_mode=False)
found = sorted({{"rich", "httpx", "attest.fetch", "attest_simulator", "kms"}} & set(sys.modules))
print(code, found, file=sys.stderr)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, env=PLAIN, check=False)
    assert ran.stderr.decode().splitlines()[-1] == "0 []"


def test_a_real_process_verifies_and_refuses(files: Files) -> None:
    assert attest("verify", files.extended, *LAB).returncode == 0
    refused = attest("verify", files.flipped, *LAB)
    assert refused.returncode == 4
    assert refused.stderr.startswith(b"warning: SIMULATED")


@pytest.mark.parametrize("what", ["json", "page", "help", "help of a command"])
def test_a_reader_that_goes_away_is_no_verdict(files: Files, what: str) -> None:
    page = ["verify", str(files.extended), *LAB]
    options = {"json": [*page, "--json"], "page": page, "help": ["--help"]}.get(what, ["verify", "--help"])
    read, write = os.pipe()
    os.close(read)
    process = subprocess.run(
        [sys.executable, "-c", RUN, *options],
        stdout=write,
        stderr=subprocess.PIPE,
        env=PLAIN,
        check=False,
    )
    os.close(write)
    assert process.returncode == 141
    assert b"Traceback" not in process.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
def test_a_full_disk_is_no_verdict(files: Files) -> None:
    with Path("/dev/full").open("wb") as full:
        process = subprocess.run(
            [sys.executable, "-c", RUN, "verify", str(files.extended), *LAB, "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=PLAIN,
            check=False,
        )
    assert process.returncode == 2
    assert b"No space left" in process.stderr
    assert b"Traceback" not in process.stderr


def on_a_terminal(*arguments: object, env: dict[str, str] | None = None) -> str:
    """Run with standard output on a pseudo-terminal."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, *map(str, arguments)],
        stdout=child,
        stderr=subprocess.DEVNULL,
        env={**PLAIN, "TERM": "xterm", **(env or {})},
    )
    os.close(child)
    shown = b""
    while True:
        try:
            piece = os.read(parent, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(parent)
    process.wait()
    return shown.decode()


def test_colours_are_for_terminals_and_only_with_leave(files: Files) -> None:
    page = ("verify", files.extended, *LAB)
    assert "\x1b[" in on_a_terminal(*page)
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b[" not in on_a_terminal(*page, env=env)
    assert "\x1b[" not in on_a_terminal(*page, "--no-colour")
    assert "\x1b[" not in on_a_terminal(*page, "--no-color")
    assert b"\x1b[" not in attest(*page).stdout
    assert "\x1b[" not in on_a_terminal(*page, "--json")


def test_binary_is_not_written_to_a_terminal() -> None:
    assert "\0" not in on_a_terminal("simulate", "evidence", "-o", "-")


def test_a_terminal_that_cannot_show_a_sign_gets_another(files: Files) -> None:
    ran = attest("verify", files.extended, *LAB, env={"PYTHONIOENCODING": "ascii"})
    assert ran.returncode == 0
    assert b"+ pass" in ran.stdout
    ran.stdout.decode("ascii")


def test_evidence_through_a_pipe_of_commands() -> None:
    made = attest("simulate", "evidence", "-o", "-", "--at", LAB[3])
    assert made.returncode == 0
    assert attest("verify", "-", *LAB, "-q", stdin=made.stdout).returncode == 0


def test_a_defect_is_exit_70_with_a_traceback_only_on_request(files: Files) -> None:
    script = """
import sys
import attest.cli.files
def broken(*arguments, **options):
    raise RuntimeError("the impossible")
attest.cli.files.read_inputs = broken
from attest.cli.main import main
sys.argv = ["attest", "verify", "x", "--json"]
raise SystemExit(main())
"""
    for debug, shown in (("", False), ("0", False), ("1", True)):
        ran = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, env={**PLAIN, "ATTEST_DEBUG": debug}, check=False
        )
        assert (ran.returncode, ran.stdout) == (70, b"")
        assert b"failed with an internal error: RuntimeError: the impossible" in ran.stderr
        assert b"hint: this is a bug in attest" in ran.stderr
        assert (b"Traceback" in ran.stderr) is shown


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    ran = attest("completion", shell)
    assert ran.returncode == 0
    assert b"_ATTEST_COMPLETE" in ran.stdout
    assert attest("completion", "tcsh").returncode == 2
    of_the_service = subprocess.run(
        [sys.executable, "-m", "kms", "completion", shell], capture_output=True, env=PLAIN, check=False
    )
    assert of_the_service.returncode == 0
    assert b"_KMS_COMPLETE" in of_the_service.stdout


def test_completion_knows_commands_and_options() -> None:
    for words, wanted in (("attest ver", b"verify"), ("attest verify --off", b"--offline")):
        env = {
            "_ATTEST_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        }
        assert wanted in attest(env=env).stdout


def test_completion_knows_the_commands_of_the_service() -> None:
    env = {**PLAIN, "_KMS_COMPLETE": "bash_complete", "COMP_WORDS": "kms key ro", "COMP_CWORD": "2"}
    ran = subprocess.run([sys.executable, "-m", "kms"], capture_output=True, env=env, check=False)
    assert b"rotate" in ran.stdout
