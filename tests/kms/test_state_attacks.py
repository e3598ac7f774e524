"""Somebody writes to the database of a running service, without its key-encryption key, and gains nothing.

Each edit is one by SQL, beside a running service and before the start of another, on either database.
``docs/attacks.md`` names them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from attest.encoding import base64url_text
from attest.errors import AttestError
from attest.release import WorkloadKey
from kms.auth.grants import give_role, revoke_role
from kms.domain.actors import Actor, Means
from kms.domain.canonical_json import canonical_json
from kms.domain.errors import IntegrityError
from kms.domain.floors import no_floor
from kms.domain.keys import KeyReference
from kms.domain.leases import LeaseFilter
from kms.domain.limits import Budget, Period
from kms.domain.people import ChangeKind
from kms.domain.permissions import EVERY_TENANT, Role
from kms.keys.admin import find_key, set_enabled, set_version_enabled
from kms.keys.tenants import create_tenant
from kms.leases.admin import stop_renewals
from kms.operations.fsck import examine
from kms.operations.services import open_vault
from kms.quorum.admin import withdraw
from kms.quorum.break_glass import close_glass
from kms.quorum.key_policy import KeyPolicySet
from kms.release.prompt_keys import PromptKeyService
from tests.kms.database_writer import DatabaseWriter
from tests.kms.references import ALICE, OTHER, by_signers, given, images, naming
from tests.kms.support import ACTOR, MODEL, FakeRandom, Harness, Workload
from tests.kms.test_break_glass import lifting
from tests.kms.test_freezes import stop
from tests.kms.test_key_lifecycle import destroy, rotate
from tests.kms.test_key_policy import put, version
from tests.kms.test_limits import limit
from tests.kms.test_prompt_keys import NAME as PROMPTS
from tests.kms.test_prompt_keys import add_prompt_key
from tests.kms.test_quorum import KEYS, ROOT, Board, pem, rule
from tests.kms.test_references import add

MALLORY = Actor(name="https://issuer.test|mallory", means=Means.JWT)
Edit = Callable[[Harness, DatabaseWriter], None]
ONE = Budget(most=1, per=Period.TOTAL)
ONE_A_DAY = Budget(most=1, per=Period.DAY)


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def writer(harness: Harness) -> DatabaseWriter:
    return DatabaseWriter(harness)


def release(harness: Harness, asked: str = "model", *, renews: tuple[str, ...] = ()) -> None:
    request = Workload().request(harness.releases.challenge(), asked)
    harness.releases.release(replace(request, renews=renews))


def refusal(act: Callable[[], object]) -> AttestError:
    with pytest.raises(AttestError) as caught:
        act()
    return caught.value


def require_forged(harness: Harness, field: str, act: Callable[[Harness], object]) -> None:
    """Refuse an act in the service that runs and in one that starts now, and grant no lease."""
    before = len(DatabaseWriter(harness).rows("leases"))
    require_code(refusal(lambda: act(harness)), field)
    require_code(refusal_at_start(harness, act), field)
    assert len(DatabaseWriter(harness).rows("leases")) == before


def require_code(error: AttestError, field: str) -> None:
    assert isinstance(error, IntegrityError), error
    assert (error.code, error.field) == ("state-forged", field), error
    assert field in error.message or field.startswith("log_")


def refusal_at_start(harness: Harness, act: Callable[[Harness], object] | None = None) -> AttestError:
    """Return the refusal of a service that starts now without a rollback guard, or of what it does first: a release."""

    def attempt() -> None:
        service = harness.reopened(rollback_guard=(), allow_no_rollback_guard=True)
        try:
            (act or release)(service)
        finally:
            service.close()

    return refusal(attempt)


# -- keys, their versions and policies


def test_an_older_policy_that_is_put_back_releases_nothing(harness: Harness, writer: DatabaseWriter) -> None:
    harness.add_key("model")
    older = writer.copy("key_versions")
    put(harness, version(2, measurement=bytes(48)))
    assert refusal(lambda: release(harness)).code == "policy-not-met"
    writer.put_back(older)
    require_forged(harness, "key_versions", release)


def disable(harness: Harness) -> None:
    set_enabled(harness.services.store, MODEL, enabled=False, actor=ACTOR, at=harness.clock())


def disable_version(harness: Harness) -> None:
    asked = KeyReference.parse("model@1")
    set_version_enabled(harness.services.store, asked, enabled=False, actor=ACTOR, at=harness.clock())


def rotate_at_once(harness: Harness) -> None:
    rotate(harness, overlap=timedelta(0))
    harness.clock.forward(seconds=1)


@dataclass(frozen=True)
class End:
    """What ends a key, and the edit that would undo it."""

    prepare: Callable[[Harness], object]
    code: str
    table: str
    changes: dict[str, object]
    asked: str = "model"


ENDS = {
    "disabled": End(disable, "key-disabled", "keys", {"enabled": True}),
    "version disabled": End(disable_version, "key-version-disabled", "key_versions", {"enabled": True}),
    "destruction": End(destroy, "key-destroying", "key_versions", {"destroy_at": None}),
    "retired": End(rotate_at_once, "key-version-retired", "key_versions", {"overlap_until": 1 << 50}, "model@1"),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_what_ended_a_key_is_not_undone(harness: Harness, writer: DatabaseWriter, end: End) -> None:
    harness.add_key("model")
    end.prepare(harness)
    assert refusal(lambda: release(harness, end.asked)).code == end.code
    version = {} if end.table == "keys" else {"version": 1}
    writer.update(end.table, {"key_id": "model", **version}, **end.changes)
    require_forged(harness, end.table, lambda service: release(service, end.asked))


def test_a_rotation_is_not_undone(harness: Harness, writer: DatabaseWriter) -> None:
    harness.add_key("model")
    before = writer.copy("key_versions")
    rotate_at_once(harness)
    writer.put_back(before)
    require_forged(harness, "key_versions", release)
    require_forged(harness, "key_versions", lambda service: service.services.store.write(_versions))


def _versions(tx: object) -> None:
    tx.keys.versions(MODEL)  # type: ignore[attr-defined]  # a transaction


def test_a_key_that_was_removed_is_not_made_anew(harness: Harness, writer: DatabaseWriter) -> None:
    harness.add_key("model")
    writer.delete("key_versions")
    writer.delete("keys")
    require_forged(harness, "keys", release)
    require_forged(harness, "keys", lambda service: service.add_key("model"))


# -- prompt keys


def test_a_prompt_key_of_somebody_else_is_not_published(harness: Harness, writer: DatabaseWriter) -> None:
    add_prompt_key(harness)
    (row,) = writer.rows("prompt_keys")
    own = row["public_key"][:2] + WorkloadKey.generate().public[2:]
    entry = writer.log("prompt-key-published", public_key=base64url_text(own))
    writer.update("prompt_keys", public_key=own, seq=entry.seq)
    require_forged(harness, "prompt_keys", lambda service: PromptKeyService(service.services).find(PROMPTS))


def test_a_prompt_key_beside_the_genuine_one_is_not_published(harness: Harness, writer: DatabaseWriter) -> None:
    add_prompt_key(harness)
    (row,), (first,) = writer.rows("prompt_keys"), writer.rows("key_versions")
    own = row["public_key"][:2] + WorkloadKey.generate().public[2:]
    policy = writer.rows("policies")[0] | {"digest": bytes(32)}
    writer.insert("policies", policy)
    writer.insert("prompt_keys", row | {"public_key": own, "policy_digest": bytes(32)})
    writer.update("key_versions", policy_digest=bytes(32))
    require_forged(harness, "key_versions", lambda service: PromptKeyService(service.services).find(PROMPTS))
    # The same with a version of his own, which is current.
    writer.update("key_versions", policy_digest=first["policy_digest"], overlap_until=1)
    writer.insert("key_versions", first | {"version": 2})
    writer.insert("prompt_keys", row | {"public_key": own, "version": 2})
    require_forged(harness, "key_versions", lambda service: PromptKeyService(service.services).find(PROMPTS))


# -- people and their rights


@pytest.mark.parametrize("logged", [False, True])
def test_a_grant_that_nobody_gave_counts_for_nothing(harness: Harness, writer: DatabaseWriter, logged: bool) -> None:
    bob = Actor(name="https://issuer.test|bob", means=Means.JWT)
    given_role = give_role(
        harness.services.store,
        identity=bob,
        tenant=EVERY_TENANT,
        role=Role.ADMINISTRATOR,
        actor=ACTOR,
        at=harness.clock(),
    )
    (row,) = writer.rows("grants")
    writer.insert("grants", row | {"number": given_role.number + 1, "name": MALLORY.name})
    if logged:
        writer.log("grant-added", number=2, identity="mallory", tenant=EVERY_TENANT, role="administrator")

    def held(service: Harness) -> None:
        with service.services.store.reading() as tx:
            tx.grants.held_by(MALLORY)

    require_forged(harness, "grants", held)
    if logged:
        require_forged(harness, "log_entries", lambda service: service.add_key("model"))
    writer.delete("grants", number=2)
    writer.update("grants", name=MALLORY.name)
    require_forged(harness, "grants", held)


def test_a_revoked_grant_stays_revoked(harness: Harness, writer: DatabaseWriter) -> None:
    store, at = harness.services.store, harness.clock()
    for identity in (MALLORY, Actor(name="https://issuer.test|bob", means=Means.JWT)):
        give_role(store, identity=identity, tenant=EVERY_TENANT, role=Role.ADMINISTRATOR, actor=ACTOR, at=at)
    revoke_role(store, 1, actor=ACTOR, at=at)
    writer.update("grants", {"number": 1}, revoked_by=None, revoked_by_means=None, revoked_at=None)

    def held(service: Harness) -> None:
        with service.services.store.reading() as tx:
            tx.grants.held_by(MALLORY)

    require_forged(harness, "grants", held)


def test_people_and_rules_that_nobody_approved_are_not_in_force(harness: Harness, writer: DatabaseWriter) -> None:
    board = Board(harness).found()
    further = board.now().with_person("mallory", pem(KEYS["mallory"])).with_rule(rule(ChangeKind.QUORUM, 1, ("alice",)))
    further = replace(further, version=board.now().version + 1)
    row = writer.rows("quorum_documents")[-1]
    document = canonical_json(further.members())
    writer.insert("quorum_documents", row | {"version": further.version, "document": document})
    writer.log("quorum-changed", version=further.version, quorum=further.members())

    def now(service: Harness) -> None:
        Board(service).now()

    require_forged(harness, "quorum_documents", now)


@pytest.mark.parametrize("all_of_them", [False, True])
def test_people_and_rules_are_not_taken_back(harness: Harness, writer: DatabaseWriter, all_of_them: bool) -> None:
    board = Board(harness).found()
    writer.delete("quorum_documents", **({} if all_of_them else {"version": board.now().version}))
    require_forged(harness, "quorum_documents", lambda service: Board(service).now())


def test_a_proposal_that_was_withdrawn_stays_so(harness: Harness, writer: DatabaseWriter) -> None:
    board = Board(harness).found()
    thaw = board.freeze()
    made = board.propose(thaw)
    board.sign(made, "alice", "bob")
    withdraw(board.desk, made.digest, reason="no", actor=ROOT, at=harness.clock())
    assert board.refused(made) == "proposal-ended"
    writer.delete("proposal_ends", digest=made.digest)
    require_forged(harness, "proposal_ends", lambda service: Board(service).execute(made))
    assert len(writer.rows("freezes")) == 1


# -- brakes


def test_a_freeze_is_not_removed(harness: Harness, writer: DatabaseWriter) -> None:
    harness.add_key("model")
    stop(harness, "all")
    assert refusal(lambda: release(harness)).code == "service-frozen"
    writer.delete("freezes")
    require_forged(harness, "freezes", release)


@pytest.mark.parametrize("edit", ["end removed", "longer"])
def test_a_relaxation_ends_when_it_was_to_end(harness: Harness, writer: DatabaseWriter, edit: str) -> None:
    harness.add_key("model")
    board = Board(harness).found(rule(ChangeKind.QUORUM), rule(ChangeKind.BREAK_GLASS))
    stop(harness, "all")
    board.agreed(lifting())
    if edit == "end removed":
        close_glass(harness.services.store, 1, reason="over", actor=ROOT, at=harness.clock())
        assert refusal(lambda: release(harness)).code == "service-frozen"
        writer.delete("break_glass_ends")
        require_forged(harness, "break_glass_ends", release)
    else:
        harness.clock.forward(hours=2)
        assert refusal(lambda: release(harness)).code == "service-frozen"
        writer.update("break_glass", until=1 << 50)
        require_forged(harness, "break_glass", release)


def test_newer_limits_are_not_removed(harness: Harness, writer: DatabaseWriter) -> None:
    harness.add_key("model")
    limit(harness, releases=(Budget(most=9, per=Period.TOTAL),))
    limit(harness, releases=(Budget(most=0, per=Period.TOTAL),))
    assert refusal(lambda: release(harness)).code == "budget-spent"
    writer.delete("key_limits", version=2)
    require_forged(harness, "key_limits", release)
    writer.delete("key_limits", version=1)
    require_forged(harness, "key_limits", release)


def test_a_newer_document_of_reference_values_is_not_removed(harness: Harness, writer: DatabaseWriter) -> None:
    harness.add_key("model", policy=naming(by_signers(ALICE)), references=(given(images(), ALICE),))
    release(harness)
    add(harness, given(images(2, values=(OTHER,)), ALICE))
    assert refusal(lambda: release(harness)).code == "policy-not-met"
    newer = writer.rows("reference_documents", version=2)[0]
    writer.delete("reference_signatures", digest=newer["digest"])
    writer.delete("reference_documents", version=2)
    require_forged(harness, "reference_documents", release)


@pytest.mark.parametrize("edit", ["removed", "altered"])
def test_an_older_document_is_not_put_in_force_by_the_loss_of_a_signature(
    harness: Harness, writer: DatabaseWriter, edit: str
) -> None:
    harness.add_key("model", policy=naming(by_signers(ALICE)), references=(given(images(), ALICE),))
    add(harness, given(images(2, values=(OTHER,)), ALICE))
    assert refusal(lambda: release(harness)).code == "policy-not-met"
    newer = writer.rows("reference_documents", version=2)[0]
    if edit == "removed":
        writer.delete("reference_signatures", digest=newer["digest"])
    else:
        writer.update("reference_signatures", {"digest": newer["digest"]}, signature=b"{}", key_id=bytes(32))
    require_forged(harness, "reference_signatures", release)


# -- leases


@pytest.mark.parametrize(
    ("limits", "code"),
    [({"releases": (ONE,)}, "budget-spent"), ({"per_chip": ONE}, "chip-rate-exceeded")],
    ids=["budget", "per chip"],
)
def test_a_budget_that_is_spent_stays_spent(
    harness: Harness, writer: DatabaseWriter, limits: dict[str, Any], code: str
) -> None:
    harness.add_key("model")
    release(harness)
    limit(harness, **limits)
    before = writer.copy("leases", "lease_counts")
    assert refusal(lambda: release(harness)).code == code
    writer.put_back({"leases": []})
    assert refusal(lambda: release(harness)).code == code
    writer.put_back({"lease_counts": []})
    require_forged(harness, "lease_counts", release)
    less = [row | {"released": 0} for row in before["lease_counts"]]
    writer.put_back({"leases": [], "lease_counts": less})
    require_forged(harness, "lease_counts", release)


def test_a_budget_of_a_day_is_not_spent_yesterday(harness: Harness, writer: DatabaseWriter) -> None:
    harness.add_key("model")
    release(harness)
    limit(harness, releases=(Budget(most=1, per=Period.DAY),))
    assert refusal(lambda: release(harness)).code == "budget-spent"
    writer.update("leases", released_at=1, expires_at=2)
    require_forged(harness, "leases", release)


@pytest.mark.parametrize("edit", ["removed", "ended", "expired", "left out", "left out in time"])
def test_a_holder_of_a_lease_is_counted(harness: Harness, writer: DatabaseWriter, edit: str) -> None:
    harness.add_key("model")
    limit(harness, holders=1)
    release(harness)
    somebody = Workload(key=WorkloadKey.generate())

    def by_somebody(service: Harness) -> None:
        service.releases.release(somebody.request(service.releases.challenge(), "model"))

    assert refusal(lambda: by_somebody(harness)).code == "holders-exceeded"
    (lease,) = writer.rows("leases")
    if edit == "removed":
        writer.delete("leases")
    elif edit == "ended":
        end = {"lease_id": lease["lease_id"], "ended_at": lease["released_at"], "reason": "renewed", "log_seq": 1}
        writer.insert("lease_ends", end)
    elif edit == "expired":
        writer.update("leases", expires_at=lease["released_at"] + 1)
    elif edit == "left out":
        writer.delete("live_leases")
    else:
        writer.update("live_leases", expires_at=0)
    require_forged(harness, "leases", by_somebody)


def test_a_lease_that_ended_is_not_made_live_again(harness: Harness, writer: DatabaseWriter) -> None:
    harness.add_key("model")
    limit(harness, holders=1)
    release(harness)
    (first,) = writer.rows("live_leases")
    release(harness)
    (second,) = writer.rows("live_leases")
    assert first["lease_id"] != second["lease_id"]
    writer.insert("live_leases", first)
    require_forged(harness, "live_leases", release)
    writer.delete("lease_ends")
    require_forged(harness, "leases", release)


def test_a_lease_that_ended_is_not_renewed(harness: Harness, writer: DatabaseWriter) -> None:
    harness.add_key("model")
    release(harness)
    (first,) = writer.rows("leases")
    release(harness, renews=(first["lease_id"],))
    assert refusal(lambda: release(harness, renews=(first["lease_id"],))).code == "lease-ended"
    writer.delete("lease_ends")
    require_forged(harness, "lease_ends", lambda service: release(service, renews=(first["lease_id"],)))


@pytest.mark.parametrize("edit", ["removed", "of another machine"])
def test_a_stopped_lease_is_not_renewed(harness: Harness, writer: DatabaseWriter, edit: str) -> None:
    harness.add_key("model")
    release(harness)
    (lease,) = writer.rows("leases")
    everything = LeaseFilter(live=None)
    store, at = harness.services.store, harness.clock()
    stop_renewals(store, everything, concerns=(), reason="a test", actor=ACTOR, at=at)
    assert refusal(lambda: release(harness)).code == "lease-stopped"
    if edit == "removed":
        writer.delete("lease_stops")
    else:
        writer.update("lease_stops", instance=bytes(32))
    for renews in ((), (lease["lease_id"],)):
        require_forged(harness, "lease_stops", partial(release, renews=renews))


def test_a_challenge_is_used_once(harness: Harness, writer: DatabaseWriter) -> None:
    harness.add_key("model")
    request = Workload().request(harness.releases.challenge(), "model")
    harness.releases.release(request)
    assert refusal(lambda: harness.releases.release(request)).code == "challenge-used"
    writer.delete("used_nonces")
    require_forged(harness, "used_nonces", lambda service: service.releases.release(request))


# -- a server that answers other questions than it was asked


@pytest.mark.parametrize("kind", ["postgresql"])
def test_a_server_that_calls_every_challenge_ended_lets_none_be_used_again(
    harness: Harness, writer: DatabaseWriter
) -> None:
    harness.add_key("model")
    request = Workload().request(harness.releases.challenge(), "model")
    harness.releases.release(request)
    with writer.redefined("bigint", {"<": "true"}):
        require_code(refusal_at_start(harness), "used_nonces")
    assert refusal(lambda: harness.releases.release(request)).code == "challenge-used"


@pytest.mark.parametrize("kind", ["postgresql"])
@pytest.mark.parametrize("limits", [{"releases": (ONE_A_DAY,)}, {"per_chip": ONE_A_DAY}], ids=["budget", "per chip"])
def test_a_server_that_calls_every_lease_old_frees_no_budget(
    harness: Harness, writer: DatabaseWriter, limits: dict[str, Any]
) -> None:
    harness.add_key("model")
    release(harness)
    limit(harness, **limits)
    number = "a OPERATOR(pg_catalog.>) b AND b OPERATOR(pg_catalog.<) 1000000000"  # of an entry, and no moment
    with writer.redefined("bigint", {"<=": "true", ">": number}):
        require_code(refusal_at_start(harness), "leases")


@pytest.mark.parametrize("kind", ["postgresql"])
def test_a_server_that_takes_two_names_for_one_gives_no_grant_away(harness: Harness, writer: DatabaseWriter) -> None:
    bob = Actor(name="https://issuer.test|bob", means=Means.JWT)
    store, at = harness.services.store, harness.clock()
    give_role(store, identity=bob, tenant=EVERY_TENANT, role=Role.ADMINISTRATOR, actor=ACTOR, at=at)

    def held(service: Harness) -> None:
        with service.services.store.reading() as tx:
            tx.grants.held_by(MALLORY)

    with writer.redefined("varchar", {"=": "a::text OPERATOR(pg_catalog.=) b::text OR a::text LIKE '%%|bob'"}):
        require_code(refusal_at_start(harness, held), "grants")


@pytest.mark.parametrize("kind", ["postgresql"])
def test_a_server_that_takes_two_names_for_one_puts_no_other_floor_or_limits_in_force(
    harness: Harness, writer: DatabaseWriter
) -> None:
    harness.add_key("model")
    harness.add_key("loose")
    limit(harness, releases=(Budget(most=0, per=Period.TOTAL),))
    for most in (8, 9):
        limit(harness, "loose", releases=(Budget(most=most, per=Period.TOTAL),))
    with harness.services.store.writing() as tx:
        tx.floors.add(replace(no_floor(EVERY_TENANT), version=1), at=harness.clock())
        tx.floors.add(replace(no_floor("other"), version=1), at=harness.clock())
        tx.floors.add(replace(no_floor("other"), version=2), at=harness.clock())

    def in_force(service: Harness) -> None:
        with service.services.store.reading() as tx:
            tx.limits.in_force(MODEL)

    def newest(service: Harness) -> None:
        with service.services.store.reading() as tx:
            tx.floors.newest(EVERY_TENANT)

    same = "a::text OPERATOR(pg_catalog.=) b::text OR a::text IN ('loose', 'other')"
    with writer.redefined("varchar", {"=": same}):
        require_code(refusal_at_start(harness, in_force), "key_limits")
        require_code(refusal_at_start(harness, newest), "floors")


def test_two_current_versions_of_a_key_are_damage(harness: Harness, writer: DatabaseWriter) -> None:
    harness.add_key("model")
    rotate_at_once(harness)
    harness.alter("DROP INDEX key_versions_current")
    writer.update("key_versions", {"version": 1}, overlap_until=None)
    assert refusal(lambda: release(harness)).code == "store-damaged"


def test_approvers_are_not_shown_a_difference_to_another_policy(harness: Harness, writer: DatabaseWriter) -> None:
    harness.add_key("model", policy=version(3))
    writer.update("policies", document=version(1))
    error = refusal(lambda: put(harness, version(2)))
    assert (error.code, error.field) == ("policy-altered", "policies")
    for look in (KeyPolicySet(name=MODEL, policy=version(4)).difference, KeyPolicySet(name=MODEL, policy=b"").policies):
        with harness.services.store.reading() as tx, pytest.raises(IntegrityError):
            look(tx)
    assert refusal(lambda: find_key(harness.services.store, MODEL)).code == "policy-altered"


# -- the service's own records


def test_a_tenant_that_nobody_made_has_no_keys(harness: Harness, writer: DatabaseWriter) -> None:
    create_tenant(harness.services.store, "acme", actor=ACTOR, at=harness.clock())
    (row,) = writer.rows("tenants")[:1]
    writer.insert("tenants", row | {"name": "mallory"})
    require_forged(harness, "tenants", lambda service: service.add_key("mallory/model"))
    writer.delete("tenants", created_at=row["created_at"])
    error = refusal_at_start(harness, lambda service: service.add_key("acme/model"))
    require_code(error, "tenants")


@pytest.mark.parametrize(
    ("table", "changes"),
    [
        ("meta", {"value": b"kms.test/other"}),
        ("keks", {"state": "retired"}),
        ("keks", {"description": "another"}),
        ("secrets", {"created_at": "2026-06-01T12:00:01Z"}),
    ],
)
def test_a_service_does_not_start_on_records_that_were_altered(
    harness: Harness, writer: DatabaseWriter, table: str, changes: dict[str, object]
) -> None:
    writer.update(table, **changes)
    error = refusal(harness.reopened)
    assert error.code in {"state-forged", "origin-mismatch", "kek-retired"}
    if error.code == "state-forged":
        assert error.field == table


# -- the log


def test_the_newest_entry_of_the_log_is_the_one_that_was_written_last(harness: Harness, writer: DatabaseWriter) -> None:
    harness.add_key("model")
    entry = writer.rows("log_entries")[-1]
    writer.update("log_entries", {"seq": entry["seq"]}, entry=entry["entry"].replace(b"tester", b"others"))
    require_code(refusal_at_start(harness), "log_entries")


def test_an_entry_that_the_service_did_not_write_is_not_built_upon(harness: Harness, writer: DatabaseWriter) -> None:
    harness.add_key("model")
    writer.log("key-created", key_id="another")
    require_forged(harness, "log_entries", release)
    require_code(refusal_at_start(harness, lambda service: service.services.log.checkpoint()), "log_entries")
    require_code(refusal(harness.services.log.checkpoint), "log_entries")


def test_the_end_of_the_log_is_not_cut_off(harness: Harness, writer: DatabaseWriter) -> None:
    before = writer.copy("log_entries", "log_nodes")
    harness.add_key("model")
    writer.put_back(before)
    require_code(refusal_at_start(harness), "log_entries")


def test_no_checkpoint_is_signed_over_hashes_that_were_altered(harness: Harness, writer: DatabaseWriter) -> None:
    harness.add_key("model")
    harness.add_key("other")
    nodes = writer.rows("log_nodes")
    for node in nodes:
        writer.update("log_nodes", {"position": node["position"]}, hash=bytes(32))
    require_forged(harness, "log_nodes", lambda service: service.services.log.checkpoint())


# -- older and other states


def test_an_older_root_is_found(harness: Harness, writer: DatabaseWriter) -> None:
    older = writer.copy("state_root")
    harness.add_key("model")
    writer.put_back(older)
    error = refusal(lambda: release(harness))
    assert (error.code, error.field) == ("state-rolled-back", "state_root")
    assert refusal_at_start(harness).code == "state-forged"


def test_older_nodes_of_the_state_are_found(harness: Harness, writer: DatabaseWriter) -> None:
    older = writer.copy("state_nodes")
    harness.add_key("model")
    writer.put_back(older)
    assert refusal(harness.reopened).code == "state-forged"


def test_an_older_copy_of_all_rows_under_a_newer_log_is_found(harness: Harness, writer: DatabaseWriter) -> None:
    harness.add_key("model")
    older = dict(writer.copy())
    disable(harness)
    for name in ("log_entries", "log_nodes"):
        older.pop(name)
    writer.put_back(older)
    assert refusal(lambda: release(harness)).code == "state-rolled-back"
    error = refusal_at_start(harness)
    assert (error.code, error.field) == ("state-forged", "log_entries")


def test_an_older_copy_of_the_whole_database_is_found_by_the_service_that_runs(
    harness: Harness, writer: DatabaseWriter
) -> None:
    harness.add_key("model")
    older = writer.copy()
    disable(harness)
    writer.put_back(older)
    assert refusal(lambda: release(harness)).code == "state-rolled-back"


def test_the_root_of_another_database_is_none(harness: Harness, writer: DatabaseWriter) -> None:
    folder = harness.folder / "other"
    folder.mkdir()
    other = Harness.make(folder, seed="other")
    writer.put_back(DatabaseWriter(other).copy("state_root", "state_nodes"))
    other.close()
    for act in (lambda: release(harness), harness.reopened):
        error = refusal(act)
        assert (error.code, error.field) == ("state-forged", "state_root")


def test_a_database_without_a_root_is_refused(harness: Harness, writer: DatabaseWriter) -> None:
    harness.add_key("model")
    writer.delete("state_root")
    for act in (lambda: release(harness), harness.reopened):
        error = refusal(act)
        assert (error.code, error.field) == ("state-forged", "state_root")


def test_an_examination_names_what_was_altered(harness: Harness, writer: DatabaseWriter) -> None:
    harness.add_key("model")
    limit(harness, holders=1)
    writer.update("key_limits", set_at="2026-06-01T12:00:01Z")
    vault = open_vault(harness.settings, random=FakeRandom())
    (found,) = (one for one in examine(vault, origin=harness.settings.origin, noted=()) if one.check == "state")
    vault.store.close()
    assert any(line.startswith("key_limits: 1 rows") for line in found.problems)
