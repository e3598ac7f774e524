"""Releases from a vault: what a workload with a token of its Verifier gets, and what is refused."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_der_private_key

from attest.release import KeyName, pad_secret
from kms.controls.admin import freeze
from kms.domain.aliases import Alias
from kms.domain.freezes import target
from kms.domain.keys import OPAQUE, Disclosure
from kms.domain.secret import SecretBytes
from kms.domain.wires import Wire
from kms.keys.admin import KEY_IMPORTED, add_key
from kms.keys.aliases import add_alias
from kms.keys.release_settings import ReleaseSettings, set_release_settings
from kms.operations.replay import LoggedState
from tests.kms.skr.face import Face, face_of, release_policy
from tests.kms.skr.vault import (
    MAA,
    OAEP,
    POLICY,
    RELEASE_POLICY,
    Document,
    Workload,
    b64url,
    from_b64url,
    require_signed,
    rsa_key,
    write_vault,
)
from tests.kms.support import ACTOR, AT, MATERIAL, MODEL, live_leases

RELEASED = 200
KID = "https://v1.localhost:8443/keys/k1"


@pytest.fixture
def face(tmp_path: Path) -> Iterator[Face]:
    with face_of(tmp_path) as made:
        yield made


def number(text: str) -> int:
    return int.from_bytes(from_b64url(text), "big")


def inner(answer: Any) -> str:  # noqa: ANN401  a response
    """Our code in a refusal."""
    error = answer.json()["error"]
    assert set(error) == {"code", "message", "innererror"}
    found = error["innererror"]
    if answer.status_code == 403:
        assert (error["code"], found["code"]) == ("Forbidden", "AccessDenied")
        found = found["innererror"]
    assert f"[{found['code']}]" in error["message"]
    return str(found["code"])


@pytest.mark.parametrize("enc", [None, *OAEP])
@pytest.mark.parametrize("versioned", [False, True])
def test_a_workload_gets_the_key_encrypted_to_the_key_of_its_token(
    face: Face, tmp_path: Path, enc: str | None, *, versioned: bool
) -> None:
    made = face.create()
    version = made["key"]["kid"].rpartition("/")[2]
    path = f"/keys/k1/{version}/release" if versioned else "/keys/k1//release"
    answer = face.release(path, nonce="a nonce", **({} if enc is None else {"enc": enc}))
    assert answer.status_code == RELEASED, answer.text
    effective = enc or "CKM_RSA_AES_KEY_WRAP"
    value = answer.json()["value"]
    payload, material = Workload().open(value, enc=effective)
    require_signed(value, ca=x509.load_pem_x509_certificate((tmp_path / "ca.pem").read_bytes()), host="v1.localhost")
    assert payload["request"] == {
        "api-version": "7.4",
        "enc": effective,
        "kid": f"{KID}/{version}" if versioned else KID,
        "nonce": "a nonce",
    }
    shown = payload["response"]["key"]
    assert shown["key"]["kid"] == f"{KID}/{version}"
    assert shown["release_policy"] == made["release_policy"]
    key = load_der_private_key(material, None)
    assert isinstance(key, rsa.RSAPrivateKey)
    assert key.public_key().public_numbers().n == number(shown["key"]["n"]) == number(made["key"]["n"])
    (entry,) = face.harness.decisions()
    assert (entry["via"], entry["outcome"]) == ("skr", "allow")
    assert entry["asked_by"] == {"means": "skr", "name": "https://login.localhost/tenant-1/v2.0|someone"}


@pytest.mark.parametrize(
    ("asked", "kty", "size"),
    [
        ({"kty": "RSA", "key_size": 3072}, "RSA-HSM", 3072),
        ({"kty": "EC-HSM"}, "EC-HSM", 256),
        ({"kty": "EC", "crv": "P-521"}, "EC-HSM", 521),
    ],
)
def test_keys_of_each_kind_are_released_as_pkcs8(face: Face, asked: dict[str, Any], kty: str, size: int) -> None:
    made = face.create(**asked)
    assert made["key"]["kty"] == kty
    answer = face.release(enc="RSA_AES_KEY_WRAP_256")
    _, material = Workload().open(answer.json()["value"], enc="RSA_AES_KEY_WRAP_256")
    key = load_der_private_key(material, None)
    assert isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey)
    assert key.key_size == size


def test_a_symmetric_key_is_released_as_it_is(face: Face) -> None:
    content = bytes(range(48))
    text = base64.urlsafe_b64encode(content).decode()
    body = {
        "key": {"kty": "oct", "k": text, "key_size": 384},
        "hsm": True,
        "attributes": {"exportable": True},
        "release_policy": release_policy(),
    }
    made = face.ask("PUT", "/keys/k1", body)
    assert made.status_code == RELEASED, made.text
    assert "k" not in made.json()["key"]
    _, material = Workload().open(face.release().json()["value"], enc="CKM_RSA_AES_KEY_WRAP")
    assert material == content


def test_a_model_key_behind_an_alias_is_released_as_a_symmetric_key(face: Face) -> None:
    store, at = face.harness.services.store, face.harness.clock()
    face.harness.add_key("model", policy=json.dumps(POLICY).encode(), material=MATERIAL)
    add_alias(store, Alias(address=f"{KID}", key=MODEL), actor=ACTOR, at=at)
    refused = face.release()
    assert inner(refused) == "via-not-allowed"
    settings = ReleaseSettings(disclosure=_disclosure(face), lease_seconds=600, via=frozenset({Wire.NATIVE, Wire.SKR}))
    set_release_settings(store, MODEL, settings, actor=ACTOR, at=at)
    answer = face.release()
    payload, material = Workload().open(answer.json()["value"], enc="CKM_RSA_AES_KEY_WRAP")
    assert material == MATERIAL
    shown = payload["response"]["key"]
    assert shown["key"]["kty"] == "oct-HSM"
    outline = json.loads(from_b64url(shown["release_policy"]["data"]))
    assert [one["authority"] for one in outline["anyOf"]] == [MAA]
    assert face.ask("GET", "/keys/k1").json()["key"]["kid"] == shown["key"]["kid"]
    for method, path in (("PATCH", "/keys/k1"), ("POST", "/keys/k1/rotate"), ("DELETE", "/keys/k1")):
        assert inner(face.ask(method, path, {})) == "skr-key-not-of-vault"
    assert face.harness.decisions()[-1]["outcome"] == "allow"


def test_a_key_of_a_purpose_that_vaults_do_not_have_is_not_there(face: Face) -> None:
    """An alias can lead to a key of guests, too; its address in a vault shows and releases nothing."""
    services, at = face.harness.services, face.harness.clock()
    add_key(
        services.store,
        services.kek,
        name=KeyName.parse("secret"),
        material=SecretBytes(pad_secret(b"a secret of guests")),
        policy=json.dumps(POLICY).encode(),
        kind=KEY_IMPORTED,
        actor=ACTOR,
        at=at,
        algorithm=OPAQUE,
        via=frozenset({Wire.SKR}),
    )
    add_alias(services.store, Alias(address=f"{KID}", key=KeyName.parse("secret")), actor=ACTOR, at=at)
    for answer in (face.release(), face.ask("GET", "/keys/k1")):
        assert (answer.status_code, inner(answer)) == (404, "key-unknown")
    assert face.ask("GET", "/keys").json()["value"] == []


def _disclosure(face: Face) -> Any:  # noqa: ANN401  of a key
    with face.harness.services.store.reading() as tx:
        record = tx.keys.find(MODEL)
        assert record is not None
        return record.disclosure


# -- refusals


def refused(face: Face, claims: Document) -> str:
    return refused_token(face, Workload().token(face.harness.clock(), claims))


def refused_token(face: Face, token: str) -> str:
    """Ask with a token, be refused with 403, and find the reason in the log."""
    before = len(face.harness.decisions())
    answer = face.release(target=token)
    assert answer.status_code == 403, answer.text
    code = inner(answer)
    assert len(face.harness.decisions()) == before + 1
    assert code in face.reasons()
    return code


def test_a_token_of_another_issuer_is_refused(face: Face) -> None:
    face.create()
    assert refused(face, {"iss": "https://evil.example"}) == "token-issuer-untrusted"
    assert refused(face, {"iss": f"{MAA}/"}) == "token-issuer-untrusted"


def test_a_token_out_of_time_is_refused(face: Face) -> None:
    face.create()
    now = int(face.harness.clock().timestamp())
    assert refused(face, {"exp": now}) == "token-expired"
    assert refused(face, {"iat": now + 600}) == "token-not-yet-valid"
    assert refused(face, {"iat": now - 8 * 3600 - 1}) == "skr-token-too-old"
    assert face.release(target=Workload().token(face.harness.clock(), {"iat": now - 8 * 3600})).status_code == RELEASED


def test_a_token_with_another_signature_is_refused(face: Face) -> None:
    face.create()
    at, workload = face.harness.clock(), Workload()
    assert refused_token(face, workload.token(at, key="another")) == "token-signature-invalid"
    assert refused_token(face, workload.token(at, header={"kid": "nobody"})) == "token-key-unknown"
    elsewhere = {"kid": "evil", "jku": "https://evil.example/certs"}
    assert refused_token(face, workload.token(at, key="another", header=elsewhere)) == "token-key-unknown"
    head, payload, _ = workload.token(at).split(".")
    assert refused_token(face, f"{head}.{payload}.") == "token-signature-invalid"


def test_a_symmetric_signature_with_the_public_key_is_refused(face: Face) -> None:
    face.create()
    at = face.harness.clock()
    assert refused_token(face, Workload().symmetric_token(at)) == "token-algorithm-refused"
    unsigned = jwt.encode(Workload().claims(at), "", algorithm="none", headers={"kid": "maa-1"})
    assert refused_token(face, unsigned) == "token-algorithm-refused"


def modulus(number: int) -> str:
    return b64url(number.to_bytes((number.bit_length() + 7) // 8, "big"))


def test_a_token_without_one_good_key_is_refused(face: Face) -> None:
    face.create()
    workload, other = Workload(), Workload(kek=rsa_key("other kek"), kid="other")
    short = Workload(kek=rsa_key("short kek", 1024))
    keys: dict[str, list[Any]] = {
        "skr-kek-missing": [[], [workload.jwk(key_ops=["sign"])], None],
        "skr-kek-ambiguous": [[workload.jwk(), other.jwk()]],
        "skr-kek-invalid": [
            [short.jwk()],
            [workload.jwk(kid=None)],
            [workload.jwk(kid="")],
            [workload.jwk(kid="k" * 513)],
            [workload.jwk(e="Aw")],
            [workload.jwk(e="AQAC")],
            [workload.jwk(e="AQAAAAE")],
            [workload.jwk(n=modulus(1 << 2047))],
            [workload.jwk(n=modulus((1 << 4096) + 1))],
            [workload.jwk(kty="EC")],
            [workload.jwk(n="?")],
            [workload.jwk(key_ops=["sign"])] * 17,
        ],
    }
    for code, several in keys.items():
        for one in several:
            assert refused(face, {"x-ms-runtime": None if one is None else {"keys": one}}) == code
    vtpm: Document = {"x-ms-isolation-tee": {"x-ms-runtime": {"keys": [workload.jwk()]}}, "x-ms-runtime": {}}
    assert refused(face, vtpm) == "skr-kek-missing"


@pytest.mark.parametrize("marks", [{"key_ops": "encrypt"}, {"key_ops": None, "use": "enc"}, {"key_use": "enc"}])
def test_the_key_of_a_token_may_be_marked_in_each_way(face: Face, marks: dict[str, Any]) -> None:
    face.create()
    workload = Workload()
    jwk = {name: one for name, one in workload.jwk(**marks).items() if one is not None}
    token = workload.token(face.harness.clock(), {"x-ms-runtime": {"keys": [jwk, jwk]}})
    assert face.release(target=token).status_code == RELEASED


def test_a_token_of_a_vms_guest_agent_releases_to_its_own_key(face: Face) -> None:
    conditions = [
        {"claim": "x-ms-isolation-tee.x-ms-attestation-type", "equals": "sevsnpvm"},
        {"claim": "x-ms-isolation-tee.x-ms-compliance-status", "equals": "azure-compliant-cvm"},
        {"anyOf": [{"claim": "secureboot", "equals": "true"}]},
    ]
    written = {"version": "1.0.0", "anyOf": [{"authority": MAA, "allOf": conditions}]}
    face.create(release_policy=release_policy(written))
    at = face.harness.clock()
    token = Workload().token(at, Workload().guest_claims(at))
    answer = face.release(target=token)
    assert answer.status_code == RELEASED, answer.text
    Workload().open(answer.json()["value"], enc="CKM_RSA_AES_KEY_WRAP")
    assert inner(face.release()) == "release-policy"


def test_the_release_policy_can_refuse_and_the_keys_own_policy_decides(face: Face) -> None:
    face.create()
    picky = {**RELEASE_POLICY, "anyOf": [{"authority": MAA, "allOf": [{"claim": "x-ms-sevsnpvm-vmpl", "equals": "1"}]}]}
    face.create("picky", release_policy=release_policy(picky))
    denied = face.release("/keys/picky/release")
    assert inner(denied) == "release-policy"
    last: Any = face.harness.decisions()[-1]
    (text,) = [one["text"] for one in last["reasons"] if one["code"] == "release-policy"]
    assert text == ("the release policy refuses: anyOf[0].allOf[0]: expected x-ms-sevsnpvm-vmpl equals '1', found 0")
    assert refused(face, {"x-ms-sevsnpvm-launchmeasurement": "cd" * 48}) == "policy-not-met"
    assert refused(face, {"x-ms-sevsnpvm-is-debuggable": True}) == "policy-not-met"


def test_a_key_is_released_between_its_times_and_while_it_is_enabled(face: Face) -> None:
    now = int(face.harness.clock().timestamp())
    made = face.create(attributes={"exportable": True, "nbf": now + 60, "exp": now + 120})
    assert made["attributes"]["nbf"] == now + 60
    assert inner(face.release()) == "release-policy"
    face.harness.clock.forward(seconds=60)
    assert face.release().status_code == RELEASED
    assert face.ask("PATCH", "/keys/k1/", {"attributes": {"enabled": False}}).json()["attributes"]["enabled"] is False
    assert inner(face.release()) == "key-version-disabled"
    face.ask("PATCH", "/keys/k1/", {"attributes": {"enabled": True}})
    face.harness.clock.forward(seconds=60)
    assert inner(face.release()) == "release-policy"


def test_a_key_that_is_made_disabled_is_not_released(face: Face) -> None:
    face.create(attributes={"exportable": True, "enabled": False})
    assert inner(face.release()) == "key-version-disabled"


def test_every_changed_byte_of_a_token_is_refused(face: Face) -> None:
    face.create()
    token = Workload().token(face.harness.clock())
    assert face.release(target=token).status_code == RELEASED
    for index in range(len(token)):
        for other in ("A", "B"):
            if token[index] != other:
                changed = token[:index] + other + token[index + 1 :]
                answer = face.release(target=changed)
                assert answer.status_code == 403, (index, answer.text)
                break


def test_a_token_counts_once_where_the_operator_wants_it(tmp_path: Path) -> None:
    with face_of(tmp_path, more="single_use_tokens = true\nrefuse_sha1 = true") as face:
        face.create()
        token = Workload().token(face.harness.clock())
        assert inner(face.release(target=token)) == "skr-sha1-refused"
        assert face.release(target=token, enc="RSA_AES_KEY_WRAP_384").status_code == RELEASED
        again = face.release(target=token, enc="RSA_AES_KEY_WRAP_384")
        assert (again.status_code, inner(again)) == (403, "skr-token-used")


@pytest.mark.parametrize("spelling", [" {}", "{}\n", "\t{}\r\n", "\x1c{}\x1f"])
def test_white_space_around_a_token_makes_no_other_token_of_it(tmp_path: Path, spelling: str) -> None:
    with face_of(tmp_path, more="single_use_tokens = true") as face:
        face.create()
        token = Workload().token(face.harness.clock())
        assert face.release(target=token).status_code == RELEASED
        again = face.release(target=spelling.format(token))
        assert (again.status_code, inner(again)) == (403, "skr-token-used")


def test_a_replay_of_the_log_finds_the_same_state(face: Face) -> None:
    face.create()
    face.ask("PATCH", "/keys/k1", {"tags": {"a": "b"}})
    face.ask("POST", "/keys/k1/rotate", b"")
    assert face.release().status_code == RELEASED
    state = LoggedState()
    with face.harness.services.store.reading() as tx:
        assert [one.line for one in (*state.advance_to_end(tx), *state.differences(tx))] == []


# -- as for every release


def test_freezes_limits_and_leases_hold_as_for_every_release(face: Face) -> None:
    face.create()
    store, at = face.harness.services.store, face.harness.clock()
    with store.reading() as tx:
        (record,) = tx.keys.all()
    assert record.via == frozenset({Wire.SKR})
    assert (record.purpose, record.algorithm) == ("skr-rsa", "skr-rsa-2048")
    assert face.release().status_code == RELEASED
    with store.reading() as tx:
        (lease,) = live_leases(tx, record.name, at=at)
    allowed: Any = face.harness.decisions()[-1]
    assert [row["lease"]["id"] for row in allowed["keys"]] == [lease.lease_id]
    assert allowed["passport"]["issuer"] == MAA
    freeze(store, target("key", str(record.name)), reason="a test", actor=ACTOR, at=at)
    assert inner(face.release()) == "key-frozen"
    assert "key-frozen" in face.reasons()


def test_a_key_that_discloses_nothing_looks_like_a_missing_one(face: Face) -> None:
    face.create()
    store, at = face.harness.services.store, face.harness.clock()
    with store.reading() as tx:
        (record,) = tx.keys.all()
    hidden = ReleaseSettings(disclosure=Disclosure.NONE, lease_seconds=None, via=record.via)
    set_release_settings(store, record.name, hidden, actor=ACTOR, at=at)
    answer = face.release(target=Workload().token(at, {"x-ms-sevsnpvm-vmpl": 1, "x-ms-sevsnpvm-is-debuggable": True}))
    assert (answer.status_code, answer.json()["error"]["code"], inner(answer)) == (404, "KeyNotFound", "key-unknown")


def test_a_token_for_another_relying_party_is_refused(face: Face) -> None:
    face.create()
    assert refused(face, {"aud": "https://other.example"}) == "token-audience-mismatch"
    ours = Workload().token(face.harness.clock(), {"aud": "https://localhost:8443"})
    assert face.release(target=ours).status_code == RELEASED


def test_an_issuer_of_the_operators_own_states_that_nothing_is_simulated(tmp_path: Path) -> None:
    own = "https://verifier.example"
    path = write_vault(tmp_path, at=AT, policy={**POLICY, "verifiers": [{"issuer": own, "maximum_age": 28_800}]})
    path.write_text(path.read_text().replace(f'url = "{MAA}"', f'url = "{own}"'))
    written = {**RELEASE_POLICY, "anyOf": [{**RELEASE_POLICY["anyOf"][0], "authority": own}]}  # type: ignore[dict-item]
    with face_of(tmp_path, rules=path) as face:
        face.create(release_policy=release_policy(written))
        claims: Document = {"iss": own}
        assert refused(face, claims) in {"simulated", "policy-not-met"}
        token = Workload().token(face.harness.clock(), claims | {"simulated": False})
        assert face.release(target=token).status_code == RELEASED
