"""Where the key-encryption key is, as the settings say it: one table, one back-end, and no secret."""

import json
from pathlib import Path

import pytest

from attest.errors import ConfigurationError
from kms.config.settings import LoadedSettings, load_settings
from kms.keys.wrapping.definitions import (
    FileDefinition,
    Pkcs11Definition,
    TransitDefinition,
    read_definition,
    read_directory,
)
from tests.kms.softhsm import PIN, SoftHsm
from tests.kms.warm import run_warm

REST = 'database = "kms.db"\norigin = "kms.test/a"\n'
PKCS11 = 'backend = "pkcs11"\nmodule = "/m.so"\ntoken = "kms"\nkey = "k"\npin_file = "pin"\n'
TRANSIT = 'backend = "transit"\nurl = "https://bao.test:8200"\nkey = "k"\ntoken_file = "token"\n'


def load(tmp_path: Path, text: str, *, environ: dict[str, str] | None = None) -> LoadedSettings:
    path = tmp_path / "kms.toml"
    path.write_text(REST + text, encoding="utf-8")
    return load_settings(flags={}, environ=environ or {}, config=path)


def refused(tmp_path: Path, text: str) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, text)
    assert caught.value.code == "config-invalid"
    return caught.value


def test_the_table_says_where_the_key_is_and_paths_are_relative_to_it(tmp_path: Path) -> None:
    plain = load(tmp_path, '[kek]\nfile = "kek"\n').settings.kek
    assert plain == load(tmp_path, 'kek_file = "kek"\n').settings.kek
    assert isinstance(plain, FileDefinition)
    assert plain.file == tmp_path / "kek"
    token = load(tmp_path, f'[kek]\n{PKCS11}directory = "keks"\n').settings
    assert isinstance(token.kek, Pkcs11Definition)
    assert (token.kek.pin_file, token.kek.token, token.kek_directory) == (tmp_path / "pin", "kms", tmp_path / "keks")
    engine = load(tmp_path, f"[kek]\n{TRANSIT}").settings.kek
    assert isinstance(engine, TransitDefinition)
    assert (engine.mount, engine.token_file, engine.ca_file) == ("transit", tmp_path / "token", None)


def test_the_environment_says_the_same(tmp_path: Path) -> None:
    environ = {"KMS_KEK_BACKEND": "transit", "KMS_KEK_URL": "https://bao.test", "KMS_KEK_KEY": "k"}
    found = load(tmp_path, "", environ=environ | {"KMS_KEK_TOKEN_FILE": "/t"}).settings.kek
    assert isinstance(found, TransitDefinition)
    assert found.token_file == Path("/t")


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('[kek]\nfile = "kek"\nfiles = "x"\n', "kek.files"),
        ('[kek]\npin = "1234"\n', "kek.pin"),
        ('[kek]\nbackend = "cloud"\n', "kek_backend"),
        ("[kek]\nbackend = 1\n", "kek_backend"),
        ('[kek]\nbackend = "file"\n', "kek_file"),
        ('[kek]\nfile = "kek"\nurl = "https://bao.test"\n', "kek_url"),
        (f'[kek]\n{PKCS11}file = "kek"\n', "kek_file"),
        (f'[kek]\n{PKCS11}mount = "transit"\n', "kek_mount"),
        (f"[kek]\n{PKCS11.replace('pin_file', 'token_file')}", "kek_pin_file"),
        (f"[kek]\n{PKCS11.replace('kms', 'k' * 33)}", "kek_token"),
        (f"[kek]\n{TRANSIT.replace('https', 'http')}", "kek_url"),
        (f"[kek]\n{TRANSIT.replace('https://', 'https://user:password@')}", "kek_url"),
        (f"[kek]\n{TRANSIT.replace('8200', '8200/v1')}", "kek_url"),
        (f"[kek]\n{TRANSIT.replace('8200', '8200?a=b')}", "kek_url"),
        (f"[kek]\n{TRANSIT.replace('https://bao.test:8200', 'https://')}", "kek_url"),
        (f'[kek]\n{TRANSIT}mount = "../sys"\n', "kek_mount"),
        (f'[kek]\n{TRANSIT}namespace = "a//b"\n', "kek_namespace"),
        (f"[kek]\n{TRANSIT.replace(chr(34) + 'k' + chr(34), chr(34) + 'k?x' + chr(34))}", "kek_key"),
        (f"[kek]\n{TRANSIT.replace('url', 'ca_file')}", "kek_url"),
    ],
)
def test_mc_42_unknown_missing_and_wrong_members_are_refused(tmp_path: Path, text: str, field: str) -> None:
    assert refused(tmp_path, text).field == field


def test_a_setting_is_not_said_twice(tmp_path: Path) -> None:
    assert refused(tmp_path, 'kek_file = "a"\n[kek]\nfile = "b"\n').field == "kek_file"


@pytest.mark.parametrize("url", ["http://127.0.0.1:8200", "http://localhost:8200/", "http://[::1]:8200", "https://a"])
def test_the_token_travels_in_the_clear_within_this_machine_alone(tmp_path: Path, url: str) -> None:
    found = load(tmp_path, f"[kek]\n{TRANSIT.replace('https://bao.test:8200', url)}").settings.kek
    assert isinstance(found, TransitDefinition)
    assert found.url == url.rstrip("/")


def test_a_directory_holds_further_definitions(tmp_path: Path) -> None:
    assert read_directory(None) == read_directory(tmp_path / "none") == ()
    directory = tmp_path / "keks"
    directory.mkdir(mode=0o700)
    (directory / "b.toml").write_text(TRANSIT)
    (directory / "a.toml").write_text('file = "a"\n')
    (directory / "notes.txt").write_text("not one")
    first, second = read_directory(directory)
    assert isinstance(first, FileDefinition)
    assert first.file == directory / "a"
    assert isinstance(second, TransitDefinition)


@pytest.mark.parametrize("content", ["=", "#" * 70_000, "\x00"])
def test_a_definition_that_cannot_be_read_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.toml").write_text(content)
    with pytest.raises(ConfigurationError) as caught:
        read_definition(tmp_path / "a.toml")
    assert caught.value.code == "config-unreadable"


def test_mc_33_a_service_on_a_token_is_made_at_the_command_line_and_shows_no_pin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hsm = SoftHsm(tmp_path, monkeypatch)
    table = "".join(f"{name} = {json.dumps(str(value))}\n" for name, value in hsm.settings().items())
    load(tmp_path, f"[kek]\n{table}")
    shown = ""
    for arguments in (("init",), ("config", "show", "--json"), ("kek", "status", "--json"), ("fsck",)):
        done = run_warm(*arguments, "--config", str(tmp_path / "kms.toml"))
        assert done.returncode == 0, done.stderr
        shown += done.stdout + done.stderr
    assert "key 'kek' of the PKCS#11 token 'kms'" in shown
    assert PIN not in shown
