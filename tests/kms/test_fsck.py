"""`fsck` finds whatever was altered, and goes on behind it."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from kms.domain.errors import UnavailableError
from kms.domain.log_verification import LogState, verify_log
from kms.keys.vault import Vault
from kms.operations.fsck import FsckFinding, examine
from kms.operations.own_keys import OWN_KEYS
from kms.store import authenticated_tables
from kms.store.schema import metadata, protected
from tests.kms.postgres import Server
from tests.kms.references import ALICE, by_signers, given, images, naming
from tests.kms.stores import examined_unauthenticated
from tests.kms.support import Harness, Workload, policy_text
from tests.kms.test_prompt_keys import add_prompt_key

CHECKS = [
    "state",
    "rollback-guard",
    "schema",
    "storage",
    "foreign-keys",
    "log",
    "replay",
    "own-keys",
    "tenants",
    "keys",
    "prompt-keys",
    "policies",
    "references",
    "configuration",
    "grants",
    "freezes",
    "leases",
    "keks",
    "quorum",
    "limits",
    "floors",
    "break-glass",
]


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def filled(harness: Harness) -> Harness:
    harness.add_key("model")
    harness.add_key("other", policy=naming(by_signers(ALICE)), references=(given(images(), ALICE),))
    harness.releases.release(Workload().request(harness.releases.challenge(), "model"))
    return harness


def examined(harness: Harness, *noted: LogState) -> dict[str, FsckFinding]:
    vault = Vault(store=harness.services.store, kek=harness.services.kek)
    return {one.check: one for one in examine(vault, origin=harness.settings.origin, noted=noted)}


def failed(harness: Harness) -> set[str]:
    return {name for name, finding in examined(harness).items() if finding.problems}


def test_what_is_sound_is_found_sound(filled: Harness) -> None:
    with filled.services.store.reading() as tx:
        state = verify_log(tx.log)
    found = examined(filled, state)
    assert list(found) == CHECKS
    assert [finding.problems for finding in found.values()] == [()] * len(CHECKS)
    counts = {name: finding.looked_at for name, finding in found.items()}
    assert (counts["log"], counts["keys"], counts["policies"], counts["references"]) == (state.size, 2, 2, 1)
    assert counts["own-keys"] >= len(OWN_KEYS)
    assert counts["foreign-keys"] == sum(len(table.foreign_key_constraints) for table in metadata.sorted_tables) > 0


def test_a_server_that_may_lose_what_was_answered_is_warned_of(filled: Harness) -> None:
    warning = examined(filled)["storage"].warning
    if filled.on_postgres:
        assert warning is not None
        assert "fsync and full_page_writes off" in warning
    else:
        assert warning is None


def test_a_log_without_what_was_noted_elsewhere_is_found(filled: Harness) -> None:
    (problem,) = examined(filled, LogState(size=99, root=bytes(32)))["log"].problems
    assert "log-rolled-back" in problem


@pytest.mark.parametrize(
    ("statement", "value", "checks"),
    [
        ("UPDATE key_versions SET wrapped = ? WHERE key_id = 'model'", b"\1" + bytes(60), {"keys"}),
        ("UPDATE keys SET purpose = ? WHERE key_id = 'model'", "coffee", {"keys", "references"}),
        ("UPDATE secrets SET wrapped = ? WHERE name = 'identity'", b"", {"own-keys"}),
        ("DELETE FROM secrets WHERE name = ?", "challenge-mac", {"own-keys"}),
        ("UPDATE log_entries SET entry = ? WHERE seq = 2", b"{}", {"log", "replay", "keys"}),
        ("UPDATE leases SET expires_at = expires_at + ?", 1, {"leases"}),
        ("UPDATE leases SET recipient = ?", bytes(32), {"leases"}),
        ("UPDATE leases SET log_seq = ?", 2, {"leases"}),
        ("UPDATE lease_claims SET claims = ?", b"{}", {"leases"}),
        ("UPDATE log_nodes SET hash = ? WHERE position = 1", bytes(32), {"log"}),
        ("DELETE FROM log_nodes WHERE position = ?", 1, {"log"}),
        ("INSERT INTO log_nodes (position, hash) VALUES (1000, ?)", bytes(32), {"log"}),
        ("DELETE FROM log_entries WHERE seq = ?", 2, {"log", "replay", "keys"}),
        (
            "UPDATE policies SET document = ? WHERE name = 'unit'",
            policy_text(name="lax"),
            {"keys", "policies", "references"},
        ),
        ("UPDATE reference_signatures SET signature = ?", b"{}", {"keys", "policies", "references"}),
        ("UPDATE reference_documents SET document = ?", b"{}", {"keys", "policies", "references"}),
        ("UPDATE keks SET state = ?", "ready", {"keks"}),
        ("UPDATE keks SET state = ?", "retired", {"keks"}),
        ("UPDATE keks SET state = ?", "coffee", {"keks"}),
        ("CREATE TABLE stranger (a INTEGER DEFAULT ?)", None, {"schema"}),
        ("DROP INDEX used_nonces_expires_at", None, {"schema"}),
    ],
)
def test_every_alteration_is_found(filled: Harness, statement: str, value: object, checks: set[str]) -> None:
    for table in protected():
        filled.unprotect(table)
    if value is None:
        filled.alter(statement.replace(" DEFAULT ?", ""))
    else:
        filled.alter(statement, value)
    found = examined_unauthenticated(filled)
    assert {name for name, finding in found.items() if finding.problems} == checks | {"schema"}
    assert list(found) == CHECKS[2:]
    if any(f" {table.name} " in statement for table in authenticated_tables() if "document" not in statement):
        assert examined(filled)["state"].problems
    missing = sum(problem.startswith("the trigger ") for problem in found["schema"].problems)
    assert missing == len(protected()) * (1 if filled.on_postgres else 2)


def test_a_row_without_its_parent_is_found(filled: Harness) -> None:
    if filled.on_postgres:
        filled.alter("ALTER TABLE key_versions DROP CONSTRAINT key_versions_tenant_key_id_fkey")
    filled.alter("DELETE FROM keys WHERE key_id = 'model'")
    found = examined_unauthenticated(filled)
    assert found["foreign-keys"].problems == ("key_versions (tenant, key_id): 1 rows refer to missing rows",)


def test_a_key_that_nobody_gets_is_warned_of(filled: Harness) -> None:
    filled.unprotect("reference_documents")
    filled.unprotect("reference_signatures")
    filled.alter("DELETE FROM reference_signatures")
    filled.alter("DELETE FROM reference_documents")
    found = examined_unauthenticated(filled)
    assert found["keys"].problems == ()
    assert "other is not released" in (found["keys"].warning or "")


def test_a_trigger_that_is_turned_off_counts_as_missing(postgres: Server, filled: Harness) -> None:
    if not filled.on_postgres:
        pytest.skip("SQLite cannot turn a trigger off")
    filled.alter("ALTER TABLE log_entries DISABLE TRIGGER USER")
    assert failed(filled) == {"schema"}


def test_a_table_that_is_gone_is_found_and_what_does_not_need_it_is_examined(filled: Harness) -> None:
    filled.alter("ALTER TABLE log_entries RENAME TO elsewhere")
    found = examined(filled)
    assert list(found) == CHECKS
    assert "store-failed" in found["log"].problems[0]
    assert found["policies"].problems == ()


def test_a_back_end_that_does_not_answer_ends_the_examination(filled: Harness) -> None:
    away = _Away(filled.services.kek)
    with pytest.raises(UnavailableError) as caught:
        list(examine(Vault(store=filled.services.store, kek=away), origin=filled.settings.origin, noted=()))  # type: ignore[arg-type]  # it unwraps nothing
    assert caught.value.code == "kek-unreachable"


@dataclass
class _Away:
    """A key-encryption key whose back-end is away."""

    kek: object

    def unwrap(self, *_: object, **__: object) -> None:
        raise UnavailableError("no answer", code="kek-unreachable", retryable=True)


# -- values of other types


VALUES = (-1, 2**62, "zz", b"\xff\x00", 1e300)


@pytest.mark.parametrize(
    ("table", "column", "check"),
    [
        ("keys", "lease_seconds", "keys"),
        ("tenants", "created_at", "keys"),
        ("key_versions", "version", "keys"),
        ("key_versions", "kek_id", "keks"),
        ("leases", "lease_id", "leases"),
        ("leases", "log_seq", "leases"),
        ("secrets", "kek_id", "own-keys"),
        ("prompt_keys", "seq", "prompt-keys"),
        ("policies", "digest", "policies"),
    ],
)
def test_a_value_of_another_type_is_found_wherever_sqlite_keeps_it(
    tmp_path: Path, table: str, column: str, check: str
) -> None:
    harness = Harness.make(tmp_path)
    try:
        harness.add_key("model")
        add_prompt_key(harness)
        harness.releases.release(Workload().request(harness.releases.challenge(), "model"))
        if table in set(protected()):
            harness.unprotect(table)
        found: set[str] = set()
        for value in VALUES:
            with closing(sqlite3.connect(harness.settings.database, isolation_level=None)) as database:
                database.execute("PRAGMA ignore_check_constraints = ON")
                database.execute("BEGIN")
                (rowid, before), *_ = database.execute(f"SELECT rowid, {column} FROM {table}")  # noqa: S608
                change = f"UPDATE {table} SET {column} = ? WHERE rowid = ?"  # noqa: S608
                database.execute(change, (value, rowid))
                database.execute("COMMIT")
                found |= failed(harness)
                database.execute(change, (before, rowid))
        assert check in found
    finally:
        harness.close()
