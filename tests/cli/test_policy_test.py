"""`attest policy test`, and the pytest plugin over the same files."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attest.encoding import JsonValue
from attest.policy.signatures import sign_policy, signature_json
from attest.policy.signing_keys import key_id
from tests.cli.conftest import WHEN, Attest, Files

REPOSITORY = Path(__file__).resolve().parents[2]
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "attest.pytest_plugin")
SHIPPED = sorted((REPOSITORY / "policies").glob("*.tests.yaml"))


def cases(*texts: str) -> bytes:
    return ("schema: attest.policy-tests/1\ncases:\n" + "".join(texts)).encode()


def case(name: str, evidence: str, expect: str, more: str = "", freshness: str = "nonce: 7175657374696f6e") -> str:
    return (
        f'  - name: {name}\n    evidence: {evidence}\n    at: "{WHEN}"\n    allow_simulated: true\n'
        f"    expect: {expect}\n    {freshness}\n{more}"
    )


@pytest.fixture
def beside(files: Files) -> Path:
    """A policy with the evidence of its cases beside it, and four cases that come out as expected."""
    files.policy()
    for name in ("extended", "flipped"):
        getattr(files, name)
    token = "eyJhbGciOiJub25lIn0.e30."
    files.write("token", token.encode())
    return files.write(
        "unit.tests.yaml",
        cases(
            case("good", "extended.bin", "affirmed"),
            case("stale", "extended.bin", "not-affirmed", freshness="failed: [freshness]"),
            case("broken", "flipped.bin", "refused", "    error: snp-signature-invalid\n"),
            case("other nonce", "[extended.bin]", "refused", freshness='nonce: "00"'),
        ),
    )


def test_there_are_cases_beside_every_shipped_policy() -> None:
    policies = {path.name for path in (REPOSITORY / "policies").glob("*.yaml")} - {path.name for path in SHIPPED}
    assert {path.name.replace(".tests.yaml", ".yaml") for path in SHIPPED} <= policies
    assert len(SHIPPED) >= 8


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_cases_come_out_as_expected(attest: Attest, path: Path) -> None:
    ran = attest("policy", "test", path)
    assert ran.code == 0, ran.out
    assert "not-affirmed" in ran.out


def test_cases_are_found_by_their_file_their_policy_or_their_directory(attest: Attest, beside: Path) -> None:
    page = attest("policy", "test")
    assert page.out == (
        "unit.tests.yaml\n  pass  good: affirmed\n  pass  stale: not-affirmed\n  pass  broken: refused\n"
        "  pass  other nonce: refused\n4 cases, 0 failed\n"
    )
    for name in (beside.name, "unit.yaml", "."):
        assert attest("policy", "test", name).out == page.out
    assert "        freshness: expected" in attest("policy", "test", "-v").out
    document = attest("policy", "test", "--json").document
    assert (document["schema"], document["outcome"]) == ("attest.policy-test/1", "passed")
    assert [one["got"] for one in document["cases"]] == ["affirmed", "not-affirmed", "refused", "refused"]
    assert document["cases"][2]["error"] == "snp-signature-invalid"
    assert attest("policy", "test", "-q").out == ""


def test_a_case_that_comes_out_otherwise_says_why(attest: Attest, files: Files, beside: Path) -> None:
    files.policy(measurement=bytes(48))
    ran = attest("policy", "test", beside.name)
    assert ran.code == 1
    assert "  FAIL  good: not-affirmed\n        expected affirmed, got not-affirmed\n" in ran.out
    assert "        policy.snp.measurement: expected good: 00" in ran.out
    assert "failed: policy.snp.measurement was not expected to fail" in ran.out
    assert ran.out.endswith("4 cases, 2 failed\n")
    document = attest("policy", "test", beside.name, "--json").document
    assert (document["outcome"], document["failed"]) == ("failed", 2)
    assert document["cases"][0]["problems"][0] == "expected affirmed, got not-affirmed"


def test_a_file_may_name_its_policy_and_a_token_is_no_evidence(attest: Attest, files: Files, beside: Path) -> None:
    text = cases(
        *(case(name, name, "refused", freshness="unchecked: {freshness: x}") for name in ("token", "unit.yaml"))
    )
    files.write("other.tests.yaml", b"policy: unit.yaml\n" + text)
    ran = attest("policy", "test", "other.tests.yaml")
    assert ran.code == 0, ran.out + ran.err


def test_what_is_wrong_with_files_is_exit_2(attest: Attest, files: Files, beside: Path) -> None:
    files.write("lone.tests.yaml", cases(case("x", "extended.bin", "affirmed")))
    files.write("typo.tests.yaml", b"schema: attest.policy-tests/1\ncase: []\n")
    files.write("absent.tests.yaml", b"policy: unit.yaml\n" + cases(case("x", "absent.bin", "affirmed")))
    (files.folder / "empty").mkdir()
    for name in ("lone.tests.yaml", "typo.tests.yaml", "absent.tests.yaml", "unknown.yaml", "empty"):
        ran = attest("policy", "test", name)
        assert (ran.code, ran.out) == (2, ""), name
    assert "typo.tests.yaml" in attest("policy", "test", "typo.tests.yaml").err


def run_pytest(folder: Path) -> tuple[int, str]:
    ran = subprocess.run(
        [*PYTEST, "--rootdir", folder, "-c", os.devnull, folder],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(REPOSITORY),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        check=False,
        text=True,
    )
    return ran.returncode, ran.stdout


def test_pytest_collects_the_same_cases(attest: Attest, files: Files, beside: Path) -> None:
    files.write("foreign.tests.yaml", b"somebody: else\n")
    code, out = run_pytest(files.folder)
    assert code == 0, out
    assert "4 passed" in out
    files.policy(measurement=bytes(48))
    code, out = run_pytest(files.folder)
    assert code == 1
    assert "2 failed, 2 passed" in out
    assert "expected affirmed, got not-affirmed" in out
    assert "Traceback" not in out


def test_cases_of_a_policy_that_names_a_signed_document(attest: Attest, files: Files) -> None:
    key = Ed25519PrivateKey.from_private_bytes(b"a" * 32)
    document: dict[str, JsonValue] = {
        "schema": "attest.references/1",
        "name": "images",
        "version": 1,
        "origin": "a test",
        "issued": "2026-01-01T00:00:00Z",
        "expires": "2027-01-01T00:00:00Z",
        "values": {"workload": {"kind": "snp-measurement", "values": [files.guest.measurement.hex()]}},
    }
    signature = signature_json(sign_policy(document, key=key, at=datetime(2026, 6, 1, tzinfo=UTC)))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for name, data in (("images.json", document), ("images.sig", signature)):
        files.write(name, json.dumps(data).encode())
    files.write("builder.pem", public)
    policy = files.policy().read_text()
    begin, _, rest = policy.partition("reference_values:")
    row = f'references:\n  - {{document: images, signers: ["{key_id(key.public_key()).hex()}"]}}\n'
    files.write("unit.yaml", (begin + row + rest[rest.index("snp:") :].replace("[good]", "[workload]")).encode())
    named = b"references:\n  - {document: images.json, signatures: [images.sig], keys: [builder.pem]}\n"
    good = cases(case("good", files.extended.name, "affirmed"))
    path = files.write("unit.tests.yaml", named + good)
    assert attest("policy", "test", path).code == 0
    code, out = run_pytest(files.folder)
    assert (code, "1 passed" in out) == (0, True), out
    unsigned = b"references:\n  - {document: images.json}\n"
    for without in (b"", unsigned):
        files.write("unit.tests.yaml", without + good)
        assert attest("policy", "test", path).code == 2
    code, out = run_pytest(files.folder)
    assert (code, "not signed by the signers that the policy names" in out) == (2, True), out


def test_pytest_tells_a_wrong_file_in_one_line(attest: Attest, files: Files, beside: Path) -> None:
    files.write("typo.tests.yaml", cases("  - nam: x\n"))
    code, out = run_pytest(files.folder)
    assert code == 2
    assert "typo.tests.yaml" in out
    assert "Traceback" not in out


def test_the_plugin_collects_and_fails_in_this_process_too(
    files: Files, beside: Path, request: pytest.FixtureRequest
) -> None:
    from attest.pytest_plugin import pytest_collect_file

    session = request.session
    assert pytest_collect_file(files.write("notes.yaml", b""), session) is None
    assert pytest_collect_file(files.write("foreign.tests.yaml", b"x: 1"), session) is None
    collected = pytest_collect_file(beside, session)
    assert collected is not None
    items = list(collected.collect())
    assert [item.name for item in items] == ["good", "stale", "broken", "other nonce"]
    for item in items:
        item.runtest()  # type: ignore[union-attr]  # items, not collectors
