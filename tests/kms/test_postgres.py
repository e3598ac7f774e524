"""PostgreSQL: several services on one database, connections that are lost, and passwords that nobody sees."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import pytest
from alembic.autogenerate import compare_metadata
from alembic.command import upgrade
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import event
from sqlalchemy.engine import URL

from attest.errors import AttestError, ConfigurationError
from attest.release import ReleaseRequest
from kms.domain.errors import ChallengeUsedError, UnavailableError
from kms.domain.log_verification import verify_log
from kms.operations.services import initialise
from kms.store import Access, Store, create_database, locate, migrate_database, open_store
from kms.store.postgres import open_engine
from kms.store.schema import REVISIONS, metadata
from kms.store.timeouts import WRITING
from tests.kms.postgres import Server
from tests.kms.stores import establish, make_store, opened_store
from tests.kms.support import (
    FakeClock,
    FakeRandom,
    Harness,
    Workload,
    nonce_digest,
    open_release,
    settings_for,
)


@pytest.fixture
def kind() -> str:
    return "postgresql"


# -- making, opening, migrating


def test_the_migrations_make_what_the_code_expects_on_postgresql_too(harness: Harness) -> None:
    place = locate(harness.settings.database)
    assert isinstance(place, URL)
    engine = open_engine(place, Access())
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar_one() == "on"
    engine.dispose()


def test_mc_31_a_database_that_is_in_use_is_never_overwritten(harness: Harness) -> None:
    other = harness.folder / "other"
    other.mkdir()
    settings = settings_for(other, database=harness.settings.database)
    with pytest.raises(ConfigurationError) as caught:
        initialise(settings, clock=FakeClock(), random=FakeRandom("other"))
    assert caught.value.code == "database-exists"
    assert list(other.iterdir()) == []


def test_a_database_that_could_not_be_filled_stays_empty(postgres: Server) -> None:
    def fail(_: object) -> None:
        raise KeyboardInterrupt

    url = postgres.fresh()
    with pytest.raises(KeyboardInterrupt):
        create_database(url, fill=fail)
    with pytest.raises(ConfigurationError) as caught:
        open_store(url)
    assert caught.value.code == "database-not-initialised"
    make_store(url)


def test_mc_39_a_newer_database_is_refused_by_name(harness: Harness) -> None:
    url = harness.settings.database
    harness.close()
    harness.alter("UPDATE alembic_version SET version_num = '9999'")
    for opened in (open_store, partial(migrate_database, establish=establish)):
        with pytest.raises(ConfigurationError) as caught:
            opened(url)
        assert (caught.value.code, caught.value.got) == ("database-newer", "9999")


def test_a_database_without_an_encoding_is_usable(postgres: Server) -> None:
    with postgres.connected() as connection:
        connection.execute("CREATE DATABASE plain TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'")
    opened_store(make_store(postgres.url("plain"))).close()


def test_a_database_of_the_first_schema_is_migrated_with_what_is_in_it(postgres: Server) -> None:
    url = postgres.fresh()
    place = locate(url)
    assert isinstance(place, URL)
    engine = open_engine(place, Access())
    with engine.connect().execution_options(**{WRITING: True}) as connection, connection.begin():
        config = Config()
        config.set_main_option("script_location", "kms.store:migrations")
        config.set_main_option("path_separator", "os")
        config.attributes["connection"] = connection
        upgrade(config, "0001")
        connection.exec_driver_sql("INSERT INTO meta VALUES ('a', 'b')")
    engine.dispose()
    with pytest.raises(ConfigurationError) as caught:
        open_store(url)
    assert caught.value.code == "database-needs-migration"
    assert migrate_database(url, establish=establish) == ("0001", REVISIONS[-1])
    store = opened_store(url)
    with store.reading() as tx:
        assert (tx.facts.find("a"), tx.references.names()) == (b"b", ())
    store.close()


def test_a_database_is_migrated_only_while_no_service_is_connected(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as impatient:
        impatient.setattr("kms.store.postgres.BUSY_MILLISECONDS", 50)
        with pytest.raises(UnavailableError) as caught:
            migrate_database(harness.settings.database, establish=establish)
    assert caught.value.code == "store-busy"
    assert "every replica" in (caught.value.hint or "")
    harness.close()
    assert migrate_database(harness.settings.database, establish=establish) == (REVISIONS[-1], REVISIONS[-1])


def test_a_service_that_was_away_during_a_migration_does_not_work_with_the_new_schema(harness: Harness) -> None:
    harness.close()  # every connection, as when the server was restarted
    harness.alter("UPDATE alembic_version SET version_num = '9999'")
    for transaction in (harness.services.store.reading, harness.services.store.writing):
        with pytest.raises(ConfigurationError) as caught, transaction():
            pass
        assert caught.value.code == "database-newer"


def test_a_database_that_is_not_there_is_an_error_to_try_again(
    postgres: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(UnavailableError) as caught:
        open_store(postgres.url("nothing"))
    assert caught.value.code == "store-unreachable"
    assert "nothing" not in str(caught.value)
    assert 'database "nothing" does not exist' in caplog.text


# -- several services on one database


@contextmanager
def replicas(harness: Harness, count: int) -> Iterator[list[Harness]]:
    opened = [harness.reopened() for _ in range(count)]
    yield opened
    for one in opened:
        one.close()


def at_once(work: list[Callable[[], str]]) -> list[str]:
    start = threading.Barrier(len(work))

    def run(one: Callable[[], str]) -> str:
        start.wait(30)
        try:
            return one()
        except AttestError as exc:
            return exc.code

    with ThreadPoolExecutor(len(work)) as threads:
        return list(threads.map(run, work))


def test_mc_37_of_several_services_that_race_for_one_challenge_one_wins(harness: Harness) -> None:
    harness.add_key("model")
    with replicas(harness, 3) as services:
        for _ in range(4):
            request = Workload().request(harness.releases.challenge(), "model")

            def attempt(one: Harness, request: ReleaseRequest = request) -> str:
                one.releases.release(request)
                return "released"

            outcomes = at_once([partial(attempt, one) for one in services * 2])
            assert sorted(outcomes) == ["challenge-used"] * 5 + ["released"]
    assert [decision["outcome"] for decision in harness.decisions()] == ["allow"] * 4


def test_the_log_of_several_services_has_no_gap_and_no_fork(harness: Harness) -> None:
    harness.add_key("model")
    with replicas(harness, 3) as services:

        def work(one: Harness) -> str:
            for _ in range(5):
                one.releases.release(Workload().request(harness.releases.challenge(), "model"))
            return "done"

        assert at_once([partial(work, one) for one in services * 2]) == ["done"] * 6
    with harness.services.store.reading() as tx:
        state = verify_log(tx.log)
    assert state.size == 2 + 3 * 2 * 5


def test_who_writes_without_the_lock_makes_no_fork(harness: Harness) -> None:
    statement = "INSERT INTO log_entries (seq, entry) VALUES (?, ?)"
    seen: list[int] = []

    def write() -> None:
        with harness.services.store.writing() as tx:
            entry = tx.log.prepare(kind="test", at=harness.clock(), body={})
            seen.append(entry.seq)
            harness.alter(statement, entry.seq, entry.raw)
            tx.log.append(entry)

    with pytest.raises(UnavailableError) as caught:
        write()
    assert caught.value.code == "store-failed"
    assert "DETAIL" not in str(caught.value)
    assert len(harness.entries()) == seen[0]


def test_a_reader_sees_one_state_throughout_and_writes_nothing(harness: Harness) -> None:
    with harness.services.store.reading() as tx:
        before = tx.log.head()
        harness.add_key("model")
        assert tx.log.head() == before
        assert tx.keys.all("default") == ()
    with harness.services.store.reading() as tx:
        assert [str(record.name) for record in tx.keys.all("default")] == ["model"]


def test_who_finds_every_connection_taken_is_told_to_try_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kms.store.postgres.BUSY_MILLISECONDS", 50)
    narrow = harness.reopened(database_connections=1)
    with narrow.services.store.reading():
        with pytest.raises(UnavailableError) as caught, narrow.services.store.reading():
            pass
        assert caught.value.code == "store-busy"
    with narrow.services.store.reading():
        pass
    narrow.close()


# -- connections that are lost


def lose_connections(store: Store, postgres: Server, url: str, *, at: str) -> list[str]:
    """Cut every connection once, when a statement that begins like this is about to be sent."""
    lost: list[str] = []

    def cut(connection: object, cursor: object, statement: str, *more: object) -> None:
        if statement.startswith(at) and not lost:
            lost.append(statement)
            postgres.cut(url)

    event.listen(store._engine, "before_cursor_execute", cut)  # noqa: SLF001  there is no other way in between
    return lost


@pytest.mark.parametrize(
    "statement", ["SELECT set_config", "UPDATE state_root", "INSERT INTO used_nonces", "INSERT INTO log_entries"]
)
def test_mc_24_a_connection_lost_in_the_middle_of_a_release_leaves_nothing_behind(
    harness: Harness, postgres: Server, statement: str
) -> None:
    harness.add_key("model")
    challenge = harness.releases.challenge()
    request = Workload().request(challenge, "model")
    before = harness.entries()
    lost = lose_connections(harness.services.store, postgres, harness.settings.database, at=statement)
    with pytest.raises(UnavailableError) as caught:
        harness.releases.release(request)
    assert len(lost) == 1
    assert (caught.value.code, caught.value.retryable) == ("store-unreachable", True)
    assert harness.entries() == before
    # Nothing was used up, so the same request succeeds.
    release = harness.releases.release(request)
    assert open_release(Workload(), challenge, request, release, harness)
    with pytest.raises(ChallengeUsedError):
        harness.releases.release(request)


def test_mc_24_a_connection_lost_during_the_commit_releases_nothing(harness: Harness, postgres: Server) -> None:
    harness.add_key("model")
    challenge = harness.releases.challenge()
    request = Workload().request(challenge, "model")
    lost: list[object] = []

    def cut(connection: object) -> None:
        if not lost and connection.get_execution_options().get("kms_writing"):  # type: ignore[attr-defined]
            lost.append(connection)
            postgres.cut(harness.settings.database)

    event.listen(harness.services.store._engine, "commit", cut)  # noqa: SLF001  as above
    with pytest.raises(UnavailableError) as caught:
        harness.releases.release(request)
    assert caught.value.code == "store-outcome-unknown"
    # Whichever it was: a challenge that is used up has its entry, and one that is not is good for one release.
    logged = [decision["nonce_sha256"] for decision in harness.decisions()]
    try:
        harness.releases.release(request)
    except ChallengeUsedError:
        assert logged == [nonce_digest(challenge)]
    else:
        assert logged == []
    assert len(harness.decisions()) == 1


def test_a_server_that_was_restarted_is_found_again(harness: Harness, postgres: Server) -> None:
    harness.add_key("model")
    request = Workload().request(harness.releases.challenge(), "model")
    postgres.stop()
    try:
        with pytest.raises(UnavailableError) as caught:
            harness.releases.release(request)
        assert caught.value.code == "store-unreachable"
    finally:
        postgres.start()
    harness.releases.release(request)
    assert [decision["outcome"] for decision in harness.decisions()] == ["allow"]


def test_a_writer_that_falls_silent_does_not_hold_the_others_for_ever(harness: Harness) -> None:
    with harness.services.store.writing() as tx:
        shown = tx.connection.exec_driver_sql("SHOW idle_in_transaction_session_timeout")
        assert shown.scalar_one() == "15s"
    with harness.services.store.reading() as tx:
        shown = tx.connection.exec_driver_sql("SHOW idle_in_transaction_session_timeout")
        assert shown.scalar_one() == "0"
