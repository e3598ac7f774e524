"""Tenants: what belongs to one is nothing to another."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from hashlib import sha256

import pytest

from attest.errors import AttestError, BindingError, ConfigurationError
from attest.release import KeyName, release_info
from attest.release.receipts import read_receipt
from kms.domain.errors import IntegrityError, KeyConflictError, KeyUnknownError
from kms.keys.admin import set_enabled
from kms.keys.tenants import create_tenant
from kms.operations.migration import migrate
from tests.kms.database_writer import DatabaseWriter
from tests.kms.stores import examined_unauthenticated, write_genuine
from tests.kms.support import ACTOR, AT, MATERIAL, MODEL, Harness, Workload, open_release
from tests.kms.test_state_migration import older_log
from tests.kms.test_store import at_revision

OURS, THEIRS = sha256(b"ours").digest(), sha256(b"theirs").digest()


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def shared(harness: Harness) -> Harness:
    """Two tenants with a key of the same id."""
    create_tenant(harness.services.store, "acme", actor=ACTOR, at=harness.clock())
    harness.add_key("model", material=OURS)
    harness.add_key("acme/model", material=THEIRS)
    return harness


def test_keys_of_one_id_are_different_keys(shared: Harness) -> None:
    challenge = shared.releases.challenge()
    request = Workload().request(challenge, "acme/model", "model")
    release = shared.releases.release(request)
    opened = open_release(Workload(), challenge, request, release, shared)
    assert opened == {"acme/model": THEIRS, "model": OURS}
    receipt = read_receipt(shared.services.identity.public.verify(release.receipt))
    told = [(key["tenant"], key["key_id"]) for key in receipt["keys"]]  # type: ignore[index,union-attr,call-overload]
    assert told == [("acme", "model"), ("default", "model")]
    (decision,) = shared.decisions()
    assert decision["requested"] == ["acme/model", "model"]
    assert [(key["tenant"], key["key_id"]) for key in decision["keys"]] == told  # type: ignore[attr-defined]


def test_a_key_is_disabled_for_its_own_tenant_alone(shared: Harness) -> None:
    name = KeyName(tenant="acme", key_id="model")
    set_enabled(shared.services.store, name, enabled=False, actor=ACTOR, at=shared.clock())
    shared.releases.release(Workload().request(shared.releases.challenge(), "model"))
    with pytest.raises(AttestError) as caught:
        shared.releases.release(Workload().request(shared.releases.challenge(), "acme/model"))
    assert (caught.value.code, caught.value.field) == ("key-disabled", "acme/model")
    assert shared.entries()[-3]["tenant"] == "acme"


def test_mc_21_an_unknown_tenant_is_refused_like_an_unknown_key(shared: Harness) -> None:
    told = []
    for asked in ("nobody/model", "acme/other", "other"):
        with pytest.raises(KeyUnknownError) as caught:
            shared.releases.release(Workload().request(shared.releases.challenge(), asked))
        assert caught.value.field == asked
        told.append((caught.value.code, caught.value.message.replace(asked, "…"), caught.value.hint))
    assert set(told) == {("key-unknown", "there is no key '…' for this workload", told[0][2])}


def test_mc_18_a_sealed_key_of_one_tenant_is_none_of_another(shared: Harness) -> None:
    challenge = shared.releases.challenge()
    request = Workload().request(challenge, "acme/model")
    (sealed,) = shared.releases.release(request).keys
    receipt = read_receipt(
        shared.services.identity.public.verify(
            shared.releases.release(Workload().request(shared.releases.challenge(), "model")).receipt
        )
    )
    with pytest.raises(BindingError):
        Workload().key.open(
            sealed.sealed,
            info=release_info(
                audience=shared.audience,
                nonce=challenge.nonce,
                evidence_digest=request.evidence.digest,
                tenant="default",
                key_id=sealed.key_id,
                version=sealed.version,
                purpose=sealed.purpose,
                policy_digest=sealed.policy_digest,
                decision_digest=bytes.fromhex(str(receipt["decision"])),
            ),
        )


def test_mc_18_a_release_whose_tenant_was_exchanged_does_not_open(shared: Harness) -> None:
    challenge = shared.releases.challenge()
    request = Workload().request(challenge, "acme/model")
    release = shared.releases.release(request)
    swapped = replace(release, keys=(replace(release.keys[0], tenant="default"),))
    assert open_release(Workload(), challenge, request, release, shared) == {"acme/model": THEIRS}
    with pytest.raises(BindingError):
        open_release(Workload(), challenge, request, swapped, shared)


def test_mc_28_wrapped_keys_of_two_tenants_cannot_be_swapped(shared: Harness) -> None:
    ((wrapped,),) = shared.alter("SELECT wrapped FROM key_versions WHERE tenant = 'acme'")
    write_genuine(shared, "key_versions", {"tenant": "default"}, wrapped=wrapped)
    with pytest.raises(IntegrityError) as caught:
        shared.releases.release(Workload().request(shared.releases.challenge(), "model"))
    assert caught.value.code == "wrapped-key-invalid"


def test_a_key_of_no_tenant_is_refused(harness: Harness) -> None:
    with pytest.raises(KeyConflictError) as caught:
        harness.add_key("acme/model")
    assert caught.value.code == "tenant-unknown"
    assert [entry["kind"] for entry in harness.entries()] == ["initialised"]


def test_a_tenant_is_made_once_and_logged(harness: Harness) -> None:
    store = harness.services.store
    create_tenant(store, "acme", actor=ACTOR, at=AT)
    for name, error in (("acme", KeyConflictError), ("default", KeyConflictError), ("No", ConfigurationError)):
        with pytest.raises(error):
            create_tenant(store, name, actor=ACTOR, at=AT)
    with store.reading() as tx:
        assert tx.tenants.all() == {"acme": AT, "default": AT}
    assert [entry["kind"] for entry in harness.entries()] == ["initialised", "tenant-created"]
    assert (harness.entries()[1]["tenant"], harness.entries()[1]["actor"]) == ("acme", ACTOR.members())


def test_a_tenant_is_never_removed(shared: Harness) -> None:
    with pytest.raises(Exception, match=r"append-only|never"):
        shared.alter("DELETE FROM tenants")


def test_a_key_whose_tenant_was_removed_is_found(shared: Harness) -> None:
    shared.unprotect("tenants")
    shared.alter("DELETE FROM tenants WHERE name = 'acme'")
    found = examined_unauthenticated(shared)
    assert found["keys"].problems == ("the tenant of the key acme/model does not exist",)


def test_keys_from_before_there_were_tenants_and_versions_go_on(harness: Harness) -> None:
    if harness.on_postgres:
        pytest.skip("the statements of the migrations are the same on both, and other tests run them there")
    harness.add_key("model")
    log = older_log(DatabaseWriter(harness))
    harness.close()
    old = harness.folder / "old.db"
    at_revision(str(old), "0012").dispose()
    with closing(sqlite3.connect(old, isolation_level=None)) as database:
        database.execute("ATTACH ? AS new", (harness.settings.database,))
        for table in ("meta", "secrets", "policies", "keys", "key_versions"):
            names = ", ".join(row[1] for row in database.execute(f"PRAGMA main.table_info({table})"))
            database.execute(f"INSERT INTO main.{table} ({names}) SELECT {names} FROM new.{table}")  # noqa: S608  ours
        database.execute("INSERT INTO main.meta SELECT 'kek_id', id FROM new.keks")
        database.execute("DELETE FROM main.secrets WHERE name = 'state'")
        database.executemany("INSERT INTO main.log_entries (seq, entry) VALUES (:seq, :entry)", log["log_entries"])
        database.executemany("INSERT INTO main.log_nodes (position, hash) VALUES (:position, :hash)", log["log_nodes"])
    settings = harness.settings.model_copy(update={"database": str(old)})
    assert migrate(settings, random=harness.random, actor=ACTOR, at=AT).before == "0012"
    again = harness.reopened(database=str(old), allow_no_rollback_guard=True)
    with again.services.store.reading() as tx:
        assert tx.tenants.all() == {"default": AT}
        (record,) = tx.keys.all("default")
        assert tx.keys.all("acme") == ()
    assert (record.name, record.is_current, record.version_enabled) == (MODEL, True, True)
    challenge = again.releases.challenge()
    request = Workload().request(challenge, "model")
    opened = open_release(Workload(), challenge, request, again.releases.release(request), again)
    assert opened == {"model": MATERIAL}
    again.close()
