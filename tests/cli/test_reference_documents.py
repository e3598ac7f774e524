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
    assert "not the one that the policy names" in ran.err


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


# -- the other commands that read a policy


def test_every_command_that_reads_a_policy_takes_its_documents(
    attest: Attest, files: Files, written: tuple[Path, Path]
) -> None:
    images, policy = written
    for command in (("check",), ("explain",), ("diff", policy)):
        asked = ("policy", *command, policy)
        ran = attest(*asked)
        assert (ran.code, "--references" in ran.err) == (2, True)
        assert attest(*asked, "--references", images, "--json").code == 0
    explained = attest("policy", "explain", policy, "--references", images, "--json").document
    assert explained["reference_values"]["workload"]["origin"] == "images version 2: a test"
    fails = attest("policy", "explain", policy, "--references", images, "--against", files.extended, *LAB, *FRESH)
    assert fails.code == 0


def test_a_policy_that_names_documents_is_signed_and_verified_without_them(
    attest: Attest, files: Files, written: tuple[Path, Path]
) -> None:
    private = Ed25519PrivateKey.from_private_bytes(b"a" * 32)
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    key = files.write("key.pem", pem)
    key.chmod(0o600)
    public = files.write("key.pub", private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    policy = written[1]
    signature = files.folder / "policy.sig"
    assert attest("policy", "sign", policy, "--key", key, "-o", signature).code == 0
    assert attest("policy", "verify", policy, "--signature", signature, "--key", public).code == 0


def test_lint_says_what_could_not_be_judged(attest: Attest, files: Files, written: tuple[Path, Path]) -> None:
    images, policy = written

    def rules(*more: object) -> set[str]:
        ran = attest("policy", "lint", policy, "--at", "2026-06-01T00:00:00Z", *more, "--json")
        return {one["rule"] for one in ran.document["policies"][0]["findings"] if one["rule"].startswith("references")}

    assert rules() == {"references-missing"}
    assert rules("--references", images) == set()
    late = ("--at", "2027-02-01T00:00:00Z", "--references", images)
    assert rules(*late) == {"references-expired"}
    assert attest("policy", "lint", policy, *late).code == 1
    other = files.write("other.json", images.read_bytes().replace(b'"images"', b'"others"'))
    assert rules("--references", images, "--references", other) == {"references-not-named"}


def test_lint_of_several_policies_gives_each_its_own_documents(
    attest: Attest, files: Files, written: tuple[Path, Path]
) -> None:
    images, policy = written
    other = files.write("other.json", images.read_bytes().replace(b'"images"', b'"others"'))
    digest = read_reference_document(other.read_bytes()).digest.hex()
    second = json.loads(policy.read_bytes()) | {"references": [{"document": "others", "sha256": digest}]}
    path = files.write("second.json", json.dumps(second).encode())
    ran = attest("policy", "lint", policy, path, "--references", images, "--references", other, "--json")
    found = [one["rule"] for each in ran.document["policies"] for one in each["findings"]]
    assert "references-not-named" not in found
    bad = files.write("bad.json", path.read_bytes().replace(b'"workload"', b'""'))
    assert attest("policy", "lint", bad).code == 2


def test_lint_tells_the_line_of_the_row(attest: Attest, files: Files, written: tuple[Path, Path]) -> None:
    policy = files.policy()
    row = f'references:\n  - {{document: images, sha256: "{"00" * 32}"}}\n'
    text = policy.read_text()
    policy.write_text(text + row)
    ran = attest("policy", "lint", policy, "--json")
    (finding,) = [one for one in ran.document["policies"][0]["findings"] if one["rule"] == "references-missing"]
    assert finding["line"] == len(text.splitlines()) + 2


def test_diff_says_what_a_new_version_of_a_document_does(
    attest: Attest, files: Files, written: tuple[Path, Path]
) -> None:
    images, policy = written
    old = json.loads(images.read_bytes())
    entry = old["values"]["workload"] | {"values": ["ab" * 48]}
    new = old | {"version": 3, "values": {"workload": entry}}
    pair: dict[str, tuple[Path, str]] = {}
    for name, document in (("old", old), ("new", new)):
        path = files.write(f"{name}.json", json.dumps(document).encode())
        pair[name] = path, read_reference_document(path.read_bytes()).digest.hex()
    source = json.loads(policy.read_bytes())
    sides = []
    for name, (_, digest) in pair.items():
        changed = source | {"references": [{"document": "images", "sha256": digest}]}
        sides.append(files.write(f"{name}-policy.json", json.dumps(changed).encode()))
    folder = files.folder / "recorded"
    folder.mkdir()
    (folder / "extended.bin").write_bytes(files.extended.read_bytes())
    named = ("--references-a", pair["old"][0], "--references-b", pair["new"][0])
    lab = ("--evidence", folder, "--allow-simulated", "--at", "2026-06-01T00:00:00Z")
    ran = attest("policy", "diff", *sides, *named, *lab, "--json")
    assert ran.code == 1
    effects = {(one["path"], one["effect"]) for one in ran.document["changes"]}
    assert {("snp.measurement", "looser"), ("snp.measurement", "stricter"), ("references", "label")} <= effects
    (replayed,) = ran.document["evidence"]
    assert (replayed["old"]["outcome"], replayed["new"]["outcome"]) == ("affirmed", "not-affirmed")


def test_convert_tells_that_a_release_policy_has_no_documents(
    attest: Attest, files: Files, written: tuple[Path, Path]
) -> None:
    images, policy = written
    asked = ("policy", "convert", policy, "--to", "skr", "--authority", "https://verifier.example", "--json")
    assert attest(*asked).code == 2
    ran = attest(*asked, "--references", images)
    assert "references.images" in {loss["name"] for loss in ran.document["losses"]}
    assert attest("policy", "convert", images, "--from", "nvidia", "--references", images).code == 2


def test_cases_beside_a_policy_name_its_documents(attest: Attest, files: Files, written: tuple[Path, Path]) -> None:
    images, _ = written
    report = files.extended
    case = {
        "name": "the guest",
        "evidence": report.name,
        "at": "2026-06-01T00:00:00Z",
        "nonce": b"question".hex(),
        "allow_simulated": True,
        "expect": "affirmed",
    }
    tests = {"schema": "attest.policy-tests/1", "policy": "policy.json", "cases": [case]}
    path = files.write("policy.tests.yaml", json.dumps(tests | {"references": [{"document": images.name}]}).encode())
    ran = attest("policy", "test", path, "--json")
    assert (ran.code, ran.document["outcome"]) == (0, "passed")
    path.write_text(json.dumps(tests))
    assert attest("policy", "test", path).code == 2


def test_doctor_takes_documents_only_for_a_policy(attest: Attest, written: tuple[Path, Path]) -> None:
    assert attest("doctor", "--references", written[0]).code == 2
