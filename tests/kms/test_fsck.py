"""`fsck` finds whatever was altered, and goes on behind it."""

import pytest

from kms.domain.errors import UnavailableError
from kms.domain.log_verification import LogState, verify_log
from kms.keys.vault import Vault
from kms.operations.fsck import FsckFinding, examine
from kms.operations.services import OWN_KEYS
from kms.store.schema import metadata, protected
from tests.kms.postgres import Server
from tests.kms.references import ALICE, by_signers, given, images, naming
from tests.kms.support import Harness, Workload, policy_text

CHECKS = [
    "schema",
    "storage",
    "foreign-keys",
    "log",
    "own-keys",
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
        ("UPDATE log_entries SET entry = ? WHERE seq = 2", b"{}", {"log"}),
        ("UPDATE leases SET expires_at = expires_at + ?", 1, {"leases"}),
        ("UPDATE leases SET recipient = ?", bytes(32), {"leases"}),
        ("UPDATE leases SET log_seq = ?", 2, {"leases"}),
        ("UPDATE lease_claims SET claims = ?", b"{}", {"leases"}),
        ("UPDATE log_nodes SET hash = ? WHERE position = 1", bytes(32), {"log"}),
        ("DELETE FROM log_nodes WHERE position = ?", 1, {"log"}),
        ("INSERT INTO log_nodes (position, hash) VALUES (1000, ?)", bytes(32), {"log"}),
        ("DELETE FROM log_entries WHERE seq = ?", 2, {"log"}),
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
    found = examined(filled)
    assert {name for name, finding in found.items() if finding.problems} == checks | {"schema"}
    assert list(found) == CHECKS
    missing = sum("lacks its trigger" in problem for problem in found["schema"].problems)
    assert missing == len(protected()) * (1 if filled.on_postgres else 2)


def test_a_row_without_its_parent_is_found(filled: Harness) -> None:
    if filled.on_postgres:
        filled.alter("ALTER TABLE key_versions DROP CONSTRAINT key_versions_tenant_key_id_fkey")
    filled.alter("DELETE FROM keys WHERE key_id = 'model'")
    found = examined(filled)
    assert found["foreign-keys"].problems == ("key_versions (tenant, key_id): 1 rows refer to nothing",)


def test_a_key_that_nobody_gets_is_warned_of(filled: Harness) -> None:
    filled.unprotect("reference_documents")
    filled.unprotect("reference_signatures")
    filled.alter("DELETE FROM reference_signatures")
    filled.alter("DELETE FROM reference_documents")
    found = examined(filled)
    assert found["keys"].problems == ()
    assert "other is released to nobody" in (found["keys"].warning or "")


def test_a_trigger_that_is_turned_off_counts_as_missing(postgres: Server, filled: Harness) -> None:
    if not filled.on_postgres:
        pytest.skip("SQLite cannot turn a trigger off")
    filled.alter("ALTER TABLE log_entries DISABLE TRIGGER USER")
    assert failed(filled) == {"schema"}


def test_a_database_that_does_not_answer_ends_the_examination(filled: Harness) -> None:
    filled.alter("DROP TABLE used_nonces")
    filled.alter("ALTER TABLE log_entries RENAME TO elsewhere")
    with pytest.raises(UnavailableError) as caught:
        examined(filled)
    assert caught.value.code == "store-failed"
