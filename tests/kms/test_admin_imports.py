"""Keys that are brought in over the administration API: sealed to the service, or not at all."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from attest.release import KeyName
from attest.release.key_import import read_import_key, wrap_key
from kms.admin_api.context import MATERIAL as MATERIAL_OF_REQUEST
from kms.domain.permissions import Role
from kms.domain.secret import SecretBytes
from kms.keys.import_key import find_import_key, first_terms
from tests.kms.admins import AdminClient, admin_client
from tests.kms.support import MATERIAL, MODEL, Harness, Workload, open_release, policy_text

ALGORITHM = "symmetric-256"


@pytest.fixture
def admin(harness: Harness) -> Iterator[AdminClient]:
    with admin_client(harness) as client:
        client.give("owner", Role.KEY_OWNER, "default")
        client.give("operator", Role.OPERATOR)
        yield client


def body(wrapped: str, key_id: str = "model", **more: str) -> dict[str, str]:
    return {"tenant": "default", "key_id": key_id, "policy": policy_text().decode(), "wrapped": wrapped, **more}


def sealed(admin: AdminClient, name: KeyName = MODEL, version: int = 1) -> str:
    """What the owner does on a machine of their own, from what the API told."""
    service = admin.harness.services.identity.public
    note = admin.http.post("/v1/import-key?tenant=default", json={}, headers=admin.bearer("owner"))
    assert note.status_code == 200, note.text
    key = read_import_key(note.text, service=service)
    terms = replace(first_terms(name, algorithm=ALGORITHM, policy=policy_text()), version=version)
    return wrap_key(MATERIAL, import_key=key, service=service, terms=terms).to_json().decode()


def test_a_key_that_its_owner_sealed_is_brought_in_and_released(admin: AdminClient) -> None:
    harness, owner = admin.harness, admin.bearer("owner")
    answer = admin.http.post("/v1/keys/import", json=body(sealed(admin)), headers=owner)
    assert (answer.status_code, answer.json()["algorithm"]) == (200, ALGORITHM)
    challenge = harness.releases.challenge()
    request = Workload().request(challenge, "model")
    release = harness.releases.release(request)
    assert open_release(Workload(), challenge, request, release, harness) == {"model": MATERIAL}
    imported = [one for one in harness.entries() if one["kind"] == "key-imported"]
    assert [one["actor"]["means"] for one in imported] == ["jwt"]  # type: ignore[index]  # an object
    again = admin.http.post("/v1/keys/import", json=body(sealed(admin)), headers=owner)
    assert (again.status_code, again.json()["code"]) == (409, "key-exists")


def test_mc_28_a_sealed_key_is_brought_in_as_no_other_key(admin: AdminClient) -> None:
    owner, wrapped = admin.bearer("owner"), sealed(admin)
    for wrong, code in (
        (body(wrapped, "other"), "wrapped-key-mismatch"),
        (body(wrapped, algorithm="hpke-x25519"), "wrapped-key-mismatch"),
        (body(wrapped.replace('"model"', '"other"'), "other"), "release-not-for-this-exchange"),
    ):
        answer = admin.http.post("/v1/keys/import", json=wrong, headers=owner)
        assert (answer.status_code, answer.json()["code"]) == (403, code)
    unknown = admin.http.post("/v1/keys/import", json=body(wrapped, algorithm="rot13"), headers=owner)
    assert (unknown.status_code, unknown.json()["code"]) == (422, "key-algorithm-invalid")
    assert "key-imported" not in [one["kind"] for one in admin.harness.entries()]


def test_mc_28_a_sealed_key_is_brought_in_under_no_other_policy(admin: AdminClient) -> None:
    wrong = body(sealed(admin)) | {"policy": policy_text(name="weaker").decode()}
    answer = admin.http.post("/v1/keys/import", json=wrong, headers=admin.bearer("owner"))
    assert (answer.status_code, answer.json()["code"]) == (403, "wrapped-key-mismatch")


def test_a_new_version_comes_in_sealed_too(admin: AdminClient) -> None:
    harness, owner, path = admin.harness, admin.bearer("owner"), "/v1/keys/default/model/rotate"
    admin.http.post("/v1/keys/import", json=body(sealed(admin)), headers=owner)
    for wrong in (sealed(admin), sealed(admin, version=3)):
        answer = admin.http.post(path, json={"wrapped": wrong}, headers=owner)
        assert (answer.status_code, answer.json()["code"]) == (403, "wrapped-key-mismatch")
    second = sealed(admin, version=2)
    refused = admin.http.post(path, json={"wrapped": second}, headers=admin.bearer("operator"))
    assert (refused.status_code, refused.json()["code"]) == (403, "not-permitted")
    assert admin.http.post(path, json={"wrapped": "none"}, headers=owner).status_code == 400
    assert admin.http.post(path, json={"wrapped": second}, headers=owner).json()["version"] == 2
    challenge = harness.releases.challenge()
    request = Workload().request(challenge, "model")
    release = harness.releases.release(request)
    assert open_release(Workload(), challenge, request, release, harness) == {"model": MATERIAL}
    assert [one["material"] for one in harness.entries() if one["kind"] == "key-rotated"] == ["imported"]
    again = admin.http.post(path, json={"wrapped": second}, headers=owner)
    assert (again.status_code, again.json()["code"]) == (403, "wrapped-key-mismatch")


def test_a_key_in_the_clear_is_not_taken(admin: AdminClient) -> None:
    plain = {**body(sealed(admin)), "material": MATERIAL.hex()}
    assert admin.http.post("/v1/keys/import", json=plain, headers=admin.bearer("owner")).status_code == 422
    nothing = {name: value for name, value in plain.items() if name not in {"wrapped", "material"}}
    assert admin.http.post("/v1/keys/import", json=nothing, headers=admin.bearer("owner")).status_code == 422


def test_mc_33_material_comes_from_the_user_of_the_machine_alone(admin: AdminClient) -> None:
    admin.connection.more[MATERIAL_OF_REQUEST] = SecretBytes(MATERIAL)
    wanted = {name: value for name, value in body("").items() if name != "wrapped"}
    made = admin.http.post("/v1/keys", json=wanted, headers=admin.bearer("owner"))
    assert made.status_code == 200, made.text
    assert [entry["kind"] for entry in admin.harness.entries()][-1] == "key-created"
    harness, workload = admin.harness, Workload()
    challenge = harness.releases.challenge()
    request = workload.request(challenge, "model")
    released = open_release(workload, challenge, request, harness.releases.release(request), harness)
    assert released["model"] != MATERIAL


def test_reading_the_import_key_makes_none_and_making_it_twice_makes_one(admin: AdminClient) -> None:
    services, owner = admin.harness.services, admin.bearer("owner")
    missing = admin.http.get("/v1/import-key?tenant=default", headers=owner)
    assert (missing.status_code, missing.json()["code"]) == (409, "import-key-missing")
    assert find_import_key(services.store, services.kek, service=services.identity.public) is None
    refused = admin.http.post("/v1/import-key?tenant=default", json={}, headers=admin.bearer("operator"))
    assert (refused.status_code, refused.json()["code"]) == (403, "not-permitted")
    assert find_import_key(services.store, services.kek, service=services.identity.public) is None
    made = admin.http.post("/v1/import-key?tenant=default", json={}, headers=owner).text
    assert admin.http.post("/v1/import-key?tenant=default", json={}, headers=owner).text == made
    assert admin.http.get("/v1/import-key?tenant=default", headers=owner).text == made
    assert [one["kind"] for one in admin.harness.entries()].count("import-key-created") == 1


def test_who_may_not_bring_keys_learns_nothing_of_the_file(admin: AdminClient) -> None:
    answer = admin.http.post("/v1/keys/import", json=body("none"), headers=admin.bearer("operator"))
    assert (answer.status_code, answer.json()["code"]) == (403, "not-permitted")
