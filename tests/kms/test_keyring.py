"""Which key-encryption key opens what: the database names it, the settings say where it is."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from attest.errors import ConfigurationError
from kms.domain.errors import IntegrityError, UnavailableError
from kms.domain.kek_records import Backend, KekState
from kms.domain.keys import KeyName
from kms.domain.secret import SecretBytes
from kms.keys.admin import require_key
from kms.keys.wrapping.backends import new_record
from kms.keys.wrapping.file import create_kek_file, read_kek_file
from kms.keys.wrapping.keyring import KekRing
from kms.operations.services import open_vault
from kms.store import migrate_database
from kms.store.schema import REVISIONS, metadata
from kms.store.timeouts import WRITING
from kms.store.wrapped_rows import WRAPPED_TABLES
from tests.kms.stores import establish, opened_store
from tests.kms.support import AT, MATERIAL, FakeRandom, Harness, Workload, open_release
from tests.kms.test_keys import CONTEXT
from tests.kms.test_store import at_revision
from tests.kms.wrapping import file_kek

OLD, NEW, M = (KeyName(tenant="default", key_id=key_id) for key_id in ("old", "new", "m"))


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    return str(tmp_path / "old.db" if kind == "sqlite" else request.getfixturevalue("postgres").fresh())


def second_kek(harness: Harness, state: KekState = KekState.READY) -> bytes:
    """Make one more key in a file, tell the database of it, and return its id."""
    path = harness.folder / "kek-2"
    create_kek_file(path, random=FakeRandom("second"))
    record = new_record(read_kek_file(path, random=FakeRandom()), state=state, random=FakeRandom(), at=AT)
    with harness.services.store.writing() as tx:
        if record.wraps:
            tx.keks.set_state(tx.keks.all()[0].id, KekState.LEAVING)
        tx.keks.add(record)
    return record.id


def define(harness: Harness) -> Path:
    """Let the directory name the second key."""
    directory = harness.folder / "keks"
    directory.mkdir(mode=0o700)
    (directory / "2.toml").write_text('backend = "file"\nfile = "../kek-2"\n')
    return directory


def test_a_new_database_names_the_key_that_it_was_made_with(tmp_path: Path) -> None:
    # Stated settings are no copy of another service, whose file has another path.
    harness = Harness.make(tmp_path, kek_file=tmp_path / "kek")
    with harness.services.store.reading() as tx:
        (record,) = tx.keks.all()
        under = tx.wrapped_rows.counts()
    assert (record.id, record.backend, record.state) == (harness.services.kek.id, Backend.FILE, KekState.ACTIVE)
    assert record.proof is None
    assert str(harness.settings.kek_file) == record.description
    assert under == {record.id: {"secrets": 3}}
    assert harness.entries()[0]["kek"] == {"backend": "file", "id": record.id.hex()}
    harness.close()


def test_the_key_that_the_database_names_wraps_and_others_open(harness: Harness) -> None:
    harness.add_key("old")
    later = harness.reopened(kek_directory=define(harness))
    kek_id = second_kek(harness, KekState.ACTIVE)
    assert later.services.kek.id == kek_id != later.services.kek.main_id
    later.add_key("new")
    with harness.services.store.reading() as tx:
        records = {name: require_key(tx, name) for name in (OLD, NEW)}
    assert records[NEW].wrapped.kek_id == kek_id
    assert records[OLD].wrapped.kek_id == later.services.kek.main_id
    challenge = later.releases.challenge()
    request = Workload().request(challenge, "old", "new")
    release = later.releases.release(request)
    opened = open_release(Workload(), challenge, request, release, later)
    assert opened == {"old": MATERIAL, "new": MATERIAL}
    later.close()


def test_what_no_setting_says_the_place_of_is_unavailable_until_one_does(harness: Harness) -> None:
    directory = harness.folder / "keks"
    later = harness.reopened(kek_directory=directory)
    second_kek(harness, KekState.ACTIVE)
    with pytest.raises(UnavailableError) as caught:
        later.add_key("new")
    assert caught.value.code == "kek-not-at-hand"
    assert caught.value.retryable
    assert later.entries()[-1]["kind"] == "initialised"
    define(harness)
    later.add_key("new")
    later.close()


def test_a_definition_that_leads_nowhere_is_told_and_tried_again(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    later = harness.reopened(kek_directory=define(harness))
    second_kek(harness, KekState.ACTIVE)
    (harness.folder / "kek-2").rename(harness.folder / "away")
    with pytest.raises(UnavailableError) as caught:
        later.add_key("new")
    assert caught.value.code == "kek-not-at-hand"
    assert "kek-2" in caplog.text  # where keys are concerns the operator
    assert "kek-2" not in str(caught.value.context())
    (harness.folder / "away").rename(harness.folder / "kek-2")
    later.add_key("new")
    later.close()


def test_mc_27_whoever_writes_to_the_database_can_name_no_key_of_his_own(harness: Harness) -> None:
    create_kek_file(harness.folder / "mine", random=FakeRandom("mine"))
    mine = read_kek_file(harness.folder / "mine", random=FakeRandom())
    with harness.services.store.writing() as tx:
        tx.keks.set_state(harness.services.kek.id, KekState.LEAVING)
        tx.keks.add(new_record(mine, state=KekState.ACTIVE, random=FakeRandom(), at=AT))
    with pytest.raises(UnavailableError) as caught:
        harness.add_key("new")
    assert caught.value.code == "kek-not-at-hand"


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o720, 0o702])
def test_mc_34_a_directory_that_others_may_write_into_is_refused(harness: Harness, mode: int) -> None:
    directory = define(harness)
    directory.chmod(mode)
    later = harness.reopened(kek_directory=directory)
    second_kek(harness, KekState.ACTIVE)
    with pytest.raises(ConfigurationError) as caught:
        later.add_key("new")
    assert caught.value.code == "kek-directory-exposed"
    later.close()


def test_what_was_wrapped_under_a_key_that_wraps_no_more_is_not_kept(harness: Harness) -> None:
    wrapped = harness.services.kek.wrap(SecretBytes(MATERIAL), context=CONTEXT)
    with harness.services.store.writing() as tx:
        tx.keks.require_wrapping(wrapped)
    second_kek(harness, KekState.ENTERING)
    for state in (KekState.READY, KekState.LEAVING, KekState.RETIRED):
        with harness.services.store.writing() as tx:
            tx.keks.set_state(wrapped.kek_id, state)
            with pytest.raises(UnavailableError) as caught:
                tx.keks.require_wrapping(wrapped)
            assert caught.value.code == "kek-changing"


def test_a_retired_key_is_refused_at_start(harness: Harness) -> None:
    with harness.services.store.writing() as tx:
        tx.keks.set_state(harness.services.kek.id, KekState.RETIRED)
    with pytest.raises(ConfigurationError) as caught:
        open_vault(harness.settings, random=FakeRandom())
    assert caught.value.code == "kek-retired"


def test_a_wrapped_form_that_names_a_key_which_nobody_knows_is_damage(harness: Harness) -> None:
    ring = harness.services.kek
    assert isinstance(ring, KekRing)
    wrapped = replace(ring.wrap(SecretBytes(MATERIAL), context=CONTEXT), kek_id=bytes(32))
    with pytest.raises(IntegrityError) as caught:
        ring.unwrap(wrapped, context=CONTEXT)
    assert caught.value.code == "kek-unknown"


def test_a_wrapped_form_that_names_another_key_than_its_own_is_refused() -> None:
    wrapped = file_kek().wrap(SecretBytes(MATERIAL), context=CONTEXT)
    with pytest.raises(IntegrityError) as caught:
        file_kek().unwrap(replace(wrapped, kek_id=bytes(32)), context=CONTEXT)
    assert caught.value.code == "wrapped-key-invalid"


def test_every_table_with_something_wrapped_in_it_is_known() -> None:
    assert set(WRAPPED_TABLES) == {table for table in metadata.sorted_tables if "wrapped" in table.columns}


# -- databases of before


OLD_ROWS = (
    "INSERT INTO meta (name, value) VALUES ('kek_id', :kek)",
    "INSERT INTO secrets (name, algorithm, wrapped, created_at) VALUES ('identity', 'ed25519', :blob, :at)",
    "INSERT INTO policies (digest, name, version, document, added_at) VALUES (:blob, 'p', 1, :blob, :at)",
    "INSERT INTO keys (tenant, key_id, purpose, enabled, created_at) VALUES ('default', 'm', 'model-key', true, :at)",
    (
        "INSERT INTO key_versions (tenant, key_id, version, algorithm, policy_digest, wrapped, created_at)"
        " VALUES ('default', 'm', 1, 'symmetric-256', :blob, :blob, :at)"
    ),
)


def filled(place: str, rows: tuple[str, ...]) -> None:
    engine = at_revision(place, "0003")
    values = {"kek": b"k" * 32, "blob": b"b", "at": "2026-06-01T12:00:00Z"}
    with engine.connect().execution_options(**{WRITING: True}) as connection, connection.begin():
        for row in rows:
            connection.execute(text(row), {name: value for name, value in values.items() if f":{name}" in row})
    engine.dispose()


def test_a_database_of_before_names_the_key_of_everything_in_it(place: str) -> None:
    filled(place, OLD_ROWS)
    assert migrate_database(place, establish=establish) == ("0003", REVISIONS[-1])
    store = opened_store(place)
    with store.reading() as tx:
        (record,) = tx.keks.all()
        found = require_key(tx, M).wrapped
        own = tx.own_secrets.find("identity")
        assert tx.facts.find("kek_id") is None
    store.close()
    assert (record.id, record.state, record.created_at, record.proof) == (b"k" * 32, KekState.ACTIVE, AT, None)
    assert (found.kek_id, found.content) == (b"k" * 32, b"b")
    assert own is not None
    assert (own[1].kek_id, own[1].content) == (b"k" * 32, b"b")


def test_a_database_of_before_that_does_not_say_its_key_is_not_migrated(place: str) -> None:
    filled(place, OLD_ROWS[1:])
    with pytest.raises(ConfigurationError) as caught:
        migrate_database(place, establish=establish)
    assert caught.value.code == "database-not-initialised"
