"""The replay of the log names each difference between what was logged and what is stored."""

import contextlib
import json
from collections.abc import Callable
from datetime import timedelta

import hypothesis
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from attest.errors import AttestError
from kms.auth.grants import give_role, revoke_role
from kms.auth.names import parse_identity
from kms.controls.admin import freeze
from kms.domain.canonical_json import canonical_json
from kms.domain.errors import LogBrokenError
from kms.domain.freezes import target
from kms.domain.keys import Disclosure, KeyName, KeyReference
from kms.domain.leases import LeaseFilter
from kms.domain.limits import Budget, KeyLimits, Period
from kms.domain.permissions import Role
from kms.keys.admin import set_enabled, set_version_enabled
from kms.keys.destruction import destroy_due, restore_key, schedule_destruction
from kms.keys.release_settings import ReleaseSettings, set_release_settings
from kms.keys.rotation import Rotator, remove_schedule, rotate_due, rotate_key, set_schedule
from kms.keys.tags import change_tags
from kms.keys.tenants import create_tenant
from kms.keys.vault import Vault
from kms.leases.admin import resume_renewals, stop_renewals
from kms.operations.replay import Difference, LoggedState
from kms.quorum.admin import QuorumService, change_now
from kms.quorum.changes import Thaw
from kms.quorum.key_limits import KeyLimitsSet
from kms.quorum.key_policy import KeyPolicySet
from kms.store import ReadTransaction, Store
from kms.store.schema import protected
from kms.store.state import State
from tests.kms.references import ALICE, by_signers, given, images, naming
from tests.kms.support import ACTOR, AT, MODEL, Harness, Workload, policy_text, write_endorsements
from tests.kms.test_tenant_log import logged_kinds

DAY = timedelta(days=1)
PEER = parse_identity("jwt:https://idp.example|alice")
OTHER = KeyName(tenant="acme", key_id="other")


def replayed(harness: Harness, *, limit: int = 3) -> list[Difference]:
    """The differences after a replay in small pages, each in a transaction of its own."""
    state, found = LoggedState(), list[Difference]()
    while True:
        with harness.services.store.examining() as tx:
            found += state.advance(tx, limit=limit)
            if state.seq == tx.log.size():
                return [*found, *state.differences(tx)]


def lines(harness: Harness) -> list[str]:
    return [one.line for one in replayed(harness)]


def service_of(harness: Harness) -> QuorumService:
    vault = Vault(store=harness.services.store, kek=harness.services.kek)
    return QuorumService(vault=vault, audience=harness.audience, alone=True)


def rotator(harness: Harness) -> Rotator:
    return Rotator(store=harness.services.store, kek=harness.services.kek, random=harness.random)


def release(harness: Harness, key: str = "model") -> str:
    return harness.releases.release(Workload().request(harness.releases.challenge(), key)).keys[0].lease_id or ""


def set_limits(harness: Harness, most: int) -> None:
    with harness.services.store.examining() as tx:
        version = tx.limits.in_force(MODEL).version + 1
    limits = KeyLimits(version=version, releases=(Budget(most=most, per=Period.TOTAL),))
    change_now(service_of(harness), KeyLimitsSet(name=MODEL, limits=limits), actor=ACTOR, at=harness.clock())


def set_policy(harness: Harness, version: int) -> None:
    policy = policy_text().replace(b"version: 1", f"version: {version}".encode())
    change_now(service_of(harness), KeyPolicySet(name=MODEL, policy=policy), actor=ACTOR, at=harness.clock())


def stop(harness: Harness) -> None:
    stop_renewals(
        harness.services.store, LeaseFilter(name=MODEL), concerns=(), reason="stolen", actor=ACTOR, at=harness.clock()
    )


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def lived(harness: Harness) -> Harness:
    """A service to which most of what can happen has happened."""
    store = harness.services.store
    create_tenant(store, "acme", actor=ACTOR, at=AT)
    harness.add_key("model")
    harness.add_key("acme/other", policy=naming(by_signers(ALICE)), references=(given(images(), ALICE),))
    change_tags(store, MODEL, put={"team": "red"}, remove=(), actor=ACTOR, at=AT)
    release(harness)
    release(harness)
    set_schedule(store, MODEL, every=DAY, overlap=DAY, actor=ACTOR, at=AT)
    rotate_key(rotator(harness), MODEL, overlap=DAY, actor=ACTOR, at=AT)
    rotate_key(rotator(harness), OTHER, overlap=DAY, actor=ACTOR, at=AT)
    set_policy(harness, 2)
    set_release_settings(
        store, MODEL, ReleaseSettings(disclosure=Disclosure.NONE, lease_seconds=600), actor=ACTOR, at=AT
    )
    set_enabled(store, OTHER, enabled=False, actor=ACTOR, at=AT)
    set_version_enabled(store, KeyReference(name=MODEL, version=1), enabled=False, actor=ACTOR, at=AT)
    schedule_destruction(store, KeyReference(name=OTHER, version=1), after=DAY, minimum=DAY, actor=ACTOR, at=AT)
    set_limits(harness, 100)
    give_role(store, identity=PEER, tenant="acme", role=Role.AUDITOR, actor=ACTOR, at=AT)
    revoke_role(
        store,
        give_role(store, identity=PEER, tenant="*", role=Role.AUDITOR, actor=ACTOR, at=AT).number,
        actor=ACTOR,
        at=AT,
    )
    release(harness)
    stop(harness)
    freeze(store, target("tenant", "acme"), reason="incident", actor=ACTOR, at=AT)
    return harness


def test_nothing_differs_after_what_commands_do(lived: Harness) -> None:
    assert replayed(lived) == []
    assert replayed(lived, limit=1000) == []


PARTS = {
    "NEWEST": "WHERE log_seq = (SELECT max(log_seq) FROM leases)",
    "OLDER_POLICY": "SELECT policy_digest FROM leases WHERE log_seq = (SELECT min(log_seq) FROM leases)",
}
ATTACKS = {
    "UPDATE key_versions SET policy_digest = (OLDER_POLICY) WHERE key_id = 'model' AND version = 2": (
        "key model@2: policy "
    ),
    "UPDATE keys SET enabled = TRUE WHERE key_id = 'other'": (
        "key acme/other: release enabled in the database, disabled since entry"
    ),
    "UPDATE key_versions SET enabled = TRUE": "key model@1: release enabled in the database, disabled since entry",
    "UPDATE key_versions SET destroy_at = NULL": (
        "key acme/other@1: destroyed at none in the database, 2026-06-02T12:00:00Z since entry"
    ),
    "UPDATE key_versions SET destroy_at = destroy_at + 1 WHERE destroy_at > 0": (
        "key acme/other@1: destroyed at 2026-06-02T12:00:00.001000Z in the database"
    ),
    "UPDATE key_versions SET overlap_until = overlap_until + 86400000 WHERE overlap_until > 0": (
        "key model@1: released until 2026-06-03T12:00:00Z in the database, 2026-06-02T12:00:00Z since entry"
    ),
    "DELETE FROM key_versions WHERE key_id = 'model' AND version = 2": "key model@2: missing in the database",
    "UPDATE key_versions SET wrapped = substr(wrapped, 1, 0)": (
        "key model@1: material destroyed in the database, kept since entry"
    ),
    "UPDATE keys SET purpose = 'prompt-key' WHERE key_id = 'other'": (
        "key acme/other: purpose prompt-key in the database, model-key since entry"
    ),
    "UPDATE keys SET disclosure = 'full'": "key model: disclosure full in the database, none since entry",
    "UPDATE keys SET lease_seconds = 6000": "key model: lease seconds 6000 in the database, 600 since entry",
    "UPDATE key_tags SET value = 'blue'": 'key model: tags {"team":"blue"} in the database, {"team":"red"} since entry',
    "UPDATE key_schedules SET due_at = due_at + 1000": (
        "key model: next rotation 2026-06-02T12:00:01Z in the database, 2026-06-02T12:00:00Z since entry"
    ),
    "UPDATE key_schedules SET every_seconds = 864000": (
        "key model: schedule every 864000 s, overlap 86400 s in the database, every 86400 s, overlap 86400 s since"
    ),
    "DELETE FROM key_schedules": "key model: schedule none in the database",
    "DELETE FROM leases": "missing in the database, granted by entry",
    "DELETE FROM leases NEWEST": "missing in the database, granted by entry",
    "UPDATE leases SET holder = instance": "differs from entry",
    "UPDATE leases SET chip = NULL": "differs from entry",
    "UPDATE leases SET log_seq = 2 NEWEST": "differs from entry",
    "UPDATE leases SET log_seq = 4711 NEWEST": "in the database, but not granted by entry 4711 of the log",
    "DELETE FROM lease_ends": "live in the database, ended by entry",
    "INSERT INTO lease_ends SELECT lease_id, 0, 'superseded', 3 FROM leases NEWEST": (
        "ended in the database, but not by entry 3 of the log"
    ),
    "INSERT INTO lease_ends SELECT lease_id, 0, 'superseded', 4711 FROM leases NEWEST": (
        "ended in the database, but the log has no entry 4711"
    ),
    "UPDATE lease_ends SET log_seq = log_seq + 1": "in the log",
    "DELETE FROM lease_stops": "stop of the renewals of lease",
    "UPDATE lease_stops SET instance = (SELECT digest FROM policies LIMIT 1)": (
        "of the lease false in the database, true since entry"
    ),
    "UPDATE lease_stops SET tenant = 'acme'": "of the lease false in the database, true since entry",
    "INSERT INTO grants SELECT 9, means, name, '*', 'administrator', granted_by_means, granted_by, granted_at, "
    "NULL, NULL, NULL FROM grants WHERE number = 1": "grant 9: in the database, but not created by an entry of the log",
    "UPDATE grants SET role = 'administrator', tenant = '*'": (
        "grant 1: role administrator in the database, auditor since entry"
    ),
    "UPDATE grants SET revoked_by = NULL, revoked_by_means = NULL, revoked_at = NULL": (
        "grant 2: in the database, but ended by entry"
    ),
    "DELETE FROM grants WHERE number = 1": "grant 1: missing in the database",
    "DELETE FROM key_limits": "limits of key model with the digest",
    "DELETE FROM freezes": "freeze of tenant acme: missing in the database, created by entry",
    "UPDATE freezes SET frozen_at = '2026-06-01T11:00:00Z'": (
        "freeze of tenant acme: frozen at 2026-06-01T11:00:00Z in the database"
    ),
    "UPDATE freezes SET scope = 'product'": "freeze of product acme: in the database, but not created by an entry",
    "INSERT INTO tenants VALUES ('evil', '2026-06-01T12:00:00Z')": (
        "tenant evil: in the database, but not created by an entry of the log"
    ),
    "DELETE FROM reference_documents": "missing in the database, created by entry",
    "DELETE FROM reference_signatures": "signers [] in the database",
    "UPDATE keks SET state = 'entering'": "state entering in the database, active since entry 1",
    "DELETE FROM secrets WHERE name = 'challenge-mac'": "key challenge-mac: missing in the database, created by",
    "INSERT INTO meta VALUES ('restored_at', (SELECT digest FROM policies LIMIT 1))": (
        "restored_at: in the database, but not created by an entry of the log"
    ),
    "DELETE FROM meta WHERE name = 'origin'": "origin: missing in the database, created by entry 1",
}


class _UndoneError(Exception):
    pass


def test_each_attack_on_the_database_is_named(lived: Harness) -> None:
    foreign_keys_off(lived)
    found = {statement: after(lived, statement) for statement in ATTACKS}
    missed = {
        statement: found[statement] for statement, line in ATTACKS.items() if line not in "\n".join(found[statement])
    }
    assert missed == {}
    assert lines(lived) == []


def after(harness: Harness, statement: str) -> list[str]:
    """The differences after a statement, which is undone."""
    found: list[str] = []
    with contextlib.suppress(_UndoneError), harness.services.store.writing() as tx:
        if not harness.on_postgres:
            tx.connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
        for name, text in PARTS.items():
            statement = statement.replace(name, text)
        tx.connection.exec_driver_sql(statement)
        state = LoggedState()
        examined = ReadTransaction(tx.connection, State(tx.connection, tx.state.authority, rows=False))
        found += [one.line for one in (*state.advance_to_end(examined), *state.differences(examined))]
        raise _UndoneError
    return found


def foreign_keys_off(harness: Harness) -> None:
    for table in protected():
        harness.unprotect(table)
    if harness.on_postgres:
        for owner, name in harness.alter(
            "SELECT conrelid::regclass::text, conname FROM pg_constraint WHERE contype = 'f'"
        ):
            harness.alter(f"ALTER TABLE {owner} DROP CONSTRAINT {name}")


def test_every_kind_that_is_written_is_replayed() -> None:
    assert logged_kinds() - LoggedState().kinds == set()


def test_a_kind_that_is_not_known_is_named(harness: Harness) -> None:
    with harness.services.store.writing() as tx:
        tx.log.add(kind="key-borrowed", at=AT, body={})
    assert lines(harness) == ["entry 2 of the log cannot be replayed: this version does not know its kind"]


@pytest.mark.parametrize(
    "body",
    [{}, {"key_id": "model"}, {"key_id": "model", "version": "1"}, {"key_id": 5}, {"tenant": "?", "key_id": "model"}],
)
def test_an_entry_that_says_too_little_is_named(harness: Harness, body: dict[str, object]) -> None:
    with harness.services.store.writing() as tx:
        tx.log.add(kind="key-rotated", at=AT, body=body)  # type: ignore[arg-type]  # as an attacker could
    (line,) = lines(harness)
    assert line.startswith("entry 2 of the log cannot be replayed: ")


def test_an_entry_about_a_key_that_nobody_made_is_named(harness: Harness) -> None:
    with harness.services.store.writing() as tx:
        tx.log.add(kind="key-disabled", at=AT, body={"tenant": "default", "key_id": "model"})
    assert lines(harness) == ["entry 2 of the log cannot be replayed: no earlier entry created key model"]


def test_older_entries_leave_uncompared_what_they_do_not_say(harness: Harness) -> None:
    """Entries of before do not say when a key is rotated next, when a freeze began, and which leases one ended."""
    harness.add_key("model")
    store = harness.services.store
    set_schedule(store, MODEL, every=DAY, overlap=DAY, actor=ACTOR, at=AT)
    first = release(harness)
    second = release(harness)
    rotate_key(rotator(harness), MODEL, overlap=DAY, actor=ACTOR, at=AT)
    freeze(store, target("all", None), reason="incident", actor=ACTOR, at=AT)
    assert first != second
    harness.unprotect("log_entries")
    for seq, (old, new) in enumerate(((entry, without_additions(entry)) for entry in raw_entries(harness)), start=1):
        if old != new:
            harness.alter("UPDATE log_entries SET entry = ? WHERE seq = ?", new, seq)
    harness.alter("UPDATE key_schedules SET due_at = due_at + 1000")
    harness.alter("UPDATE freezes SET frozen_at = '2026-06-01T11:00:00Z'")
    assert lines(harness) == [
        "the stored tree of the log does not match its entries [log-hash-mismatch]",
        "the log does not end at the last entry that the service wrote [state-forged]",
    ]


def raw_entries(harness: Harness) -> list[bytes]:
    with harness.services.store.examining() as tx:
        return [entry.raw for entry in tx.log.entries()]


def without_additions(raw: bytes) -> bytes:
    document = json.loads(raw)
    for name in ("next_rotation", "frozen_at", "opened_at", "restored_at", "algorithm", "kek"):
        document.pop(name, None)
    for key in document.get("keys", ()):
        for name in ("ended", "sha256"):
            (key.get("lease") or {}).pop(name, None)
    return canonical_json(document)


def test_a_log_without_its_newest_entries_is_named(lived: Harness) -> None:
    state = LoggedState()
    with lived.services.store.examining() as tx:
        assert list(state.advance_to_end(tx)) == []
    lived.unprotect("log_entries")
    lived.alter("DELETE FROM log_entries WHERE seq > 5")
    with lived.services.store.examining() as tx:
        assert [one.line for one in state.differences(tx)] == [f"the log has 5 entries, but had {state.seq} before"]


def test_an_entry_of_another_type_ends_the_replay(lived: Harness) -> None:
    if lived.on_postgres:
        pytest.skip("PostgreSQL stores no other type")
    lived.unprotect("log_entries")
    lived.alter("UPDATE log_entries SET entry = 5 WHERE seq = 4")
    with pytest.raises(LogBrokenError):
        replayed(lived)


def test_rows_of_another_type_are_named(lived: Harness) -> None:
    if lived.on_postgres:
        pytest.skip("PostgreSQL stores no other type")
    foreign_keys_off(lived)
    for statement, line in (
        ("UPDATE lease_stops SET log_seq = 'x'", "a stored lease is malformed [lease-record-invalid]"),
        ("UPDATE leases SET log_seq = 'x'", "a stored lease is malformed [lease-record-invalid]"),
        ("UPDATE lease_ends SET log_seq = 'x'", "a stored lease is malformed [lease-record-invalid]"),
        ("UPDATE tenants SET created_at = x'05'", "a stored tenant is malformed [tenant-record-invalid]"),
    ):
        found = after(lived, statement)
        assert any(line in one for one in found), (statement, found)


def test_what_is_left_of_a_destroyed_key_is_compared(harness: Harness) -> None:
    harness.add_key("model")
    store = harness.services.store
    set_schedule(store, MODEL, every=DAY, overlap=DAY, actor=ACTOR, at=AT)
    with store.examining() as tx:
        record = tx.keys.find(MODEL)
    assert record is not None
    schedule_destruction(store, KeyReference(name=MODEL), after=DAY, minimum=DAY, actor=ACTOR, at=AT)
    harness.clock.forward(days=1)
    assert len(destroy_due(store, at=harness.clock(), failed=no_failure)) == 1
    assert lines(harness) == []
    harness.alter("UPDATE key_versions SET wrapped = ?", record.wrapped.content)
    (line,) = lines(harness)
    assert line.startswith("key model@1: material kept in the database, destroyed since entry ")


def no_failure(*_: object) -> None:
    raise AssertionError


def resume_all(harness: Harness) -> None:
    with harness.services.store.examining() as tx:
        stopped = [one.lease.lease_id for one in tx.leases.pages(LeaseFilter(live=None, stopped=True), at=AT)]
    resume_renewals(harness.services.store, stopped, reason="mended", actor=ACTOR, at=harness.clock())


def destroy(harness: Harness, version: int | None) -> None:
    asked = KeyReference(name=MODEL, version=version)
    schedule_destruction(harness.services.store, asked, after=DAY, minimum=DAY, actor=ACTOR, at=harness.clock())


def thaw(harness: Harness) -> None:
    change = Thaw(target=target("key", "model"), reason="over")
    change_now(service_of(harness), change, actor=ACTOR, at=harness.clock())


ACTS: tuple[Callable[[Harness, Store, int], object], ...] = (
    lambda h, store, n: h.add_key(f"key{n % 4}"),
    lambda h, store, n: change_tags(store, MODEL, put={"n": str(n)}, remove=(), actor=ACTOR, at=h.clock()),
    lambda h, store, n: rotate_key(rotator(h), MODEL, overlap=DAY, actor=ACTOR, at=h.clock()),
    lambda h, store, n: set_schedule(store, MODEL, every=DAY, overlap=DAY / 2, actor=ACTOR, at=h.clock()),
    lambda h, store, n: remove_schedule(store, MODEL, actor=ACTOR, at=h.clock()),
    lambda h, store, n: rotate_due(rotator(h), at=h.clock(), failed=no_failure),
    lambda h, store, n: set_enabled(store, MODEL, enabled=n % 2 == 0, actor=ACTOR, at=h.clock()),
    lambda h, store, n: set_version_enabled(
        store, KeyReference(name=MODEL, version=n % 3 + 1), enabled=n % 2 == 0, actor=ACTOR, at=h.clock()
    ),
    lambda h, store, n: destroy(h, n % 4 or None),
    lambda h, store, n: restore_key(store, KeyReference(name=MODEL), actor=ACTOR, at=h.clock()),
    lambda h, store, n: destroy_due(store, at=h.clock(), failed=no_failure),
    lambda h, store, n: set_limits(h, 1000 + n),
    lambda h, store, n: set_policy(h, 2 + n),
    lambda h, store, n: release(h),
    lambda h, store, n: release(h, "model@1"),
    lambda h, store, n: stop(h),
    lambda h, store, n: resume_all(h),
    lambda h, store, n: freeze(store, target("key", "model"), reason="why", actor=ACTOR, at=h.clock()),
    lambda h, store, n: thaw(h),
    lambda h, store, n: give_role(store, identity=PEER, tenant="*", role=Role.AUDITOR, actor=ACTOR, at=h.clock()),
    lambda h, store, n: revoke_role(store, n % 3 + 1, actor=ACTOR, at=h.clock()),
    lambda h, store, n: h.clock.forward(hours=n % 30),
)


@settings(max_examples=12, deadline=None)
@hypothesis.given(
    acts=st.lists(st.tuples(st.sampled_from(range(len(ACTS))), st.integers(0, 255)), min_size=10, max_size=40)
)
def test_no_sequence_of_acts_makes_a_difference(
    tmp_path_factory: pytest.TempPathFactory, acts: list[tuple[int, int]]
) -> None:
    harness = Harness.make(tmp_path_factory.mktemp("acts"), allow_thaw_by_one=True)
    harness.add_key("model")
    done = 0
    for act, number in acts:
        write_endorsements(harness.folder, at=harness.clock())
        with contextlib.suppress(AttestError):  # not every act is possible at any time
            ACTS[act](harness, harness.services.store, number)
            done += 1
    hypothesis.target(done)
    assert replayed(harness) == []
    harness.close()
