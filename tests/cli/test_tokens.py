"""Tokens of NRAS at the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Attest, Files
from tests.results.tokens import AT, ISSUER, NONCE, Signer, token

SIGNER = Signer()
WHEN = ("--at", AT.isoformat(), "--offline")
NONCE_OPTION = ("--nonce", NONCE.hex())


@pytest.fixture
def jwks(tmp_path: Path) -> str:
    path = tmp_path / "jwks.json"
    path.write_bytes(SIGNER.jwks())
    return f"{ISSUER}={path}"


@pytest.fixture
def eat(tmp_path: Path) -> Path:
    path = tmp_path / "detached_eat.json"
    path.write_bytes(token(SIGNER))
    return path


def test_a_token_is_verified_with_the_keys_that_are_named(attest: Attest, eat: Path, jwks: str) -> None:
    ran = attest("verify", eat, "--trust", jwks, *NONCE_OPTION, *WHEN, "--json")
    assert ran.code == 0
    assert ran.document["outcome"] == "verified"
    assert ran.document["freshness"] == "matched"
    assert ran.document["items"][0]["kind"] == "token"
    assert ran.document["items"][0]["claims"]["submodules"]["GPU-0"]["measres"] == "success"
    page = attest("verify", eat, "--trust", jwks, *NONCE_OPTION, *WHEN)
    assert "VERIFIED" in page.out


def test_a_token_is_appraised_by_the_baseline(attest: Attest, eat: Path, jwks: str, tmp_path: Path) -> None:
    assert attest("appraise", eat, "--trust", jwks, *NONCE_OPTION, *WHEN).code == 0
    stale = attest("appraise", eat, "--trust", jwks, *WHEN, "--json")
    assert stale.code == 1
    assert stale.check("freshness")["outcome"] == "fail"
    relaxed = attest("appraise", eat, "--trust", jwks, *WHEN, "--unchecked", "freshness=recorded", "--quiet")
    assert relaxed.code == 0
    bad = tmp_path / "bad.json"
    bad.write_bytes(token(SIGNER, device={"measres": "fail"}))
    ran = attest("appraise", bad, "--trust", jwks, *NONCE_OPTION, *WHEN, "--json")
    assert ran.code == 1
    assert ran.check("policy.token.measres")["got"] == "fail"


def test_keys_beside_the_token_or_among_the_endorsements_are_not_trusted(
    attest: Attest, eat: Path, tmp_path: Path
) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/jwks.json").write_bytes(SIGNER.jwks())
    (tmp_path / "keys/broken.json").write_bytes(b'{"keys": []}')
    (tmp_path / "keys/other.txt").write_bytes(b"words")
    ran = attest("verify", eat, "--endorsements", tmp_path / "keys", *WHEN, "-v")
    assert ran.code == 5
    assert "token-issuer-untrusted" in ran.out
    assert "--trust" in ran.err
    assert "0 of 1 keys are certified" in ran.err


def test_an_old_token_says_how_to_judge_it_at_its_time(attest: Attest, eat: Path, jwks: str) -> None:
    ran = attest("verify", eat, "--trust", jwks, "--at", "2026-12-01T00:00:00Z", "--offline")
    assert ran.code == 4
    assert "--at" in ran.err
    assert attest("appraise", eat, "--trust", jwks, "--at", "2026-12-01T00:00:00Z", "--offline").code == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("--nonce", "00"), "32 bytes"), (("--report-data", "00" * 64), "--nonce"), (("--trust", "{jwks}"), "twice")],
)
def test_wrong_use_is_told(attest: Attest, eat: Path, jwks: str, arguments: tuple[str, str], words: str) -> None:
    ran = attest("verify", eat, "--trust", jwks, *(word.format(jwks=jwks) for word in arguments), *WHEN)
    assert ran.code == 2
    assert words in ran.err


def test_a_policy_for_evidence_judges_no_token(attest: Attest, eat: Path, jwks: str) -> None:
    policy = Path(__file__).parents[2] / "policies/snp-h100-lab-simulated.yaml"
    ran = attest("appraise", eat, "--trust", jwks, "--policy", policy, *WHEN)
    assert ran.code == 2
    assert "tokens" in ran.err


def test_the_recorded_token_of_nras(attest: Attest, vectors_dir: Path) -> None:
    folder = vectors_dir / "nvidia"
    case = next(c for c in json.loads((folder / "MANIFEST.json").read_text())["cases"] if c["id"] == "nras-token")
    files = {name: folder / file for name, file in case["files"].items()}
    command = ("appraise", files["token"], "--trust", f"{ISSUER}={files['jwks']}", "--nonce", case["expected_nonce"])
    assert attest(*command, "--at", case["at"]).code == 0
    assert attest(*command).code == 4


def test_an_audience_that_nothing_names_is_not_passed_over(attest: Attest, files: Files, eat: Path, jwks: str) -> None:
    for command in ("verify", "appraise"):
        for given in ((eat, "--trust", jwks, *NONCE_OPTION), (files.report, "--allow-simulated")):
            ran = attest(command, *given, *WHEN, "--audience", "https://kms.example")
            assert ran.code == 2
            assert "--audience" in ran.err
