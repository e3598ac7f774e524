"""Callers of the release plane, where the service wants to know them: identity and attestation, and both (MC-21)."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest
from starlette.testclient import TestClient

from attest.errors import ConfigurationError
from attest.release import Challenge
from kms.api.app import create_app, describe
from kms.auth.authorisation import GuardedStore
from kms.auth.grants import revoke_role
from kms.auth.names import jwt_identity
from kms.config.callers import identified_callers
from kms.domain.actors import Actor, Means
from kms.domain.errors import ForbiddenError, KeyUnknownError
from kms.domain.permissions import Role
from kms.keys.tenants import create_tenant
from kms.release.service import ReleaseService
from kms.store import ReadTransaction, Store, WriteTransaction
from tests.kms.admins import LOGIN, ROOT, AdminClient, CertificateOf, authenticator_of
from tests.kms.oidc import ISSUER, OidcIssuer
from tests.kms.support import Harness, Workload
from tests.kms.test_access import HERE, HOLDERS, KNOWN, PERSON, TENANTS, THERE, UNKNOWN, Who, routes_of

T = TypeVar("T")
Json = dict[str, Any]  # Any: JSON that the tests look into

ANYBODY = {
    ("POST", "/v1/challenges"): ("", 200),
    ("GET", "/v1/identity"): ("", 200),
    ("GET", "/v1/attestation"): ("?nonce=" + "A" * 43, 404),
    ("GET", "/v1/log/checkpoint"): ("", 200),
    ("GET", "/v1/log/tile/{path}"): ("", 404),
    ("GET", "/v1/log/proof/inclusion"): ("?index=0&size=1", 200),
    ("GET", "/v1/log/proof/consistency"): ("?old=1&new=1", 200),
    ("GET", "/v1/prompt-keys"): ("", 200),
    ("GET", "/v1/prompt-keys/{tenant}/{key}"): ("", 404),
    ("GET", "/healthz"): ("", 200),
    ("GET", "/readyz"): ("", 200),
}
"""What everybody gets, known or not: the query, and the status."""
RELEASE = ("POST", "/v1/releases")
"""401 for those who are not known, 200 for workloads of the tenant, 404 for everybody else."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminClient]:
    harness = Harness.make(tmp_path_factory.mktemp("callers"))
    for tenant in TENANTS:
        create_tenant(harness.services.store, tenant, actor=ROOT, at=harness.clock())
        harness.add_key(f"{tenant}/model")
    settings = harness.settings.model_copy(
        update={"callers": "identified", "callers_issuers_file": harness.folder / "issuers.toml"}
    )
    app = create_app(settings, harness.services, callers=authenticator_of(harness, names=None))
    connection = CertificateOf(app)
    with TestClient(connection, raise_server_exceptions=False, base_url="http://kms.test") as http:
        client = AdminClient(harness=harness, http=http, connection=connection)
        for role, tenant in HOLDERS:
            client.give(f"{role}@{tenant}", Role(role), tenant)
        client.give_to(Actor(name=f"sha256:{PERSON.pin}", means=Means.MTLS), Role.WORKLOAD, HERE)
        client.give("all", Role.WORKLOAD)
        client.give("revoked", Role.WORKLOAD)
        with harness.services.store.reading() as tx:
            (grant,) = tx.grants.held_by(jwt_identity(ISSUER, "revoked"))
        revoke_role(harness.services.store, grant.number, actor=ROOT, at=harness.clock())
        yield client
    harness.close()


def challenge_of(plane: AdminClient) -> Challenge:
    return Challenge.from_json(plane.http.post("/v1/challenges", json={}).json())


def ask(plane: AdminClient, headers: dict[str, str], *keys: str, workload: Workload | None = None) -> httpx2.Response:
    request = (workload or Workload()).request(challenge_of(plane), *keys).to_json()
    return plane.http.post("/v1/releases", json=request, headers=headers)


def expected(who: Who, tenant: str) -> int:
    if not who.is_known or who.certificate is not None:  # a certificate says nothing on this plane
        return 401
    return 200 if who.role == "workload" and who.tenant in {"*", tenant} else 404


@pytest.mark.parametrize("who", [*UNKNOWN, *KNOWN], ids=lambda who: who.name)
def test_mc_21_keys_are_released_to_workloads_of_the_tenant_alone(plane: AdminClient, who: Who) -> None:
    plane.connection.certificate = who.certificate
    for tenant in TENANTS:
        answer = ask(plane, who.headers, f"{tenant}/model")
        assert answer.status_code == expected(who, tenant), (tenant, answer.text)
    for (method, path), (query, status) in ANYBODY.items():
        body: Json | None = {} if method == "POST" else None
        named = path.format(path="0/x", tenant=HERE, key="absent")
        got = plane.http.request(method, named + query, headers=who.headers, json=body)
        assert got.status_code == status, (path, got.text)


def test_every_route_of_the_release_plane_has_its_row() -> None:
    assert routes_of(describe()) == {*ANYBODY, RELEASE}


def test_mc_21_neither_identity_nor_attestation_replaces_the_other(plane: AdminClient) -> None:
    workload = plane.bearer("workload@*")
    unattested = ask(plane, workload, f"{HERE}/model", workload=Workload().with_measurement(b"\x01" * 48))
    assert (unattested.status_code, unattested.json()["code"]) == (403, "policy-not-met")
    assert ask(plane, {}, f"{HERE}/model").json()["code"] == "authentication-required"
    assert ask(plane, workload, f"{HERE}/model").status_code == 200


def test_mc_21_all_keys_have_to_be_within_reach(plane: AdminClient) -> None:
    here = plane.bearer(f"workload@{HERE}")
    both = ask(plane, here, f"{HERE}/model", f"{THERE}/model")
    assert (both.status_code, both.json()["code"]) == (404, "key-unknown")
    assert ask(plane, plane.bearer("workload@*"), f"{HERE}/model", f"{THERE}/model").status_code == 200


def test_mc_21_a_key_out_of_reach_is_told_like_one_that_is_not_there(plane: AdminClient) -> None:
    here = plane.bearer(f"workload@{HERE}")
    told = []
    for name in (f"{THERE}/model", f"{THERE}/absent", "nowhere/model"):
        document: Json = ask(plane, here, name).json()
        document.pop("request_id")
        told.append(json.dumps(document, sort_keys=True).replace(name, "KEY"))
    assert len(set(told)) == 1


def test_whoever_is_not_known_uses_no_challenge_up(plane: AdminClient) -> None:
    request = Workload().request(challenge_of(plane), f"{HERE}/model").to_json()
    assert plane.http.post("/v1/releases", json=request).status_code == 401
    assert plane.http.post("/v1/releases", content=b"not read").status_code == 401
    answer = plane.http.post("/v1/releases", json=request, headers=plane.bearer("workload@*"))
    assert answer.status_code == 200


def test_mc_32_an_identity_that_requests_too_often_waits_and_another_does_not(plane: AdminClient) -> None:
    """Whichever address the requests come from: here all come from one."""
    settings = plane.harness.settings.model_copy(
        update={
            "callers": "identified",
            "callers_issuers_file": plane.harness.folder / "issuers.toml",
            "identity_requests_per_second": 1,
            "identity_burst": 2,
        }
    )
    app = create_app(settings, plane.harness.services, callers=authenticator_of(plane.harness, names=None))
    with TestClient(app, base_url="http://kms.test") as http:
        mine, others = plane.bearer("workload@*"), plane.bearer(f"workload@{HERE}")
        answers = [http.post("/v1/releases", content=b"{}", headers=mine) for _ in range(4)]
        assert [one.status_code for one in answers] == [415, 415, 429, 429]
        assert answers[-1].json()["code"] == "rate-limited"
        assert answers[-1].json()["retryable"] is True
        assert answers[-1].headers["retry-after"] == "1"
        assert http.post("/v1/releases", content=b"{}", headers=others).status_code == 415
        assert http.post("/v1/releases", content=b"{}").status_code == 401, "an unknown caller uses up no rate"


def test_the_log_says_who_asked(plane: AdminClient) -> None:
    ask(plane, plane.bearer("workload@*"), f"{HERE}/model")
    ask(plane, plane.bearer("workload@*"), f"{HERE}/model", workload=Workload(nonce=b"\x01" * 32))
    allowed, denied = plane.harness.decisions()[-2:]
    assert (allowed["outcome"], denied["outcome"]) == ("allow", "deny")
    assert allowed["caller"] == denied["caller"] == {"means": "jwt", "name": f"{ISSUER}|workload@*"}


def test_mc_19_a_role_that_goes_while_a_release_is_decided_releases_nothing(plane: AdminClient) -> None:
    identity = plane.give("leaving", Role.WORKLOAD)
    services = replace(plane.harness.services, store=_Between(plane.harness.services.store, identity))
    request = Workload().request(plane.harness.releases.challenge(), f"{HERE}/model")
    with pytest.raises(KeyUnknownError):
        ReleaseService(services).release(request, caller=identity)


class _Between(GuardedStore):
    """Takes a role away before the first transaction that writes, outside of it, and guards nothing."""

    def __init__(self, store: Store, identity: Actor) -> None:
        super().__init__(store, demand=lambda tx: None)
        self._leaving = [identity]

    def write(self, work: Callable[[WriteTransaction], T]) -> T:
        while self._leaving:
            with self._store.writing() as tx:
                (grant,) = tx.grants.held_by(self._leaving.pop())
                tx.grants.revoke(grant.number, by=ROOT, at=grant.granted_at)
        return self._store.write(work)


def test_an_application_that_should_know_its_callers_is_not_made_without_what_tells(plane: AdminClient) -> None:
    harness = plane.harness
    identified = harness.settings.model_copy(update={"callers": "identified"})
    with pytest.raises(ValueError, match="callers"):
        create_app(identified, harness.services)
    with pytest.raises(ValueError, match="callers"):
        create_app(harness.settings, harness.services, callers=authenticator_of(harness))


def test_mc_31_a_token_never_counts_on_both_planes(harness: Harness, tmp_path: Path) -> None:
    path = tmp_path / "callers.toml"
    admin = {"admin_issuers_file": path, "admin_port": 1, "admin_certificate_file": path, "admin_key_file": path}
    update = {"callers": "identified", "callers_issuers_file": path}
    path.write_text(LOGIN.table(tmp_path), encoding="utf-8")
    same = harness.settings.model_copy(update=admin | update)
    store, clock = harness.services.store, harness.clock
    with (
        pytest.raises(ConfigurationError) as caught,
        identified_callers(same, store, clock=clock, report=print),
    ):
        pass
    assert caught.value.code == "issuers-invalid"
    other = tmp_path / "other.toml"
    other.write_text(OidcIssuer(audience="https://kms.test/release").table(tmp_path), encoding="utf-8")
    apart = same.model_copy(update={"callers_issuers_file": other})
    with identified_callers(apart, store, clock=clock, report=print) as callers:
        assert callers is not None
    with identified_callers(harness.settings, store, clock=clock, report=print) as callers:
        assert callers is None


def test_a_guarded_store_asks_in_every_transaction(harness: Harness) -> None:
    def never(tx: ReadTransaction) -> None:
        raise ForbiddenError("no", code="not-permitted")

    guarded = GuardedStore(harness.services.store, demand=never)
    before = len(harness.entries())
    with pytest.raises(ForbiddenError), guarded.reading():
        pass
    with pytest.raises(ForbiddenError), guarded.writing():
        pass
    with pytest.raises(ForbiddenError):
        guarded.write(lambda tx: tx.log.add(kind="x", at=harness.clock(), body={}))
    assert len(harness.entries()) == before
    opening = {name for name in vars(Store) if not name.startswith("_")}
    assert opening <= set(vars(GuardedStore)), "a way into the database that nothing guards"
