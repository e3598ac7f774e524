"""The command line: what it prints, what it refuses, and with which code."""

import io
import json
import re
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from attest.release import VerifierKey
from attest.terminal import ExampleCommand
from kms.cli.main import cli, main
from kms.store.schema import REVISIONS
from tests.kms.process import ServedProcess, command, environment
from tests.kms.references import (
    ALICE,
    GOOD,
    STRANGER,
    Json,
    by_signers,
    document_file,
    fingerprint,
    images,
    key_file,
    naming,
    signature_file,
)
from tests.kms.support import MATERIAL, policy_text

ORIGIN = "kms.test/cli"


class _Terminal(io.BytesIO):
    def isatty(self) -> bool:
        return True


class Shell:
    """Runs commands on one service, in this process."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.config = folder / "svc" / "kms.toml"
        self.policy = folder / "policy.yaml"
        self.policy.write_bytes(policy_text())
        self.key = folder / "model.key"
        self.key.write_bytes(MATERIAL)
        self.key.chmod(0o600)
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def tried(self, *arguments: str, stdin: bytes = b"", terminal: bool = False) -> tuple[object, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["kms", *arguments])
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(_Terminal(stdin) if terminal else io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as caught:
            main()
        out, err = self._capsys.readouterr()
        return caught.value.code, out, err

    def run(self, *arguments: str, code: int = 0, stdin: bytes = b"") -> tuple[str, str]:
        ended, out, err = self.tried(*arguments, stdin=stdin)
        assert ended == code, (out, err)
        if code:
            assert err.startswith(("error: ", "Usage: ", "Examples:")) or "\nerror: " in err
        return out, err

    def init(self, *more: str) -> str:
        return self.run("init", str(self.folder / "svc"), "--origin", ORIGIN, *more)[0]

    def with_config(self, *arguments: str, code: int = 0, stdin: bytes = b"") -> tuple[str, str]:
        return self.run(*arguments, "--config", str(self.config), code=code, stdin=stdin)

    def add_key(self, key_id: str = "model") -> None:
        self.with_config("key", "import", key_id, "--from", str(self.key), "--policy", str(self.policy))


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    for name in ("KMS_CONFIG", "KMS_DATABASE", "KMS_ORIGIN"):
        monkeypatch.delenv(name, raising=False)
    return Shell(tmp_path, capsys, monkeypatch)


def test_init_makes_private_files_and_prints_the_identity(shell: Shell) -> None:
    out, err = shell.run("init", str(shell.folder / "svc"), "--origin", ORIGIN)
    assert "guard/kms.json is on the database's disk" in err
    identity = re.search(r"^identity: (.*)$", out, re.MULTILINE)
    assert identity is not None
    assert VerifierKey.parse(identity[1]).name == ORIGIN
    folder = shell.folder / "svc"
    assert sorted(path.name for path in folder.iterdir()) == ["guard", "kek", "kms.db", "kms.toml"]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "guard").stat().st_mode & 0o777 == 0o700
    for path in (one for one in folder.rglob("*") if one.is_file()):
        assert path.stat().st_mode & 0o777 == 0o600


def test_mc_31_init_overwrites_nothing(shell: Shell) -> None:
    shell.init()
    before = {path.name: path.read_bytes() for path in (shell.folder / "svc").rglob("*.*")}
    _, err = shell.run("init", str(shell.folder / "svc"), "--origin", ORIGIN, code=2)
    assert "[config-exists]" in err
    _, err = shell.with_config("init", code=2)
    assert "[kek-file-exists]" in err
    assert {path.name: path.read_bytes() for path in (shell.folder / "svc").rglob("*.*")} == before


def test_init_works_on_settings_that_are_there(shell: Shell) -> None:
    files = ("--database", str(shell.folder / "d"), "--kek-file", str(shell.folder / "k"))
    shell.run("init", *files, "--origin", ORIGIN)
    out, _ = shell.run("key", "list", *files, "--origin", ORIGIN)
    assert out == ""


@pytest.mark.parametrize("more", [("--database", "x"), ("--kek-file", "x"), ("--config", "x")])
def test_init_of_a_directory_takes_no_other_places(shell: Shell, more: tuple[str, ...]) -> None:
    shell.run("init", str(shell.folder / "svc"), "--origin", ORIGIN, *more, code=2)


def test_init_needs_a_name_that_fits(shell: Shell) -> None:
    _, err = shell.run("init", str(shell.folder / "svc"), code=2)
    assert "hint: set it with --origin" in err
    _, err = shell.run("init", str(shell.folder / "other"), "--origin", "a b", code=2)
    assert "origin" in err
    assert not (shell.folder / "other").exists(), "a directory was left that the next 'kms init' stumbles over"
    shell.run("init", str(shell.folder / "other"), "--origin", ORIGIN)


def test_keys_are_imported_listed_shown_and_disabled(shell: Shell) -> None:
    shell.init()
    assert "no keys" in shell.with_config("key", "list")[1]
    shell.add_key()
    listed = json.loads(shell.with_config("key", "list", "--json")[0])
    assert listed["schema"] == "kms.keys/1"
    (key,) = listed["keys"]
    assert (key["key_id"], key["version"], key["state"], key["enabled"]) == ("model", 1, "current", True)
    shown = json.loads(shell.with_config("key", "show", "model", "--json")[0])
    assert shown["policy"].encode() == policy_text()
    assert shown["policy_sha256"] == key["policy_sha256"]
    assert "policy:\n" in shell.with_config("key", "show", "model")[0]
    shell.with_config("key", "disable", "model")
    assert "disabled" in shell.with_config("key", "list")[0]
    assert "[key-state-unchanged]" in shell.with_config("key", "disable", "model", code=1)[1]
    shell.with_config("key", "enable", "model")
    assert "current  policy" in shell.with_config("key", "list")[0]


def test_mc_33_no_command_prints_a_key(shell: Shell) -> None:
    shell.init()
    outputs = [
        *shell.with_config("key", "import", "a", "--from", str(shell.key), "--policy", str(shell.policy)),
        *shell.with_config("key", "create", "b", "--policy", str(shell.policy)),
        *shell.with_config("key", "list", "--json"),
        *shell.with_config("key", "show", "a", "--json"),
        *shell.with_config("log", "list", "--json"),
        *shell.with_config("config", "show", "--json"),
    ]
    for output in outputs:
        assert MATERIAL.hex() not in output.lower()
        assert MATERIAL.decode("latin-1") not in output


def test_a_key_comes_from_standard_input_too(shell: Shell) -> None:
    shell.init()
    shell.with_config("key", "import", "model", "--from", "-", "--policy", str(shell.policy), stdin=MATERIAL)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_key_file_that_others_can_read_is_refused(shell: Shell, mode: int) -> None:
    shell.init()
    shell.key.chmod(mode)
    taking = ("key", "import", "model", "--from", str(shell.key), "--policy", str(shell.policy))
    _, err = shell.with_config(*taking, code=2)
    assert f"mode {mode:04o}" in err
    assert "[secret-file-exposed]" in err
    assert f"hint: chmod 600 {shell.key}" in err
    assert "model" not in shell.with_config("key", "list")[0]
    shell.key.chmod(0o400)
    shell.with_config(*taking)


def test_what_cannot_be_imported_is_refused(shell: Shell) -> None:
    shell.init()
    policy = ("--policy", str(shell.policy))
    shell.key.write_bytes(MATERIAL.hex().encode())
    _, err = shell.with_config("key", "import", "model", "--from", str(shell.key), *policy, code=1)
    assert "[key-material-invalid]" in err
    assert MATERIAL.hex() not in err
    shell.with_config("key", "import", "model", "--from", str(shell.folder / "none"), *policy, code=2)
    shell.key.write_bytes(MATERIAL)
    shell.with_config("key", "import", "../model", "--from", str(shell.key), *policy, code=2)
    shell.with_config("key", "import", "model", "--from", str(shell.key), code=2)
    shell.policy.write_text("schema: attest.policy/1\n", encoding="utf-8")
    _, err = shell.with_config("key", "import", "model", "--from", str(shell.key), *policy, code=2)
    assert "[policy-invalid]" in err
    assert f"error: {shell.policy}:1:1: name: " in err
    assert shell.with_config("key", "list")[0] == ""


def test_an_unknown_key_is_an_error_with_a_hint(shell: Shell) -> None:
    shell.init()
    for verb in ("show", "disable", "enable"):
        _, err = shell.with_config("key", verb, "model", code=1)
        assert "[key-unknown]" in err
        assert "hint: " in err


def test_the_log_is_listed_and_verified(shell: Shell) -> None:
    shell.init()
    shell.add_key()
    out, _ = shell.with_config("log", "list")
    assert [line.split()[2] for line in out.splitlines()] == ["initialised", "key-imported"]
    lines = [json.loads(line) for line in shell.with_config("log", "list", "--json")[0].splitlines()]
    assert [line["entry"]["seq"] for line in lines] == [1, 2]
    assert shell.with_config("log", "list", "--after", "1")[0].count("\n") == 1
    state = json.loads(shell.with_config("log", "verify", "--json")[0])
    assert (state["schema"], state["size"]) == ("kms.log-state/1", 2)
    assert f"state: 2:{state['root']}\n" in shell.with_config("log", "verify")[0]
    shell.with_config("log", "verify", "--expect", f"2:{state['root']}", "--expect", lines[0]["hash"])
    assert "[log-rolled-back]" in shell.with_config("log", "verify", "--expect", "3:" + state["root"], code=1)[1]
    assert "[log-forked]" in shell.with_config("log", "verify", "--expect", "1:" + state["root"], code=1)[1]
    shell.with_config("log", "verify", "--expect", "nonsense", code=2)


def test_a_log_that_was_altered_is_code_1(shell: Shell) -> None:
    shell.init()
    with sqlite3.connect(shell.folder / "svc" / "kms.db") as database:
        database.execute("DROP TRIGGER log_entries_no_update")
        changed = "replace(entry, 'initialised', 'initialized')"
        database.execute(f"UPDATE log_entries SET entry = CAST({changed} AS BLOB)")  # noqa: S608  text of this test
        database.commit()
        assert "[log-hash-mismatch]" in shell.with_config("log", "verify", code=1)[1]
        database.execute("UPDATE log_entries SET entry = CAST(entry AS TEXT)")
    database.close()
    assert "[log-entry-invalid]" in shell.with_config("log", "verify", code=1)[1]


def test_settings_are_shown_with_their_origin(shell: Shell) -> None:
    shell.init("--allow-simulated")
    shown = json.loads(shell.with_config("config", "show", "--port", "1", "--json")[0])["settings"]
    assert shown["port"] == {"value": 1, "source": "flag"}
    assert shown["challenge_seconds"] == {"value": 300, "source": "default"}
    assert shown["allow_simulated"]["value"] is True
    assert shown["origin"]["source"] == f"file {shell.config}"
    assert re.search(r"^port +1 +flag$", shell.with_config("config", "show", "--port", "1")[0], re.MULTILINE)


def test_a_current_database_needs_no_migration(shell: Shell) -> None:
    shell.init()
    assert shell.with_config("migrate")[0] == f"schema {REVISIONS[-1]}: nothing to do\n"
    out, err = shell.with_config("migrate", "--dry-run")
    assert (out, err) == (f"schema {REVISIONS[-1]}: nothing to do\n", "note: dry run; nothing was changed\n")
    would = json.loads(shell.with_config("migrate", "--dry-run", "--json")[0])
    assert (would["done"], would["would"]) == (None, f"schema {REVISIONS[-1]}: nothing to do")


@pytest.mark.parametrize(
    "arguments",
    [("serve",), ("key",), ("key", "list"), ("nothing",), ("serve", "--nothing"), ("log", "list", "--after", "-1")],
)
def test_wrong_usage_is_code_2(shell: Shell, arguments: tuple[str, ...]) -> None:
    if arguments == ("key",):
        _, err = shell.run(*arguments, code=2)
        assert "\nUsage: kms key " in err
        assert "error: " not in err, "help is no error message"
    else:
        _, err = shell.run(*arguments, code=2)
        assert "hint: " in err


def test_what_is_wrong_without_a_hint_of_its_own_says_what_would_be_right(shell: Shell) -> None:
    shell.init()
    shell.add_key()
    assert "hint: expected " in shell.with_config("key", "rotate", "model", "--overlap", "banana", code=2)[1]
    assert "hint: expected " in shell.with_config("key", "tag", "model", "x", code=2)[1]


def test_settings_that_do_not_fit_together_name_no_flag_that_there_is_not(shell: Shell) -> None:
    shell.init()
    _, err = shell.with_config("serve", "--tls-key-file", "x", code=2)
    assert "must be set together" in err
    assert "--settings" not in err
    _, err = shell.with_config("serve", "--port", "99999", code=2)
    assert "change it at its source" in err
    assert "hint: give an existing file" in shell.run("key", "list", "--config", "none.toml", code=2)[1]


def test_no_endorsements_are_said_to_be_none(shell: Shell) -> None:
    shell.init()
    out, err = shell.with_config("endorsements", "status")
    assert (out, "note: there are no endorsements" in err) == ("", True)


def test_a_file_that_cannot_be_written_is_code_2(shell: Shell) -> None:
    shell.init()
    shell.add_key()
    shell.with_config("key", "limits", "set", "model", "--most-holders", "1", "--reason", "x", "--propose")
    _, err = shell.with_config("proposal", "show", "1", "--export", str(shell.folder / "no" / "p"), code=2)
    assert "[output-unwritable]" in err
    assert "hint: " in err


def test_help_shows_every_command_once_in_its_section(shell: Shell) -> None:
    out, _ = shell.run("--help")
    shown = [line.split()[0] for line in out.splitlines() if re.match(r"  [a-z][a-z-]*  ", line)]
    assert sorted(shown) == sorted(cli.commands)
    assert shown[0] == "init"
    assert "Others:" not in out


def _every_command(group: click.Command, path: str = "kms") -> Iterator[tuple[str, click.Command]]:
    yield path, group
    if isinstance(group, click.Group):
        for name, one in group.commands.items():
            yield from _every_command(one, f"{path} {name}")


def test_every_option_of_every_command_is_explained() -> None:
    silent = [
        f"{path} {option.opts[0]}"
        for path, one in _every_command(cli)
        for option in one.params
        if isinstance(option, click.Option) and not option.help
    ]
    assert not silent


def test_every_command_has_an_example_and_a_whole_summary() -> None:
    for path, one in _every_command(cli):
        assert isinstance(one, ExampleCommand), path
        assert one.examples, path
        assert all(path in example for example in one.examples), path
        assert "..." not in one.get_short_help_str(), path


EXAMPLES = sorted(
    {
        example
        for path, one in _every_command(cli)
        if isinstance(one, ExampleCommand) and path != "kms completion"  # of a shell's own settings
        for example in one.examples
    }
)


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_a_command_that_exists_with_options_that_exist(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = shlex.split(example.partition(" > ")[0])[1:]
    command: click.Command = cli
    context = click.Context(cli, info_name="kms")
    while isinstance(command, click.Group):
        name, found, words = command.resolve_command(context, words)
        assert found is not None
        command = found
        context = click.Context(command, info_name=name, parent=context)
    command.parse_args(context, words)


def test_help_shows_the_settings_and_the_network_under_titles_of_their_own(shell: Shell) -> None:
    shown = shell.run("key", "rotate", "--help")[0]
    titles = "Options:", "Settings of the service:", "Administration over the network:", "Output:"
    order = [shown.index(f"\n{title}") for title in titles]
    assert order == sorted(order)
    first = [shown.index(f"\n  {option}") for option in ("--overlap", "--config", "--server", "--json")]
    assert sorted((*order, *first)) == [place for pair in zip(order, first, strict=True) for place in pair]


def test_every_command_has_help(shell: Shell) -> None:
    for arguments in [(), ("init",), ("serve",), ("key",), ("key", "import"), ("log", "verify"), ("config", "show")]:
        out, _ = shell.run(*arguments, "--help")
        assert "Usage: kms" in out
    assert "kms serve --config" in shell.run("--help")[0]
    assert shell.run("--version")[0].startswith("kms 0.")


def test_a_bug_is_code_70_without_a_traceback(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("kms.config.settings.load_settings", broken)
    _, err = shell.run("key", "list", code=70)
    assert "Traceback" not in err


def test_mc_1_nonces_and_keys_come_from_the_systems_generator() -> None:
    folder = Path(__file__).resolve().parents[2] / "kms"
    edges = (*folder.glob("cli/*.py"), *folder.glob("admin_api/*.py"))
    source = "".join(path.read_text(encoding="utf-8") for path in edges)
    assert set(re.findall(r"random=([\w.]+)", source)) == {"secrets.token_bytes", "random", "looking.random"}
    assert "new_material(algorithm, random=secrets.token_bytes)" in source


# -- a process of its own


@pytest.mark.loopback
def test_serve_says_who_it_is_warns_of_simulation_and_ends_with_0(shell: Shell) -> None:
    identity = shell.init("--allow-simulated").partition("identity: ")[2].strip()
    service = ServedProcess.start(shell.config, cold=True)
    try:
        assert service.identity == identity
        assert service.challenge().audience == identity
        service.process.send_signal(1)  # SIGHUP reads endorsements again and ends nothing
        assert service.challenge().audience == identity
    finally:
        assert service.terminate() == 0
    log = (shell.config.parent / "serve.log").read_text(encoding="utf-8")
    assert "warning: SIMULATED evidence is accepted" in log
    assert "endorsements were reloaded" in log


@pytest.mark.loopback
def test_a_port_that_is_taken_is_code_2_with_a_hint(shell: Shell) -> None:
    shell.init()
    service = ServedProcess.start(shell.config)
    try:
        second = subprocess.run(
            command("serve", "--config", str(shell.config), "--port", str(service.port)),
            capture_output=True,
            text=True,
            env=environment(),
            timeout=60,
            check=False,
        )
    finally:
        service.terminate()
    assert second.returncode == 2
    assert "[address-in-use]" in second.stderr
    assert "hint: " in second.stderr
    assert second.stdout == ""


@pytest.mark.parametrize("change", ["no kek", "no database", "no endorsements", "open kek"])
def test_serve_refuses_to_start_on_what_is_missing_or_open(shell: Shell, change: str) -> None:
    shell.init()
    folder = shell.folder / "svc"
    more: tuple[str, ...] = ()
    if change == "no kek":
        (folder / "kek").unlink()
    elif change == "no database":
        (folder / "kms.db").unlink()
    elif change == "open kek":
        (folder / "kek").chmod(0o644)
    else:
        more = ("--endorsements", str(folder / "none"))
    _, err = shell.with_config("serve", *more, code=2)
    assert "hint: " in err


# -- documents of reference values


class Documents:
    """Documents, signatures and keys as files."""

    def __init__(self, shell: Shell) -> None:
        self.folder = shell.folder
        self.shell = shell
        self.policy = shell.folder / "naming.yaml"
        self.policy.write_bytes(naming(by_signers(ALICE)))

    def write(self, document: Json, key: Ed25519PrivateKey) -> tuple[str, str, str]:
        files = {"document.json": document_file(document), "document.sig": signature_file(document, key)}
        for name, file in (files | {"key.pub": key_file(key)}).items():
            (self.folder / name).write_bytes(file.data)
        first, second, third = (str(self.folder / name) for name in ("document.json", "document.sig", "key.pub"))
        return first, second, third

    def import_key(self, document: Json, *, command: str = "import", key_id: str = "model") -> None:
        file, signature, key = self.write(document, ALICE)
        source = ("--from", str(self.shell.key)) if command == "import" else ()
        named = ("--references", file, "--references-signature", signature, "--references-key", key)
        self.shell.with_config("key", command, key_id, *source, "--policy", str(self.policy), *named)

    def add(self, document: Json, key: Ed25519PrivateKey = ALICE, *, code: int = 0) -> tuple[str, str]:
        file, signature, public = self.write(document, key)
        return self.shell.with_config("references", "add", file, "--signature", signature, "--key", public, code=code)


@pytest.fixture
def documents(shell: Shell) -> Documents:
    shell.init()
    return Documents(shell)


CURRENT: Json = {"issued": "2020-01-01T00:00:00Z", "expires": {"unchecked": "a test that runs whenever it runs"}}


def test_a_key_comes_in_with_the_documents_of_its_policy(shell: Shell, documents: Documents) -> None:
    assert "no documents" in shell.with_config("references", "list")[1]
    missing = ("--from", str(shell.key), "--policy", str(documents.policy))
    _, err = shell.with_config("key", "import", "model", *missing, code=2)
    assert "[references-missing]" in err
    assert "hint: give the document with --references" in err
    documents.import_key(images(**CURRENT))
    documents.import_key(images(**CURRENT), command="create", key_id="made")
    (listed,) = json.loads(shell.with_config("references", "list", "--json")[0])["references"]
    assert (listed["name"], listed["version"], listed["state"], listed["expires"]) == ("images", 1, "current", None)
    assert (listed["keys"], listed["signers"]) == (["made", "model"], [fingerprint(ALICE)])
    assert "until no end  for made, model" in shell.with_config("references", "list")[0]
    shown = json.loads(shell.with_config("key", "show", "model", "--json")[0])
    assert shown["references"] == [{"name": "images", "version": 1, "sha256": listed["sha256"]}]
    assert shown["obstacle"] is None
    assert f"references:     images version 1 {listed['sha256']}" in shell.with_config("key", "show", "model")[0]
    assert "references-added  images@1" in shell.with_config("log", "list")[0]


def test_a_newer_document_is_one_command_and_there_is_no_way_back(shell: Shell, documents: Documents) -> None:
    documents.import_key(images(2, **CURRENT))
    out, _ = documents.add(images(3, **CURRENT))
    assert "images version 3" in out
    assert "is in force for model" in out
    assert "was in force already" in documents.add(images(3, **CURRENT))[0]
    _, err = documents.add(images(2, **CURRENT), code=1)
    assert "[references-rolled-back]" in err
    _, err = documents.add(images(4, **CURRENT), STRANGER, code=2)
    assert "[references-not-accepted]" in err
    _, err = documents.add(images(4, **CURRENT | {"expires": "2020-01-02T00:00:00Z"}), code=1)
    assert "[references-not-current]" in err
    _, err = documents.add(images(4, name="others", **CURRENT), code=1)
    assert "[references-not-named]" in err
    ended = images(4, **CURRENT, revoked=[{"value": GOOD, "reason": "CVE-1"}])
    assert "warning: the key model is not released at present" in documents.add(ended)[1]
    out, err = shell.with_config("key", "show", "model")
    assert "warning: the key is not released at present" in err
    assert "CVE-1" in json.loads(shell.with_config("key", "show", "model", "--json")[0])["obstacle"]
    shell.with_config("log", "verify")


def test_what_is_no_document_no_signature_and_no_key_is_refused(shell: Shell, documents: Documents) -> None:
    documents.import_key(images(**CURRENT))
    file, signature, key = documents.write(images(2, **CURRENT), ALICE)
    for given in (
        (str(shell.policy), "--signature", signature, "--key", key),
        (file, "--signature", file, "--key", key),
        (file, "--signature", signature, "--key", signature),
        (file, "--signature", signature),
        (str(shell.folder / "absent"),),
    ):
        shell.with_config("references", "add", *given, code=2)
