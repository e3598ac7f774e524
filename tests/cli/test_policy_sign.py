"""`attest policy sign` and `attest policy verify`."""

import json
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from attest.policy.document import read_document
from attest.policy.signatures import signed_bytes
from tests.cli.conftest import WHEN, Attest, Files

KEYS: dict[str, Ed25519PrivateKey | ec.EllipticCurvePrivateKey] = {
    "alice": Ed25519PrivateKey.from_private_bytes(b"a" * 32),
    "bob": ec.derive_private_key(0xB0B, ec.SECP256R1()),
}


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    for name, key in KEYS.items():
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (tmp_path / f"{name}.pem").write_bytes(private)
        (tmp_path / f"{name}.pem").chmod(0o600)
        (tmp_path / f"{name}.pub").write_bytes(public)
    return tmp_path


def test_sign_and_verify(attest: Attest, files: Files, keys: Path) -> None:
    policy = files.policy()
    ran = attest("policy", "sign", policy, "--key", keys / "alice.pem", "--at", WHEN)
    assert ran.code == 0, ran.err
    assert "unit version 3" in ran.out
    signature = json.loads((keys / "unit.yaml.sig").read_text())
    assert (signature["name"], signature["version"], signature["signed_at"]) == ("unit", 3, WHEN)
    ran = attest("policy", "verify", policy, "--signature", "unit.yaml.sig", "--key", keys / "alice.pub", "--json")
    assert (ran.code, ran.document["signers"]) == (0, [signature["key_id"]])
    assert ran.document["schema"] == "attest.policy-verification/1"
    page = attest("policy", "verify", policy, "--signature", "unit.yaml.sig", "--key", keys / "alice.pub")
    assert signature["key_id"] in page.out


def test_openssl_verifies_a_signature(attest: Attest, files: Files, keys: Path) -> None:
    policy = files.policy()
    ran = attest("policy", "sign", policy, "--key", keys / "bob.pem", "-o", "-")
    signature = json.loads(ran.out)
    import base64

    (keys / "signature.der").write_bytes(base64.b64decode(signature["signature"]))
    (keys / "message").write_bytes(signed_bytes(read_document(policy.read_bytes())))
    command = ["openssl", "dgst", "-sha256", "-verify", "bob.pub", "-signature", "signature.der", "message"]
    assert b"OK" in subprocess.run(command, cwd=keys, capture_output=True, check=True).stdout


def test_a_signature_file_is_not_replaced_by_accident(attest: Attest, files: Files, keys: Path) -> None:
    arguments = ("policy", "sign", files.policy(), "--key", keys / "alice.pem")
    assert attest(*arguments, "--json").document["algorithm"] == "Ed25519"
    assert attest(*arguments).code == 2
    assert attest(*arguments, "--force", "-q").out == ""


def test_two_of_two(attest: Attest, files: Files, keys: Path) -> None:
    policy = files.policy()
    for name in KEYS:
        attest("policy", "sign", policy, "--key", keys / f"{name}.pem", "-o", f"{name}.sig")
    both = ("--key", keys / "alice.pub", "--key", keys / "bob.pub")
    one = ("policy", "verify", policy, "--signature", "alice.sig")
    assert attest(*one, *both).code == 4  # without a number all of them are meant
    assert attest(*one, *both, "--threshold", "1").code == 0
    assert attest(*one, *both, "--threshold", "3").code == 2
    assert attest(*one, "--signature", "bob.sig", *both, "-q").out == ""
    ran = attest(*one, "--signature", "bob.sig", "--key", keys / "alice.pub")
    assert (ran.code, "has no effect" in ran.err) == (0, True)


def test_changed_content_is_refused_and_changed_spelling_is_not(attest: Attest, files: Files, keys: Path) -> None:
    policy = files.policy()
    attest("policy", "sign", policy, "--key", keys / "alice.pem", "-o", "a.sig")
    check = ("--signature", "a.sig", "--key", keys / "alice.pub")
    as_json = files.write("unit.json", json.dumps(read_document(policy.read_bytes())).encode())
    assert attest("policy", "verify", as_json, *check).code == 0
    changed = files.write("changed.yaml", policy.read_bytes().replace(b"snp: 26", b"snp: 25"))
    ran = attest("policy", "verify", changed, *check)
    assert (ran.code, ran.out) == (4, "")


def test_mc_23_roll_back_is_refused(attest: Attest, files: Files, keys: Path) -> None:
    policy = files.policy()
    attest("policy", "sign", policy, "--key", keys / "alice.pem", "-o", "a.sig")
    verify = ("policy", "verify", policy, "--signature", "a.sig", "--key", keys / "alice.pub", "--newer-than")
    older = files.write("older.yaml", policy.read_bytes().replace(b"version: 3", b"version: 2"))
    assert attest(*verify, "2").code == 0
    assert attest(*verify, older).code == 0
    assert attest(*verify, "3").code == 4
    assert attest(*verify, policy).code == 4
    assert attest(*verify, files.policy(name="other")).code == 2


def test_reference_values_too(attest: Attest, files: Files, keys: Path) -> None:
    document = {
        "schema": "attest.references/1",
        "name": "images",
        "version": 2,
        "origin": "the build",
        "issued": "2026-05-01T00:00:00Z",
        "expires": "2026-12-01T00:00:00Z",
        "values": {"image": {"kind": "snp-measurement", "values": ["ab" * 48]}},
    }
    file = files.write("images.json", json.dumps(document).encode())
    assert attest("policy", "sign", file, "--key", keys / "bob.pem").code == 0
    assert attest("policy", "verify", file, "--signature", "images.json.sig", "--key", keys / "bob.pub").code == 0
    assert attest("policy", "sign", files.write("x", b"x" * 5_000_000), "--key", keys / "bob.pem").code == 2


def test_wrong_usage(attest: Attest, files: Files, keys: Path) -> None:
    policy = files.policy()
    key = ("--key", keys / "alice.pem")
    bad = files.write("bad.yaml", policy.read_bytes().replace(b"products", b"product"))
    ran = attest("policy", "sign", bad, *key)
    assert (ran.code, "bad.yaml:" in ran.err) == (2, True)
    assert attest("policy", "sign", policy, "--key", keys / "alice.pub").code == 2
    assert attest("policy", "sign", "-", *key, stdin=policy.read_bytes()).code == 2
    assert attest("policy", "sign", "-", *key, "-o", "a.sig", stdin=policy.read_bytes()).code == 0
    assert attest("policy", "sign", policy, *key, "-o", "-", "--json").code == 2
    assert attest("policy", "sign", policy, *key, "-o", "-").out.startswith("{")
    assert attest("policy", "verify", "-", "--signature", "-", "--key", keys / "alice.pub").code == 2
    assert attest("policy", "verify", policy, "--signature", policy, "--key", keys / "alice.pub").code == 2
    assert attest("policy", "verify", policy, "--signature", "a.sig", *key).code == 2  # a private key
