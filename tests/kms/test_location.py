"""Where a PostgreSQL database is, and its password, which nobody sees."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import URL

from attest.errors import ConfigurationError
from kms.config.settings import load_settings
from kms.domain.errors import UnavailableError
from kms.store import Access, locate, open_store
from kms.store.postgres import open_engine
from tests.kms.postgres import PASSWORD, WITH_PASSWORD, Server
from tests.kms.stores import make_store


@pytest.fixture
def with_password(postgres: Server) -> Iterator[str]:
    url = postgres.fresh()
    with postgres.connected(url) as connection:
        connection.execute(f"DROP ROLE IF EXISTS {WITH_PASSWORD}")
        connection.execute(f"CREATE ROLE {WITH_PASSWORD} LOGIN PASSWORD '{PASSWORD}'")
        connection.execute(f"ALTER SCHEMA public OWNER TO {WITH_PASSWORD}")
    yield postgres.url("tests", WITH_PASSWORD)
    postgres.fresh()
    with postgres.connected() as connection:
        connection.execute(f"DROP ROLE {WITH_PASSWORD}")


def write_private(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return path


def test_the_password_comes_from_a_file_or_from_libpqs_own(
    with_password: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = write_private(tmp_path / "password", PASSWORD + "\n")
    make_store(with_password, access=Access(password_file=file))
    passfile = write_private(tmp_path / "pgpass", f"*:*:tests:{WITH_PASSWORD}:{PASSWORD}\n")
    open_store(f"{with_password}&passfile={passfile}").close()
    wrong = write_private(tmp_path / "wrong", "another\n")
    for access in (Access(), Access(password_file=wrong)):
        with pytest.raises(UnavailableError):
            open_store(with_password, access=access)
    assert PASSWORD not in caplog.text
    assert "another" not in caplog.text


@pytest.mark.parametrize(
    ("content", "mode", "code"),
    [
        ("", 0o600, "database-password-unusable"),
        ("\n", 0o600, "database-password-unusable"),
        ("a\nb\n", 0o600, "database-password-unusable"),
        ("a\0b", 0o600, "database-password-unusable"),
        ("x" * 1025, 0o600, "database-password-unusable"),
        ("good\n", 0o640, "database-password-exposed"),
        ("good\n", 0o604, "database-password-exposed"),
    ],
)
def test_mc_34_a_password_file_that_others_can_read_or_that_is_none_is_refused(
    postgres: Server, tmp_path: Path, content: str, mode: int, code: str
) -> None:
    file = write_private(tmp_path / "password", content)
    file.chmod(mode)
    with pytest.raises(ConfigurationError) as caught:
        open_store(postgres.url("tests"), access=Access(password_file=file))
    assert caught.value.code == code
    assert "good" not in str(caught.value.context())
    for none in (tmp_path, tmp_path / "none"):
        with pytest.raises(ConfigurationError) as caught:
            open_store(postgres.url("tests"), access=Access(password_file=none))
        assert caught.value.code == "database-password-unusable"


def test_mc_33_a_password_in_the_environment_is_refused(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    with pytest.raises(ConfigurationError) as caught:
        open_store(postgres.url("tests"))
    assert caught.value.code == "database-password-exposed"
    assert PASSWORD not in str(caught.value.context())


@pytest.mark.parametrize("source", ["file", "table", "flag", "environment"])
@pytest.mark.parametrize("url", ["postgresql://kms:hunter2@db/kms", "postgres://db/kms?password=hunter2"])
def test_mc_33_a_password_in_the_url_is_refused_and_not_repeated(tmp_path: Path, source: str, url: str) -> None:
    rest = 'kek_file = "kek"\norigin = "kms.test/a"\n'
    lines = {"file": f'database = "{url}"\n', "table": f'[store]\nurl = "{url}"\n'}
    path = tmp_path / "kms.toml"
    path.write_text(rest + lines.get(source, ""), encoding="utf-8")
    flags: dict[str, object] = {"database": url} if source == "flag" else {}
    environ = {"KMS_DATABASE": url} if source == "environment" else {}
    with pytest.raises(ConfigurationError) as caught:
        load_settings(flags=flags, environ=environ, config=path)
    assert caught.value.code == "database-password-exposed"
    assert "hunter2" not in f"{caught.value!r} {caught.value} {caught.value.context()} {caught.value.__cause__}"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://",
        "postgresql://db",
        "postgresql://db/",
        "postgresql:///kms",
        "postgresql:///kms?host=",
        "postgresql://db:port/kms",
        "postgresql://db/kms?nothing=1",
        "postgresql://db/kms?options=-csynchronous_commit%3Doff",
        "postgresql://db/kms?sslmode=require&sslmode=disable",
        "postgresql://db/kms?host=/run",
    ],
)
def test_a_url_that_says_something_unknown_nothing_or_the_same_twice_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        locate(url)
    assert caught.value.code == "database-url-invalid"


@pytest.mark.parametrize(
    ("url", "mode"),
    [
        ("postgresql://db.example/kms", "verify-full"),
        ("postgresql://kms@db.example/kms?sslmode=require", "require"),
        ("postgresql://localhost/kms", None),
        ("postgresql://kms@/kms?host=/run/postgresql", None),
    ],
)
def test_another_machine_has_to_prove_its_name_unless_the_url_says_otherwise(url: str, mode: str | None) -> None:
    pytest.importorskip("psycopg")
    place = locate(url)
    assert isinstance(place, URL)
    engine = open_engine(place, Access())
    assert engine.url.query.get("sslmode") == mode
    engine.dispose()


def test_the_table_store_says_the_same_as_the_settings_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "kms.toml"
    rest = 'kek_file = "kek"\norigin = "kms.test/a"\n'
    table = '[store]\nurl = "postgresql://db/kms"\npassword_file = "secret"\nconnections = 3\n'
    path.write_text(rest + table, encoding="utf-8")
    settings = load_settings(flags={}, environ={}, config=path).settings
    assert settings.database == "postgresql://db/kms"
    assert settings.database_access == Access(password_file=tmp_path / "secret", connections=3)
    for text, field in (
        (rest + 'database = "kms.db"\n' + table, "database"),
        (rest + '[store]\nurl = "kms.db"\nnothing = 1\n', "store.nothing"),
        (rest + "store = 1\n", "store"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigurationError) as caught:
            load_settings(flags={}, environ={}, config=path)
        assert (caught.value.code, caught.value.field) == ("config-invalid", field)


def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigurationError) as caught:
        open_store("postgresql://db/kms")
    assert caught.value.code == "database-driver-missing"
    assert "attest-kms[postgres]" in (caught.value.hint or "")
