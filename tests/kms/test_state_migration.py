"""A database of the version before is brought under the authenticated state, whole or not at all."""

import json
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
import rfc8785
from sqlalchemy import Engine, MetaData, create_engine, insert, text

from attest.errors import AttestError, ConfigurationError
from kms.config.settings import Settings
from kms.domain.errors import KmsError
from kms.domain.limits import Budget, Period
from kms.domain.log_tree import Frontier, node_position
from kms.operations.fsck import examine
from kms.operations.migration import migrate
from kms.operations.services import initialise, open_vault
from kms.operations.state import STATE_BEGUN
from kms.store import locate
from kms.store.schema import REVISIONS, metadata
from kms.store.timeouts import WRITING
from tests.kms.database_writer import DatabaseWriter, Values
from tests.kms.process import REPOSITORY, environment
from tests.kms.support import ACTOR, AT, MODEL, FakeRandom, Harness, Workload, settings_for
from tests.kms.test_freezes import stop
from tests.kms.test_limits import limit
from tests.kms.test_quorum import Board
from tests.kms.test_store import at_revision

BEFORE = "0015"


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def old(harness: Harness, request: pytest.FixtureRequest) -> Iterator[Settings]:
    """Settings of a service whose database the version before made, with keys, leases, limits and a freeze."""
    for key_id in ("model", "other"):
        harness.add_key(key_id)
        for _ in range(2):
            release(harness, key_id)
    limit(harness, releases=(Budget(most=3, per=Period.TOTAL),))
    Board(harness).found()
    stop(harness, "key", "other")
    fresh = request.getfixturevalue("postgres").fresh("second") if harness.on_postgres else harness.folder / "old.db"
    engine = at_revision(str(fresh), BEFORE)
    fill(engine, DatabaseWriter(harness))
    harness.close()
    yield harness.settings.model_copy(update={"database": str(fresh)})
    engine.dispose()


def release(harness: Harness, key_id: str = "model") -> None:
    harness.releases.release(Workload().request(harness.releases.challenge(), key_id))


_REFLECTED: dict[str, MetaData] = {}
"""The tables of the version before on each kind of database, which are the same in every test."""


def reflected(engine: Engine) -> MetaData:
    if engine.dialect.name not in _REFLECTED:
        known = MetaData()
        known.reflect(engine)
        _REFLECTED[engine.dialect.name] = known
    return _REFLECTED[engine.dialect.name]


def fill(engine: Engine, writer: DatabaseWriter) -> None:
    """Copy the rows that the version before had, and the columns."""
    known, log = reflected(engine), older_log(writer)
    with engine.connect().execution_options(**{WRITING: True}) as connection, connection.begin():
        for table in metadata.sorted_tables:
            if table.name not in known.tables:
                continue
            then = known.tables[table.name]
            rows = [{name: row[name] for name in row if name in then.columns} for row in writer.rows(table.name)]
            rows = [row for row in rows if table.name != "secrets" or row["name"] != "state"]
            rows = log.get(table.name, rows)
            if rows:
                connection.execute(insert(then), rows)
    engine.dispose()


def served(harness: Harness, old: Settings) -> Harness:
    """Serve the migrated database, which no rollback guard knows."""
    return harness.reopened(database=old.database, allow_no_rollback_guard=True)


def older_log(writer: DatabaseWriter) -> dict[str, list[Values]]:
    """Return the log as it began in the version before, whose first entry names no keys of the service."""
    entries, tree, nodes = writer.rows("log_entries"), Frontier(), list[Values]()
    first = json.loads(entries[0]["entry"])
    del first["own_keys"]
    entries[0]["entry"] = rfc8785.dumps(first)
    for entry in entries:
        made = tree.add(sha256(b"\0" + entry["entry"]).digest())
        nodes += [{"position": node_position(node), "hash": digest} for node, digest in made]
    return {"log_entries": entries, "log_nodes": nodes}


def written(settings: Settings, statement: str) -> None:
    """Do to the old database what no command does."""
    place = locate(settings.database)
    engine = create_engine(place if not isinstance(place, Path) else f"sqlite:///{place}")
    with engine.connect() as connection, connection.begin():
        connection.execute(text(statement))
    engine.dispose()


def revision(settings: Settings) -> object:
    place = locate(settings.database)
    engine = create_engine(place if not isinstance(place, Path) else f"sqlite:///{place}")
    with engine.connect() as connection:
        found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
    engine.dispose()
    return found


def refused(settings: Settings, **changes: object) -> AttestError:
    """Try to migrate, in vain, and leave the database as it was."""
    with pytest.raises(AttestError) as caught:
        migrate(settings.model_copy(update=changes), random=FakeRandom(), actor=ACTOR, at=AT)
    assert revision(settings) == BEFORE
    return caught.value


def test_a_dry_run_says_what_a_migration_would_do_and_keeps_nothing(harness: Harness, old: Settings) -> None:
    would = migrate(old, random=FakeRandom(), actor=ACTOR, at=AT, dry_run=True)
    assert (would.before, would.after, would.differences) == (BEFORE, REVISIONS[-1], ())
    assert revision(old) == BEFORE
    done = migrate(old, random=FakeRandom(), actor=ACTOR, at=AT)
    assert done == would
    again = served(harness, old)
    assert [one["kind"] for one in again.entries()].count(STATE_BEGUN) == 1
    again.close()


def test_a_sound_database_is_brought_in_and_the_service_goes_on(harness: Harness, old: Settings) -> None:
    done = migrate(old, random=FakeRandom(), actor=ACTOR, at=AT)
    assert (done.before, done.after, done.differences) == (BEFORE, REVISIONS[-1], ())
    again = served(harness, old)
    begun = again.entries()[-1]
    assert (begun["kind"], begun["differences"], begun["actor"]) == (STATE_BEGUN, [], ACTOR.members())
    assert "accepted" not in begun
    release(again)
    with pytest.raises(AttestError) as caught:  # two of three were released by the version before
        release(again)
    assert caught.value.code == "budget-spent"
    with pytest.raises(AttestError) as frozen:
        release(again, "other")
    assert frozen.value.code == "key-frozen"
    vault = open_vault(again.settings, random=FakeRandom())
    found = {one.check: one.problems for one in examine(vault, origin=again.settings.origin, noted=())}
    vault.store.close()
    assert {check: problems for check, problems in found.items() if problems} == {}
    again.close()


def test_leases_are_numbered_in_the_order_of_their_release(harness: Harness, old: Settings) -> None:
    migrate(old, random=FakeRandom(), actor=ACTOR, at=AT)
    again = served(harness, old)
    rows = sorted(DatabaseWriter(again).rows("leases"), key=lambda row: (row["key_id"], row["log_seq"]))
    numbers = [(row["key_id"], row["number"], row["chip_number"]) for row in rows]
    assert numbers == [("model", 1, 1), ("model", 2, 2), ("other", 1, 1), ("other", 2, 2)]
    with again.services.store.reading() as tx:
        assert tx.leases.counts.released(MODEL, Budget(most=9, per=Period.TOTAL), at=AT) == 2
        assert tx.leases.counts.released(MODEL, Budget(most=9, per=Period.DAY), at=AT, chip=rows[0]["chip"]) == 2
        assert tx.leases.counts.holders(MODEL, at=AT) == 1
    again.close()


def test_a_database_that_is_not_as_its_log_says_takes_a_reason(harness: Harness, old: Settings) -> None:
    written(old, "DELETE FROM freezes")
    error = refused(old)
    assert isinstance(error, KmsError)
    assert (error.code, error.got) == ("store-unsound", "1 differences")
    assert "freeze of key other: missing in the database" in error.message
    would = migrate(old, random=FakeRandom(), actor=ACTOR, at=AT, accepted="lost in a crash", dry_run=True)
    assert revision(old) == BEFORE
    done = migrate(old, random=FakeRandom(), actor=ACTOR, at=AT, accepted="lost in a crash")
    assert done == would
    assert len(done.differences) == 1
    again = served(harness, old)
    begun = again.entries()[-1]
    assert (begun["accepted"], begun["differences"]) == ("lost in a crash", list(done.differences))
    release(again, "other")
    again.close()


def test_a_reason_where_nothing_differs_is_logged_as_well(harness: Harness, old: Settings) -> None:
    assert migrate(old, random=FakeRandom(), actor=ACTOR, at=AT, accepted="to be sure").differences == ()
    again = served(harness, old)
    assert again.entries()[-1]["accepted"] == "to be sure"
    again.close()


def test_mc_27_another_key_encryption_key_brings_in_nothing(old: Settings, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    initialise(settings_for(other), clock=lambda: AT, random=FakeRandom("other"))
    assert refused(old, kek_file=other / "kek").code == "kek-mismatch"
    migrate(old, random=FakeRandom(), actor=ACTOR, at=AT)


def test_a_database_is_brought_in_once(harness: Harness, old: Settings) -> None:
    migrate(old, random=FakeRandom(), actor=ACTOR, at=AT)
    again = migrate(old, random=FakeRandom("again"), actor=ACTOR, at=AT)
    assert (again.before, again.after) == (REVISIONS[-1], REVISIONS[-1])
    service = served(harness, old)
    assert [entry["kind"] for entry in service.entries()].count(STATE_BEGUN) == 1
    service.close()


KILLED = """
import os, sys
from pathlib import Path
from kms.operations.migration import migrate
from tests.kms.support import ACTOR, AT, settings_for

calls = []

def random(size):
    calls.append(size)
    if len(calls) == int(sys.argv[3]):
        os._exit(9)
    return os.urandom(size)

migrate(settings_for(Path(sys.argv[1]), database=sys.argv[2]), random=random, actor=ACTOR, at=AT)
"""


def test_a_migration_that_is_killed_half_way_is_made_again(harness: Harness, old: Settings) -> None:
    """The first random bytes are those of the state's secret, the next those of its wrapping."""
    for call in (1, 2):
        arguments = [sys.executable, "-c", KILLED, str(harness.folder), old.database, str(call)]
        done = subprocess.run(arguments, env=environment(), cwd=REPOSITORY, capture_output=True, check=False)
        assert done.returncode == 9, done.stderr
        assert revision(old) == BEFORE
    migrate(old, random=FakeRandom(), actor=ACTOR, at=AT)
    again = served(harness, old)
    release(again)
    again.close()


def test_a_database_that_nobody_brought_in_is_not_served(harness: Harness, old: Settings) -> None:
    with pytest.raises(ConfigurationError) as caught:
        harness.reopened(database=old.database)
    assert caught.value.code == "database-needs-migration"
    assert "kms migrate" in (caught.value.hint or "")
    # Nor one whose rows an attacker moved to the new schema.
    written(old, f"UPDATE alembic_version SET version_num = '{REVISIONS[-1]}'")  # noqa: S608  ours
    with pytest.raises(AttestError):
        harness.reopened(database=old.database)
