"""Settings: one order of precedence, nothing unknown, everything checked at start."""

from pathlib import Path

import pytest

from attest.errors import ConfigurationError
from kms.config.settings import LoadedSettings, load_settings

FILE = 'database = "kms.db"\nkek_file = "kek"\norigin = "kms.test/a"\n'


def load(
    tmp_path: Path, text: str = FILE, *, environ: dict[str, str] | None = None, flags: dict[str, object] | None = None
) -> LoadedSettings:
    path = tmp_path / "kms.toml"
    path.write_text(text, encoding="utf-8")
    return load_settings(flags=flags or {}, environ=environ or {}, config=path)


def refused(tmp_path: Path, text: str = FILE, **more: dict[str, object]) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, text, **more)  # type: ignore[arg-type]
    return caught.value


def test_paths_in_the_file_are_relative_to_it(tmp_path: Path) -> None:
    more = 'endorsements = ["e", "/f"]\nanchors_file = "anchors.toml"\n'
    settings = load(tmp_path, FILE + more).settings
    assert settings.database == str(tmp_path / "kms.db")
    assert settings.kek_file == tmp_path / "kek"
    assert settings.endorsements == (tmp_path / "e", Path("/f"))
    assert settings.anchors_file == tmp_path / "anchors.toml"


def test_a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default(tmp_path: Path) -> None:
    text = FILE + "port = 1\nchallenge_seconds = 11\nrequest_seconds = 12\n"
    loaded = load(
        tmp_path, text, environ={"KMS_PORT": "2", "KMS_CHALLENGE_SECONDS": "22"}, flags={"port": 3, "host": None}
    )
    assert (loaded.settings.port, loaded.settings.challenge_seconds, loaded.settings.request_seconds) == (3, 22, 12)
    assert loaded.settings.host == "127.0.0.1"
    assert loaded.sources["port"] == "flag"
    assert loaded.sources["challenge_seconds"] == "environment KMS_CHALLENGE_SECONDS"
    assert loaded.sources["request_seconds"] == f"file {tmp_path / 'kms.toml'}"
    assert loaded.sources["host"] == "default"


def test_the_environment_may_name_the_file(tmp_path: Path) -> None:
    load(tmp_path)
    loaded = load_settings(flags={}, environ={"KMS_CONFIG": str(tmp_path / "kms.toml")})
    assert loaded.settings.origin == "kms.test/a"


def test_text_of_the_environment_becomes_what_the_setting_is(tmp_path: Path) -> None:
    environ = {
        "KMS_ALLOW_SIMULATED": "true",
        "KMS_FETCH": "false",
        "KMS_ENDORSEMENTS": "/a:/b",
        "KMS_KEK_FILE": "/k",
        "KMS_ORIGIN": "kms.test/b",
        "HOME": "/nowhere",
    }
    settings = load(tmp_path, environ=environ).settings
    assert settings.allow_simulated is True
    assert settings.fetch is False
    assert settings.endorsements == (Path("/a"), Path("/b"))
    assert settings.kek_file == Path("/k")
    assert settings.origin == "kms.test/b"


@pytest.mark.parametrize(
    "environ",
    [
        {"KMS_ALLOW_SIMULATED": "yes"},
        {"KMS_ALLOW_SIMULATED": "True"},
        {"KMS_FETCH": "1"},
        {"KMS_PORT": "tcp://10.0.0.1:8750"},
        {"KMS_PORT": ""},
        {"KMS_PORT": "-1"},
        {"KMS_PROT": "1"},
    ],
)
def test_other_text_of_the_environment_is_refused(tmp_path: Path, environ: dict[str, str]) -> None:
    assert refused(tmp_path, environ=environ).code == "config-invalid"  # type: ignore[arg-type]


def test_what_kubernetes_sets_by_itself_is_passed_over(tmp_path: Path) -> None:
    environ = {"KMS_SERVICE_HOST": "10.0.0.1", "KMS_PORT_8750_TCP": "tcp://10.0.0.1:8750"}
    assert load(tmp_path, environ=environ).settings.port == 8750


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("allow_simulation = true", "allow_simulation"),
        ("allow_simulated = 1", "allow_simulated"),
        ('allow_simulated = "true"', "allow_simulated"),
        ("port = 65536", "port"),
        ("port = -1", "port"),
        ('port = "8750"', "port"),
        ("port = true", "port"),
        ("challenge_seconds = 9", "challenge_seconds"),
        ("challenge_seconds = 3601", "challenge_seconds"),
        ("max_body_bytes = 16777217", "max_body_bytes"),
        ("request_seconds = 0", "request_seconds"),
        ("max_concurrent = 0", "max_concurrent"),
        ('endorsements = "e"', "endorsements"),
        ("endorsements = [1]", "endorsements"),
        ('host = ""', "host"),
        ("[serve]", "serve"),
    ],
)
def test_mc_42_unknown_names_and_wrong_values_are_refused(tmp_path: Path, line: str, field: str) -> None:
    error = refused(tmp_path, FILE + line + "\n")
    assert error.code == "config-invalid"
    assert error.field == field


@pytest.mark.parametrize("line", ["challenge_seconds = 10", "challenge_seconds = 3600", "port = 0", "port = 65535"])
def test_the_bounds_are_included(tmp_path: Path, line: str) -> None:
    load(tmp_path, FILE + line + "\n")


@pytest.mark.parametrize("origin", ["", "a b", "a+b", "/a", "a/", "a\n", "ä", "a" * 129])
def test_a_name_that_no_signed_note_could_carry_is_refused(tmp_path: Path, origin: str) -> None:
    assert refused(tmp_path, flags={"origin": origin}).field == "origin"


@pytest.mark.parametrize("name", ["database", "kek_file", "origin"])
def test_what_has_no_default_must_be_set(tmp_path: Path, name: str) -> None:
    text = "".join(line + "\n" for line in FILE.splitlines() if not line.startswith(name))
    error = refused(tmp_path, text)
    assert error.field == name
    assert f"--{name.replace('_', '-')}" in (error.hint or "")


@pytest.mark.parametrize("text", ["=", "a = \x00", '"""', "database = 'a'\ndatabase = 'b'", "#" * 70_000])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, text: str) -> None:
    assert refused(tmp_path, text).code == "config-unreadable"


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(flags={}, environ={}, config=tmp_path / "none.toml")
    assert caught.value.code == "config-unreadable"
