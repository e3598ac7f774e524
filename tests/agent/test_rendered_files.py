"""Files that the agent renders: whole or not there, under a lease or not there, and told to whoever uses them."""

import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from attest.agent.config import AgentConfig, parse_config
from attest.agent.rendered_files import RenderedFiles
from attest.agent.templates import compile_template
from attest.errors import ConfigurationError, LeaseLostError
from attest.file_systems import is_in_memory
from attest.release.names import KeyReference
from tests.agent.running import MODEL_KEY, Place, Running
from tests.kms.process import ServedProcess
from tests.session.conftest import served
from tests.session.serving import PASSWORD
from tests.session.test_commands import driver, environment

__all__ = ["served"]

DATABASE, TOKEN = "database", "acme/token"
SECRETS = {DATABASE: b"postgres://app:correct-horse@db/prod", TOKEN: b"t0ken"}
PATIENCE = 30


@pytest.fixture
def volume() -> Iterator[Path]:
    """A folder in memory; skips where there is none."""
    shared = Path("/dev/shm")  # noqa: S108  that is what it is for
    if not shared.is_dir() or not is_in_memory(shared.stat().st_dev):
        pytest.skip("no tmpfs at /dev/shm here")
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        yield Path(folder)


def parsed(text: str, templates: dict[str, str] | None = None) -> AgentConfig:
    known = templates or {}
    return parse_config(text.encode(), read=lambda name: known[name].encode(), folder=Path("/"))


def plain(volume: Path, *more: str, name: str = "database", secret: str = DATABASE) -> str:
    lines = (f'path = "{volume / name}"', f'secrets = ["{secret}"]', *more)
    return f"[files.{name}]\n" + "\n".join(lines) + "\n"


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


@contextmanager
def agent(
    folder: Path, place: Place, text: str, templates: dict[str, str] | None = None, *, wait: bool = True
) -> Iterator[Running]:
    config = parsed(text, templates)
    with Running.start(folder, place, config=config, wait=wait, materials=SECRETS) as made:
        yield made


# -- what is written


def test_a_secret_is_written_as_it_is_for_its_owner_alone_and_removed_at_the_end(
    folder: Path, place: Place, volume: Path
) -> None:
    file = volume / "database"
    with agent(folder, place, plain(volume)) as running:
        assert file.read_bytes() == SECRETS[DATABASE]
        assert stat.S_IMODE(file.stat().st_mode) == 0o400
        assert json.loads(running.ask("/healthz").body)["files"] == {"database": "written"}
    assert list(volume.iterdir()) == []


def test_a_template_is_rendered_with_the_secrets_that_the_file_lists(folder: Path, place: Place, volume: Path) -> None:
    text = (
        f'[files.ini]\npath = "{volume}/app.ini"\ntemplate = "t"\nsecrets = ["{DATABASE}", "{TOKEN}"]\nmode = "0440"\n'
    )
    template = "url = {{ secret('database') | json }}\ntoken = {{ secret_base64('acme/token') }}\n"
    with agent(folder, place, text, {"t": template}):
        made = volume / "app.ini"
        assert made.read_text(encoding="utf-8") == f'url = "{SECRETS[DATABASE].decode()}"\ntoken = dDBrZW4=\n'
        assert stat.S_IMODE(made.stat().st_mode) == 0o440


def test_a_file_belongs_to_the_group_that_is_stated(folder: Path, place: Place, volume: Path) -> None:
    group = os.getegid() if os.geteuid() else 12345
    with agent(folder, place, plain(volume, f"group = {group}", 'mode = "0440"')):
        assert (volume / "database").stat().st_gid == group


def test_the_start_waits_until_every_file_is_there(folder: Path, place: Place, volume: Path) -> None:
    with agent(folder, place, plain(volume), wait=False) as running:
        assert running.ask("/healthz").status == 503
        assert not (volume / "database").exists()
        running.session.gate.set()
        until(lambda: running.ask("/healthz").status == 200)
        assert (volume / "database").exists()


def test_a_peer_learns_nothing_of_files(folder: Path, place: Place, volume: Path) -> None:
    text = f"[peers.me]\nuid = {os.geteuid()}\n" + plain(volume)
    config = parsed(text)
    with Running.start(folder, place, config=config, own_uid=os.geteuid() + 1, materials=SECRETS) as running:
        assert "files" not in json.loads(running.ask("/healthz").body)


def test_a_secret_is_served_at_the_socket_and_the_log_does_not_tell_its_length(
    folder: Path, place: Place, volume: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = f'[peers.me]\nuid = {os.geteuid()}\n[keys.{DATABASE}]\npeers = ["me"]\n' + plain(volume)
    caplog.set_level("DEBUG")
    with agent(folder, place, text) as running:
        said = running.ask(f"/v1/keys/{DATABASE}")
        assert (said.body, said.headers["attest-key-purpose"]) == (SECRETS[DATABASE], "secret")
    told = [one for one in caplog.records if getattr(one, "target", "") == f"/v1/keys/{DATABASE}"]
    assert [getattr(one, "bytes", 0) for one in told] == [None]
    assert "correct-horse" not in caplog.text


def test_a_secret_opens_no_model(folder: Path, place: Place) -> None:
    with Running.start(folder, place, materials={MODEL_KEY: place.key}) as running:
        said = running.ask("/v1/models/llama")
        assert (said.status, said.code) == (500, "sealed-key-purpose")


# -- renewals and lost leases


def test_a_rotation_renews_the_file_in_one_step(folder: Path, place: Place, volume: Path) -> None:
    file = volume / "database"
    with agent(folder, place, plain(volume)) as running, file.open("rb") as before:
        number = file.stat().st_ino
        running.session.rotate(DATABASE, b"new")
        until(lambda: file.read_bytes() == b"new")
        assert before.read() == SECRETS[DATABASE]
        assert file.stat().st_ino != number
        assert [path.name for path in volume.iterdir()] == ["database"]


def test_a_renewal_without_a_change_writes_nothing_and_tells_nobody(folder: Path, place: Place, volume: Path) -> None:
    file, told = volume / "database", volume / "told"
    with agent(folder, place, plain(volume, f'run = ["touch", "{told}"]')) as running:
        number = file.stat().st_ino
        running.session.rotate(DATABASE, SECRETS[DATABASE])
        file.unlink()
        running.session.rotate(DATABASE, SECRETS[DATABASE])
        until(file.exists)
        assert file.read_bytes() == SECRETS[DATABASE]
        del number
        until(told.exists)  # the file was gone: whoever uses it has to hear of it
        told.unlink()
        number = file.stat().st_ino
        running.session.rotate(DATABASE, SECRETS[DATABASE])
        time.sleep(0.2)
        assert (file.stat().st_ino, told.exists()) == (number, False)


def test_a_lost_lease_removes_its_files_before_the_key_is_overwritten_and_no_others(
    folder: Path, place: Place, volume: Path
) -> None:
    text = plain(volume) + plain(volume, name="token", secret=TOKEN)
    with agent(folder, place, text) as running:
        removed: list[bool] = []
        before = running.session.on_lost

        def lost(key: object, error: LeaseLostError) -> None:
            before(key, error)  # type: ignore[arg-type]  # as it came
            removed.append(not (volume / "database").exists())

        running.session.on_lost = lost
        running.session.fault = LeaseLostError("no", code="lease-renewal-refused")
        running.session.lose(DATABASE)
        assert removed == [True]
        assert (volume / "token").read_bytes() == SECRETS[TOKEN]
        assert json.loads(running.ask("/healthz").body)["files"] == {"database": "missing", "token": "written"}


def test_a_file_comes_back_when_the_service_releases_its_secret_again(folder: Path, place: Place, volume: Path) -> None:
    with agent(folder, place, plain(volume)) as running:
        running.session.lose(DATABASE)
        assert not (volume / "database").exists()
        time.sleep(0.1)
        assert not (volume / "database").exists()  # the pause after a loss
        running.ticks.ahead += 20
        running.session.on_renewed(running.session.key(DATABASE))
        until((volume / "database").exists)


def test_a_refused_secret_is_no_file_and_its_reason_is_logged_once(
    folder: Path, place: Place, volume: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = plain(volume, secret="nobodys") + plain(volume, name="token", secret=TOKEN)
    with agent(folder, place, text, wait=False) as running:
        running.session.gate.set()
        until(lambda: "no such key" in caplog.text)
        for number in range(3):
            running.session.rotate(TOKEN, b"token %d" % number)
            until(lambda: (volume / "token").read_bytes() == running.session.materials[TOKEN])
        assert running.ask("/healthz").status == 503
    assert sum("files.database: no such key" in one.message for one in caplog.records) == 1
    assert list(volume.iterdir()) == []


# -- what is left behind


def test_what_a_killed_agent_left_is_removed_before_the_service_is_asked(
    folder: Path, place: Place, volume: Path
) -> None:
    left, part, other = volume / "database", volume / ".database.0011223344556677.part", volume / "mine"
    for path in (left, part, other):
        path.write_bytes(b"old")
    with agent(folder, place, plain(volume), wait=False) as running:
        assert sorted(path.name for path in volume.iterdir()) == ["mine"]
        running.session.gate.set()
        until(left.exists)


def test_a_link_in_the_place_of_a_file_is_replaced_and_not_followed(folder: Path, place: Place, volume: Path) -> None:
    other = volume / "other"
    other.write_bytes(b"mine")
    (volume / "database").symlink_to(other)
    with agent(folder, place, plain(volume)):
        assert not (volume / "database").is_symlink()
    assert other.read_bytes() == b"mine"


# -- folders


@pytest.mark.parametrize(
    ("mode", "more", "code"),
    [
        (0o777, (), "file-writable-by-others"),
        (0o777, ('unchecked_folder = "a volume that the others mount read-only"',), None),
        (0o700, (), None),
    ],
)
def test_a_folder_that_others_write_takes_a_reason(
    volume: Path, mode: int, more: tuple[str, ...], code: str | None
) -> None:
    shared = volume / "shared"
    shared.mkdir()
    shared.chmod(mode)
    files = RenderedFiles(parsed(plain(shared, *more)).files, keyring=None)  # type: ignore[arg-type]  # not asked
    if code is None:
        files.prepare()
        return
    with pytest.raises(ConfigurationError) as caught:
        files.prepare()
    assert caught.value.code == code


def test_a_disk_takes_a_reason_and_a_missing_folder_is_an_error(
    volume: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attest.file_systems.IN_MEMORY", frozenset({"nothing"}))
    for text, code in (
        (plain(tmp_path), "output-on-disk"),
        (plain(tmp_path, 'unchecked_disk = "an encrypted one"'), None),
        (plain(volume / "missing"), "output-unwritable"),
    ):
        files = RenderedFiles(parsed(text).files, keyring=None)  # type: ignore[arg-type]  # not asked
        if code is None:
            files.prepare()
            continue
        with pytest.raises(ConfigurationError) as caught:
            files.prepare()
        assert caught.value.code == code


# -- commands and programs


def test_a_command_runs_after_a_change_and_not_after_the_first_writing(
    folder: Path, place: Place, volume: Path
) -> None:
    told = volume / "told"
    with agent(folder, place, plain(volume, f'run = ["sh", "-c", "cat {volume}/database > {told}"]')) as running:
        assert not told.exists()
        running.session.rotate(DATABASE, b"new")
        until(lambda: told.exists() and told.read_bytes() == b"new")


def test_a_command_runs_also_while_another_file_is_missing(folder: Path, place: Place, volume: Path) -> None:
    told = volume / "told"
    text = plain(volume, f'run = ["touch", "{told}"]') + plain(volume, name="other", secret="nobodys")
    with agent(folder, place, text, wait=False) as running:
        running.session.gate.set()
        until((volume / "database").exists)
        running.session.rotate(DATABASE, b"new")
        until(told.exists)


def test_a_file_that_cannot_be_renewed_keeps_its_content_and_is_tried_again(
    folder: Path, place: Place, volume: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("attest.agent.rendered_files.RETRY_SECONDS", 0.05)
    text = f'[files.ini]\npath = "{volume}/ini"\ntemplate = "t"\nsecrets = ["{DATABASE}"]\n'
    with agent(folder, place, text, {"t": "{{ secret('database') }}"}) as running:
        running.session.rotate(DATABASE, b"\xff")
        until(lambda: "cannot be rendered" in caplog.text)
        assert (volume / "ini").read_bytes() == SECRETS[DATABASE]
        held = running.session.holdings.find(KeyReference.parse(DATABASE))
        assert held is not None
        held.buffer = bytearray(b"new")  # without a word to the agent
        until(lambda: (volume / "ini").read_bytes() == b"new")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ('["false"]', "ended with 1"),
        ('["/no/such/program"]', "cannot be started"),
        ('["sleep", "60"]\nrun_seconds = 0.05', "took longer"),
    ],
)
def test_a_command_that_fails_is_logged_and_the_agent_goes_on(  # noqa: PLR0917  fixtures
    folder: Path, place: Place, volume: Path, caplog: pytest.LogCaptureFixture, command: str, expected: str
) -> None:
    with agent(folder, place, plain(volume, f"run = {command}")) as running:
        running.session.rotate(DATABASE, b"new")
        until(lambda: expected in caplog.text)
        assert running.ask("/healthz").status == 200


SERVER = (
    "import os, signal, sys, time\n"
    "out, file = sys.argv[1:]\n"
    "def say(what):\n"
    "    with open(out, 'ab') as told: told.write(what + b' ' + open(file, 'rb').read() + b'\\n')\n"
    "signal.signal(signal.SIGHUP, lambda *_: say(b'reloaded'))\n"
    "open(out + '.pid', 'w').write(str(os.getpid()))\n"
    "say(b'started')\n"
    "time.sleep(600)\n"
)


def program(volume: Path, **more: object) -> str:
    command = [sys.executable, "-c", SERVER, str(volume / "told"), str(volume / "database")]
    lines = [f"command = {json.dumps(command)}", *(f"{name} = {json.dumps(value)}" for name, value in more.items())]
    return plain(volume) + "[program]\n" + "\n".join(lines) + "\n"


def told(volume: Path) -> list[bytes]:
    file = volume / "told"
    return file.read_bytes().splitlines() if file.exists() else []


def runs(file: Path) -> bool:
    """Whether there is a process of the number in a file."""
    return Path(f"/proc/{file.read_text(encoding='utf-8') or 'none'}").exists()


@pytest.mark.parametrize(("on_change", "verb"), [("restart", b"started"), ("HUP", b"reloaded")])
def test_a_program_starts_with_its_files_and_hears_of_a_change(
    folder: Path, place: Place, volume: Path, on_change: str, verb: bytes
) -> None:
    with agent(folder, place, program(volume, on_change=on_change)) as running:
        until(lambda: told(volume) == [b"started " + SECRETS[DATABASE]])
        running.session.rotate(DATABASE, b"new")
        until(lambda: told(volume)[1:] == [verb + b" new"])
        assert runs(volume / "told.pid")
    assert not runs(volume / "told.pid")
    assert not (volume / "database").exists()


def test_a_program_runs_only_while_its_files_are_there(folder: Path, place: Place, volume: Path) -> None:
    with agent(folder, place, program(volume)) as running:
        until(lambda: told(volume))
        running.session.lose(DATABASE)
        assert not runs(volume / "told.pid")
        running.ticks.ahead += 20
        running.session.on_renewed(running.session.key(DATABASE))
        until(lambda: len(told(volume)) == 2)
        assert runs(volume / "told.pid")


def test_a_stubborn_program_is_killed(folder: Path, place: Place, volume: Path) -> None:
    code = (
        "import os, signal, time; signal.signal(15, signal.SIG_IGN); "
        f"open({str(volume / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    )
    text = plain(volume) + f"[program]\ncommand = {json.dumps([sys.executable, '-c', code])}\nstop_seconds = 0.05\n"
    with agent(folder, place, text):
        until(lambda: (volume / "pid").exists() and runs(volume / "pid"))
    assert not runs(volume / "pid")


@pytest.mark.parametrize(
    ("command", "code"), [(["sh", "-c", "exit 5"], 5), (["sh", "-c", "kill -9 $$"], 137), (["/no/such/program"], 127)]
)
def test_the_agent_ends_with_the_program(
    folder: Path, place: Place, volume: Path, command: list[str], code: int
) -> None:
    text = plain(volume) + f"[program]\ncommand = {json.dumps(command)}\n"
    with agent(folder, place, text, wait=False) as running:
        running.session.gate.set()
        running.thread.join(PATIENCE)
        assert not running.thread.is_alive()
    assert running.agent.exit_code == code
    assert list(volume.iterdir()) == []


# -- templates


def rendered(text: str) -> str:
    made = compile_template(text.encode(), name="t")
    return made.render({KeyReference.parse(name): value for name, value in (*SECRETS.items(), ("b", b"\xff"))}).decode()


def test_a_template_quotes_for_json_and_shells_and_keeps_its_last_newline() -> None:
    assert rendered("{{ ('a\"b ' + secret('acme/token')) | json }}\n") == '"a\\"b t0ken"\n'
    assert rendered('{{ "it\'s" | shell }}') == "'it'\"'\"'s'"
    assert rendered("{% for n in ('database', 'acme/token') %}{{ secret(n) | length }} {% endfor %}") == "36 5 "


@pytest.mark.parametrize(
    "text",
    [
        "{{ secret('other') }}",
        "{{ secret('b') }}",
        "{{ secret('database').missing.more }}",
        "{{ missing }}",
        "{{ secret() }}",
        "{{ 1 / 0 }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ secret.__globals__ }}",
        "{{ range(10) }}",
        "{% include 'other' %}",
        "{{ secret('database') * 100000 }}",
        "{{ secret('database') | int + 'x' }}",
    ],
)
def test_a_template_that_fails_shows_no_secret(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        rendered(text)
    assert caught.value.code == "file-not-rendered"
    assert "correct-horse" not in str(caught.value.context()) + caught.value.message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


# -- rules


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('[files.a]\npath = "/x/y"\n', "files.a.secrets"),
        ('[files.a]\npath = "/x/y"\nsecrets = []\n', "files.a.secrets"),
        ('[files.a]\npath = "/x/y"\nsecrets = ["a", "b"]\n', "files.a.secrets"),
        ('[files.a]\npath = "y"\nsecrets = ["a"]\n', "files.a.path"),
        ('[files.a]\npath = "/"\nsecrets = ["a"]\n', "files.a.path"),
        ('[files.a]\nsecrets = ["a"]\n', "files.a.path"),
        ('[files.a]\npath = "/x/y"\nsecrets = ["a"]\nmode = "0666"\n', "files.a.mode"),
        ('[files.a]\npath = "/x/y"\nsecrets = ["a"]\nmode = 256\n', "files.a.mode"),
        ('[files.a]\npath = "/x/y"\nsecrets = ["a"]\nrun = "x"\n', "files.a.run"),
        ('[files.a]\npath = "/x/y"\nsecrets = ["a"]\nrun_seconds = 0\n', "files.a.run_seconds"),
        ('[files.a]\npath = "/x/y"\nsecrets = ["a"]\nunchecked_disk = ""\n', "files.a.unchecked_disk"),
        ('[files.a]\npath = "/x/y"\nsecrets = ["a"]\nmore = 1\n', "files.a.more"),
        ('[files.a]\npath = "/x/y"\nsecrets = ["a"]\ntemplate = "bad"\n', "files.a.template bad"),
        ('[files.a]\npath = "/x/y"\nsecrets = ["a"]\n[files.b]\npath = "/x/y"\nsecrets = ["a"]\n', "files"),
        ('[files.a]\npath = "/x/y"\nsecrets = ["a"]\n[program]\n', "program.command"),
        (
            '[files.a]\npath = "/x/y"\nsecrets = ["a"]\n[program]\ncommand = ["x"]\non_change = "KILL"\n',
            "program.on_change",
        ),
        ('[files.a]\npath = "/x/y"\nsecrets = ["a"]\n[program]\ncommand = ["x"]\nmore = 1\n', "program.more"),
        ('program = 1\n[files.a]\npath = "/x/y"\nsecrets = ["a"]\n', "program"),
        ('[peers.a]\nuid = 1\n[keys.k]\npeers = ["a"]\n[program]\ncommand = ["x"]\n', "program"),
    ],
)
def test_a_wrong_rule_is_refused(text: str, field: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parsed(text, {"bad": "{{"})
    assert (caught.value.code, caught.value.field) == ("agent-config-invalid", field)


def test_a_template_without_jinja_is_an_error_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ConfigurationError) as caught:
        compile_template(b"x", name="t")
    assert (caught.value.code, "attest-kms[templates]" in str(caught.value.hint)) == ("template-library-missing", True)


# -- a whole agent


@pytest.mark.loopback
def test_the_command_ends_with_the_exit_code_of_its_program(served: ServedProcess, folder: Path, volume: Path) -> None:
    rules = folder / "rules.toml"
    check = f'test "$(wc -c < {volume}/database)" = {len(PASSWORD)} && exit 5'
    rules.write_text(plain(volume) + f"[program]\ncommand = {json.dumps(['sh', '-c', check])}\n", encoding="utf-8")
    rules.chmod(0o600)
    folder.chmod(0o700)
    command = driver(folder, "agent", "--socket", str(folder / "agent.sock"), "--rules", str(rules))
    ran = subprocess.run(command, env=environment(served), capture_output=True, timeout=120, check=False)
    assert ran.returncode == 5, ran.stderr
    assert list(volume.iterdir()) == []


@pytest.mark.loopback
def test_a_killed_agent_leaves_its_file_whole_and_the_next_one_removes_it_first(
    served: ServedProcess, folder: Path, volume: Path
) -> None:
    rules = folder / "rules.toml"
    rules.write_text(plain(volume), encoding="utf-8")
    rules.chmod(0o600)
    folder.chmod(0o700)
    arguments = ("agent", "--socket", str(folder / "agent.sock"), "--rules", str(rules))
    with subprocess.Popen(driver(folder, *arguments), env=environment(served), stderr=subprocess.PIPE) as process:
        until((volume / "database").exists)
        assert (volume / "database").read_bytes() == PASSWORD
        process.kill()
    assert [path.name for path in volume.iterdir()] == ["database"]
    unreachable = environment(served) | {"ATTEST_KMS_URL": "http://127.0.0.1:9"}
    with subprocess.Popen(driver(folder, *arguments), env=unreachable, stderr=subprocess.PIPE) as process:
        until(lambda: not (volume / "database").exists())
        process.terminate()
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert b"correct-horse" not in process.stderr.read()
