"""The database: made once, opened only when it is known, written all or nothing, its log never rewritten."""

import sqlite3
import threading
from contextlib import closing
from functools import cache, partial
from hashlib import sha256
from pathlib import Path

import pytest
import rfc8785
from alembic.autogenerate import compare_metadata
from alembic.command import upgrade
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from attest.errors import AttestError, ConfigurationError
from attest.files import write_file
from kms.config.settings import Settings
from kms.domain.errors import LogBrokenError, UnavailableError
from kms.domain.log_verification import verify_log
from kms.operations.services import initialise, open_vault
from kms.store import (
    Access,
    ReadTransaction,
    WriteTransaction,
    create_database,
    locate,
    migrate_database,
    open_store,
    postgres,
)
from kms.store.schema import REVISIONS, metadata
from kms.store.sqlite import open_engine
from kms.store.timeouts import WRITING
from tests.kms.replayed import Replayed
from tests.kms.stores import establish, make_store, opened_store
from tests.kms.support import AT, FakeClock, FakeRandom, Harness, Workload, settings_for


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    """What is asked of `harness` here holds on both databases."""
    return str(request.param)


def database(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=0, isolation_level=None)


def make(path: Path) -> str:
    return make_store(str(path))


# -- units of work


def test_a_reading_transaction_offers_only_the_part_of_each_repository_that_reads(tmp_path: Path) -> None:
    def public(part: type) -> set[str]:
        return {name for name in vars(part) if not name.startswith("_")}

    names = public(ReadTransaction) - {"position"}
    store = opened_store(make(tmp_path / "kms.db"))
    with store.reading() as tx:
        reading = {name: type(getattr(tx, name)) for name in names}
    with store.writing() as tx:
        writing = {name: type(getattr(tx, name)) for name in names}
    store.close()
    more = {"part", "begin_state", "open_state", "begin_log", "settle"}
    assert public(WriteTransaction) == more
    for name in names - {"audit"}:
        assert issubclass(writing[name], reading[name]), name
        assert public(writing[name]), f"{name}: nothing is written"
        assert not {"add", "put", "remove", "append", "use"} & public(reading[name]), name


# -- making and opening


def test_a_new_database_is_private_and_durable(tmp_path: Path) -> None:
    path = tmp_path / "kms.db"
    store = opened_store(make(path))
    with store.writing() as tx:
        tx.facts.add("a", b"b")
    for file in tmp_path.iterdir():
        assert file.stat().st_mode & 0o7777 == 0o600, file
    engine = open_engine(path)
    with engine.connect() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 5000}
    engine.dispose()
    store.close()


def test_the_migrations_make_what_the_code_expects(tmp_path: Path) -> None:
    path = tmp_path / "kms.db"
    make(path)
    engine = open_engine(path)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    engine.dispose()


def test_the_known_revisions_are_those_of_the_migrations() -> None:
    config = Config()
    config.set_main_option("script_location", "kms.store:migrations")
    config.set_main_option("path_separator", "os")
    scripts = ScriptDirectory.from_config(config)
    assert tuple(script.revision for script in reversed(list(scripts.walk_revisions()))) == REVISIONS


def test_mc_31_a_database_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "kms.db"
    path.write_bytes(b"something")
    with pytest.raises(ConfigurationError) as caught:
        make(path)
    assert caught.value.code == "database-exists"
    assert path.read_bytes() == b"something"


def test_a_database_that_could_not_be_filled_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        create_database(str(tmp_path / "kms.db"), fill=fail)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_initialisation_leaves_no_key_behind(tmp_path: Path) -> None:
    (tmp_path / "kms.db").write_bytes(b"something")
    with pytest.raises(ConfigurationError) as caught:
        initialise(settings_for(tmp_path), clock=FakeClock(), random=FakeRandom())
    assert caught.value.code == "database-exists"
    assert [path.name for path in tmp_path.iterdir()] == ["kms.db"]


def test_a_missing_database_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_store(str(tmp_path / "kms.db"))
    assert caught.value.code == "database-missing"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"no database at all, but a text that is long enough to be looked at" * 20])
def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "kms.db"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(AttestError) as caught:
        open_store(str(path))
    assert caught.value.code == "database-not-initialised"


def test_a_directory_and_another_kind_of_database_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_store(str(tmp_path))
    assert caught.value.code == "database-unusable"
    with pytest.raises(ConfigurationError) as caught:
        open_store("mysql://somewhere/kms")
    assert caught.value.code == "database-unsupported"
    with pytest.raises(ConfigurationError) as caught:
        make(tmp_path / "none" / "kms.db")
    assert caught.value.code == "database-unusable"


def test_a_url_names_the_same_file(tmp_path: Path) -> None:
    make(tmp_path / "kms.db")
    open_store(f"sqlite:///{tmp_path}/kms.db").close()


def test_mc_34_a_database_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kms.db"
    make(path)
    path.chmod(0o644)
    with pytest.raises(ConfigurationError) as caught:
        open_store(str(path))
    assert caught.value.code == "database-exposed"


def test_mc_39_a_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kms.db"
    make(path)
    with closing(database(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    for opened in (open_store, partial(migrate_database, establish=establish)):
        with pytest.raises(ConfigurationError) as caught:
            opened(str(path))
        assert caught.value.code == "database-newer"


def test_a_database_that_needs_migration_is_refused_until_it_is_migrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A version that knows one more schema than this one refuses a database of this one.
    path = tmp_path / "kms.db"
    make(path)
    monkeypatch.setattr("kms.store.bootstrap.REVISIONS", (*REVISIONS, "9999"))
    with pytest.raises(ConfigurationError) as caught:
        open_store(str(path))
    assert caught.value.code == "database-needs-migration"
    assert "kms migrate" in (caught.value.hint or "")


@cache
def to_revision(revision: str) -> Replayed:
    return Replayed(partial(migrated, revision=revision))


def migrated(connection: Connection, *, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", "kms.store:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    upgrade(config, revision)


def at_revision(place: str, revision: str) -> Engine:
    """A database of an older schema: a file, or the URL of an empty PostgreSQL database."""
    found = locate(place)
    if isinstance(found, Path):
        write_file(found, b"")
        engine = open_engine(found)
    else:
        engine = postgres.open_engine(found, Access())
    with engine.connect().execution_options(**{WRITING: True}) as connection, connection.begin():
        to_revision(revision)(connection)
    return engine


def chained(place: str, count: int, *, alter: str = "") -> list[bytes]:
    """A database of the second schema, whose log was a chain; perhaps altered."""
    engine = at_revision(place, "0002")
    last, raws, rows = bytes(32), [], []
    for seq in range(1, count + 1):
        raw = rfc8785.dumps({"seq": seq, "time": "2026-06-01T12:00:00Z", "kind": "test"})
        digest = sha256(b"attest kms log v1\0" + last + raw).digest()
        raws.append(raw)
        rows.append({"seq": seq, "entry": raw, "previous": last, "hash": digest})
        last = digest
    with engine.connect().execution_options(**{WRITING: True}) as connection, connection.begin():
        connection.execute(text("INSERT INTO log_entries VALUES (:seq, :entry, :previous, :hash)"), rows)
        if alter:
            for statement in unprotecting(engine):
                connection.exec_driver_sql(statement)
            connection.exec_driver_sql(alter)
    engine.dispose()
    return raws


def unprotecting(engine: Engine) -> list[str]:
    if engine.dialect.name == "postgresql":
        return ["DROP TRIGGER log_entries_append_only ON log_entries"]
    return [f"DROP TRIGGER log_entries_no_{verb}" for verb in ("update", "delete")]


@pytest.fixture
def place(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Where a database can be made, of each kind."""
    return str(tmp_path / "kms.db" if kind == "sqlite" else request.getfixturevalue("postgres").fresh())


def test_a_log_that_was_a_chain_gets_its_tree_and_goes_on(place: str) -> None:
    raws = chained(place, 1001)
    assert migrate_database(place, establish=establish) == ("0002", REVISIONS[-1])
    store = opened_store(place)
    with store.reading() as tx:
        assert [entry.raw for entry in tx.log.entries()] == raws
        assert [entry.seq for entry in tx.log.entries(after=300, limit=600)] == list(range(301, 901))
        assert [entry.seq for entry in tx.log.entries(after=1000, limit=600)] == [1001]
        assert list(tx.log.entries(limit=0)) == []
        assert verify_log(tx.log).size == 1001
        assert tx.audit.schema_differences() == tx.audit.unprotected() == ()
    with store.writing() as tx:
        tx.log.add(kind="test", at=AT, body={})
    with store.reading() as tx:
        assert verify_log(tx.log, noted=[sha256(b"\0" + raws[0]).digest()]).size == 1002
    store.close()


@pytest.mark.parametrize(
    "alter",
    [
        "UPDATE log_entries SET entry = previous WHERE seq = 3",
        "UPDATE log_entries SET previous = hash WHERE seq = 3",
        "UPDATE log_entries SET hash = previous WHERE seq = 5",
        "DELETE FROM log_entries WHERE seq = 3",
        "UPDATE log_entries SET entry = CAST(entry AS TEXT) WHERE seq = 3",
    ],
)
def test_a_chain_that_was_altered_is_not_migrated(place: str, alter: str) -> None:
    if "AS TEXT" in alter and place.startswith("postgresql"):
        pytest.skip("PostgreSQL keeps text out of a column of bytes")
    chained(place, 5, alter=alter)
    with pytest.raises(LogBrokenError) as caught:
        migrate_database(place, establish=establish)
    assert caught.value.code == "log-hash-mismatch"
    with pytest.raises(ConfigurationError) as refused:
        open_store(place)
    assert refused.value.code == "database-needs-migration"


def test_a_database_of_the_first_schema_is_migrated_with_what_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "kms.db"
    engine = at_revision(str(path), "0001")
    with engine.connect() as connection, connection.begin():
        connection.exec_driver_sql("INSERT INTO meta VALUES ('a', x'62')")
    engine.dispose()
    with pytest.raises(ConfigurationError) as caught:
        open_store(str(path))
    assert caught.value.code == "database-needs-migration"
    assert migrate_database(str(path), establish=establish) == ("0001", REVISIONS[-1])
    store = opened_store(str(path))
    with store.reading() as tx:
        assert (tx.facts.find("a"), tx.references.names()) == (b"b", ())
    store.close()


def test_a_migration_of_what_is_current_changes_nothing(tmp_path: Path) -> None:
    assert migrate_database(make(tmp_path / "kms.db"), establish=establish) == (REVISIONS[-1], REVISIONS[-1])


def test_a_version_table_without_its_row_is_no_database_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "kms.db"
    make(path)
    with closing(database(path)) as connection:
        connection.execute("DELETE FROM alembic_version")
    with pytest.raises(ConfigurationError) as caught:
        open_store(str(path))
    assert caught.value.code == "database-not-initialised"


# -- what belongs together


def changed(harness: Harness, **changes: object) -> Settings:
    return harness.settings.model_copy(update=changes)


def test_mc_27_another_key_encryption_key_is_refused_at_start(harness: Harness, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    initialise(settings_for(other), clock=FakeClock(), random=FakeRandom("other"))
    with pytest.raises(ConfigurationError) as caught:
        open_vault(changed(harness, kek_file=other / "kek"), random=FakeRandom())
    assert caught.value.code == "kek-mismatch"


def test_mc_27_another_name_is_refused_at_start(harness: Harness, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_vault(changed(harness, origin="kms.test/other"), random=FakeRandom())
    assert caught.value.code == "origin-mismatch"


def test_the_identity_stays_the_same(harness: Harness) -> None:
    again = harness.reopened()
    assert again.audience == harness.audience
    again.close()


@pytest.mark.parametrize("change", ["DELETE FROM secrets", "UPDATE secrets SET algorithm = 'none'"])
def test_a_database_without_the_services_own_keys_is_refused(harness: Harness, change: str) -> None:
    harness.alter(change)
    with pytest.raises(ConfigurationError) as caught:
        harness.reopened()
    assert caught.value.code == "database-not-initialised"


# -- transactions


def test_a_database_in_use_is_an_error_to_try_again(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kms.store.sqlite.BUSY_MILLISECONDS", 50)
    monkeypatch.setattr("kms.store.postgres.BUSY_MILLISECONDS", 50)
    impatient = harness.reopened()
    harness.add_key("model")
    request = Workload().request(impatient.releases.challenge(), "model")
    with harness.services.store.writing(), pytest.raises(UnavailableError) as caught:
        impatient.releases.release(request)
    assert caught.value.code == "store-busy"
    assert caught.value.retryable
    impatient.releases.release(request)
    impatient.close()


def test_writers_of_one_process_wait_in_line_but_not_for_ever(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kms.store.database.BUSY_MILLISECONDS", 50)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with harness.services.store.writing():
            held.set()
            done.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(60)
    with pytest.raises(UnavailableError) as caught, harness.services.store.writing():
        pass
    done.set()
    holder.join()
    assert caught.value.code == "store-busy"


def test_what_fails_half_way_is_not_there(harness: Harness) -> None:
    def fail() -> None:
        with harness.services.store.writing() as tx:
            tx.facts.add("half", b"way")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    with harness.services.store.reading() as tx:
        assert tx.facts.find("half") is None


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE log_entries SET seq = seq + 1000",
        "DELETE FROM log_entries",
        "TRUNCATE log_entries CASCADE",
        "UPDATE log_nodes SET position = position + 1000",
        "DELETE FROM log_nodes",
        "UPDATE policies SET document = digest",
        "DELETE FROM policies",
    ],
)
def test_mc_24_what_was_logged_is_not_rewritten(harness: Harness, statement: str) -> None:
    harness.add_key("model")
    if statement.startswith("TRUNCATE") and not harness.on_postgres:
        pytest.skip("SQLite has no TRUNCATE")
    with pytest.raises((sqlite3.IntegrityError, DBAPIError)) as caught:
        harness.alter(statement)
    assert "append-only" in str(caught.value)
