"""`attest appraise TOKEN --policy`: policies over what other Verifiers found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import LAB, Attest, Files
from tests.results.services import AT, MAA, NONCE, SERVICE, maa_snp
from tests.results.test_token_policy import snp_policy

POLICY = Path(__file__).parents[2] / "policies/snp-lab-simulated.yaml"


@pytest.fixture
def given(tmp_path: Path) -> tuple[Any, ...]:
    """A token of Azure's with the keys and the nonce that it is judged by."""
    (tmp_path / "token.jwt").write_bytes(SERVICE.sign(maa_snp()))
    (tmp_path / "jwks.json").write_bytes(SERVICE.jwks())
    trust = f"{MAA}={tmp_path / 'jwks.json'}"
    return (tmp_path / "token.jwt", "--trust", trust, "--nonce", NONCE.hex(), "--at", AT.isoformat(), "--offline")


def written(folder: Path, name: str, document: dict[str, Any]) -> Path:
    path = folder / name
    path.write_text(json.dumps(document))
    return path


def test_a_token_of_azures_is_judged_by_a_policy_that_takes_it(
    attest: Attest, tmp_path: Path, given: tuple[Any, ...]
) -> None:
    good = written(tmp_path, "good.json", snp_policy() | {"name": "good"})
    ran = attest("appraise", *given, "--policy", good, "--json")
    assert ran.code == 0, ran.err
    assert ran.document["outcome"] == "affirmed"
    assert ran.document["policy"]["name"] == "good"
    assert ran.document["items"][0]["kind"] == "token"
    checks = {check["id"]: check["outcome"] for check in ran.document["checks"]}
    assert checks["policy.verifier"] == checks["policy.snp.measurement"] == checks["token.signature"] == "pass"
    assert list(checks).count("freshness") == 1
    assert "AFFIRMED" in attest("appraise", *given, "--policy", good).out
    bad = written(tmp_path, "bad.json", snp_policy(measurement=["other"]) | {"name": "bad"})
    both = attest("appraise", *given, "--policy", good, "--policy", bad, "--json")
    assert both.code == 1
    assert [(one["name"], one["outcome"]) for one in both.document["policies"]] == [
        ("good", "affirmed"),
        ("bad", "not-affirmed"),
    ]


def test_a_policy_that_names_no_verifier_is_no_policy_for_tokens(
    attest: Attest, tmp_path: Path, given: tuple[Any, ...]
) -> None:
    plain = snp_policy()
    del plain["verifiers"]
    ran = attest("appraise", *given, "--policy", written(tmp_path, "plain.json", plain))
    assert ran.code == 2
    assert "verifiers" in ran.err
    assert attest("appraise", *given, "--token", "out.jwt", "--token-key", tmp_path / "absent").code == 2


def test_an_ear_is_accepted_by_the_policy_that_its_verifier_applied(
    attest: Attest, files: Files, tmp_path: Path
) -> None:
    fresh = ("--nonce-text", "question")
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY.read_text() + '\nverifiers:\n  - issuer: "verifier"\n')
    assert attest("token", "keygen", "-o", tmp_path / "key.pem").code == 0
    assert attest("token", "jwks", tmp_path / "key.pem", "-o", tmp_path / "jwks.json").code == 0
    key = ("--token-key", tmp_path / "key.pem", "--token-nonce", b"question".hex())
    issued = ("--token", tmp_path / "ear.jwt", *key, "--token-issuer", "verifier")
    made = attest("appraise", files.extended, *LAB, *fresh, "--policy", policy, *issued)
    assert made.code == 0, made.err
    asked = ("appraise", tmp_path / "ear.jwt", "--trust", f"verifier={tmp_path / 'jwks.json'}", *LAB[2:], *fresh)
    ran = attest(*asked, "--policy", policy, "--json")
    assert ran.code == 0, ran.out + ran.err
    assert ran.document["simulated"] is True
    other = tmp_path / "other.yaml"
    other.write_text(policy.read_text().replace("version: 1", "version: 2"))
    refused = attest(*asked, "--policy", other, "--json")
    assert refused.code == 1
    assert "policy.verifier.applied" in {c["id"] for c in refused.document["checks"] if c["outcome"] == "fail"}


def test_recorded_tokens_are_replayed_by_diff(attest: Attest, tmp_path: Path, given: tuple[Any, ...]) -> None:
    recorded = tmp_path / "recorded"
    recorded.mkdir()
    (recorded / "token.jwt").write_bytes(SERVICE.sign(maa_snp()))
    takes = written(tmp_path, "takes.json", snp_policy())
    plain = snp_policy()
    del plain["verifiers"]
    ran = attest("policy", "diff", written(tmp_path, "plain.json", plain), takes, "--evidence", recorded, "--json")
    (one,) = ran.document["evidence"]
    assert one["old"]["because"] == ["policy-not-for-tokens"]
    assert one["new"]["because"] == ["token-issuer-untrusted"]  # recorded tokens bring no keys that count
