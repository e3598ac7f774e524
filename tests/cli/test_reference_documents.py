"""Documents of reference values at the command line: a policy takes those that it accepts, and no others."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from ruamel.yaml import YAML

from attest.policy.reference_values.reference_documents import read_reference_document
from tests.cli.conftest import LAB, Attest, Files

FRESH = ("--nonce-text", "question")
POLICY = Path(__file__).parents[2] / "policies/snp-lab-simulated.yaml"


def document(measurement: str, **more: object) -> bytes:
    entry = {"kind": "snp-measurement", "values": [measurement], "origin": "a test"}
    head = {"schema": "attest.references/1", "name": "images", "version": 2, "origin": "a test"}
    dates = {"issued": "2026-01-01T00:00:00Z", "expires": "2027-01-01T00:00:00Z"}
    return json.dumps({**head, **dates, "values": {"workload": entry}, **more}).encode()


@pytest.fixture
def written(attest: Attest, files: Files) -> tuple[Path, Path]:
    """A document with the guest's measurement, and a policy that accepts that document and has none of its own."""
    report = attest("verify", files.extended, *LAB, *FRESH, "--json").document
    data = document(report["items"][0]["claims"]["measurement"])
    policy = dict(YAML(typ="safe", pure=True).load(POLICY.read_bytes()))
    del policy["reference_values"]
    digest = read_reference_document(data).digest.hex()
    policy["references"] = [{"document": "images", "sha256": digest}]
    policy["snp"] = {**policy["snp"], "measurement": ["workload"]}
    return files.write("images.json", data), files.write("policy.json", json.dumps(policy).encode())


def test_a_policy_takes_values_from_the_document_that_it_accepts(
    attest: Attest, files: Files, written: tuple[Path, Path]
) -> None:
    images, policy = written
    asked = ("appraise", files.extended, *LAB, *FRESH, "--policy", policy)
    assert attest(*asked, "--references", images).code == 0
    missing = attest(*asked)
    assert missing.code == 2
    assert "images" in missing.err
    twice = attest(*asked, "--references", images, "--references", images)
    assert twice.code == 2
    assert "two documents" in twice.err


def test_a_document_of_another_digest_is_not_accepted(attest: Attest, files: Files, written: tuple[Path, Path]) -> None:
    images, policy = written
    images.write_bytes(images.read_bytes().replace(b'"version": 2', b'"version": 3'))
    ran = attest("appraise", files.extended, *LAB, *FRESH, "--policy", policy, "--references", images)
    assert ran.code == 2
    assert "another one" in ran.err


def test_after_the_document_ends_its_values_no_longer_count(
    attest: Attest, files: Files, written: tuple[Path, Path]
) -> None:
    images, policy = written
    late = ("--offline", "--allow-simulated", "--at", "2027-02-01T00:00:00Z", "--unchecked", "revocation=expired too")
    ran = attest("appraise", files.extended, *late, *FRESH, "--policy", policy, "--references", images, "--json")
    assert ran.code == 1
    assert ran.check("policy.snp.measurement")["outcome"] == "fail"


def test_a_policy_takes_a_document_that_its_signer_vouches_for(
    attest: Attest, files: Files, written: tuple[Path, Path]
) -> None:
    images, policy = written
    for name in ("signer", "stranger"):
        private = Ed25519PrivateKey.generate()
        pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        files.write(f"{name}.key", pem).chmod(0o600)
        public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        files.write(f"{name}.pub", public)
        signed = attest(
            "policy", "sign", images, "--key", files.folder / f"{name}.key", "-o", files.folder / f"{name}.sig"
        )
        assert signed.code == 0, signed.err
    document = json.loads(policy.read_bytes())
    signer = json.loads((files.folder / "signer.sig").read_bytes())["key_id"]
    document["references"] = [{"document": "images", "signers": [signer], "minimum_version": 2}]
    policy.write_text(json.dumps(document))
    asked = ("appraise", files.extended, *LAB, *FRESH, "--policy", policy, "--references", images)

    def signed_by(name: str) -> tuple[object, ...]:
        folder = files.folder
        return "--references-signature", folder / f"{name}.sig", "--references-key", folder / f"{name}.pub"

    assert attest(*asked, *signed_by("signer")).code == 0
    for options in (signed_by("stranger"), signed_by("signer")[:2], signed_by("signer")[2:]):
        assert attest(*asked, *options).code == 2
    # A signature that claims the key and does not hold refuses, and so does one over another document.
    broken = json.loads((files.folder / "signer.sig").read_bytes())
    value = bytearray(base64.b64decode(broken["signature"]))
    value[0] ^= 1
    broken["signature"] = base64.b64encode(value).decode()
    files.write("signer.sig", json.dumps(broken).encode())
    ran = attest(*asked, *signed_by("signer"))
    assert ran.code == 2
    assert "signature" in ran.err
