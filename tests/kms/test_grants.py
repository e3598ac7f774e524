"""Who has which role: given and taken away in one transaction with the log, denied unless the table allows it."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given as for_any
from hypothesis import strategies as st

from attest.errors import ConfigurationError
from kms.auth.grants import give_role, read_role, require_tenant, revoke_role
from kms.auth.names import identity_text, jwt_identity, parse_identity
from kms.domain.actors import Actor, Means
from kms.domain.errors import GrantConflictError, GrantUnknownError, IntegrityError
from kms.domain.permissions import EVERY_TENANT, PERMISSIONS, SERVICE_WIDE, Grant, Operation, Role, may
from tests.kms.stores import examined_unauthenticated, write_genuine
from tests.kms.support import AT, Harness

ALICE = jwt_identity("https://login.test", "alice")
BOB = Actor(name="sha256:" + "ab" * 32, means=Means.MTLS)
LOCAL = Actor(name="root", means=Means.LOCAL)


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def give(harness: Harness, identity: Actor, role: Role, tenant: str = EVERY_TENANT, by: Actor = LOCAL) -> Grant:
    return give_role(harness.services.store, identity=identity, tenant=tenant, role=role, actor=by, at=harness.clock())


def revoke(harness: Harness, number: int, by: Actor = LOCAL) -> Grant:
    return revoke_role(harness.services.store, number, actor=by, at=harness.clock())


def of(harness: Harness, identity: Actor) -> list[tuple[Role, str]]:
    with harness.services.store.reading() as tx:
        return [(grant.role, grant.tenant) for grant in tx.grants.held_by(identity)]


def problems(harness: Harness) -> tuple[str, ...]:
    found = examined_unauthenticated(harness)
    assert not found["log"].problems
    return found["grants"].problems


# -- names


@pytest.mark.parametrize(
    "text",
    ["jwt:https://login.test|alice", f"mtls:sha256:{'0' * 64}", "mtls:uri:spiffe://x/y", "mtls:subject:CN=A,O=B"],
)
def test_an_identity_is_written_one_way(text: str) -> None:
    assert identity_text(parse_identity(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "alice",
        "local:root",
        "service:schedule",
        "jwt:",
        "jwt:alice",
        "jwt:|alice",
        "jwt:https://login.test|",
        "jwt:https://login.test|a\nb",
        "jwt:https://login.test|a ",
        "jwt:https://login.test|" + "a" * 512,
        "mtls:alice",
        "mtls:sha256:" + "0" * 63,
        "mtls:sha256:" + "A" * 64,
        "mtls:subject:",
        "JWT:https://login.test|alice",
    ],
)
def test_what_is_no_identity_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_identity(text)
    assert caught.value.code == "identity-invalid"


@pytest.mark.parametrize("text", ["", "A", "a/b", "-a", "a" * 65, "**", "a*", "a\n"])
def test_mc_34_what_is_no_tenant_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        require_tenant(text)
    assert caught.value.code == "tenant-invalid"
    assert require_tenant("a" * 64) == "a" * 64
    assert require_tenant("*") == "*"


# -- the table


def grant(role: Role, tenant: str = "team", identity: Actor = ALICE, **more: object) -> Grant:
    values: dict[str, object] = {"number": 1, "identity": identity, "tenant": tenant, "role": role}
    return Grant(**values, granted_by=LOCAL, granted_at=AT, **more)  # type: ignore[arg-type]  # a table of values


@pytest.mark.parametrize("operation", list(Operation))
@pytest.mark.parametrize("role", list(Role))
def test_mc_22_a_role_allows_what_the_table_names_and_nothing_else(operation: Operation, role: Role) -> None:
    allowed = role in PERMISSIONS[operation]
    everywhere = may(ALICE, grants=[grant(role, "*")], operation=operation, tenant="team")
    assert (everywhere is not None) == allowed
    there = may(ALICE, grants=[grant(role)], operation=operation, tenant="team")
    assert (there is not None) == (allowed and operation not in SERVICE_WIDE)
    assert may(ALICE, grants=[grant(role)], operation=operation, tenant="other") is None
    assert may(ALICE, grants=[grant(role)], operation=operation, tenant=None) is None
    assert (may(ALICE, grants=[grant(role, "*")], operation=operation, tenant=None) is not None) == allowed


def test_every_operation_has_its_line_in_the_table() -> None:
    assert set(PERMISSIONS) == set(Operation)
    assert all(PERMISSIONS.values())


def test_administrators_grant_and_do_nothing_with_keys() -> None:
    held = {operation for operation, roles in PERMISSIONS.items() if Role.ADMINISTRATOR in roles}
    assert held == {
        Operation.ANCHORS_READ,
        Operation.GRANTS_READ,
        Operation.GRANTS_CHANGE,
        Operation.SETTINGS_READ,
        Operation.TENANTS_READ,
        Operation.TENANTS_CREATE,
        Operation.QUORUM_CHANGE,
        Operation.PROPOSALS_READ,
    }


def test_auditors_change_nothing() -> None:
    held = {operation for operation, roles in PERMISSIONS.items() if Role.AUDITOR in roles}
    assert all(operation.value.endswith((".read", ".try")) for operation in held)


def test_a_grant_of_somebody_else_or_one_that_was_revoked_allows_nothing() -> None:
    operation = Operation.KEYS_READ
    others = [
        grant(Role.AUDITOR, identity=BOB),
        grant(Role.AUDITOR, identity=Actor(name=ALICE.name, means=Means.MTLS)),
        grant(Role.AUDITOR, identity=Actor(name=ALICE.name.upper(), means=Means.JWT)),
        grant(Role.AUDITOR, revoked_by=LOCAL, revoked_at=datetime(2026, 1, 1, tzinfo=UTC)),
        grant(Role.AUDITOR, revoked_by=LOCAL),
        grant(Role.AUDITOR, revoked_at=AT),
    ]
    assert may(ALICE, grants=others, operation=operation, tenant="team") is None
    assert may(ALICE, grants=[], operation=operation, tenant="team") is None
    assert may(ALICE, grants=[*others, grant(Role.AUDITOR)], operation=operation, tenant="team") is not None


_GRANTS = st.lists(
    st.builds(grant, st.sampled_from(Role), st.sampled_from(["*", "team", "other"]), st.sampled_from([ALICE, BOB])),
    max_size=5,
)


@for_any(
    held=_GRANTS,
    more=_GRANTS,
    operation=st.sampled_from(Operation),
    tenant=st.sampled_from(["team", "other", "*", None]),
)
def test_a_further_grant_never_takes_anything_away(
    held: list[Grant], more: list[Grant], operation: Operation, tenant: str | None
) -> None:
    if may(ALICE, grants=held, operation=operation, tenant=tenant) is not None:
        assert may(ALICE, grants=[*more, *held], operation=operation, tenant=tenant) is not None


# -- giving and taking away


def test_a_role_counts_from_its_grant_to_its_revocation_and_both_are_logged(harness: Harness) -> None:
    given = give(harness, ALICE, Role.AUDITOR, "team")
    assert (given.number, of(harness, ALICE), of(harness, BOB)) == (1, [(Role.AUDITOR, "team")], [])
    harness.clock.forward(seconds=5)
    told = revoke(harness, given.number, by=BOB)
    assert of(harness, ALICE) == []
    entries = [entry for entry in harness.entries() if str(entry["kind"]).startswith("grant-")]
    named = {"grant": 1, "identity": "jwt:https://login.test|alice", "tenant": "team", "role": "auditor"}
    assert [{name: entry[name] for name in named} for entry in entries] == [named, named]
    assert [(entry["kind"], entry["actor"]) for entry in entries] == [
        ("grant-added", {"name": "root", "means": "local"}),
        ("grant-revoked", {"name": BOB.name, "means": "mtls"}),
    ]
    with harness.services.store.reading() as tx:
        (kept,) = tx.grants.all()
    assert (kept.granted_by, kept.revoked_by, kept.revoked_at) == (LOCAL, BOB, harness.clock())
    assert told == kept
    assert give(harness, ALICE, Role.AUDITOR, "team").number == 2
    assert problems(harness) == ()


def test_the_same_role_is_not_given_twice(harness: Harness) -> None:
    give(harness, ALICE, Role.AUDITOR, "team")
    with pytest.raises(GrantConflictError) as caught:
        give(harness, ALICE, Role.AUDITOR, "team")
    assert caught.value.code == "grant-exists"
    give(harness, ALICE, Role.AUDITOR, "other")
    give(harness, BOB, Role.AUDITOR, "team")


def test_nobody_gives_a_role_to_themselves(harness: Harness) -> None:
    with pytest.raises(GrantConflictError) as caught:
        give(harness, ALICE, Role.KEY_OWNER, "team", by=ALICE)
    assert caught.value.code == "grant-to-self"
    assert of(harness, ALICE) == []


def test_administrators_are_those_of_the_whole_service(harness: Harness) -> None:
    with pytest.raises(ConfigurationError) as caught:
        give(harness, ALICE, Role.ADMINISTRATOR, "team")
    assert caught.value.code == "role-service-wide"
    with pytest.raises(ConfigurationError):
        give(harness, ALICE, Role.AUDITOR, "../x")
    with pytest.raises(ConfigurationError) as caught:
        read_role("root")
    assert caught.value.code == "role-unknown"


@pytest.mark.parametrize("means", [Means.LOCAL, Means.SERVICE])
def test_users_of_the_machine_are_given_no_roles(harness: Harness, means: Means) -> None:
    with pytest.raises(ValueError, match="token or a certificate"):
        give(harness, Actor(name="root2", means=means), Role.AUDITOR)


def test_what_is_not_granted_cannot_be_revoked_nor_twice(harness: Harness) -> None:
    with pytest.raises(GrantUnknownError) as unknown:
        revoke(harness, 1)
    assert unknown.value.code == "grant-unknown"
    give(harness, ALICE, Role.AUDITOR)
    revoke(harness, 1)
    with pytest.raises(GrantConflictError) as twice:
        revoke(harness, 1)
    assert twice.value.code == "grant-revoked-already"


def test_the_last_administrator_stays(harness: Harness) -> None:
    give(harness, ALICE, Role.ADMINISTRATOR)
    with pytest.raises(GrantConflictError) as caught:
        revoke(harness, 1)
    assert caught.value.code == "last-administrator"
    give(harness, BOB, Role.ADMINISTRATOR)
    revoke(harness, 1)
    with pytest.raises(GrantConflictError):
        revoke(harness, 2)
    assert of(harness, BOB) == [(Role.ADMINISTRATOR, "*")]


# -- what somebody writes into the database


def test_a_role_that_was_written_past_the_log_is_found(harness: Harness) -> None:
    give(harness, ALICE, Role.AUDITOR, "team")
    give(harness, BOB, Role.AUDITOR, "team")
    revoke(harness, 2)
    assert problems(harness) == ()
    harness.alter("UPDATE grants SET role = 'key-owner' WHERE number = 1")
    assert "role key-owner in the database, auditor since entry 2 of the log" in problems(harness)[0]
    harness.alter("UPDATE grants SET role = 'auditor' WHERE number = 1")
    harness.alter("UPDATE grants SET revoked_at = NULL, revoked_by = NULL, revoked_by_means = NULL WHERE number = 2")
    assert problems(harness) == ("grant 2: in the database, but ended by entry 4 of the log",)
    harness.alter("DELETE FROM grants WHERE number = 1")
    assert any("grant 1: missing" in line for line in problems(harness))


@pytest.mark.parametrize(
    "changes",
    [{"role": "king"}, {"means": "magic"}, {"granted_at": "today"}, {"revoked_at": "2026-06-01T12:00:00Z"}],
)
def test_a_grant_that_cannot_be_read_gives_nothing(harness: Harness, changes: dict[str, Any]) -> None:
    give(harness, ALICE, Role.AUDITOR)
    write_genuine(harness, "grants", **changes)
    with harness.services.store.reading() as tx, pytest.raises(IntegrityError) as caught:
        list(tx.grants.all())
    assert caught.value.code == "grant-record-invalid"
    assert "[grant-record-invalid]" in problems(harness)[0]
