"""Keys of a vault: made, imported, shown, listed, changed, rotated and deleted."""

import base64
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from attest.errors import AttestError
from attest.policy import canonical_bytes, parse_skr
from attest.release import KeyName
from kms.api.skr.identifiers import key_id, reference_of, version_id
from kms.domain.people import ChangeKind
from kms.keys.destruction import destroy_due
from kms.keys.vault import Vault
from kms.operations.fsck import examine
from kms.quorum.admin import change_now
from kms.quorum.changes import read_change
from tests.kms.skr.face import Face, creation, face_of, release_policy
from tests.kms.skr.test_releases import KID, RELEASED, inner
from tests.kms.skr.vault import MAA, RELEASE_POLICY, Document, Workload, b64url, from_b64url, rsa_key, write_vault
from tests.kms.support import ACTOR, AT
from tests.kms.test_quorum import Board, rule

NORMALISED = (
    b'{"version":"1.0.0","anyOf":[{"authority":"https://shared.eus.attest.azure.net","allOf":'
    b'[{"claim":"secureboot","equals":"true"},{"claim":"x-ms-sevsnpvm-vmpl","equals":0}]}]}'
)


@pytest.fixture(scope="module")
def face(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Face]:
    with face_of(tmp_path_factory.mktemp("vault")) as made:
        yield made


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """The name of a key that no other test uses."""
    return "k-" + "".join(one for one in request.node.name.lower() if one.isalnum())[:100]


def stored(bundle: Document) -> bytes:
    return from_b64url(bundle["release_policy"]["data"])


# -- literal bytes


def test_the_identifier_of_a_version_has_these_digits() -> None:
    key = KeyName(tenant="default", key_id="skr.k1-01020304")
    assert version_id(key, 17) == "e96cfd40fa5388494f2354d500000011"
    assert key_id("v1.kms.example", "k1", version_id(key, 17)) == (
        "https://v1.kms.example/keys/k1/e96cfd40fa5388494f2354d500000011"
    )
    assert key_id("v1.localhost:8443", "k1", None) == "https://v1.localhost:8443/keys/k1"
    found = reference_of(key, "E96CFD40FA5388494F2354D500000011")
    assert found is not None
    assert (found.name, found.version) == (key, 17)
    assert reference_of(key, "e96cfd40fa5388494f2354d500000000") is None
    assert reference_of(KeyName(key_id="other"), "e96cfd40fa5388494f2354d500000011") is None


def test_a_policy_is_stored_in_these_bytes(face: Face, name: str) -> None:
    sent = {
        "anyOf": [
            {
                "allOf": [
                    {"claim": "secureboot", "equals": True},
                    {"claim": "x-ms-sevsnpvm-vmpl", "condition": "equals", "value": 0},
                ],
                "authority": f"{MAA}/",
            }
        ],
        "version": "1.0.0",
    }
    made = face.create(name, release_policy=release_policy(sent))
    assert stored(made) == NORMALISED
    assert made["release_policy"]["contentType"] == "application/json; charset=utf-8"
    assert stored(face.ask("GET", f"/keys/{name}").json()) == NORMALISED
    again = face.ask("PATCH", f"/keys/{name}", {"release_policy": {"data": b64url(NORMALISED)}})
    assert stored(again.json()) == NORMALISED


# -- making


def test_a_new_key_is_shown_without_its_private_half(face: Face, name: str) -> None:
    made = face.create(name, tags={"team": "a"})
    assert set(made) == {"key", "attributes", "tags", "release_policy"}
    assert set(made["key"]) == {"kid", "kty", "key_ops", "n", "e"}
    assert made["key"]["kty"] == "RSA-HSM"
    assert made["key"]["e"] == "AQAB"
    assert made["key"]["kid"].rpartition("/")[0] == f"https://v1.localhost:8443/keys/{name}"
    assert made["attributes"] == {
        "enabled": True,
        "created": int(AT.timestamp()),
        "updated": int(AT.timestamp()),
        "recoveryLevel": "Recoverable",
        "recoverableDays": 7,
        "exportable": True,
    }
    for path in (f"/keys/{name}", f"/keys/{name}/", f"/keys/{name}/{made['key']['kid'].rpartition('/')[2]}"):
        assert face.ask("GET", path).json() == made


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"release_policy": None}, "skr-policy-required"),
        ({"attributes": {"exportable": False}}, "skr-not-exportable"),
        ({"attributes": None}, "skr-not-exportable"),
        ({"kty": "RSA-HSM", "key_size": 1024}, "skr-key-kind-unsupported"),
        ({"kty": "EC", "crv": "P-256K"}, "skr-key-kind-unsupported"),
        ({"kty": "OKP"}, "skr-key-kind-unsupported"),
        ({"kty": "oct", "key_size": 64}, "skr-key-kind-unsupported"),
        ({"public_exponent": 3}, "skr-key-kind-unsupported"),
        ({"kty": 7}, "skr-body-invalid"),
        ({"key_size": True}, "skr-body-invalid"),
        ({"key_ops": ["fly"]}, "skr-body-invalid"),
        ({"key_ops": "sign"}, "skr-body-invalid"),
        ({"tags": {"a": 1}}, "skr-body-invalid"),
        ({"tags": {str(one): "" for one in range(16)}}, "skr-body-invalid"),
        ({"tags": {"a": "b" * 257}}, "skr-body-invalid"),
        ({"attributes": {"exportable": "true"}}, "skr-body-invalid"),
        ({"attributes": {"exportable": True, "nbf": -1}}, "skr-body-invalid"),
        ({"attributes": {"exportable": True, "nbf": 2, "exp": 2}}, "skr-body-invalid"),
        ({"attributes": {"exportable": True, "hidden": 1}}, "skr-body-invalid"),
        ({"unknown": 1}, "skr-body-invalid"),
        ({"release_policy": "text"}, "skr-body-invalid"),
        ({"release_policy": {"data": json.dumps(RELEASE_POLICY)}}, "skr-policy-not-encoded"),
        ({"release_policy": {"data": "?"}}, "base64-invalid"),
        ({"release_policy": release_policy({"version": "2"})}, "skr-policy-invalid"),
        ({"release_policy": release_policy(contentType="text/plain")}, "skr-body-invalid"),
        ({"release_policy": release_policy(immutable=1)}, "skr-body-invalid"),
        ({"release_policy": release_policy(more=1)}, "skr-body-invalid"),
    ],
)
def test_a_key_that_a_vault_cannot_keep_is_refused(face: Face, name: str, change: Document, code: str) -> None:
    answer = face.ask("POST", f"/keys/{name}/create", creation(**change))
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "BadParameter"
    assert inner(answer) == code
    assert face.ask("GET", f"/keys/{name}").status_code == 404


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"kty": 1, "kty": 1}', b"\xff"])
def test_a_body_that_is_no_object_is_refused(face: Face, body: bytes) -> None:
    assert inner(face.ask("POST", "/keys/any/create", body)) == "skr-body-invalid"


def test_operators_beside_equals_take_an_option(tmp_path: Path, face: Face) -> None:
    tested = {"claim": "x-ms-sevsnpvm-vmpl", "lessOrEquals": 0}
    written = {"version": "1.0.0", "anyOf": [{"authority": MAA, "allOf": [tested]}]}
    refused = face.ask("POST", "/keys/any/create", creation(release_policy=release_policy(written)))
    assert inner(refused) == "skr-policy-invalid"
    with face_of(tmp_path, more="extended_policies = true") as extended:
        extended.create(release_policy=release_policy(written))
        assert extended.release().status_code == RELEASED


def jwk_of(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> Document:
    """A private key as a client sends it."""

    def text(number: int, size: int = 0) -> str:
        return base64.urlsafe_b64encode(number.to_bytes(size or (number.bit_length() + 7) // 8, "big")).decode()

    if isinstance(key, rsa.RSAPrivateKey):
        private = key.private_numbers()
        public = private.public_numbers
        numbers = {"n": public.n, "e": public.e, "d": private.d, "p": private.p, "q": private.q}
        numbers |= {"dp": private.dmp1, "dq": private.dmq1, "qi": private.iqmp}
        return {"kty": "RSA-HSM", **{member: text(one) for member, one in numbers.items()}}
    point = key.public_key().public_numbers()
    return {
        "kty": "EC",
        "crv": "P-384",
        "d": text(key.private_numbers().private_value, 48),
        "x": text(point.x, 48),
        "y": text(point.y, 48),
    }


def imported(key: Document, **more: object) -> Document:
    return {"key": key, "attributes": {"exportable": True}, "Hsm": True, "release_policy": release_policy(), **more}


def test_an_imported_key_is_the_owners(face: Face, name: str) -> None:
    own = (rsa_key("an owner's", 3072), ec.generate_private_key(ec.SECP384R1()))
    for index, jwk in enumerate((jwk_of(own[0]), jwk_of(own[1]))):
        made = face.ask("PUT", f"/keys/{name}{index}", imported({**jwk, "key_ops": ["sign"], "key_size": 1}))
        assert made.status_code == 200, made.text
        shown = made.json()["key"]
        assert shown["key_ops"] == ["sign"]
        for member in ("n", "x", "y"):
            assert shown.get(member) == jwk.get(member, "").rstrip("=") or member not in jwk
        assert not set(shown) & {"d", "p", "q", "dp", "dq", "qi"}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"q": "AQAB"}, "skr-key-invalid"),
        ({"d": None}, "skr-key-invalid"),
        ({"n": "A" * 2000}, "skr-key-invalid"),
        ({"kty": None}, "skr-key-kind-unsupported"),
        ({"kty": "EC"}, "skr-key-kind-unsupported"),
        ({"kty": "oct"}, "skr-key-invalid"),
        ({"kty": "oct", "k": ""}, "key-material-invalid"),
        ({"kty": "oct", "k": "A" * 120}, "key-material-invalid"),
        ({"kty": "oct", "k": "A" * 43}, "key-material-weak"),
    ],
)
def test_a_key_that_does_not_fit_is_not_imported(face: Face, name: str, change: Document, code: str) -> None:
    answer = face.ask("PUT", f"/keys/{name}", imported({**jwk_of(rsa_key("an owner's", 3072)), **change}))
    assert inner(answer) == code
    assert inner(face.ask("PUT", f"/keys/{name}", imported([]))) == "skr-key-kind-unsupported"  # type: ignore[arg-type]


@pytest.mark.parametrize(("size", "status"), [(512, 200), (513, 400)])
def test_a_number_of_an_import_has_the_length_of_the_longest_modulus(
    face: Face, name: str, size: int, status: int
) -> None:
    jwk = jwk_of(rsa_key("an owner's", 3072))
    padded = from_b64url(jwk["qi"]).rjust(size, b"\0")
    answer = face.ask("PUT", f"/keys/{name}", imported({**jwk, "qi": b64url(padded)}))
    assert answer.status_code == status
    assert status == 200 or inner(answer) == "skr-key-invalid"


def test_a_name_is_given_once(face: Face, name: str) -> None:
    face.create(name)
    again = face.ask("POST", f"/keys/{name}/create", creation())
    assert (again.status_code, again.json()["error"]["code"], inner(again)) == (409, "Conflict", "skr-key-exists")
    assert inner(face.ask("POST", "/keys/a_b/create", creation())) == "skr-name-invalid"
    assert inner(face.ask("POST", f"/keys/{'a' * 128}/create", creation())) == "skr-name-invalid"


def test_a_vault_without_a_usable_policy_makes_no_keys(tmp_path: Path) -> None:
    path = write_vault(tmp_path, at=AT)
    path.write_text(path.read_text().replace('policy = "vault.yaml"', ""))
    with face_of(tmp_path, rules=path) as face:
        answer = face.ask("POST", "/keys/k1/create", creation())
        assert (answer.status_code, inner(answer)) == (409, "skr-policy-missing")


# -- changing


def test_settings_of_a_key_are_changed_one_by_one(face: Face, name: str) -> None:
    made = face.create(name)
    tagged = face.ask("PATCH", f"/keys/{name}/", {"tags": {"a": "b"}, "key_ops": ["sign"]}).json()
    assert (tagged["tags"], tagged["key"]["key_ops"]) == ({"a": "b"}, ["sign"])
    assert tagged["release_policy"] == made["release_policy"]
    timed = face.ask("PATCH", f"/keys/{name}", {"attributes": {"exp": int(AT.timestamp()) + 9, "created": 1}}).json()
    assert (timed["attributes"]["exp"], timed["tags"]) == (int(AT.timestamp()) + 9, {"a": "b"})
    kid = made["key"]["kid"].rpartition("/")[2]
    assert face.ask("PATCH", f"/keys/{name}/{kid}", {}).status_code == 200
    for body in ({"attributes": {"exportable": False}}, {"kty": "RSA"}):
        assert face.ask("PATCH", f"/keys/{name}", body).status_code == 400


def test_an_immutable_policy_stays(face: Face, name: str) -> None:
    other = {**RELEASE_POLICY, "anyOf": [{"authority": MAA, "allOf": [{"claim": "a", "equals": "b"}]}]}
    face.create(name)
    first = face.ask("PATCH", f"/keys/{name}", {"release_policy": release_policy(other)}).json()
    assert first["release_policy"]["immutable"] is False
    last = face.ask("PATCH", f"/keys/{name}", {"release_policy": release_policy(immutable=True)}).json()
    assert last["release_policy"]["immutable"] is True
    for change in (release_policy(other, immutable=True), release_policy(immutable=False), release_policy(other)):
        answer = face.ask("PATCH", f"/keys/{name}", {"release_policy": change})
        assert (answer.status_code, inner(answer)) == (400, "skr-policy-immutable")
    assert face.ask("PATCH", f"/keys/{name}", {"release_policy": release_policy(immutable=True)}).status_code == 200
    assert face.ask("PATCH", f"/keys/{name}", {"tags": {}}).json()["release_policy"] == last["release_policy"]


def test_the_next_version_has_the_same_policy_and_another_key(face: Face, name: str) -> None:
    made = face.create(name)
    rotated = face.ask("POST", f"/keys/{name}/rotate", b"").json()
    assert rotated["key"]["kid"] != made["key"]["kid"]
    assert rotated["key"]["n"] != made["key"]["n"]
    assert rotated["release_policy"] == made["release_policy"]
    assert face.ask("GET", f"/keys/{name}").json()["key"] == rotated["key"]
    listed = face.ask("GET", f"/keys/{name}/versions").json()["value"]
    assert [one["kid"] for one in listed] == [made["key"]["kid"], rotated["key"]["kid"]]
    for bundle in (made, rotated):
        version = bundle["key"]["kid"].rpartition("/")[2]
        value = face.release(f"/keys/{name}/{version}/release").json()["value"]
        payload, _ = Workload().open(value, enc="CKM_RSA_AES_KEY_WRAP")
        assert payload["response"]["key"]["key"]["n"] == bundle["key"]["n"]


def test_a_rotation_policy_is_the_schedule_of_the_key(face: Face, name: str) -> None:
    made = face.create(name)
    path = f"/keys/{name}/rotationpolicy"
    none = {"id": f"{made['key']['kid'].rpartition('/')[0]}/rotationpolicy", "lifetimeActions": [], "attributes": {}}
    assert face.ask("GET", path).json() == none
    rotate = {"trigger": {"timeAfterCreate": "P3M"}, "action": {"type": "Rotate"}}
    notify = {"trigger": {"timeBeforeExpiry": "P30D"}, "action": {"type": "Notify"}}
    wanted = {"lifetimeActions": [rotate, notify], "attributes": {"expiryTime": "P1Y"}}
    for _ in range(2):
        answer = face.ask("PUT", path, wanted).json()
        assert answer["lifetimeActions"] == [{**rotate, "trigger": {"timeAfterCreate": "P90D"}}]
    store = face.harness.services.store
    with store.reading() as tx:
        (schedule,) = (one for one in tx.schedules.due(AT + timedelta(days=91), limit=9) if name[:20] in str(one.name))
    assert (schedule.every, schedule.overlap) == (timedelta(days=90), timedelta(days=7))
    for _ in range(2):
        assert face.ask("PUT", path, {"lifetimeActions": [notify]}).json() == none


@pytest.mark.parametrize(
    "actions",
    [
        {},
        [{}],
        [{"action": {"type": "fly"}}],
        [{"action": {"type": "Rotate"}}],
        [{"action": {"type": "Rotate"}, "trigger": {"timeBeforeExpiry": "P1D"}}],
        [{"action": {"type": "Rotate"}, "trigger": {"timeAfterCreate": "P"}}],
        [{"action": {"type": "Rotate"}, "trigger": {"timeAfterCreate": "P0D"}}],
        [{"action": {"type": "Rotate"}, "trigger": {"timeAfterCreate": "PT1H"}}],
        [{"action": {"type": "Rotate"}, "trigger": {"timeAfterCreate": "P1D"}}] * 2,
    ],
)
def test_another_rotation_policy_is_refused(face: Face, name: str, actions: object) -> None:
    face.create(name, kty="EC")
    answer = face.ask("PUT", f"/keys/{name}/rotationpolicy", {"lifetimeActions": actions})
    assert (answer.status_code, inner(answer)) == (400, "skr-rotation-policy-invalid")


def test_an_imported_key_of_another_length_has_no_next_version(face: Face, name: str) -> None:
    content = base64.urlsafe_b64encode(bytes(range(48))).decode()
    face.ask("PUT", f"/keys/{name}", imported({"kty": "oct-HSM", "k": content}))
    answer = face.ask("POST", f"/keys/{name}/rotate", b"")
    assert (answer.status_code, inner(answer)) == (409, "secret-not-generated")


def test_a_deleted_key_is_gone_and_its_name_is_free_once_it_is_destroyed(tmp_path: Path) -> None:
    with face_of(tmp_path) as face:
        made = face.create()
        assert face.ask("DELETE", "/keys/k1").json()["key"] == made["key"]
        assert inner(face.ask("GET", "/keys/k1")) == "key-unknown"
        assert inner(face.release()) == "key-unknown"
        again = face.ask("POST", "/keys/k1/create", creation())
        assert (again.status_code, inner(again)) == (409, "skr-key-deleted")
        face.harness.clock.forward(days=8)
        assert destroy_due(face.harness.services.store, at=face.harness.clock(), failed=lambda *_: None)
        assert face.create()["key"]["kid"] != made["key"]["kid"]


def test_a_list_unwraps_no_key(face: Face, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    face.create(name)

    def unwrapped(*_: object) -> dict[str, str]:
        raise AssertionError("a key was unwrapped")

    monkeypatch.setattr("kms.api.skr.keys.public_half_of", unwrapped)
    for path in ("/keys", f"/keys/{name}/versions"):
        answer = face.ask("GET", path)
        assert (answer.status_code, len(answer.json()["value"]) > 0) == (RELEASED, True)


def test_a_list_has_the_keys_of_the_vault(tmp_path: Path) -> None:
    with face_of(tmp_path) as face:
        for one in ("b", "a", "gone"):
            face.create(one)
        face.ask("DELETE", "/keys/gone")
        for path in ("/keys", "/keys/"):
            found: Any = face.ask("GET", path).json()
            assert [one["kid"] for one in found["value"]] == [f"{KID[:-2]}a", f"{KID[:-2]}b"]
            assert found["nextLink"] is None


# -- a rule for policies


def test_a_release_policy_under_a_quorum_is_changed_by_a_proposal_alone(tmp_path: Path) -> None:
    other = {**RELEASE_POLICY, "anyOf": [{"authority": MAA, "allOf": [{"claim": "a", "equals": "b"}]}]}
    with face_of(tmp_path) as face:
        made = face.create()
        board = Board(face.harness).found(rule(ChangeKind.QUORUM), rule(ChangeKind.KEY_POLICY))
        for change in (release_policy(other), release_policy(immutable=True)):
            answer = face.ask("PATCH", "/keys/k1", {"release_policy": change})
            assert (answer.status_code, inner(answer)) == (403, "quorum-required")
            assert "kms proposal create vault-policy-set" in answer.json()["error"]["message"]
        assert face.ask("PATCH", "/keys/k1", {"tags": {"a": "b"}}).status_code == 200
        assert face.ask("PATCH", "/keys/k1", {"release_policy": release_policy()}).status_code == 200
        name = made_key(face)
        policy = canonical_bytes(parse_skr(json.dumps(other).encode()))
        wanted: Document = {"key": str(name), "release_policy": policy.decode(), "immutable": True}
        assert face.release().status_code == 200
        proposal = board.agreed(read_change("vault-policy-set", wanted))
        shown = face.ask("GET", "/keys/k1").json()["release_policy"]
        assert (from_b64url(shown["data"]), shown["immutable"]) == (policy, True)
        assert (face.release().status_code, face.reasons()) == (403, ["release-policy"])
        assert made["release_policy"]["data"] != shown["data"]
        entry: Any = [one for one in face.harness.entries() if one["kind"] == "vault-key-set"][-1]
        assert proposal.digest in str(entry)
        vault = Vault(store=face.harness.services.store, kek=face.harness.services.kek)
        assert [one for one in examine(vault, origin=face.harness.settings.origin, noted=()) if one.problems] == []


def made_key(face: Face) -> KeyName:
    """The key behind the address of ``k1``."""
    with face.harness.services.store.reading() as tx:
        (alias,) = tx.aliases.all()
    return alias.key


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"immutable": "yes"}, "change-invalid"),
        ({"release_policy": '{"version": "1.0.0"}'}, "skr-policy-invalid"),
        ({"release_policy": json.dumps(RELEASE_POLICY, indent=1)}, "change-invalid"),
        ({"more": 1}, "change-invalid"),
        ({"key": "nosuch"}, "key-unknown"),
    ],
)
def test_another_change_of_a_release_policy_is_refused(tmp_path: Path, change: Document, code: str) -> None:
    policy = canonical_bytes(parse_skr(json.dumps(RELEASE_POLICY).encode())).decode()
    with face_of(tmp_path) as face:
        face.create()
        wanted: Document = {"key": str(made_key(face)), "release_policy": policy, "immutable": False, **change}
        with pytest.raises(AttestError) as caught:
            change_now(Board(face.harness).desk, read_change("vault-policy-set", wanted), actor=ACTOR, at=AT)
        assert caught.value.code == code


def test_a_release_policy_that_is_immutable_or_missing_is_not_changed_by_a_proposal(tmp_path: Path) -> None:
    policy = canonical_bytes(parse_skr(json.dumps(RELEASE_POLICY).encode())).decode()
    with face_of(tmp_path) as face:
        face.create(release_policy=release_policy(immutable=True))
        face.harness.add_key("native")
        for key, code in ((str(made_key(face)), "skr-policy-immutable"), ("native", "vault-key-unknown")):
            wanted: Document = {"key": key, "release_policy": policy, "immutable": False}
            with pytest.raises(AttestError) as caught:
                change_now(Board(face.harness).desk, read_change("vault-policy-set", wanted), actor=ACTOR, at=AT)
            assert caught.value.code == code
