"""Who gets in: every route, for every identity, in every tenant. The tables here say what has to come out.

They are written down once more on purpose, and share nothing with ``kms/domain/permissions.py``.
"""

import contextlib
import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from attest import Binding
from attest.encoding import JsonValue
from attest.release import CONTEXT, KeyName, KeyReference
from attest.release.wire import ROLE
from kms.admin_api.app import describe_admin
from kms.auth.grants import give_role, revoke_role
from kms.auth.names import jwt_identity
from kms.cli.openapi import document_text
from kms.domain.actors import Actor, Means
from kms.domain.aliases import Alias
from kms.domain.break_glass import BreakGlass
from kms.domain.errors import KeyConflictError
from kms.domain.freezes import target
from kms.domain.limits import NO_LIMITS
from kms.domain.permissions import Role
from kms.keys.admin import require_key, set_enabled
from kms.keys.aliases import add_alias
from kms.keys.destruction import schedule_destruction
from kms.keys.import_key import make_import_key
from kms.keys.rotation import Rotator, rotate_key
from kms.keys.tenants import create_tenant
from kms.keys.vault import Vault
from kms.quorum.admin import QuorumService, propose
from kms.quorum.changes import read_change
from tests.kms.admins import LOGIN, ROOT, AdminClient, admin_client
from tests.kms.oidc import ISSUER, OidcIssuer
from tests.kms.pki import authority
from tests.kms.process import REPOSITORY
from tests.kms.support import Harness, Workload, policy_text

HERE, THERE = "here", "there"
TENANTS = (HERE, THERE)
READERS = {"key-owner", "policy-owner", "auditor", "operator"}
NUMBERS = itertools.count(1)
Body = dict[str, JsonValue]
BOUND = Binding(context=CONTEXT, role=ROLE, key=Workload().key.public, audience="kms.test/other+00", nonce=bytes(32))
EVIDENCE: JsonValue = json.loads(Workload().attest(BOUND).to_json())
"""Of another service, so it would be refused, which those who may ask are told (200)."""


@dataclass(frozen=True)
class Row:
    """What a route is to give.

    Attributes:
        roles: of which one is enough.
        where: ``tenant``: for that tenant or for all; ``service``: for all alone; ``known``: whoever is known.
        also: roles that suffice too, for all tenants alone.
        hidden: whether those who see nothing of the tenant get 404 instead of 403.
        path: with the tenant in it.
        body: what is sent with a POST.
        before: brings the service into a state in which the request succeeds.
    """

    roles: set[str]
    where: str = "tenant"
    hidden: bool = False
    also: frozenset[str] = frozenset()
    query: str = ""
    body: Callable[[str], Body] | None = None
    before: Callable[[Harness, str], None] = field(default=lambda harness, tenant: None)


def _enabled(*, enabled: bool) -> Callable[[Harness, str], None]:
    def before(harness: Harness, tenant: str) -> None:
        name = KeyName(tenant=tenant, key_id="model")
        with harness.services.store.reading() as tx:
            held = require_key(tx, name).enabled
        if held is not enabled:
            set_enabled(harness.services.store, name, enabled=enabled, actor=ROOT, at=harness.clock())

    return before


def _another_grant(harness: Harness, tenant: str) -> None:
    """Give the grant that is revoked next: its number is the one after the last."""
    identity = jwt_identity(ISSUER, f"passing-{next(NUMBERS)}")
    give_role(harness.services.store, identity=identity, tenant="*", role=Role.AUDITOR, actor=ROOT, at=harness.clock())


def _nothing(tenant: str) -> Body:
    return {}


def _new_key(tenant: str) -> Body:
    return {"tenant": tenant, "key_id": f"made-{next(NUMBERS)}", "policy": policy_text().decode()}


def _sealed_key(tenant: str) -> Body:
    return {**_new_key(tenant), "wrapped": "none"}


def _import_key(harness: Harness, tenant: str) -> None:
    services = harness.services
    service = services.identity.public
    make_import_key(
        services.store, services.kek, service=service, random=harness.random, actor=ROOT, at=harness.clock()
    )


def _new_grant(tenant: str) -> Body:
    return {"identity": f"jwt:{ISSUER}|new-{next(NUMBERS)}", "role": "auditor", "tenant": tenant}


def _old_version_to_restore(harness: Harness, tenant: str) -> None:
    services, at, name = harness.services, harness.clock(), KeyName(tenant=tenant, key_id="model")
    old = KeyReference(name=name, version=1)
    with services.store.reading() as tx:
        versions = tx.keys.versions(name)
    if len(versions) == 1:
        rotator = Rotator(store=services.store, kek=services.kek, random=harness.random)
        rotate_key(rotator, name, overlap=timedelta(days=1), actor=ROOT, at=at)
    if versions[0].destroy_at is None:
        delay = timedelta(days=9)
        schedule_destruction(services.store, old, after=delay, minimum=delay, actor=ROOT, at=at)


def _alias(harness: Harness, tenant: str) -> None:
    alias = Alias(address=f"kbs:///{tenant}/b/c", key=KeyName(tenant=tenant, key_id="model"))
    with contextlib.suppress(KeyConflictError):
        add_alias(harness.services.store, alias, actor=ROOT, at=harness.clock())


def _not_frozen(harness: Harness, tenant: str) -> None:
    with harness.services.store.writing() as tx:
        tx.freezes.remove(target("tenant", tenant))


def _open_glass(harness: Harness, tenant: str) -> None:
    until, key = harness.clock() + timedelta(hours=1), KeyName(tenant=tenant, key_id="model")
    with harness.services.store.writing() as tx:
        seal = require_key(tx, key).wrapped  # not one that opens; who may close it is asked before that
        glass = BreakGlass(
            number=tx.break_glass.count() + 1,
            key=key,
            lifts=target("all", None),
            policy_digest=None,
            reason="a test",
            opened_at=harness.clock(),
            until=until,
            seal=seal,
        )
        tx.break_glass.add(glass)


def _limits(harness: Harness, tenant: str) -> Body:
    name = KeyName(tenant=tenant, key_id="model")
    with harness.services.store.reading() as tx:
        now = tx.limits.in_force(name)
    return {"key": str(name), "limits": {**now.members(), "version": now.version + 1}}


def _proposed(harness: Harness, tenant: str) -> None:
    services = harness.services
    desk = QuorumService(vault=Vault(store=services.store, kek=services.kek), audience=harness.audience, alone=False)
    change = read_change("key-limits-set", _limits(harness, tenant))
    propose(desk, change, reason="a test", actor=ROOT, at=harness.clock())


def _new_change(tenant: str) -> Body:
    limits = {**NO_LIMITS.members(), "version": 10**6}  # a version that is never the next
    arguments: Body = {"key": f"{tenant}/model", "limits": limits}
    return {"action": "key-limits-set", "arguments": arguments, "reason": "a test"}


def _tried(tenant: str) -> Body:
    return {"evidence": EVIDENCE, "keys": [f"{tenant}/model"]}


ALL_READERS = frozenset(READERS | {"administrator"})
ADMINISTRATION = {
    ("GET", "/v1/whoami"): Row(set(), "known"),
    ("GET", "/v1/tenants"): Row(READERS | {"administrator"}, "service"),
    ("POST", "/v1/tenants"): Row({"administrator"}, "service", body=lambda tenant: {"tenant": f"new-{next(NUMBERS)}"}),
    ("POST", "/v1/keys/{tenant}/{key_id}/rotate"): Row({"key-owner"}, hidden=True, body=_nothing),
    ("POST", "/v1/keys/{tenant}/{key_id}/schedule"): Row(
        {"key-owner"}, hidden=True, body=lambda tenant: {"every_seconds": 86400}
    ),
    ("POST", "/v1/keys/{tenant}/{key_id}/destroy"): Row(
        {"key-owner"}, hidden=True, body=lambda tenant: {"dry_run": True}
    ),
    ("POST", "/v1/keys/{tenant}/{key_id}/restore"): Row(
        {"key-owner"}, hidden=True, body=lambda tenant: {"version": 1}, before=_old_version_to_restore
    ),
    ("POST", "/v1/keys/{tenant}/{key_id}/tags"): Row(
        {"key-owner"}, hidden=True, body=lambda tenant: {"put": {"a": "b"}}
    ),
    ("POST", "/v1/keys/{tenant}/{key_id}/release-settings"): Row(
        {"key-owner"}, hidden=True, body=lambda tenant: {"disclosure": "codes", "lease_seconds": 60 + next(NUMBERS)}
    ),
    ("GET", "/v1/aliases"): Row(READERS, "service"),
    ("POST", "/v1/aliases"): Row(
        {"key-owner"},
        hidden=True,
        body=lambda tenant: {"address": f"kbs:///a/b/{next(NUMBERS)}", "tenant": tenant, "key_id": "model"},
    ),
    ("POST", "/v1/aliases/remove"): Row(
        {"key-owner"}, hidden=True, body=lambda tenant: {"address": f"kbs:///{tenant}/b/c"}, before=_alias
    ),
    ("GET", "/v1/freezes"): Row(READERS, "service"),
    ("POST", "/v1/freezes"): Row(
        {"key-owner", "operator"},
        body=lambda tenant: {"scope": "tenant", "name": tenant, "reason": "a test"},
        before=_not_frozen,
    ),
    ("GET", "/v1/break-glass"): Row(READERS, "service"),
    ("POST", "/v1/break-glass/{number}/close"): Row(
        {"key-owner", "operator"}, body=lambda tenant: {"reason": "a test"}, before=_open_glass
    ),
    ("GET", "/v1/keys/{tenant}/{key_id}/limits"): Row(READERS, hidden=True),
    ("POST", "/v1/keys/{tenant}/{key_id}/limits/try"): Row(
        READERS, hidden=True, body=lambda tenant: {"limits": {**NO_LIMITS.members(), "version": 10**6}}
    ),
    ("POST", "/v1/keys/{tenant}/{key_id}/policy/try"): Row(
        READERS, hidden=True, body=lambda tenant: {"policy": policy_text().decode().replace("version: 1", "version: 2")}
    ),
    ("POST", "/v1/keys/rotate-due"): Row({"key-owner"}, "service", body=_nothing),
    ("POST", "/v1/keys/destroy-due"): Row({"key-owner"}, "service", body=_nothing),
    ("GET", "/v1/anchors"): Row(READERS | {"administrator"}, "service"),
    ("GET", "/v1/floors"): Row(READERS, query="?tenant={tenant}"),
    ("GET", "/v1/quorum"): Row(READERS | {"administrator"}, "service"),
    ("POST", "/v1/leases/query"): Row({"key-owner", "auditor", "operator"}, body=lambda tenant: {"tenant": tenant}),
    ("POST", "/v1/leases/stop"): Row(
        {"key-owner", "operator"}, body=lambda tenant: {"tenant": tenant, "reason": "a test"}
    ),
    ("POST", "/v1/releases/try"): Row(READERS, body=_tried),
    # No such lease was stopped, so those who may are told that (409).
    # Operators stop, and ease nothing.
    ("POST", "/v1/leases/resume"): Row(
        {"key-owner"}, "service", body=lambda tenant: {"lease_ids": ["none"], "reason": "a test"}
    ),
    # The version is not the next one, so those who may are told that (409).
    ("POST", "/v1/changes"): Row({"key-owner", "policy-owner"}, body=_new_change),
    ("GET", "/v1/proposals"): Row(READERS | {"administrator"}, "service"),
    ("GET", "/v1/proposals/{digest}"): Row({"key-owner", "policy-owner"}, also=ALL_READERS, before=_proposed),
    # What is sent is no signature, so those who may are told that (422).
    ("POST", "/v1/proposals/{digest}/approve"): Row(
        {"key-owner", "policy-owner"},
        also=ALL_READERS,
        body=lambda tenant: {"approval": "none"},
        before=_proposed,
    ),
    ("POST", "/v1/proposals/{digest}/execute"): Row({"key-owner", "policy-owner"}, body=_nothing, before=_proposed),
    ("POST", "/v1/proposals/{digest}/withdraw"): Row(
        {"key-owner", "policy-owner"}, body=lambda tenant: {"reason": "a test"}, before=_proposed
    ),
    ("GET", "/v1/keys"): Row(READERS, query="?tenant={tenant}"),
    ("POST", "/v1/keys"): Row({"key-owner"}, body=_new_key),
    ("GET", "/v1/import-key"): Row({"key-owner"}, query="?tenant={tenant}", before=_import_key),
    ("POST", "/v1/import-key"): Row({"key-owner"}, query="?tenant={tenant}", body=_nothing),
    # What is sent is no sealed key, so those who may are told that (400).
    ("POST", "/v1/keys/import"): Row({"key-owner"}, body=_sealed_key),
    ("GET", "/v1/keys/{tenant}/{key_id}"): Row(READERS, hidden=True),
    ("POST", "/v1/keys/{tenant}/{key_id}/disable"): Row(
        {"key-owner", "operator"}, hidden=True, body=_nothing, before=_enabled(enabled=True)
    ),
    ("POST", "/v1/keys/{tenant}/{key_id}/enable"): Row(
        {"key-owner"}, hidden=True, body=_nothing, before=_enabled(enabled=False)
    ),
    ("GET", "/v1/policies"): Row(READERS, query="?tenant={tenant}"),
    ("GET", "/v1/policies/{tenant}/{digest}"): Row(READERS),
    ("GET", "/v1/references"): Row(READERS, "service"),
    # What is sent is no document, so those who may are told that (422).
    ("POST", "/v1/references"): Row(
        {"policy-owner"}, "service", body=lambda tenant: {"document": "none", "signatures": [], "keys": []}
    ),
    ("GET", "/v1/log/entries"): Row({"auditor"}, "service"),
    ("GET", "/v1/log/tail"): Row({"auditor"}, "service"),
    ("GET", "/v1/log/tenants/{tenant}/entries"): Row({"auditor"}),
    ("GET", "/v1/log/checkpoint"): Row({"auditor"}, "service"),
    ("GET", "/v1/grants"): Row({"administrator", "auditor"}, "service"),
    ("POST", "/v1/grants"): Row({"administrator"}, "service", body=_new_grant),
    ("POST", "/v1/grants/{number}/revoke"): Row({"administrator"}, "service", body=_nothing, before=_another_grant),
    ("GET", "/v1/settings"): Row({"administrator", "auditor", "operator"}, "service"),
}
DONE = {
    ("POST", "/v1/keys/import"): 400,
    ("POST", "/v1/references"): 422,
    ("POST", "/v1/leases/resume"): 409,
    ("POST", "/v1/changes"): 409,
    ("POST", "/v1/keys/{tenant}/{key_id}/limits/try"): 409,
    ("POST", "/v1/proposals/{digest}/approve"): 422,
}
"""What comes out for those who may, where it is not 200."""


@dataclass(frozen=True)
class Who:
    """Somebody, with the one role that they have."""

    name: str
    headers: dict[str, str] = field(default_factory=dict)
    certificate: bytes | None = None
    role: str | None = None
    tenant: str | None = None
    is_known: bool = True


def may(row: Row, who: Who, tenant: str) -> bool:
    if row.where == "known":
        return True
    if who.role in row.also and who.tenant == "*":
        return True
    reach = {"*"} if row.where == "service" else {"*", tenant}
    return who.role in row.roles and who.tenant in reach


def expected(route: tuple[str, str], row: Row, who: Who, tenant: str) -> int:
    if not who.is_known:
        return 401
    if may(row, who, tenant):
        return DONE.get(route, 200)
    sees = who.role in READERS and who.tenant in {"*", tenant}
    return 404 if row.hidden and not sees else 403


# -- everybody

PERSON = authority().issue("somebody")
STRANGER = authority().issue("stranger")
ROLES = ["key-owner", "policy-owner", "auditor", "operator", "workload"]
HOLDERS = [(role, tenant) for role in ROLES for tenant in (HERE, "*")] + [("administrator", "*")]


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _past(token: OidcIssuer, **changes: int) -> dict[str, str]:
    claims = token.claims()
    moved = {name: claims[name] + seconds for name, seconds in changes.items()}
    return _bearer(token.token("all", **moved))


UNKNOWN = [
    Who("nobody", is_known=False),
    Who("bad-token", _bearer("not.a.token"), is_known=False),
    Who("expired", _past(LOGIN, iat=-1000, exp=-1000), is_known=False),
    Who("not-yet-valid", _past(LOGIN, iat=1000, exp=1000), is_known=False),
    Who("other-audience", _bearer(OidcIssuer(audience="https://other.test").token("all")), is_known=False),
    Who("other-issuer", _bearer(OidcIssuer(name="https://other.test", seed="other").token("all")), is_known=False),
    Who("other-key", _bearer(OidcIssuer(seed="other").token("all")), is_known=False),
    Who("wrong-scheme", {"Authorization": "Basic YWxsOmFsbA=="}, is_known=False),
    Who("header-of-a-proxy", {"X-SSL-Client-Verify": "SUCCESS", "X-Forwarded-User": "all"}, is_known=False),
    Who("certificate-in-a-header", {"X-Client-Cert": PERSON.der.hex(), "X-Forwarded-Client-Cert": "x"}, is_known=False),
]
KNOWN = [
    Who("no-grant", _bearer(LOGIN.token("no-grant"))),
    Who("revoked", _bearer(LOGIN.token("revoked"))),
    Who("stranger-with-certificate", certificate=STRANGER.der),
    Who("bad-token-with-certificate", _bearer("not.a.token"), PERSON.der, is_known=False),
    Who("key-owner-with-certificate", certificate=PERSON.der, role="key-owner", tenant=HERE),
    *(
        Who(f"{role}@{tenant}", _bearer(LOGIN.token(f"{role}@{tenant}")), None, role, tenant)
        for role, tenant in HOLDERS
    ),
]


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminClient]:
    harness = Harness.make(tmp_path_factory.mktemp("access"))
    for tenant in TENANTS:
        create_tenant(harness.services.store, tenant, actor=ROOT, at=harness.clock())
        harness.add_key(f"{tenant}/model")
    with admin_client(harness) as client:
        for role, tenant in HOLDERS:
            client.give(f"{role}@{tenant}", Role(role), tenant)
        client.give("all", Role.ADMINISTRATOR)
        client.give_to(Actor(name=f"sha256:{PERSON.pin}", means=Means.MTLS), Role.KEY_OWNER, HERE)
        for role in Role:
            client.give("revoked", role)
        with harness.services.store.reading() as tx:
            numbers = [grant.number for grant in tx.grants.held_by(jwt_identity(ISSUER, "revoked"))]
        for number in numbers:
            revoke_role(harness.services.store, number, actor=ROOT, at=harness.clock())
        yield client
    harness.close()


def ask(admin: AdminClient, route: tuple[str, str], row: Row, who: Who, tenant: str) -> int:
    harness = admin.harness
    row.before(harness, tenant)
    with harness.services.store.reading() as tx:
        last = 0
        if route[1].startswith("/v1/break-glass/"):
            last = tx.break_glass.count()
        elif "{number}" in route[1]:
            last = max(grant.number for grant in tx.grants.all())
        proposals = route[1].startswith("/v1/proposals/")
        digest = tx.proposals.digests()[-1] if proposals else tx.policies.digests()[0].hex()
    path = route[1].format(tenant=tenant, key_id="model", digest=digest, number=last)
    admin.connection.certificate = who.certificate
    body = None if row.body is None else row.body(tenant)
    answer = admin.http.request(route[0], path + row.query.format(tenant=tenant), headers=who.headers, json=body)
    if answer.status_code == 401:
        assert answer.headers["www-authenticate"].startswith('Bearer realm="kms"')
    assert "code" in answer.json() if answer.status_code != 200 else True
    return answer.status_code


@pytest.mark.parametrize("who", [*UNKNOWN, *KNOWN], ids=lambda who: who.name)
def test_mc_21_everybody_gets_what_their_role_allows_and_nothing_else(admin: AdminClient, who: Who) -> None:
    wrong = []
    for (route, row), tenant in itertools.product(ADMINISTRATION.items(), TENANTS):
        got, wanted = ask(admin, route, row, who, tenant), expected(route, row, who, tenant)
        if got != wanted:
            wrong.append(f"{' '.join(route)} in {tenant}: {got}, expected {wanted}")
    assert wrong == []


def routes_of(app: FastAPI) -> set[tuple[str, str]]:
    """Every method and path that an application answers; anything that is no route of FastAPI fails."""
    found: set[tuple[str, str]] = set()
    for one in app.routes:
        included = getattr(one, "original_router", None)
        for route in [one] if included is None else included.routes:
            assert isinstance(route, APIRoute), route
            path = re.sub(r":[a-z]+}", "}", route.path)
            found |= {(method, path) for method in route.methods or ()}
    named = {(method.upper(), path) for path, item in app.openapi()["paths"].items() for method in item}
    assert found == named
    return found


def test_every_route_has_its_row() -> None:
    assert routes_of(describe_admin()) == set(ADMINISTRATION)


def test_a_route_without_a_row_fails_the_test_above() -> None:
    app = describe_admin()
    app.add_api_route("/v1/new", lambda: None, methods=["POST"])
    assert routes_of(app) - set(ADMINISTRATION) == {("POST", "/v1/new")}
    app.add_route("/plain", lambda request: None)  # type: ignore[arg-type,return-value]  # it is never called
    with pytest.raises(AssertionError):
        routes_of(app)


def test_each_role_allows_something_and_is_tried() -> None:
    assert {role for role, _ in HOLDERS} == {str(role) for role in Role}
    used = set().union(*(row.roles for row in ADMINISTRATION.values()))
    assert used | {"workload"} == {str(role) for role in Role}


def told(answer: httpx2.Response) -> str:
    """What an answer says, but for the id of its request."""
    document = answer.json()
    assert len(document.pop("request_id")) == 32
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def test_mc_21_a_key_of_another_tenant_is_told_like_one_that_is_not_there(admin: AdminClient) -> None:
    headers = admin.bearer(f"key-owner@{HERE}")
    for verb, path in (("GET", ""), ("POST", "/disable"), ("POST", "/enable")):
        answers = []
        for key_id in ("model", "absent"):
            answer = admin.http.request(verb, f"/v1/keys/{THERE}/{key_id}{path}", headers=headers, json={})
            assert answer.status_code == 404
            answers.append(told(answer).replace(key_id, "KEY"))
        unknown = admin.http.request(verb, f"/v1/keys/{HERE}/absent{path}", headers=headers, json={})
        answers.append(told(unknown).replace("absent", "KEY").replace(f"{HERE}/", f"{THERE}/"))
        no_tenant = admin.http.request(verb, f"/v1/keys/nowhere/model{path}", headers=headers, json={})
        answers.append(told(no_tenant).replace("model", "KEY").replace("nowhere/", f"{THERE}/"))
        assert len(set(answers)) == 1


def test_mc_21_a_tenant_that_is_not_there_is_told_like_one_that_is_anothers(admin: AdminClient) -> None:
    headers = admin.bearer(f"key-owner@{HERE}")
    for verb, path, body in (
        ("GET", "/v1/keys?tenant={0}", None),
        ("GET", "/v1/policies?tenant={0}", None),
        ("POST", "/v1/keys", _new_key),
    ):
        answers = []
        for tenant in (THERE, "nowhere"):
            sent = None if body is None else body(tenant)
            answer = admin.http.request(verb, path.format(tenant), headers=headers, json=sent)
            answers.append(told(answer).replace(tenant, "T"))
        assert answers[0] == answers[1]
        assert '"code":"not-permitted"' in answers[0]


def test_mc_19_a_role_that_is_taken_away_counts_no_more_in_the_next_request(admin: AdminClient) -> None:
    identity = admin.give("leaving", Role.AUDITOR)
    headers = admin.bearer("leaving")
    assert admin.http.get("/v1/log/tail", headers=headers).status_code == 200
    with admin.harness.services.store.reading() as tx:
        (grant,) = tx.grants.held_by(identity)
    revoke_role(admin.harness.services.store, grant.number, actor=ROOT, at=admin.harness.clock())
    assert admin.http.get("/v1/log/tail", headers=headers).status_code == 403


def test_the_openapi_document_is_the_one_that_is_checked_in() -> None:
    checked_in = (REPOSITORY / "docs" / "openapi-admin.json").read_text(encoding="utf-8")
    assert document_text(describe_admin()) == checked_in, "run `make openapi`"


def test_every_operation_needs_somebody_and_says_so() -> None:
    document = describe_admin().openapi()
    assert document["security"] == [{"bearer": []}, {"certificate": []}]
    assert set(document["components"]["securitySchemes"]) == {"bearer", "certificate"}
    for item in document["paths"].values():
        for operation in item.values():
            assert "401" in operation["responses"]
            assert "security" not in operation
