"""Floors: no key's policy, relaxation, race or single person gets a workload below them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest import Endorsements
from attest.errors import AttestError, ConfigurationError
from attest.release import Release
from attest_simulator.nvidia import SimulatedBoard
from kms.domain.errors import IntegrityError, KeyConflictError, QuorumRequiredError, ReleaseDeniedError
from kms.domain.floors import (
    MAX_FLOOR_ENTRIES,
    MAX_FLOOR_VERSION,
    Floor,
    FloorEntry,
    is_raise,
    no_floor,
    read_entry,
    read_floor,
)
from kms.domain.people import ChangeKind
from kms.domain.permissions import EVERY_TENANT, Role
from kms.keys.tenants import create_tenant
from kms.keys.vault import Vault
from kms.log.tenant_view import Owners, seen_by
from kms.operations.fsck import examine
from kms.quorum.admin import QuorumService, change_now
from kms.quorum.changes import read_change
from kms.quorum.floors import FloorLower, FloorRaise
from tests.kms.admins import AdminClient, admin_client
from tests.kms.stores import write_genuine
from tests.kms.support import (
    ACTOR,
    AT,
    Harness,
    TdWorkload,
    Workload,
    policy_text,
    tdx_policy_text,
)
from tests.kms.test_affected import NEW_TCB, another
from tests.kms.test_break_glass import OTHER, judging
from tests.kms.test_gpu_release import GpuWorkload, gpu_policy, prepared
from tests.kms.test_passports import Judged, asking, released, service, trusting
from tests.kms.test_quorum import Board, rule

__all__ = ["service", "trusting"]

CVE = "CVE-2025-0033"


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def entry(text: str, *, since: datetime | None = None, because: str = CVE) -> FloorEntry:
    product, _, rest = text.partition(":")
    return read_entry(product, *rest.partition("=")[::2], since=since, because=because)


def newest(harness: Harness, scope: str = EVERY_TENANT) -> Floor:
    with harness.services.store.reading() as tx:
        return tx.floors.newest(scope)


def desk(harness: Harness) -> QuorumService:
    vault = Vault(store=harness.services.store, kek=harness.services.kek)
    return QuorumService(vault=vault, audience=harness.audience, alone=False)


def change(harness: Harness, *texts: str, scope: str = EVERY_TENANT, since: datetime | None = None) -> FloorLower:
    """The change that sets these levels: a raise, if it is one."""
    before = newest(harness, scope)
    then = before.with_entries([entry(text, since=since) for text in texts], at=harness.clock())
    return (FloorRaise if is_raise(before, then) else FloorLower)(floor=then)


def put(harness: Harness, *texts: str, **more: object) -> FloorLower:
    made = change(harness, *texts, **more)  # type: ignore[arg-type]  # a scope, a moment
    change_now(desk(harness), made, actor=ACTOR, at=harness.clock())
    return made


def release(harness: Harness, *key_ids: str, workload: Workload | None = None) -> Release:
    challenge = harness.releases.challenge()
    return harness.releases.release((workload or Workload()).request(challenge, *(key_ids or ("model",))))


def refused(harness: Harness, *key_ids: str, workload: Workload | None = None) -> list[object]:
    """Be refused; return the reasons of the log."""
    with pytest.raises(ReleaseDeniedError):
        release(harness, *key_ids, workload=workload)
    reasons = harness.decisions()[-1]["reasons"]
    assert isinstance(reasons, list)
    return [(one["code"], one["key_id"]) for one in reasons]


def rows(value: object) -> list[dict[str, Any]]:
    """Objects of a document."""
    assert isinstance(value, list)
    return value


BELOW: list[object] = [("below-floor", "model")]


# -- decisions


def test_a_workload_below_the_floor_is_refused_and_everything_names_the_floor(harness: Harness) -> None:
    harness.add_key("model")
    release(harness)
    assert "floors" not in rows(harness.decisions()[-1]["keys"])[0]
    floor = put(harness, "Genoa:snp=255").floor
    with pytest.raises(ReleaseDeniedError) as caught:
        release(harness)
    assert caught.value.code == "below-floor"
    decision = harness.decisions()[-1]
    (key,), (reason,), (check,) = (rows(decision[name]) for name in ("keys", "reasons", "failed_checks"))
    assert key["floors"] == [{"scope": "*", "version": 1, "sha256": floor.digest}]
    assert CVE in reason["text"]
    assert "floor of the service, version 1" in reason["text"]
    assert check["id"] == "policy.snp.minimum_tcb"
    set_by = next(one for one in harness.entries() if one["kind"] == "floor-changed")
    assert (set_by["floor_sha256"], set_by["scope"], set_by["change"]) == (floor.digest, "*", "floor-raise")
    assert set_by["actor"] == ACTOR.members()


def test_a_workload_that_reaches_the_floor_gets_the_key_and_the_log_names_the_floor(harness: Harness) -> None:
    harness.add_key("model")
    floor = put(harness, "genoa:snp=27", "tdx:tcb_status=UpToDate", "milan:snp=255").floor
    release(harness)
    (key,) = rows(harness.decisions()[-1]["keys"])
    assert key["floors"][0]["sha256"] == floor.digest


def test_a_policy_that_asks_for_less_is_no_way_around_the_floor(harness: Harness) -> None:
    """A key's policy leaves out what the floor judges, also by telling verification not to check it."""
    relaxed = tdx_policy_text(more='unchecked: {tcb: "we know better", revocation: "likewise"}\n')
    harness.add_key("model", policy=relaxed)
    release(harness, workload=TdWorkload())
    put(harness, "tdx:tcb_status=UpToDate")
    assert refused(harness, workload=TdWorkload()) == BELOW


def test_a_floor_of_a_tenant_counts_for_its_keys_alone(harness: Harness) -> None:
    create_tenant(harness.services.store, "acme", actor=ACTOR, at=AT)
    harness.add_key("model")
    harness.add_key("acme/model", policy=policy_text(name="theirs"))
    put(harness, "genoa:snp=255", scope="acme")
    release(harness)
    assert refused(harness, "acme/model") == [("below-floor", "acme/model")]
    assert refused(harness, "model", "acme/model") == [("below-floor", "acme/model")]
    put(harness, "genoa:microcode=255")
    assert refused(harness, "acme/model") == [("below-floor", "acme/model")] * 2


def test_a_floor_judges_every_gpu(harness: Harness) -> None:
    board = SimulatedBoard.of("unit", gpus=2, switches=0)
    prepared(harness, board, gpu_policy(2))
    workload = GpuWorkload(board=board)
    release(harness, workload=workload)
    put(harness, "blackwell:driver=999")
    release(harness, workload=workload)
    put(harness, "hopper:driver=999")
    assert refused(harness, workload=workload) == BELOW


@pytest.mark.parametrize("floor", ["milan:snp=1", "tdx:tcb_status=UpToDate"])
def test_a_passport_which_states_no_product_is_below_every_floor(service: Harness, floor: str) -> None:
    ear = Judged().ear(service)
    put(service, floor)
    with pytest.raises(ReleaseDeniedError) as caught:
        service.releases.release(asking(service, ear))
    assert caught.value.code == "below-floor"
    change_now(desk(service), FloorLower(floor=replace(no_floor("*"), version=2)), actor=ACTOR, at=AT)
    released(service, ear)


def test_an_unknown_or_undisclosed_key_is_no_oracle_for_a_floor(harness: Harness) -> None:
    harness.add_key("model")
    put(harness, "genoa:snp=255")
    with pytest.raises(ReleaseDeniedError) as caught:
        release(harness, "none")
    assert caught.value.code == "key-unknown"


# -- moments and races


def test_a_floor_counts_from_its_moment_on_and_the_one_before_until_then(harness: Harness) -> None:
    harness.add_key("model")
    later = AT + timedelta(minutes=2)
    put(harness, "genoa:snp=255", since=later)
    harness.clock.at = later - timedelta(milliseconds=1)
    release(harness)
    harness.clock.at = later
    assert refused(harness) == BELOW


def test_a_floor_to_come_does_not_put_off_the_one_that_counts(harness: Harness) -> None:
    harness.add_key("model")
    put(harness, "genoa:snp=254")
    put(harness, "genoa:snp=255", since=AT + timedelta(days=1))
    assert refused(harness) == BELOW


def test_a_moment_in_the_past_counts_at_once(harness: Harness) -> None:
    harness.add_key("model")
    put(harness, "genoa:snp=255", since=AT - timedelta(days=900))
    assert refused(harness) == BELOW


@dataclass
class Interrupting:
    """A provider of endorsements during whose first answer something happens."""

    harness: Harness
    act: Callable[[], object]
    asked: int = 0

    def current(self, *, at: datetime) -> Endorsements:
        self.asked += 1
        if self.asked == 1:
            self.act()
        return self.harness.services.endorsements.current(at=at)


def test_mc_19_a_floor_that_is_set_while_a_release_is_being_decided_stops_it(harness: Harness) -> None:
    """It counts although the decision began before, whatever the clock of the operator says."""
    harness.add_key("model")

    def act() -> None:
        harness.clock.forward(seconds=3)
        put(harness, "genoa:snp=255")

    provider = Interrupting(harness, act)
    services = replace(harness.services, endorsements=provider)  # type: ignore[arg-type]  # acts, then does as the provider
    with pytest.raises(ReleaseDeniedError) as caught:
        release(replace(harness, services=services))
    assert caught.value.code == "below-floor"
    assert provider.asked == 2, "it was decided anew on the state of the moment"


def test_a_floor_counts_at_every_replica(harness: Harness) -> None:
    harness.add_key("model")
    other = harness.reopened()
    release(other)
    put(harness, "genoa:snp=255")
    assert refused(other) == BELOW
    other.close()


def test_of_two_changes_on_one_version_the_second_is_refused(harness: Harness) -> None:
    first, second = change(harness, "genoa:snp=1"), change(harness, "genoa:tee=1")
    change_now(desk(harness), first, actor=ACTOR, at=AT)
    with pytest.raises(KeyConflictError) as caught:
        change_now(desk(harness), second, actor=ACTOR, at=AT)
    assert caught.value.code == "floor-version"


# -- people


def test_one_person_raises_and_only_the_quorum_lowers(harness: Harness) -> None:
    harness.add_key("model")
    board = Board(harness).found(rule(ChangeKind.QUORUM), rule(ChangeKind.KEY_POLICY))
    put(harness, "genoa:snp=254")
    put(harness, "genoa:snp=255", "tdx:advisory=INTEL-SA-00001")
    empty = FloorLower(floor=replace(no_floor(EVERY_TENANT), version=3))
    for lower in (
        change(harness, "genoa:snp=1"),
        change(harness, "genoa:snp=255", since=AT + timedelta(days=1)),
        empty,
    ):
        assert type(lower) is FloorLower
        with pytest.raises(QuorumRequiredError):
            change_now(desk(harness), lower, actor=ACTOR, at=AT)
        with pytest.raises(KeyConflictError) as caught:
            change_now(desk(harness), FloorRaise(floor=lower.floor), actor=ACTOR, at=AT)
        assert caught.value.code == "floor-not-raised"
    assert refused(harness) == BELOW
    made = board.propose(empty)
    assert board.refused(made) == "quorum-not-reached"
    board.sign(made, "alice", "bob")
    board.execute(made)
    release(harness)
    ended = [one for one in harness.entries() if one["kind"] == "floor-changed"][-1]
    assert (ended["change"], ended["proposal"]) == ("floor-lower", made.digest)


def test_what_was_signed_on_another_floor_lowers_nothing(harness: Harness) -> None:
    board = Board(harness).found(rule(ChangeKind.QUORUM), rule(ChangeKind.KEY_POLICY))
    put(harness, "genoa:snp=254")
    made = board.propose(change(harness, "genoa:snp=1"))
    board.sign(made, "alice", "bob")
    put(harness, "genoa:snp=255")
    assert board.refused(made) in {"proposal-outdated", "floor-version"}
    assert "genoa:snp=255" in {str(one.demand) for one in newest(harness).entries}


def test_without_a_quorum_one_person_lowers(harness: Harness) -> None:
    harness.add_key("model")
    put(harness, "genoa:snp=255")
    put(harness, "genoa:snp=1")
    release(harness)


def test_a_floor_of_no_tenant_is_refused(harness: Harness) -> None:
    with pytest.raises(KeyConflictError) as caught:
        put(harness, "genoa:snp=1", scope="nobody")
    assert caught.value.code == "tenant-unknown"


@pytest.mark.parametrize("role", list(Role))
def test_roles_raise_and_lower_what_is_theirs(harness: Harness, role: Role) -> None:
    create_tenant(harness.services.store, "acme", actor=ACTOR, at=AT)
    raised, lowered = [], []
    for scope in ("acme", "default", EVERY_TENANT):
        put(harness, "genoa:snp=2", scope=scope)
    with admin_client(harness) as admin:
        for subject, where in (("theirs", "acme"), ("all", EVERY_TENANT)):
            if where == "acme" and role is Role.ADMINISTRATOR:
                continue
            admin.give(subject, role, where)
            for scope in ("acme", "default", EVERY_TENANT):
                if send(admin, subject, change(harness, "genoa:snp=3", scope=scope)):
                    raised.append((subject, scope))
                if send(admin, subject, change(harness, "genoa:snp=1", scope=scope)):
                    lowered.append((subject, scope))
    own = [("theirs", "acme"), ("all", "acme"), ("all", "default"), ("all", "*")]
    assert raised == (own if role in {Role.OPERATOR, Role.POLICY_OWNER} else [])
    assert lowered == (own if role is Role.POLICY_OWNER else [])


def send(admin: AdminClient, subject: str, wanted: FloorLower) -> bool:
    body = {"action": wanted.action, "arguments": wanted.arguments(), "reason": "a test"}
    answer = admin.http.post("/v1/changes", json=body, headers=admin.bearer(subject))
    assert answer.status_code in {200, 403}, answer.text
    return answer.status_code == 200


def test_a_floor_is_read_by_those_who_may_and_shown_with_each_key(harness: Harness) -> None:
    create_tenant(harness.services.store, "acme", actor=ACTOR, at=AT)
    harness.add_key("model")
    put(harness, "genoa:snp=1", scope="acme")
    put(harness, "genoa:snp=2")
    with admin_client(harness) as admin:
        admin.give("theirs", Role.AUDITOR, "acme")
        admin.give("all", Role.AUDITOR)
        theirs, every = admin.bearer("theirs"), admin.bearer("all")
        assert admin.http.get("/v1/floors", headers=theirs).status_code == 403
        assert admin.http.get("/v1/floors?tenant=default", headers=theirs).status_code == 403
        seen = admin.http.get("/v1/floors?tenant=acme", headers=theirs).json()["floors"]
        assert [(one["scope"], one["version"]) for one in seen] == [("*", 1), ("acme", 1)]
        scopes = [one["scope"] for one in admin.http.get("/v1/floors", headers=every).json()["floors"]]
        assert scopes == ["*", "acme", "default"]
        assert admin.http.get("/v1/floors?tenant=none", headers=every).json()["code"] == "tenant-unknown"
        (shown,) = admin.http.get("/v1/keys/default/model", headers=every).json()["floors"]
    assert (shown["scope"], shown["because"]) == ("*", [CVE])


# -- dry runs


def test_leases_that_would_not_be_renewed_are_found_before_a_floor_is_set(harness: Harness) -> None:
    harness.add_key("model")
    low = release(harness).keys[0].lease_id
    high = (
        release(harness, workload=another(reported_tcb=NEW_TCB, current_tcb=NEW_TCB, committed_tcb=NEW_TCB))
        .keys[0]
        .lease_id
    )
    document = change(harness, "genoa:snp=28", since=AT + timedelta(days=9)).floor.members()
    with admin_client(harness) as admin:
        admin.give("operator", Role.OPERATOR)
        headers = admin.bearer("operator")

        def below(floor: object) -> list[str]:
            answer = admin.http.post("/v1/leases/query", json={"floor": floor}, headers=headers)
            assert answer.status_code == 200, answer.text
            return [one["lease_id"] for one in answer.json()["leases"]]

        assert below(document) == [low]
        assert below({**document, "entries": [entry("genoa:snp=255").members()]}) == [low, high]
        assert below({**document, "entries": [entry("milan:snp=255").members()]}) == []
        none = admin.http.post("/v1/leases/query", json={"floor": no_floor("*").members()}, headers=headers)
        assert none.json()["code"] == "request-schema"
        wrong = admin.http.post("/v1/leases/query", json={"floor": {"schema": 1}}, headers=headers)
        assert (wrong.status_code, wrong.json()["code"]) == (422, "floor-invalid")
    assert newest(harness).version == 0, "nothing was changed"


def test_a_dry_run_of_a_release_names_the_floors(harness: Harness) -> None:
    harness.add_key("model")
    put(harness, "genoa:snp=255")
    evidence = Workload().request(harness.releases.challenge(), "model").evidence
    trial = harness.releases.try_release(evidence, ("model",), at=AT)
    assert not trial.would_release
    (shown,) = rows(trial.members()["floors"])
    assert (shown["floor"], shown["version"]) == ("floor of the service", 1)
    assert [(key, check.id) for key, check in trial.failed()] == [(None, "policy.snp.minimum_tcb")]


# -- break-glass


def test_break_glass_lifts_no_floor_and_its_entry_names_those_that_count(harness: Harness) -> None:
    for key_id in ("model", "other"):
        harness.add_key(key_id)
    board = Board(harness).found(rule(ChangeKind.QUORUM), rule(ChangeKind.BREAK_GLASS))
    floor = put(harness, "genoa:snp=255").floor
    made = board.propose(judging())
    board.sign(made, "alice", "bob")
    assert "floors that remain in force: 1" in board.execute(made)
    assert refused(harness, workload=OTHER) == BELOW
    opened = next(one for one in harness.entries() if one["kind"] == "break-glass-opened")
    assert opened["floors"] == [{"scope": "*", "version": 1, "sha256": floor.digest, "because": [CVE]}]


# -- the database


def problems(harness: Harness) -> tuple[str, ...]:
    vault = Vault(store=harness.services.store, kek=harness.services.kek)
    found = {one.check: one for one in examine(vault, origin=harness.settings.origin, noted=())}
    return found["floors"].problems


def test_a_floor_that_somebody_lowered_in_the_database_is_found(harness: Harness) -> None:
    harness.add_key("model")
    put(harness, "genoa:snp=254")
    put(harness, "genoa:snp=255")
    assert problems(harness) == ()
    with pytest.raises(Exception, match="append"):
        harness.alter("DELETE FROM floors WHERE version = 2")
    harness.unprotect("floors")
    harness.alter("DELETE FROM floors WHERE version = 2")
    (problem,) = problems(harness)
    assert problem.startswith("version 2 of the floor of *: missing in the database, created by entry ")
    with pytest.raises(IntegrityError) as caught:
        release(harness)
    assert caught.value.code == "state-forged"


def test_a_floor_that_cannot_be_read_stops_everything(harness: Harness) -> None:
    harness.add_key("model")
    put(harness, "genoa:snp=254")
    write_genuine(harness, "floors", document=b"{}")
    with pytest.raises(IntegrityError) as caught:
        release(harness)
    assert caught.value.code == "floor-record-invalid"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE floors SET scope = 'default'",
        "UPDATE floors SET version = 7",
    ],
)
def test_a_row_that_was_moved_is_not_read(harness: Harness, statement: str) -> None:
    harness.add_key("model")
    put(harness, "genoa:snp=1")
    harness.unprotect("floors")
    harness.alter(statement)
    with pytest.raises(IntegrityError):
        release(harness)


# -- the view of a tenant


def test_a_tenants_auditor_sees_the_changes_of_its_own_floor_alone(harness: Harness) -> None:
    create_tenant(harness.services.store, "acme", actor=ACTOR, at=AT)
    put(harness, "genoa:snp=1")
    put(harness, "genoa:snp=1", scope="acme")
    owners = Owners(leases=lambda _: {}, relaxation=lambda _: None, proposal=lambda _: None)
    entries = [one for one in harness.entries() if one["kind"] == "floor-changed"]
    ours, theirs = (
        [seen_by(one, tenant=tenant, owners=owners) is not None for one in entries]  # type: ignore[arg-type]  # JSON
        for tenant in ("default", "acme")
    )
    assert (ours, theirs) == ([False, False], [False, True])


# -- pure


ENTRIES = st.lists(
    st.builds(
        lambda level, part, days: entry(
            f"genoa:{part}={level}", since=None if days is None else AT + timedelta(days=days)
        ),
        st.integers(0, 3),
        st.sampled_from(["snp", "tee"]),
        st.none() | st.integers(-2, 2),
    ),
    max_size=4,
    unique=True,
)


def levels(floor: Floor, at: datetime) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in floor.in_force(at):
        found[one.demand.component] = max(found.get(one.demand.component, -1), int(one.demand.text))
    return found


@given(ENTRIES, ENTRIES, st.integers(-3, 3))
def test_a_raise_demands_no_less_at_any_moment(before: list[FloorEntry], more: list[FloorEntry], days: int) -> None:
    old = no_floor("*").with_entries(before, at=AT)
    then = old.with_entries(more, at=AT)
    assert read_floor(then.members()) == then
    assert is_raise(old, replace(old, entries=(*old.entries, *more)))
    moment = AT + timedelta(days=days)
    if is_raise(old, then):
        was, now = levels(old, moment), levels(then, moment)
        assert all(now.get(part, -1) >= level for part, level in was.items())


def document(**changes: object) -> object:
    return {**replace(no_floor("*"), version=1, entries=(entry("genoa:snp=1"),)).members(), **changes}


def one_entry(**changes: object) -> object:
    return document(entries=[{**entry("genoa:snp=1").members(), **changes}])


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        document(schema="kms.floor/2"),
        document(version=True),
        document(version=-1),
        document(version=MAX_FLOOR_VERSION + 1),
        document(version=2**64),
        document(version="1"),
        document(scope=7),
        document(scope="No Tenant"),
        document(entries={}),
        document(entries=[1]),
        document(more=1),
        document(entries=[entry("genoa:snp=1").members()] * 2),
        document(entries=[entry("genoa:tee=1").members(), entry("genoa:snp=1").members()]),
        document(entries=[entry("genoa:snp=1").members()] * (MAX_FLOOR_ENTRIES + 1)),
        one_entry(product="Genoa"),
        one_entry(product="epyc"),
        one_entry(component="none"),
        one_entry(value="01"),
        one_entry(value=1),
        one_entry(because=None),
        {**one_entry(), "entries": [{**entry("genoa:snp=1").members(), "from": 7}]},  # type: ignore[dict-item]  # JSON
        one_entry(because=""),
        one_entry(because="two\nlines"),
        one_entry(more="x"),
        {**one_entry(), "entries": [{**entry("genoa:snp=1").members(), "from": "soon"}]},  # type: ignore[dict-item]  # JSON
        {**one_entry(), "entries": [{**entry("genoa:snp=1").members(), "from": "2026-06-01T14:00:00+02:00"}]},  # type: ignore[dict-item]  # JSON
    ],
)
def test_a_floor_that_cannot_be_is_refused(wrong: object) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_floor(wrong)  # type: ignore[arg-type]  # JSON
    assert caught.value.code in {"floor-invalid", "reason-invalid", "tenant-invalid"}


def test_a_change_is_read_as_it_was_written(harness: Harness) -> None:
    for made in (FloorRaise(floor=change(harness, "genoa:snp=1").floor), change(harness, "genoa:snp=1")):
        assert read_change(made.action, made.arguments()) == made
        with pytest.raises(AttestError) as caught:
            read_change(made.action, {**made.arguments(), "sha256": "00" * 32})
        assert caught.value.code == "change-invalid"


def test_levels_that_count_already_change_nothing() -> None:
    first = no_floor("*").with_entries([entry("genoa:snp=2", since=AT - timedelta(days=9))], at=AT)
    assert first.with_entries([entry("genoa:snp=2")], at=AT).entries == first.entries
    later = entry("genoa:snp=2", since=AT + timedelta(days=1))
    assert first.with_entries([later], at=AT).entries == (later,), "to be put off is a change, which lowers"
    assert not is_raise(first, first.with_entries([later], at=AT))
