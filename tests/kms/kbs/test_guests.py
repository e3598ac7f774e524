"""Guests of a Key Broker Service: from the first request to the opened resource, and the ways in which it must fail."""

import base64
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.keywrap import InvalidUnwrap
from joserfc import jwe
from joserfc.jwk import ECKey, RSAKey
from starlette.testclient import TestClient

from attest.release import KeyName
from kms.api.app import create_app
from kms.domain.aliases import Alias
from kms.domain.keys import Disclosure
from kms.domain.wires import Wire
from kms.keys.aliases import add_alias
from kms.keys.release_settings import ReleaseSettings, set_release_settings
from tests.compat.kbs.client import Answer, Guest, Json, PrivateKey, sample, unb64url
from tests.evidence.snp.peer_writers import sev_struct, trustee
from tests.kms.kbs.face import Face, face_of, write_rules
from tests.kms.support import ACTOR, GUEST, MATERIAL, MODEL, live_leases, policy_text

SECRET = b"a value that an administrator uploaded"
PATH = "default/test/secret"
EC_P521 = ec.generate_private_key(ec.SECP521R1())
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture
def face(tmp_path: Path) -> Iterator[Face]:
    with face_of(tmp_path) as made:
        made.allow_all()
        yield made


def snp(digest: bytes) -> Json:
    """Return evidence of a simulated SEV-SNP guest in Trustee's form, with its chain."""
    report = GUEST.report(digest.ljust(64, b"\0"))
    names = ("VCEK", "ASK", "ARK")
    certificates = zip(names, GUEST.chip.certificates(), strict=True)
    chain = [{"cert_type": name, "data": list(content)} for name, content in certificates]
    return trustee(sev_struct(report), chain)


def upload(face: Face, content: bytes = SECRET, path: str = PATH) -> None:
    answer = face.admin("POST", f"resource/{path}", content)
    assert (answer.status_code, answer.content) == (200, b""), answer.text


def refusal(answer: Answer, status: int, variant: str, text: str) -> None:
    assert answer.status_code == status, answer.text
    document = answer.json()
    assert set(document) == {"type", "detail"}
    assert document["type"] == f"https://github.com/confidential-containers/kbs/errors/{variant}"
    assert text in document["detail"]


# -- what works


@pytest.mark.parametrize("key", [ec.generate_private_key(ec.SECP256R1()), EC_P521, RSA], ids=["P-256", "P-521", "RSA"])
@pytest.mark.parametrize("content", [SECRET, b"", b"\xff" * (1 << 20)], ids=["short", "empty", "one MiB"])
def test_a_guest_gets_what_an_administrator_uploaded(face: Face, key: PrivateKey, content: bytes) -> None:
    upload(face, content)
    guest = Guest(face.http, key=key)
    answer = guest.get(PATH)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert guest.open(answer) == content
    assert guest.requests == 4


def test_a_library_of_others_opens_the_answer(face: Face) -> None:
    upload(face)
    curve = ec.generate_private_key(ec.SECP256R1())
    registry = jwe.JWERegistry(algorithms=["ECDH-ES+A256KW", "RSA-OAEP-256", "A256GCM"])
    for key, theirs in ((curve, ECKey.import_key(curve)), (RSA, RSAKey.import_key(RSA))):
        document = Guest(face.http, key=key).get(PATH).json()
        assert jwe.decrypt_json(document, theirs, registry=registry).plaintext == SECRET


def test_the_header_of_an_answer_is_written_as_clients_write_it(face: Face) -> None:
    upload(face)
    found = unb64url(Guest(face.http).get(PATH).json()["protected"])
    assert found.startswith(b'{"alg":"ECDH-ES+A256KW","enc":"A256GCM","epk":{"crv":"P-256","kty":"EC","x":"')
    assert unb64url(Guest(face.http, key=RSA).get(PATH).json()["protected"]) == (
        b'{"alg":"RSA-OAEP-256","enc":"A256GCM"}'
    )


def test_a_real_machine_gets_the_key_that_an_alias_leads_to(face: Face) -> None:
    harness = face.harness
    harness.add_key("model", policy=policy_text())
    add_alias(
        harness.services.store, Alias(address="kbs:///default/model/llama", key=MODEL), actor=ACTOR, at=harness.clock()
    )
    guest = Guest(face.http, tee="snp", attester=snp)
    refusal(guest.get("default/model/llama"), 403, "PolicyDeny", "via-not-allowed")
    then = ReleaseSettings(disclosure=Disclosure.CHECKS, lease_seconds=None, via=frozenset(Wire))
    set_release_settings(harness.services.store, MODEL, then, actor=ACTOR, at=harness.clock())
    answer = guest.get("default/model/llama")
    assert guest.open(answer) == MATERIAL
    decision = harness.decisions()[-1]
    assert (decision["via"], decision["outcome"], decision["requested"]) == ("kbs", "allow", ["model"])
    with harness.services.store.reading() as tx:
        assert len(live_leases(tx, MODEL, at=harness.clock())) == 1


def test_a_token_is_a_passport_and_opens_only_to_its_own_key(face: Face) -> None:
    upload(face)
    attested = Guest(face.http)
    assert attested.attest().status_code == 200
    other = Guest(face.http)
    answer = other.send("GET", f"resource/{PATH}", Authorization=f"Bearer {attested.token}")
    assert answer.status_code == 200
    assert attested.open(answer) == SECRET
    with pytest.raises(InvalidUnwrap):
        other.open(answer)


def test_a_cookie_that_is_unknown_does_no_harm_beside_a_good_token(face: Face) -> None:
    upload(face)
    guest = Guest(face.http)
    guest.attest()
    guest.cookie = "kbs-session-id=unknown"
    assert guest.open(guest.send("GET", f"resource/{PATH}", Authorization=f"Bearer {guest.token}")) == SECRET


def test_a_guest_writes_the_path_with_a_slash_of_its_own(face: Face) -> None:
    upload(face)
    guest = Guest(face.http)
    guest.attest()
    assert guest.open(guest.send("GET", f"resource//{PATH}")) == SECRET
    assert guest.open(guest.send("GET", "resource/default/te%73t/secret")) == SECRET


def test_an_upload_replaces_the_one_before_and_a_deleted_one_is_gone(face: Face) -> None:
    upload(face)
    upload(face, b"another value")
    guest = Guest(face.http)
    assert guest.open(guest.get(PATH)) == b"another value"
    assert face.admin("DELETE", f"resource/{PATH}").status_code == 200
    refusal(guest.get(PATH), 404, "PluginInternalError", "there is no resource")
    refusal(face.admin("DELETE", f"resource/{PATH}"), 404, "PluginInternalError", "there is no resource")
    upload(face, b"a third value")
    assert guest.open(guest.get(PATH)) == b"a third value"
    kinds = [entry["kind"] for entry in face.harness.entries()]
    assert kinds.count("key-imported") == 2
    assert kinds.count("key-rotated") == 1
    assert kinds.count("key-destruction-scheduled") == 1


def test_an_older_guest_is_served_where_the_file_says_so(tmp_path: Path) -> None:
    with face_of(tmp_path, rules=write_rules(tmp_path, more='profile = "coco"')) as face:
        face.allow_all()
        upload(face)
        guest = Guest(face.http, version="0.2.0")
        assert guest.open(guest.get(PATH)) == SECRET


# -- what is refused


def test_an_older_guest_is_refused_by_default_with_the_words_that_it_knows(face: Face) -> None:
    answer = Guest(face.http, version="0.2.0").auth()
    refusal(
        answer,
        401,
        "AttestationError",
        "KBS Client Protocol Version Mismatch: expect =0.4.0 while the request is 0.2.0",
    )


def test_sample_evidence_is_refused_without_the_switch(tmp_path: Path) -> None:
    with face_of(tmp_path, simulated=False) as face:
        answer = Guest(face.http).attest()
        refusal(answer, 401, "AttestationError", "sample-refused")
        assert "sample evidence" in answer.json()["detail"]


def test_sample_evidence_gets_nothing_without_a_resource_policy(tmp_path: Path) -> None:
    with face_of(tmp_path) as face:
        upload(face)
        guest = Guest(face.http)
        refusal(guest.get(PATH), 403, "PolicyDeny", "resource-policy")
        assert guest.requests == 4


def test_evidence_of_one_guest_is_none_of_another(face: Face) -> None:
    one, other = Guest(face.http), Guest(face.http)
    body = one.attestation(one.auth().json()["nonce"])
    other.auth()
    refusal(other.send("POST", "attest", body), 401, "AttestationError", "nonce-mismatch")
    refusal(
        one.send("POST", "attest", {**body, "runtime-data": {**body["runtime-data"], "tee-pubkey": {}}}),
        401,
        "AttestationError",
        "tee-key-invalid",
    )


def test_another_key_than_the_evidence_commits_to_is_refused(face: Face) -> None:
    guest = Guest(face.http)
    body = guest.attestation(guest.auth().json()["nonce"])
    body["runtime-data"]["tee-pubkey"] = Guest(face.http).attestation("")["runtime-data"]["tee-pubkey"]
    refusal(guest.send("POST", "attest", body), 401, "AttestationError", "report-data-mismatch")


def test_a_session_attests_once(face: Face) -> None:
    guest = Guest(face.http)
    body = guest.attestation(guest.auth().json()["nonce"])
    begun = guest.cookie
    assert guest.send("POST", "attest", body).status_code == 200
    refusal(guest.send("POST", "attest", body), 401, "AttestationError", "kbs-session-unknown")
    guest.cookie = begun
    refusal(guest.send("POST", "attest", body), 401, "AttestationError", "challenge-used")


def test_a_refusal_uses_up_the_session_too_and_is_logged(face: Face) -> None:
    guest = Guest(face.http)
    good = guest.attestation(guest.auth().json()["nonce"])
    bad = copy.deepcopy(good)
    bad["tee-evidence"]["primary_evidence"]["report_data"] = base64.b64encode(bytes(48)).decode()
    refusal(guest.send("POST", "attest", bad), 401, "AttestationError", "report-data-mismatch")
    refusal(guest.send("POST", "attest", good), 401, "AttestationError", "challenge-used")
    entry = [one for one in face.harness.entries() if one["kind"] == "kbs-attested"][-1]
    assert (entry["outcome"], entry["evidence_sha384"]) == ("deny", None)


@pytest.mark.parametrize("member", ["runtime-data", "tee-evidence"])
def test_an_incomplete_attestation_is_refused(face: Face, member: str) -> None:
    guest = Guest(face.http)
    body = guest.attestation(guest.auth().json()["nonce"])
    del body[member]
    refusal(guest.send("POST", "attest", body), 401, "AttestationError", "kbs-request-malformed")


def test_members_that_are_not_known_are_ignored(face: Face) -> None:
    guest = Guest(face.http)
    body = guest.attestation(guest.auth().json()["nonce"])
    body["more"] = body["runtime-data"]["more"] = 1
    body["runtime-data"]["tee-pubkey"]["kid"] = "a name"
    del body["init-data"]
    assert guest.send("POST", "attest", body).status_code == 200


@pytest.mark.parametrize("tee", ["cca", "csv", "se", "tpm"])
def test_a_machine_without_a_verifier_is_refused_by_name(face: Face, tee: str) -> None:
    refusal(Guest(face.http, tee=tee).attest(), 401, "AttestationError", "kbs-tee-unsupported")


def test_a_session_of_one_machine_takes_no_evidence_of_another(face: Face) -> None:
    refusal(Guest(face.http, tee="snp").attest(), 401, "AttestationError", "]")
    refusal(Guest(face.http, tee="sample", attester=snp).attest(), 401, "AttestationError", "kbs-tee-mismatch")


def test_an_expired_token_opens_nothing(face: Face) -> None:
    upload(face)
    guest = Guest(face.http)
    guest.attest()
    face.harness.clock.forward(seconds=300)
    answer = guest.send("GET", f"resource/{PATH}", Authorization=f"Bearer {guest.token}")
    refusal(answer, 401, "TokenVerifierError", "token-expired")
    guest.cookie = None
    assert guest.open(guest.get(PATH)) == SECRET


def test_a_token_counts_in_the_process_that_issued_it_and_in_another(face: Face) -> None:
    upload(face)
    face.resource_policy("""package policy
import rego.v1
default allow = false
allow if {
    data.plugin == "resource"
    input.submods.cpu0["ear.veraison.annotated-evidence"].sample.svn == "1"
    count(input) == 7
}
""")
    guest = Guest(face.http)
    guest.attest()
    with TestClient(create_app(face.harness.settings, face.harness.services), base_url="http://kbs.test") as other:
        for http in (face.http, other):
            answer = http.get(f"/kbs/v0/resource/{PATH}", headers={"Authorization": f"Bearer {guest.token}"})
            assert guest.open(answer) == SECRET
        face.harness.clock.forward(seconds=300)
        answer = other.get(f"/kbs/v0/resource/{PATH}", headers={"Authorization": f"Bearer {guest.token}"})
        refusal(answer, 401, "TokenVerifierError", "token-expired")


def test_a_token_from_the_future_opens_nothing(face: Face) -> None:
    upload(face)
    guest = Guest(face.http)
    guest.attest()
    face.harness.clock.forward(seconds=-1)
    answer = guest.send("GET", f"resource/{PATH}", Authorization=f"Bearer {guest.token}")
    refusal(answer, 401, "TokenVerifierError", "token-expired")


def test_no_token_and_a_token_of_others_are_told_apart(face: Face) -> None:
    guest = Guest(face.http)
    refusal(guest.send("GET", f"resource/{PATH}"), 401, "TokenNotFound", "Attestation Token not found")
    refusal(guest.send("GET", f"resource/{PATH}", Authorization="bearer x.y.z"), 401, "TokenNotFound", "token-missing")
    refusal(guest.send("GET", f"resource/{PATH}", Authorization="Bearer x.y.z"), 401, "TokenVerifierError", "[")


def test_every_character_of_a_token_counts(face: Face) -> None:
    upload(face)
    guest = Guest(face.http)
    guest.attest()
    assert guest.token is not None
    token, guest.cookie = guest.token, None
    header, claims, signature = token.split(".")
    places = [*range(0, len(header), 7), *range(0, len(claims), 97), *range(0, len(signature) - 1, 5)]
    for part, place in ((part, place) for part in range(3) for place in places):
        words = [header, claims, signature]
        if place >= len(words[part]) - 1:
            continue
        letter = "A" if words[part][place] != "A" else "B"
        words[part] = words[part][:place] + letter + words[part][place + 1 :]
        answer = guest.send("GET", f"resource/{PATH}", Authorization=f"Bearer {'.'.join(words)}")
        assert answer.status_code == 401, (part, place)


def test_a_machine_that_no_longer_conforms_gets_nothing_with_its_old_token(face: Face) -> None:
    """The release verifies and appraises again: a token alone releases nothing."""
    harness = face.harness
    harness.add_key("model", policy=policy_text(measurement=b"\x01" * 48))
    name = KeyName(key_id="model")
    add_alias(harness.services.store, Alias(address="kbs:///a/b/c", key=name), actor=ACTOR, at=harness.clock())
    then = ReleaseSettings(disclosure=Disclosure.FULL, lease_seconds=None, via=frozenset({Wire.KBS}))
    set_release_settings(harness.services.store, name, then, actor=ACTOR, at=harness.clock())
    guest = Guest(face.http, tee="snp", attester=snp)
    refusal(guest.get("a/b/c"), 403, "PolicyDeny", "policy-not-met")
    assert guest.requests == 4


def test_a_key_that_discloses_nothing_looks_like_none(face: Face) -> None:
    harness = face.harness
    harness.add_key("model", policy=policy_text(measurement=b"\x01" * 48))
    add_alias(harness.services.store, Alias(address="kbs:///a/b/c", key=MODEL), actor=ACTOR, at=harness.clock())
    then = ReleaseSettings(disclosure=Disclosure.NONE, lease_seconds=None, via=frozenset({Wire.KBS}))
    set_release_settings(harness.services.store, MODEL, then, actor=ACTOR, at=harness.clock())
    guest = Guest(face.http, tee="snp", attester=snp)
    guest.attest()
    hidden, missing = guest.send("GET", "resource/a/b/c"), guest.send("GET", "resource/a/b/d")
    assert hidden.status_code == missing.status_code == 404
    assert hidden.text.replace("a/b/c", "PATH") == missing.text.replace("a/b/d", "PATH")


@pytest.mark.slow
def test_every_byte_of_the_evidence_counts(face: Face) -> None:
    guest = Guest(face.http, tee="snp", attester=snp)

    def flips(value: Json, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Json]]:
        if isinstance(value, dict):
            for name, member in value.items():
                yield from flips(member, (*path, name))
        elif isinstance(value, list):
            for at, member in enumerate(value):
                yield from flips(member, (*path, at))
        elif isinstance(value, int) and not isinstance(value, bool):
            yield path, value ^ 1

    template = snp(bytes(48))["attestation_report"]
    places = list(flips(template))
    assert len(places) > 600
    for place, _ in places:
        body = guest.attestation(guest.auth().json()["nonce"])
        target: Any = body["tee-evidence"]["primary_evidence"]["attestation_report"]
        for step in place[:-1]:
            target = target[step]
        target[place[-1]] ^= 1
        assert guest.send("POST", "attest", body).status_code == 401, place


# -- devices


def test_a_device_beside_the_cpu_is_bound_by_the_runtime_data(face: Face) -> None:
    upload(face)

    def device(digest: bytes) -> Json:
        return {**sample(digest), "svn": "2"}

    guest = Guest(face.http, devices={"sampledevice": device})
    assert guest.open(guest.get(PATH)) == SECRET
    assert guest.token is not None
    claims = json.loads(unb64url(guest.token.split(".")[1]))
    assert set(claims["submods"]) == {"cpu0", "gpu0"}
    assert claims["simulated"] is True
    body = guest.attestation(guest.auth().json()["nonce"])
    body["tee-evidence"]["additional_evidence"] = ""
    refusal(guest.send("POST", "attest", body), 401, "AttestationError", "report-data-mismatch")


def test_a_device_that_is_not_known_is_refused(face: Face) -> None:
    refusal(Guest(face.http, devices={"hygondcu": sample}).attest(), 401, "AttestationError", "kbs-tee-unsupported")


# -- administrators


def test_each_refusal_of_an_administrator_has_words_of_its_own(face: Face) -> None:
    path, variant = f"resource/{PATH}", "AdminAuthInitialization"
    answers = {
        "admin-token-missing": face.http.request("POST", f"/kbs/v0/{path}", content=b"x"),
        "admin-token-unverified": face.admin("POST", path, b"x", token=face.token(key=Ed25519PrivateKey.generate())),
        "admin-token-expired": face.admin("POST", path, b"x", token=face.token(exp=1_700_000_000)),
        "admin-role-missing": face.admin("POST", path, b"x", token=face.token(role=None)),
    }
    for code, answer in answers.items():
        refusal(answer, 401, variant, code)
    refusal(face.admin("POST", path, b"x", token=face.token(nbf=10**400)), 401, variant, "admin-token-expired")
    refusal(face.admin("POST", path, b"x", token=face.token("reader")), 403, variant, "admin-role-refused")
    assert not [entry for entry in face.harness.entries() if entry["kind"] == "key-imported"]


def test_a_role_may_use_its_addresses_alone(face: Face) -> None:
    payload = base64.b64encode(json.dumps({"svn": ["1"]}).encode()).decode()
    message = {"version": "0.1.0", "type": "sample", "payload": payload}
    assert face.admin("POST", "reference-value", message).status_code == 200
    answer = face.admin("GET", "reference-value/svn", token=face.token("reader"))
    assert answer.text == '["1"]'
    refusal(face.admin("POST", "reference-value", message, token=face.token("reader")), 403, "AdminAuthAccess", "role")


@pytest.mark.parametrize("path", ["resource%2Fdefault%2Ftest%2Fx", "resource/default%2Ftest%2Fx"])
def test_no_encoded_slash_leads_a_role_to_another_route(tmp_path: Path, path: str) -> None:
    rules = write_rules(tmp_path)
    text = rules.read_text().replace("^/kbs/v0/reference-value/.*$", "^/kbs/v0/(?:resource/)?[^/]+$")
    rules.write_text(text)
    with face_of(tmp_path, rules=rules) as face:
        answer = face.admin("POST", path, b"x", token=face.token("reader"))
        refusal(answer, 403, "AdminAuthInitialization", "admin-role-refused")
        assert not [entry for entry in face.harness.entries() if entry["kind"] == "key-imported"]


def test_a_client_up_to_0_20_signs_its_token_itself(tmp_path: Path) -> None:
    with face_of(tmp_path, rules=write_rules(tmp_path, provider='role = "admin"')) as face:
        assert face.admin("POST", f"resource/{PATH}", b"x", token=face.token(role=None)).status_code == 200


def test_an_administrator_is_named_in_the_log(face: Face) -> None:
    answer = face.admin("POST", f"resource/{PATH}", b"x", token=face.token(sub="alice", iss="idp"))
    assert answer.status_code == 200
    entry = next(one for one in reversed(face.harness.entries()) if one["kind"] == "key-imported")
    assert entry["actor"] == {"name": "idp|alice|role admin", "means": "kbs"}


def test_an_alias_is_not_overwritten_by_an_upload(face: Face) -> None:
    harness = face.harness
    harness.add_key("model")
    add_alias(harness.services.store, Alias(address=f"kbs:///{PATH}", key=MODEL), actor=ACTOR, at=harness.clock())
    refusal(face.admin("POST", f"resource/{PATH}", b"x"), 409, "PluginInternalError", "kbs-resource-not-uploaded")
    assert face.admin("DELETE", f"resource/{PATH}").status_code == 200
    with harness.services.store.reading() as tx:
        record = tx.keys.find(MODEL)
        assert record is not None
        assert record.destroy_at is None


def test_uploads_need_a_policy(tmp_path: Path) -> None:
    rules = write_rules(tmp_path)
    rules.write_text(rules.read_text().replace('policy = "guests.yaml"', ""))
    with face_of(tmp_path, rules=rules) as face:
        refusal(face.admin("POST", f"resource/{PATH}", b"x"), 409, "PluginInternalError", "kbs-policy-missing")


@pytest.mark.parametrize("path", ["a/b", "a/b/c/d", "a/..%2f/c", ".a/b/c"])
def test_an_upload_to_a_malformed_path_is_refused(face: Face, path: str) -> None:
    refusal(face.admin("POST", f"resource/{path}", b"x"), 400, "PluginInternalError", "kbs-path-invalid")


def test_a_value_of_more_than_a_mebibyte_is_refused(face: Face) -> None:
    answer = face.admin("POST", f"resource/{PATH}", bytes((1 << 20) + 1))
    refusal(answer, 400, "PluginInternalError", "secret-size-invalid")


# -- policies


@pytest.mark.parametrize(
    ("where", "body", "variant"),
    [
        ("resource-policy", {}, "PolicyEngineError"),
        ("attestation-policy", {"type": "rego", "policy_id": "default_cpu"}, "AttestationError"),
    ],
)
def test_a_policy_that_is_no_rego_is_refused_with_its_place(
    face: Face, where: str, body: dict[str, str], variant: str
) -> None:
    text = (
        "package policy\nallow { this is not rego\n"
        if where == "resource-policy"
        else "package policy\ntrust_claims := {\n"
    )
    policy = base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()
    answer = face.admin("POST", where, {**body, "policy": policy})
    refusal(answer, 401, variant, "line 2")


def test_an_attestation_policy_gives_the_vector(face: Face) -> None:
    text = 'package policy\nimport rego.v1\ntrust_claims := {"executables": 2, "hardware": 2, "configuration": 36}\n'
    policy = base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()
    body = {"type": "rego", "policy_id": "default_cpu", "policy": policy}
    assert face.admin("POST", "attestation-policy", body).status_code == 200
    guest = Guest(face.http)
    guest.attest()
    assert guest.token is not None
    appraisal = json.loads(unb64url(guest.token.split(".")[1]))["submods"]["cpu0"]
    assert appraisal["ear.status"] == "warning"
    assert appraisal["ear.trustworthiness-vector"] == {"configuration": 36, "executables": 2, "hardware": 2}


# -- the wire


def test_every_other_path_and_method_is_refused_in_the_protocols_form(face: Face) -> None:
    refusal(face.http.request("GET", "/kbs/v0/nosuch/x"), 404, "PluginNotFound", "Plugin nosuch not found")
    refusal(face.http.request("GET", "/kbs/v0/"), 404, "InvalidRequestPath", "route-unknown")
    refusal(face.http.request("GET", "/kbs/v0/auth"), 404, "PluginNotFound", "Plugin auth not found")
    refusal(face.http.request("PATCH", "/kbs/v0/auth"), 405, "HTTPFailed", "method-not-allowed")
    refusal(face.http.request("PUT", f"/kbs/v0/resource/{PATH}"), 405, "PluginInternalError", "method-not-allowed")


def test_large_heads_and_bodies_have_limits_of_their_own(face: Face) -> None:
    bearer = {"Authorization": "Bearer " + "a" * (126 * 1024 - 7)}
    refusal(face.http.request("GET", f"/kbs/v0/resource/{PATH}", headers=bearer), 401, "TokenVerifierError", "[")
    bearer = {"Authorization": "Bearer " + "a" * (130 * 1024)}
    refusal(
        face.http.request("GET", f"/kbs/v0/resource/{PATH}", headers=bearer), 431, "HTTPFailed", "headers-too-large"
    )
    answer = face.http.request("POST", "/kbs/v0/attest", content=bytes(2 * 1024 * 1024 + 1))
    refusal(answer, 413, "HTTPFailed", "payload reached size limit")
    assert face.http.request("GET", "/v1/identity", headers=bearer).status_code == 431


def test_the_cookie_is_literally_this(face: Face) -> None:
    guest = Guest(face.http)
    answer = guest.auth()
    value, *attributes = answer.headers["set-cookie"].split("; ")
    assert value.startswith("kbs-session-id=")
    assert attributes == ["Expires=Mon, 01 Jun 2026 12:05:00 GMT", "Path=/kbs/v0", "HttpOnly", "SameSite=Strict"]
    document = answer.json()
    assert list(document) == ["nonce", "extra-params"]
    assert document["extra-params"] == ""
    assert len(document["nonce"]) == 44


def test_the_cookie_is_secure_over_tls(tmp_path: Path) -> None:
    """A host name is used: clients take such a cookie from a loopback address in any case."""
    with face_of(tmp_path) as face:
        context = face.http.app.state.context  # type: ignore[attr-defined]
        settings = context.settings.model_copy(update={"tls_certificate_file": tmp_path / "certificate.pem"})
        object.__setattr__(context, "settings", settings)
        assert face.http.base_url.host == "kbs.test"
        assert Guest(face.http).auth().headers["set-cookie"].endswith("; Secure")


def test_two_cookies_are_none(face: Face) -> None:
    guest = Guest(face.http)
    guest.attest()
    guest.cookie = f"{guest.cookie}; {guest.cookie}"
    refusal(guest.send("GET", f"resource/{PATH}"), 401, "TokenNotFound", "token-missing")
