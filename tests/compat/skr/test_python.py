"""Azure's SDK for Python against a vault: create, get, update, release, and how refusals arrive."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_der_private_key

from attest.clock import system_clock
from tests.compat.conftest import Step, program_of
from tests.compat.skr.conftest import Login, Vault, run, served
from tests.kms.skr.vault import MAA, OAEP, RELEASE_POLICY, Document, Workload, from_b64url, rsa_key

pytestmark = pytest.mark.loopback
CLIENT = "azure-keyvault-keys 4.11.3"
IDENTITY = "azure-identity 1.27.0"
PROGRAM = Path(__file__).with_name("sdk_client.py")
POLICY = json.dumps(RELEASE_POLICY)


@pytest.fixture
def python() -> Path:
    return program_of("ATTEST_AZURE_PYTHON")


def ask(python: Path, vault: Vault, *operations: tuple[str, Document], **settings: Any) -> Document:  # noqa: ANN401
    address = settings.pop("at", vault.url)
    given = {"vault": address, "ca": str(vault.ca), "token": vault.bearer(), "operations": operations, **settings}
    return run([python, PROGRAM], given)


def values(found: Document) -> list[Any]:
    """The outcomes, none of which is an error."""
    assert all("value" in one for one in found["results"]), found
    return [one["value"] for one in found["results"]]


def creation(name: str, **more: object) -> Document:
    return {"name": name, "exportable": True, "policy": POLICY, **more}


def number(text: str) -> int:
    return int.from_bytes(base64.b64decode(text), "big")


def text(one: int) -> str:
    return base64.b64encode(one.to_bytes((one.bit_length() + 7) // 8, "big")).decode()


def test_a_key_is_made_read_and_changed(python: Path, vault: Vault, step: Step) -> None:
    step(CLIENT, "create, get with and without a version, update, list; the resource check is on")
    found = ask(
        python,
        vault,
        ("create_rsa", creation("k1", hardware_protected=True, size=3072)),
        ("get", {"name": "k1"}),
        ("update", {"name": "k1", "tags": {"team": "a"}}),
        ("list", {}),
    )
    made, read, changed, listed = values(found)
    assert found["asked"] == [[f"{vault.resource}/.default", "tenant-1"]]
    assert made == read == {**changed, "tags": made["tags"]}
    assert changed["tags"] == {"team": "a"}
    assert (made["type"], made["exportable"], json.loads(made["policy"])) == ("RSA-HSM", True, RELEASE_POLICY)
    assert made["id"] == f"{vault.url}/keys/k1/{made['version']}"
    assert number(made["n"]).bit_length() == 3072
    assert f"{vault.url}/keys/k1" in listed
    (by_version,) = values(ask(python, vault, ("get", {"name": "k1", "version": made["version"]})))
    assert by_version == changed


@pytest.mark.parametrize("enc", [None, *OAEP])
def test_a_key_is_released_with_and_without_a_version(python: Path, vault: Vault, step: Step, enc: str | None) -> None:
    step(CLIENT, f"release with {enc or 'no enc'}, with and without a version, sync and async; answer verified")
    name, token = f"r{len(enc or '')}{str(enc)[-3:].strip('_')}", vault.token()
    effective, options = enc or "CKM_RSA_AES_KEY_WRAP", {} if enc is None else {"algorithm": enc}
    (made,) = values(ask(python, vault, ("create_rsa", creation(name))))
    given: Document = {"name": name, "target_attestation_token": token, "nonce": "a nonce", **options}
    version = made["version"]
    found = ask(python, vault, ("release", given), ("release", given | {"version": version}), ("release_async", given))
    for value, asked in zip(values(found), ("", f"/{version}", ""), strict=True):
        payload, material = vault.opened(value, effective)
        assert payload["request"] == {
            "api-version": "2025-07-01",
            "enc": effective,
            "kid": f"{vault.url}/keys/{name}{asked}",
            "nonce": "a nonce",
        }
        shown = payload["response"]["key"]
        assert json.loads(from_b64url(shown["release_policy"]["data"])) == RELEASE_POLICY
        key = load_der_private_key(material, None)
        assert isinstance(key, rsa.RSAPrivateKey)
        modulus = int.from_bytes(from_b64url(shown["key"]["n"]), "big")
        assert key.public_key().public_numbers().n == modulus == number(made["n"])


def test_keys_of_other_kinds_are_made_imported_and_released(python: Path, vault: Vault, step: Step) -> None:
    step(CLIENT, "create EC and oct, import RSA and oct, release them: public halves and bytes are equal")
    own = rsa_key("an owner's")
    private = own.private_numbers()
    public = private.public_numbers
    members = {"n": public.n, "e": public.e, "d": private.d, "p": private.p, "q": private.q}
    members |= {"dp": private.dmp1, "dq": private.dmq1, "qi": private.iqmp}
    jwk = {name: text(one) for name, one in members.items()}
    content = bytes(range(20))
    symmetric = {"kty": "oct-HSM", "k": base64.b64encode(content).decode()}
    release = {"target_attestation_token": vault.token()}
    names = ("made-ec", "made-oct", "own-rsa", "own-oct")
    found = values(
        ask(
            python,
            vault,
            ("create_ec", creation("made-ec", hardware_protected=True)),
            ("create_oct", creation("made-oct", size=256, hardware_protected=True)),
            ("import", creation("own-rsa", jwk={"kty": "RSA-HSM", **jwk})),
            ("import", creation("own-oct", jwk=symmetric)),
            *[("release", {"name": name, **release}) for name in names],
        )
    )
    keys = [vault.opened(value, "CKM_RSA_AES_KEY_WRAP")[1] for value in found[4:]]
    curve, imported = (load_der_private_key(keys[index], None) for index in (0, 2))
    assert isinstance(curve, ec.EllipticCurvePrivateKey)
    assert curve.public_key().public_numbers().x == number(found[0]["x"])
    assert isinstance(imported, rsa.RSAPrivateKey)
    assert imported.private_numbers() == private
    assert (len(keys[1]), keys[3]) == (32, content)


def test_a_key_is_rotated_and_deleted(python: Path, vault: Vault, step: Step) -> None:
    step(CLIENT, "rotate and schedule: another version, the same policy; delete; create again: 409")
    results = ask(
        python,
        vault,
        ("create_rsa", creation("life")),
        ("rotate", {"name": "life"}),
        ("versions", {"name": "life"}),
        ("schedule", {"name": "life", "after": "P90D"}),
        ("delete", {"name": "life"}),
        ("get", {"name": "life"}),
        ("create_rsa", creation("life")),
    )["results"]
    made, rotated, versions, schedule, deleted = (one["value"] for one in results[:5])
    assert schedule == [["rotate", "P90D"]] * 2
    assert rotated["policy"] == made["policy"]
    assert sorted(versions) == sorted([made["id"], rotated["id"]])
    assert deleted == rotated["id"]
    assert (results[5]["error"], results[5]["status"]) == ("ResourceNotFoundError", 404)
    assert (results[6]["error"], results[6]["status"]) == ("ResourceExistsError", 409)
    assert "skr-key-deleted" in results[6]["text"]


def test_refusals_arrive_as_errors_with_our_code(python: Path, vault: Vault, step: Step) -> None:
    step(CLIENT, "eight refused tokens, 404, 409, 400: errors with our code in their text")
    values(ask(python, vault, ("create_rsa", creation("errors"))))
    other = Workload(kek=rsa_key("other"), kid="other")
    elsewhere = {"kid": "evil", "jku": "https://evil.localhost/certs"}
    targets = {
        "token-issuer-untrusted": vault.token({"iss": "https://evil.example"}),
        "token-expired": vault.token({"exp": 1}),
        "token-key-unknown": Workload().token(system_clock(), header=elsewhere, key="another"),
        "skr-kek-invalid": vault.token(workload=Workload(kek=rsa_key("short", 1024))),
        "policy-not-met": vault.token({"x-ms-sevsnpvm-launchmeasurement": "cd" * 48}),
        "release-policy": vault.token(Workload().guest_claims(system_clock())),
        "token-algorithm-refused": Workload().symmetric_token(system_clock()),
        "skr-kek-ambiguous": vault.token({"x-ms-runtime": {"keys": [Workload().jwk(), other.jwk()]}}),
    }
    operations = [("release", {"name": "errors", "target_attestation_token": one}) for one in targets.values()]
    results = ask(python, vault, *operations)["results"]
    for code, one in zip(targets, results, strict=True):
        assert (one["error"], one["status"]) == ("HttpResponseError", 403), one
        assert "AccessDenied" in one["text"]
        assert code in one["text"]
    raw = {"name": "raw", "exportable": True}
    others = ask(
        python,
        vault,
        ("get", {"name": "nosuch"}),
        ("create_rsa", creation("errors")),
        ("create_rsa", raw),
        ("create_rsa", raw | {"policy_text": POLICY}),
        ("release", {"name": "nosuch", "target_attestation_token": "a.b.c"}),
    )["results"]
    assert [(one["error"], one["status"]) for one in others] == [
        ("ResourceNotFoundError", 404),
        ("ResourceExistsError", 409),
        ("HttpResponseError", 400),
        ("HttpResponseError", 400),
        ("ResourceNotFoundError", 404),
    ]
    codes = ("key-unknown", "skr-key-exists", "skr-policy-required", "skr-policy-not-encoded", "key-unknown")
    for code, one in zip(codes, others, strict=True):
        assert code in one["text"]
    denied = ask(python, vault, ("get", {"name": "errors"}), token=vault.bearer(role="none"))["results"][0]
    assert (denied["error"], denied["status"]) == ("HttpResponseError", 403)
    assert "skr-permission-missing" in denied["text"]


def test_a_caller_that_asks_too_often_waits(python: Path, tmp_path: Path, step: Step) -> None:
    step(CLIENT, "429 with Retry-After is retried, and arrives as an error without retries")
    limits = "client_requests_per_second = 0\nidentity_requests_per_second = 1\nidentity_burst = 1\n"
    with served(tmp_path / "service", more=limits) as vault:
        patient = values(ask(python, vault, ("list", {}), ("list", {}), retries=5))
        assert patient == [[], []]
        hasty = ask(python, vault, ("list", {}), ("list", {}), ("list", {}), retries=0)["results"]
        assert any(one.get("status") == 429 and "rate-limited" in one["text"] for one in hasty)


def test_a_real_credential_gets_its_token_from_a_login_service(
    python: Path, vault: Vault, login: Login, step: Step
) -> None:
    step(IDENTITY, "ClientSecretCredential against a login service of ours, create and release")
    found = ask(
        python,
        vault,
        ("create_rsa", creation("identity")),
        ("release", {"name": "identity", "target_attestation_token": vault.token()}),
        secret="a secret",
        tenant="tenant-1",
        login=login.url,
    )
    vault.opened(values(found)[1], "CKM_RSA_AES_KEY_WRAP")
    (form,) = login.forms
    assert (form["grant_type"], form["scope"]) == (["client_credentials"], [f"{vault.resource}/.default"])


def test_the_resource_check_of_the_client_can_be_off(python: Path, vault: Vault, step: Step) -> None:
    step(CLIENT, "resource check off: the same; with another name of the host: 404")
    assert values(ask(python, vault, ("list", {}), options={"verify_challenge_resource": False}))
    here = vault.url.replace("v1.", "")
    (found,) = ask(python, vault, ("list", {}), at=here, options={"verify_challenge_resource": False})["results"]
    assert (found["status"], MAA in found["text"]) == (404, False)
    assert "skr-vault-unknown" in found["text"]
