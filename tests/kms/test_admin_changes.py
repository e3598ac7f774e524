"""Changes, brakes and the life of keys over the administration API, as far as they differ from the command line."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from starlette.testclient import TestClient

from attest.errors import ConfigurationError
from attest.release import KeyName
from kms.admin_api.app import create_admin_app
from kms.auth.authorisation import GuardedStore
from kms.controls.admin import freeze
from kms.domain.errors import ReleaseDeniedError
from kms.domain.freezes import target
from kms.domain.limits import NO_LIMITS
from kms.domain.people import NOBODY, ChangeKind
from kms.domain.permissions import Role
from kms.domain.proposals import approve_with
from kms.quorum.admin import find
from kms.quorum.break_glass import BreakGlassOpen
from kms.quorum.changes import QuorumSet
from kms.store import ReadTransaction
from tests.kms.admins import AdminClient, CertificateOf, admin_client, authenticator_of
from tests.kms.support import Harness, Workload
from tests.kms.test_quorum import KEYS, ROOT, THREE, Board, pem, rule

VERSION_KINDS = {"key-disabled", "key-enabled"}


@pytest.fixture
def admin(harness: Harness) -> Iterator[AdminClient]:
    harness.add_key("model")
    with admin_client(harness) as client:
        client.give("owner", Role.KEY_OWNER, "default")
        client.give("operator", Role.OPERATOR)
        client.give("auditor", Role.AUDITOR)
        yield client


def kinds(harness: Harness) -> list[object]:
    return [entry["kind"] for entry in harness.entries()]


def test_a_change_that_takes_two_people_is_proposed_signed_and_executed(admin: AdminClient) -> None:
    harness = admin.harness
    Board(harness).found(rule(ChangeKind.QUORUM), rule(ChangeKind.KEY_POLICY))
    owner, auditor = admin.bearer("owner"), admin.bearer("auditor")
    limits = {**NO_LIMITS.members(), "version": 1, "most_holders": 1}
    wanted = {"action": "key-limits-set", "arguments": {"key": "model", "limits": limits}, "reason": "a budget"}
    alone = admin.http.post("/v1/changes", json=wanted, headers=owner)
    assert (alone.status_code, alone.json()["code"]) == (403, "quorum-required")
    digest = admin.http.post("/v1/changes", json={**wanted, "propose": True}, headers=owner).json()["proposal"]
    path = f"/v1/proposals/{digest}"
    assert admin.http.get(path, headers=auditor).json()["missing"] != []
    early = admin.http.post(f"{path}/execute", json={}, headers=owner)
    assert (early.status_code, early.json()["code"]) == (403, "quorum-not-reached")
    with harness.services.store.reading() as tx:
        proposal = find(tx, digest)
    for name in THREE[:2]:
        approval = json.dumps(approve_with(proposal, KEYS[name]).members())
        handed = admin.http.post(f"{path}/approve", json={"approval": approval}, headers=auditor)
        assert handed.status_code == 200, handed.text
    assert admin.http.get(path, headers=auditor).json()["signed"] == ["alice", "bob"]
    forged = approve_with(proposal, KEYS["mallory"])
    refused = admin.http.post(f"{path}/approve", json={"approval": json.dumps(forged.members())}, headers=auditor)
    assert (refused.status_code, refused.json()["code"]) == (403, "approval-unknown-key")
    # The auditor may hand signatures in, and may not do what they allow.
    assert admin.http.post(f"{path}/execute", json={}, headers=auditor).json()["code"] == "not-permitted"
    done = admin.http.post(f"{path}/execute", json={}, headers=owner)
    assert done.json()["state"] == "executed"
    assert "proposal-executed" in kinds(harness)


def test_a_signature_over_one_proposal_is_not_handed_in_for_another(admin: AdminClient) -> None:
    harness = admin.harness
    Board(harness).found(rule(ChangeKind.QUORUM), rule(ChangeKind.KEY_POLICY))
    owner = admin.bearer("owner")
    limits = {**NO_LIMITS.members(), "version": 1}
    wanted = {"action": "key-limits-set", "arguments": {"key": "model", "limits": limits}, "reason": "a budget"}
    one, other = (
        admin.http.post("/v1/changes", json={**wanted, "propose": True}, headers=owner).json()["proposal"]
        for _ in range(2)
    )
    with harness.services.store.reading() as tx:
        approval = json.dumps(approve_with(find(tx, one), KEYS["alice"]).members())
    answer = admin.http.post(f"/v1/proposals/{other}/approve", json={"approval": approval}, headers=owner)
    assert answer.status_code == 403


def test_mc_31_nobody_makes_himself_the_quorum_over_the_network(admin: AdminClient) -> None:
    """An administrator's token alone would else thaw, break glass, and never be outvoted again."""
    harness = admin.harness
    admin.give("administrator", Role.ADMINISTRATOR)
    headers = admin.bearer("administrator")
    people = NOBODY.with_person("mallory", pem(KEYS["mallory"]))
    for then in (people, people.with_rule(rule(ChangeKind.QUORUM, 1, ("mallory",)))):
        change = QuorumSet(then=then)
        wanted = {"action": change.action, "arguments": change.arguments(), "reason": "mine"}
        for more in ({}, {"propose": True}):
            answer = admin.http.post("/v1/changes", json={**wanted, **more}, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (403, "not-permitted")
    board = Board(harness).found(rule(ChangeKind.QUORUM))
    with harness.services.store.reading() as tx:
        change = QuorumSet(then=tx.quorum.current().with_person("dave", pem(KEYS["mallory"])))
    wanted = {"action": change.action, "arguments": change.arguments(), "reason": "he is new"}
    assert admin.http.post("/v1/changes", json={**wanted, "propose": True}, headers=headers).status_code == 200
    assert "quorum-changed" in board.kinds()


def test_what_a_role_of_a_tenant_freezes_nobody_gets_and_only_more_people_thaw(admin: AdminClient) -> None:
    harness, owner = admin.harness, admin.bearer("owner")
    frozen = admin.http.post("/v1/freezes", json={"scope": "key", "name": "model", "reason": "x"}, headers=owner)
    assert frozen.json()["freezes"][0]["actor"]["means"] == "jwt"
    with pytest.raises(ReleaseDeniedError):
        harness.releases.release(Workload().request(harness.releases.challenge(), "model"))
    for scope, name in (("all", None), ("product", "milan"), ("tenant", "other")):
        body = {"scope": scope, "name": name, "reason": "x"}
        assert admin.http.post("/v1/freezes", json=body, headers=owner).json()["code"] == "not-permitted"
    thaw = {"scope": "key", "name": "model", "reason": "x"}
    answer = admin.http.post("/v1/changes", json={"action": "thaw", "arguments": thaw, "reason": "x"}, headers=owner)
    assert (answer.status_code, answer.json()["code"]) == (403, "quorum-required")
    everything = admin.http.post("/v1/freezes", json={"scope": "all", "reason": "x"}, headers=admin.bearer("operator"))
    assert everything.status_code == 200


def test_a_change_that_is_none_and_one_of_nobodys_is_refused(admin: AdminClient) -> None:
    owner = admin.bearer("owner")
    unknown = {"action": "format-disk", "arguments": {}, "reason": "x"}
    answer = admin.http.post("/v1/changes", json=unknown, headers=owner)
    assert (answer.status_code, answer.json()["code"]) == (422, "change-invalid")
    foreign = {"key": "other/model", "limits": {**NO_LIMITS.members(), "version": 1}}
    answer = admin.http.post(
        "/v1/changes", json={"action": "key-limits-set", "arguments": foreign, "reason": "x"}, headers=owner
    )
    assert (answer.status_code, answer.json()["code"]) == (403, "not-permitted")


@pytest.mark.parametrize("path", ["whoami", "grants"])
def test_a_damaged_database_is_no_fault_of_the_caller(harness: Harness, path: str) -> None:
    def damaged(_: ReadTransaction) -> None:
        raise ConfigurationError("the schema is another one", code="database-other-schema", field="database")

    services = replace(harness.services, store=GuardedStore(harness.services.store, demand=damaged))
    app = create_admin_app(harness.settings, services, authenticator_of(harness))
    with TestClient(app, raise_server_exceptions=False, base_url="https://kms.test") as http:
        client = AdminClient(harness=harness, http=http, connection=CertificateOf(app))
        answer = http.get(f"/v1/{path}", headers=client.bearer("alice"))
    assert (answer.status_code, answer.json()["code"]) == (503, "database-other-schema")


@pytest.mark.parametrize("action", ["key-policy-set", "key-limits-set", "break-glass-open", "thaw", "anchors-approve"])
def test_the_arguments_of_a_change_are_not_read_for_a_caller_without_a_role(admin: AdminClient, action: str) -> None:
    """Reading them may load a policy and verify signatures; the arguments here cannot be read at all."""
    wanted = {"action": action, "arguments": {}, "reason": "x"}
    answer = admin.http.post("/v1/changes", json=wanted, headers=admin.bearer("stranger"))
    assert (answer.status_code, answer.json()["code"]) == (403, "not-permitted")
    for role in (Role.KEY_OWNER, Role.POLICY_OWNER, Role.OPERATOR, Role.ADMINISTRATOR):
        admin.give("everybody", role)
    answer = admin.http.post("/v1/changes", json=wanted, headers=admin.bearer("everybody"))
    assert (answer.status_code, answer.json()["code"]) == (422, "change-invalid")


def test_a_key_is_rotated_tagged_ended_and_brought_back(admin: AdminClient) -> None:
    owner, path = admin.bearer("owner"), "/v1/keys/default/model"
    assert admin.http.post(f"{path}/rotate", json={}, headers=owner).json()["version"] == 2
    assert admin.http.post(f"{path}/tags", json={"put": {"team": "a"}}, headers=owner).json() == {"tags": {"team": "a"}}
    planned = admin.http.post(f"{path}/destroy", json={"dry_run": True}, headers=owner).json()
    assert (planned["versions"], planned["done"]) == ([1, 2], False)
    soon = admin.http.post(f"{path}/destroy", json={"after_seconds": 1}, headers=owner)
    assert (soon.status_code, soon.json()["code"]) == (409, "destroy-delay-too-short")
    assert admin.http.post(f"{path}/destroy", json={}, headers=owner).json()["done"] is True
    assert admin.http.get(path, headers=owner).json()["state"] == "destroying"
    assert admin.http.post(f"{path}/restore", json={}, headers=owner).json()["state"] == "current"
    wrong = admin.http.post(
        f"{path}/release-settings", json={"disclosure": "all", "lease_seconds": None}, headers=owner
    )
    assert wrong.status_code == 422
    assert kinds(admin.harness)[-1] == "key-destruction-cancelled"


def test_leases_are_found_stopped_and_resumed_by_those_who_may(admin: AdminClient) -> None:
    harness = admin.harness
    harness.releases.release(Workload().request(harness.releases.challenge(), "model"))
    owner, operator = admin.bearer("owner"), admin.bearer("operator")
    (lease,) = admin.http.post("/v1/leases/query", json={"tenant": "default"}, headers=owner).json()["leases"]
    assert (lease["key_id"], lease["state"]) == ("model", "live")
    everywhere = admin.http.post("/v1/leases/query", json={}, headers=owner)
    assert everywhere.status_code == 403
    unsaid = admin.http.post("/v1/leases/stop", json={"reason": "x"}, headers=operator)
    assert unsaid.status_code == 422
    stopped = admin.http.post("/v1/leases/stop", json={"tenant": "default", "reason": "x"}, headers=owner).json()
    assert [one["lease_id"] for one in stopped["leases"]] == [lease["lease_id"]]
    ids = {"lease_ids": [lease["lease_id"]], "reason": "x"}
    assert admin.http.post("/v1/leases/resume", json=ids, headers=owner).status_code == 403
    assert admin.http.post("/v1/leases/resume", json=ids, headers=operator).json()["code"] == "not-permitted"
    admin.give("owner", Role.KEY_OWNER)
    assert admin.http.post("/v1/leases/resume", json=ids, headers=owner).status_code == 200
    bad = admin.http.post("/v1/leases/query", json={"key_id": "model"}, headers=operator)
    assert bad.status_code == 422


def test_one_version_is_disabled_and_enabled_and_the_others_are_not(admin: AdminClient) -> None:
    harness, owner, path = admin.harness, admin.bearer("owner"), "/v1/keys/default/model"
    assert admin.http.post(f"{path}/rotate", json={}, headers=owner).json()["version"] == 2

    def disabled(asked: str) -> bool:
        try:
            harness.releases.release(Workload().request(harness.releases.challenge(), asked))
        except ReleaseDeniedError:
            return True
        return False

    old = admin.http.post(f"{path}/disable", json={"version": 1}, headers=admin.bearer("operator")).json()
    assert (old["version"], old["enabled"]) == (1, False)
    assert (disabled("model@1"), disabled("model@2")) == (True, False)
    again = admin.http.post(f"{path}/disable", json={"version": 1}, headers=owner)
    assert (again.status_code, again.json()["code"]) == (409, "key-state-unchanged")
    assert admin.http.post(f"{path}/enable", json={"version": 1}, headers=admin.bearer("operator")).status_code == 403
    assert disabled("model@1")
    assert admin.http.post(f"{path}/enable", json={"version": 1}, headers=owner).json()["enabled"] is True
    assert not disabled("model@1")
    absent = admin.http.post(f"{path}/disable", json={"version": 3}, headers=owner)
    assert (absent.status_code, absent.json()["code"]) == (404, "key-unknown")
    assert [(one["kind"], one["version"]) for one in harness.entries() if one["kind"] in VERSION_KINDS] == [
        ("key-disabled", 1),
        ("key-enabled", 1),
    ]


def test_break_glass_is_seen_and_closed_by_those_who_may_stop_the_key(admin: AdminClient) -> None:
    harness = admin.harness
    board = Board(harness).found(rule(ChangeKind.QUORUM), rule(ChangeKind.BREAK_GLASS))
    freeze(board.desk.vault.store, target("all", None), reason="x", actor=ROOT, at=harness.clock())
    until = harness.clock() + timedelta(hours=1)
    name = KeyName(key_id="model")
    change = BreakGlassOpen(name=name, lifts=target("all", None), policy=None, reason="4711", until=until)
    made = board.propose(change)
    for one in THREE[:2]:
        board.sign(made, one)
    board.execute(made)
    harness.releases.release(Workload().request(harness.releases.challenge(), "model"))
    auditor, reason = admin.bearer("auditor"), {"reason": "over"}
    (shown,) = admin.http.get("/v1/break-glass", headers=auditor).json()["break_glass"]
    assert (shown["number"], shown["state"], shown["key_id"], shown["reason"]) == (1, "OPEN", "model", "4711")
    admin.give("elsewhere", Role.KEY_OWNER, "other")
    refused = [
        admin.http.post(f"/v1/break-glass/{number}/close", json=reason, headers=admin.bearer("elsewhere")).json()
        for number in (1, 2)
    ]
    assert {(one["code"], one["detail"]) for one in refused} == {("not-permitted", refused[0]["detail"])}
    assert admin.http.post("/v1/break-glass/1/close", json=reason, headers=auditor).status_code == 403
    closed = admin.http.post("/v1/break-glass/1/close", json=reason, headers=admin.bearer("owner"))
    assert closed.json()["break_glass"][0]["state"] == "closed"
    with pytest.raises(ReleaseDeniedError):
        harness.releases.release(Workload().request(harness.releases.challenge(), "model"))
    again = admin.http.post("/v1/break-glass/1/close", json=reason, headers=admin.bearer("operator"))
    assert (again.status_code, again.json()["code"]) == (409, "break-glass-not-open")
    (shown,) = admin.http.get("/v1/break-glass", headers=auditor).json()["break_glass"]
    assert shown["state"] == "closed"
    assert "break-glass-closed" in kinds(harness)


def test_limits_and_the_quorum_are_read_as_they_are_in_force(admin: AdminClient) -> None:
    harness, path = admin.harness, "/v1/keys/default/model/limits"
    owner, auditor = admin.bearer("owner"), admin.bearer("auditor")
    assert admin.http.get(path, headers=owner).json()["limits"]["version"] == 0
    limits = {**NO_LIMITS.members(), "version": 1, "most_holders": 3, "most_releases": ["5/day"]}
    arguments = {"key": "model", "limits": limits}
    done = admin.http.post(
        "/v1/changes", json={"action": "key-limits-set", "arguments": arguments, "reason": "x"}, headers=owner
    )
    assert done.status_code == 200, done.text
    harness.releases.release(Workload().request(harness.releases.challenge(), "model"))
    shown = admin.http.get(path, headers=owner).json()
    assert shown == {"limits": limits, "releases": {"5/day": 1}, "holders": 1}
    assert admin.http.get("/v1/keys/default/absent/limits", headers=owner).status_code == 404
    assert admin.http.get("/v1/quorum", headers=auditor).json()["quorum"]["people"] == []
    board = Board(harness).found(rule(ChangeKind.QUORUM))
    with board.desk.vault.store.reading() as tx:
        now = tx.quorum.current()
    read = admin.http.get("/v1/quorum", headers=auditor).json()
    assert read == {"quorum": now.members(), "sha256": now.digest}
