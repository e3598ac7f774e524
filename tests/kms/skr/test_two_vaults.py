"""Two vaults of one service: callers, tokens and keys of one are not those of the other."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kms.domain.aliases import Alias
from kms.keys.aliases import add_alias
from tests.kms.skr.face import Face, creation, face_of, release_policy
from tests.kms.skr.test_releases import RELEASED, inner
from tests.kms.skr.vault import MAA, Document, Workload, write_vault
from tests.kms.support import ACTOR, AT

OTHER = "v2.localhost:8443"
AT_OTHER = {"Host": OTHER}
NEVER = {"version": "1.0.0", "anyOf": [{"authority": MAA, "allOf": [{"claim": "vault", "equals": "first"}]}]}
_TABLE = f"""
[[vaults]]
host = "{OTHER}"
policy = "vault.yaml"
resource = "https://other.localhost:8443"
login = "https://login.localhost/tenant-2"
signing_certificate = "vault.crt"
signing_key = "vault.key"

[[callers]]
keys = "login.jwks.json"
issuer = "https://login.localhost/tenant-2/v2.0"
audience = "https://other.localhost:8443"

[[callers.permissions]]
role = "officer"
actions = ["get", "update", "release", "rotate", "delete", "create"]
vaults = ["{OTHER}"]
"""


@pytest.fixture
def face(tmp_path: Path) -> Iterator[Face]:
    path = write_vault(tmp_path, at=AT, names=("v1.localhost", "v2.localhost"))
    path.write_text(path.read_text() + _TABLE)
    with face_of(tmp_path, rules=path) as made:
        yield made


def officer(face: Face) -> str:
    """A token of an officer of the second vault."""
    issuer = "https://login.localhost/tenant-2/v2.0"
    return face.bearer(iss=issuer, audience="https://other.localhost:8443")


def test_a_caller_of_one_vault_has_no_permission_at_the_other(face: Face) -> None:
    face.create()
    for method, path in (("GET", "/keys/k1"), ("PATCH", "/keys/k1"), ("POST", "/keys/k1/release")):
        refused = face.ask(method, path, {}, token=officer(face))
        assert (refused.status_code, inner(refused)) == (403, "skr-permission-missing")
    assert inner(face.ask("GET", "/keys/k1", token=officer(face), headers=AT_OTHER)) == "key-unknown"
    made = face.ask("POST", "/keys/k1/create", creation(), token=officer(face), headers=AT_OTHER)
    assert made.status_code == RELEASED
    assert made.json()["key"]["n"] != face.ask("GET", "/keys/k1").json()["key"]["n"]


def test_a_token_for_one_vault_releases_nothing_from_the_other(face: Face) -> None:
    face.create()
    at = face.harness.clock()
    token = Workload().token(at, Workload().claims(at, aud="https://other.localhost:8443"))
    assert inner(face.release(target=token)) == "token-audience-mismatch"


def test_a_key_that_another_vault_made_is_changed_there_alone_and_keeps_its_release_policy(face: Face) -> None:
    before = face.create(release_policy=release_policy(NEVER))
    store, at = face.harness.services.store, face.harness.clock()
    with store.reading() as tx:
        (record,) = tx.keys.all()
    add_alias(store, Alias(address=f"https://{OTHER}/keys/borrowed", key=record.name), actor=ACTOR, at=at)
    changes: tuple[tuple[str, str, Document | None], ...] = (
        ("PATCH", "/keys/borrowed", {"release_policy": release_policy()}),
        ("POST", "/keys/borrowed/rotate", None),
        ("PUT", "/keys/borrowed/rotationpolicy", {}),
        ("DELETE", "/keys/borrowed", None),
    )
    for method, path, body in changes:
        refused = face.ask(method, path, body, token=officer(face), headers=AT_OTHER)
        assert (refused.status_code, inner(refused)) == (409, "skr-key-not-of-vault"), method
    target = Workload().token(at)
    refused = face.ask("POST", "/keys/borrowed/release", {"target": target}, token=officer(face), headers=AT_OTHER)
    assert (refused.status_code, inner(refused)) == (403, "release-policy")
    assert face.ask("GET", "/keys/k1").json() == before
    changed = face.ask("PATCH", "/keys/k1", {"release_policy": release_policy()})
    assert changed.status_code == RELEASED
