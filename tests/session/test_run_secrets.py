"""`attest run --file` and `--env`: an unchanged program gets its secrets, and nothing of them is left."""

import json
import os
import signal
import stat
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from attest import Session, file_systems
from attest.cli.program_secrets import ProgramSecrets, WantedFile, WantedSecrets, WantedVariable
from attest.errors import ConfigurationError
from attest.private_folder import PREFIX, PrivateFolder, remove_abandoned
from attest.release import KeyReference
from tests.kms.process import ServedProcess
from tests.session.serving import PASSWORD, PEM, key_for, machine, url_of
from tests.session.test_commands import Run, driver, environment, memory, run

__all__ = ["memory", "run"]
pytestmark = pytest.mark.loopback
KEY = key_for("snp")
WORD = "correct-horse"


@pytest.fixture(autouse=True)
def base(memory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the folders of secrets where nothing else makes any."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(memory))
    return memory


def left(base: Path) -> list[str]:
    return [path.name for path in base.glob(f"{PREFIX}*")]


# -- files


SHOW = (
    "import json, os, stat, sys\n"
    "def look(path):\n"
    "    status = os.stat(path)\n"
    "    return [open(path, 'rb').read().hex(), stat.S_IMODE(status.st_mode), os.path.realpath(path)]\n"
    "print(json.dumps([look(os.path.expandvars(path)) for path in sys.argv[1:]]))\n"
)


def test_a_program_reads_secrets_from_files_of_mode_0400_that_are_gone_at_its_end(
    run: Run, base: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "app" / "password"
    place.parent.mkdir()
    ran = run(
        *("run", "--file", f"{place}=database", "--file", "ca.pem=certificate", "--"),
        *(sys.executable, "-c", SHOW, place, "$ATTEST_SECRETS_DIR/ca.pem"),
    )
    assert ran.exit_code == 0, ran.output
    password, certificate = json.loads(capfd.readouterr().out)
    assert (bytes.fromhex(password[0]), password[1]) == (PASSWORD, 0o400)
    assert (bytes.fromhex(certificate[0]), certificate[1]) == (PEM, 0o400)
    assert Path(password[2]).parent == Path(certificate[2]).parent
    assert Path(password[2]).parent.parent == base
    assert WORD not in ran.output
    assert (left(base), list(place.parent.iterdir())) == ([], [])


def test_a_key_is_given_as_a_file_too_beside_others(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    code = "import os; print(len(os.read(int(os.environ['ATTEST_KEY_FD_M']), 99)), len(open(os.environ['F']).read()))"
    shell = f'F="$ATTEST_SECRETS_DIR/db" {sys.executable} -c "{code}"'
    ran = run("run", "--key", f"M={KEY}", "--file", "db=database", "--env", "URL=database", "--", "sh", "-c", shell)
    assert ran.exit_code == 0, ran.output
    assert capfd.readouterr().out == f"32 {len(PASSWORD.decode())}\n"


def test_only_the_user_can_look_into_the_folder(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    code = "import os, stat; print(oct(stat.S_IMODE(os.stat(os.environ['ATTEST_SECRETS_DIR']).st_mode)))"
    assert run("run", "--file", "db=database", "--", sys.executable, "-c", code).exit_code == 0
    assert capfd.readouterr().out == "0o700\n"


def test_a_file_in_the_place_of_a_secret_is_left_alone(run: Run, base: Path, tmp_path: Path) -> None:
    place = tmp_path / "password"
    place.write_text("mine", encoding="utf-8")
    ran = run("run", "--file", f"{place}=database", "--", "touch", tmp_path / "started")
    assert (ran.exit_code, "already exists" in ran.stderr) == (2, True)
    assert (place.read_text(encoding="utf-8"), (tmp_path / "started").exists(), left(base)) == ("mine", False, [])


@pytest.mark.parametrize("code", ["raise SystemExit(3)", "import os; os.kill(os.getpid(), 9)"])
def test_files_are_gone_when_the_program_fails(run: Run, base: Path, tmp_path: Path, code: str) -> None:
    place = tmp_path / "password"
    assert run("run", "--file", f"{place}=database", "--", sys.executable, "-c", code).exit_code != 0
    assert (place.is_symlink(), left(base)) == (False, [])


def test_a_program_that_cannot_start_leaves_no_file(run: Run, base: Path, tmp_path: Path) -> None:
    ran = run("run", "--file", f"{tmp_path / 'password'}=database", "--", "/no/such/program")
    assert (ran.exit_code, list(tmp_path.glob("pass*")), left(base)) == (2, [], [])


def test_without_a_place_in_memory_no_secret_is_written(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_systems, "IN_MEMORY", frozenset({"nothing"}))
    ran = run("run", "--file", "db=database", "--", "true")
    assert (ran.exit_code, "no file system in memory" in ran.stderr) == (2, True)


def waiting(served: ServedProcess, tmp_path: Path, base: Path, place: Path) -> subprocess.Popen[bytes]:
    """Start `attest run` on a program that says when it runs and then waits."""
    code = "import os, time; os.write(1, b'ready\\n'); time.sleep(600)"
    command = driver(tmp_path, "run", "--file", f"{place}=database", "--", sys.executable, "-c", code)
    process = subprocess.Popen(
        command,
        env=environment(served) | {"XDG_RUNTIME_DIR": str(base)},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    assert place.read_bytes() == PASSWORD
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_program_and_leaves_no_file(
    served: ServedProcess, tmp_path: Path, base: Path, number: signal.Signals
) -> None:
    place = tmp_path / "password"
    with waiting(served, tmp_path, base, place) as process:
        process.send_signal(number)
        assert process.wait(60) != 0
    assert (place.is_symlink(), left(base)) == (False, [])


def test_what_a_killed_run_left_is_removed_by_the_next_one(
    served: ServedProcess, tmp_path: Path, base: Path, run: Run
) -> None:
    place = tmp_path / "password"
    with waiting(served, tmp_path, base, place) as process:
        other = PrivateFolder(base)
        os.killpg(process.pid, signal.SIGKILL)
    assert len(left(base)) == 2
    assert place.is_symlink()
    ran = run("run", "--file", f"{place}=database", "--", "cat", place)
    assert ran.exit_code == 0, ran.output
    assert (left(base), place.is_symlink()) == ([other.path.name], False)
    other.close()


# -- variables


def test_a_program_reads_a_secret_from_a_variable(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    code = "import os; print(os.environb[b'DATABASE_URL'].hex())"
    ran = run("run", "--env", "DATABASE_URL=database", "--", sys.executable, "-c", code)
    assert ran.exit_code == 0, ran.output
    assert bytes.fromhex(capfd.readouterr().out.strip()) == PASSWORD
    assert "DATABASE_URL" not in os.environ


@pytest.mark.parametrize("reference", ["certificate", KEY])
def test_what_does_not_belong_into_a_variable_is_refused(run: Run, tmp_path: Path, reference: str) -> None:
    ran = run("run", "--env", f"X={reference}", "--", "touch", tmp_path / "started")
    assert (ran.exit_code, "--env X: " in ran.stderr, (tmp_path / "started").exists()) == (2, True, False)
    assert "BEGIN" not in ran.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("--env", "1=database"),
        ("--env", "database"),
        ("--env", "A=BAD"),
        ("--env", "ATTEST_KMS_URL=database"),
        ("--env", "A=database", "--env", "A=certificate"),
        ("--file", "database"),
        ("--file", "../x=database"),
        ("--file", "a/b=database"),
        ("--file", ".hidden=database"),
        ("--file", "/=database"),
        ("--file", "/x/..=database"),
        ("--file", "=database"),
        ("--file", "a=database", "--file", "a=certificate"),
        tuple(part for n in range(17) for part in ("--env", f"A{n}=k{n}")),
    ],
)
def test_what_names_no_secret_is_usage(run: Run, arguments: tuple[str, ...]) -> None:
    ran = run("run", *arguments, "--", "true")
    assert ran.exit_code == 2, ran.output


def test_a_dry_run_shows_where_secrets_would_go(run: Run, base: Path) -> None:
    told = json.loads(
        run("run", "--file", "/x/y=database", "--env", "U=database", "--dry-run", "--json", "--", "true").stdout
    )
    assert told["files"] == [{"secret": "database", "path": "/x/y"}]
    assert told["variables"] == [{"secret": "database", "variable": "U"}]
    assert left(base) == []


# -- rotation


class FakeSecret:
    """As much of a held secret as is needed."""

    def __init__(self, reference: str, content: bytes) -> None:
        self.reference, self.content, self.purpose, self.version = KeyReference.parse(reference), content, "secret", 1

    @property
    def material(self) -> memoryview:
        return memoryview(self.content)

    def export(self) -> bytes:
        return self.content


def test_a_rotation_renews_files_and_no_variables(base: Path) -> None:
    secret = FakeSecret("database", b"old")
    for variables, whole in ((), True), (("U=database",), False):
        wanted = WantedSecrets(
            variables=tuple(map(WantedVariable.parse, variables)), files=(WantedFile.parse("db=database"),)
        )
        secret.content = b"old"
        placed = ProgramSecrets(wanted=wanted, found={"database": secret})  # type: ignore[dict-item]  # as above
        with placed.placed() as given:
            file = Path(given["ATTEST_SECRETS_DIR"]) / "db"
            secret.content = b"new"
            assert file.read_bytes() == b"old"
            assert placed.renewed(secret) is whole  # type: ignore[arg-type]  # as above
            assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"new", 0o400)
            assert [path.name for path in file.parent.iterdir()] == ["db"]
        placed.renewed(secret)  # type: ignore[arg-type]  # as above
        assert left(base) == []


# -- the folder


def test_a_folder_of_a_running_process_and_what_is_no_folder_are_left_alone(base: Path) -> None:
    (base / f"{PREFIX}file").write_text("mine", encoding="utf-8")
    (base / f"{PREFIX}link").symlink_to("/")
    with ExitStack() as stack:
        one = stack.enter_context(PrivateFolder(base))
        one.put("a", b"1")
        remove_abandoned(base)
        assert (one.path / "a").read_bytes() == b"1"
    one.close()
    one.put("b", b"2")
    assert sorted(left(base)) == [f"{PREFIX}file", f"{PREFIX}link"]


def test_a_base_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        PrivateFolder(tmp_path / "missing")
    assert caught.value.code == "memory-folder-missing"


# -- in a program


def test_a_session_gives_a_secret_as_it_was_imported_and_shows_neither_it_nor_its_length(served: ServedProcess) -> None:
    with Session(url_of(served), service=served.identity, attester=machine("snp")) as session:
        database, certificate = session.keys("database", "certificate")
        assert (database.purpose, database.export(), certificate.export()) == ("secret", PASSWORD, PEM)
        assert repr(database) == "SessionKey('database', version=1, valid, <secret>)"
        assert repr(session.key(KEY)).endswith("<32 bytes>)")
