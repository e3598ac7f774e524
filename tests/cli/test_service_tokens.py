"""Tokens of Azure, Intel and Google at the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from tests.cli.conftest import Attest
from tests.results.services import (
    AT,
    HASH,
    ISSUERS,
    NONCE,
    NONCE_TEXT,
    REGISTER,
    SAMPLES,
    SERVICE,
    google,
    google_gpu,
    ita_tdx,
    maa_snp,
    submods,
)
from tests.results.token_chains import GOOD, SIGNER, encoded

WHEN = ("--at", AT.isoformat(), "--offline")
ASKED = ("--nonce", NONCE.hex())


@pytest.fixture
def jwks(tmp_path: Path) -> Path:
    path = tmp_path / "jwks.json"
    path.write_bytes(SERVICE.jwks())
    return path


def write(folder: Path, claims: dict[str, Any]) -> Path:
    path = folder / "token.jwt"
    path.write_bytes(SERVICE.sign(claims) + b"\n")
    return path


def options(claims: dict[str, Any], jwks: Path) -> tuple[str, ...]:
    audience = ("--audience", claims["aud"]) if "aud" in claims else ()
    return ("--trust", f"{claims['iss']}={jwks}", *audience, *ASKED, *WHEN)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_token_is_verified_with_the_keys_that_are_named(
    attest: Attest, tmp_path: Path, jwks: Path, name: str
) -> None:
    claims = SAMPLES[name]
    token = write(tmp_path, claims)
    ran = attest("verify", token, *options(claims, jwks), "--json")
    assert ran.code == 0, ran.err
    assert (ran.document["outcome"], ran.document["freshness"]) == ("verified", "matched")
    (item,) = ran.document["items"]
    assert (item["kind"], item["claims"]["service"]) == ("token", name.partition(" ")[0])
    assert item["claims"]["facts"]["cpu"]["kind"] in ("sev-snp", "tdx", "sgx")
    assert item["claims"]["token"] == claims
    page = attest("verify", token, *options(claims, jwks))
    assert "VERIFIED" in page.out
    assert claims["iss"] in page.out


@pytest.mark.parametrize("name", [name for name in SAMPLES if name != "maa sgx"])
def test_a_token_is_appraised_by_the_baseline(attest: Attest, tmp_path: Path, jwks: Path, name: str) -> None:
    claims = SAMPLES[name]
    token = write(tmp_path, claims)
    ran = attest("appraise", token, *options(claims, jwks), "--json")
    assert ran.code == 0, ran.out
    assert ran.document["outcome"] == "affirmed"
    assert ran.check("freshness")["outcome"] == "pass"
    assert "AFFIRMED" in attest("appraise", token, *options(claims, jwks)).out


def test_what_a_token_states_stands_under_our_names(attest: Attest, tmp_path: Path, jwks: Path) -> None:
    claims = google(submods=submods(nvidia_gpu={"cc_mode": "ON", "gpus": [google_gpu()]}))
    ran = attest("verify", write(tmp_path, claims), *options(claims, jwks), "--json")
    facts = ran.document["items"][0]["claims"]["facts"]
    assert facts["cpu"]["statements"]["container"]["image_digest"] == f"sha256:{HASH}"
    assert facts["gpu0"]["claims"]["nvml"] == {"cc_mode": True, "dev_tools_mode": False}
    page = attest("verify", write(tmp_path, claims), *options(claims, jwks))
    assert f"sha256:{HASH}" in page.out.replace("\n", "").replace(" ", "")
    snp = maa_snp()
    ran = attest("verify", write(tmp_path, snp), *options(snp, jwks), "--json")
    cpu = ran.document["items"][0]["claims"]["facts"]["cpu"]
    assert cpu["claims"]["measurement"] == REGISTER
    assert cpu["claims"]["reported_tcb"] == {"bootloader": 10, "tee": 0, "snp": 27, "microcode": 88}
    assert cpu["claims"]["policy"]["debug"] is False
    assert cpu["held_data"] == "55" * 64
    assert attest("verify", write(tmp_path, snp), *options(snp, jwks), "-v").code == 0


def test_a_nonce_may_be_given_as_the_text_that_it_is(attest: Attest, tmp_path: Path, jwks: Path) -> None:
    token = write(tmp_path, maa_snp())
    trust = ("--trust", f"{ISSUERS['maa']}={jwks}")
    assert attest("verify", token, *trust, "--nonce-text", NONCE_TEXT, *WHEN).code == 0
    wrong = attest("verify", token, *trust, "--nonce-text", "another", *WHEN, "--json")
    assert wrong.code == 4
    assert wrong.document["freshness"] == "mismatched"
    assert wrong.document["error"]["code"] == "nonce-mismatch"


def test_without_a_nonce_nothing_is_affirmed(attest: Attest, tmp_path: Path, jwks: Path) -> None:
    token = write(tmp_path, maa_snp())
    trust = ("--trust", f"{ISSUERS['maa']}={jwks}")
    assert attest("verify", token, *trust, *WHEN, "--json").document["freshness"] == "not evaluated"
    stale = attest("appraise", token, *trust, *WHEN, "--json")
    assert (stale.code, stale.check("freshness")["outcome"]) == (1, "fail")
    assert attest("appraise", token, *trust, *WHEN, "--unchecked", "freshness=recorded", "--quiet").code == 0


def test_what_the_service_denies_is_genuine_and_not_affirmed(attest: Attest, tmp_path: Path, jwks: Path) -> None:
    claims = maa_snp(**{"x-ms-sevsnpvm-is-debuggable": True})
    token = write(tmp_path, claims)
    assert attest("verify", token, *options(claims, jwks)).code == 0
    ran = attest("appraise", token, *options(claims, jwks), "--json")
    assert ran.code == 1
    assert ran.check("policy.token.debug")["got"] == "true"


@pytest.mark.parametrize(
    ("claims", "refused"),
    [
        (google(), (4, "token-audience-mismatch")),
        (maa_snp(exp=5), (4, "token-expired")),
        (maa_snp(nbf=99_999_999_999), (4, "token-not-yet-valid")),
        (maa_snp(exp="soon"), (3, "token-claim-invalid")),
        (maa_snp(**{"x-ms-attestation-type": "tpm"}), (3, "token-kind-unsupported")),
    ],
)
def test_exit_codes_of_what_does_not_hold(
    attest: Attest, tmp_path: Path, jwks: Path, claims: dict[str, Any], refused: tuple[int, str]
) -> None:
    token = write(tmp_path, claims)
    for command in ("verify", "appraise"):
        ran = attest(command, token, "--trust", f"{claims['iss']}={jwks}", *WHEN, "--json")
        assert (ran.code, ran.document["error"]["code"]) == refused


def test_keys_among_the_endorsements_are_not_trusted(attest: Attest, tmp_path: Path, jwks: Path) -> None:
    ran = attest("verify", write(tmp_path, maa_snp()), "--endorsements", jwks, *WHEN)
    assert ran.code == 5
    assert "token-issuer-untrusted" in ran.out
    assert "--trust" in ran.err


def test_a_root_certificate_may_be_named_instead_of_keys(attest: Attest, tmp_path: Path) -> None:
    token, root = tmp_path / "pki.jwt", tmp_path / "root.pem"
    token.write_bytes(SIGNER.sign(google(), kid=None, x5c=encoded(GOOD)))
    root.write_bytes(GOOD[2].public_bytes(Encoding.PEM))
    asked = ("--audience", "https://kms.example", *ASKED, *WHEN)
    assert attest("verify", token, "--trust", f"{ISSUERS['google']}={root}", *asked).code == 0
    root.write_bytes(GOOD[0].public_bytes(Encoding.PEM))
    ran = attest("verify", token, "--trust", f"{ISSUERS['google']}={root}", *asked)
    assert ran.code == 2
    assert "root certificate" in ran.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--report-data", "00" * 64), "--nonce"),
        (("--trust", "{trust}"), "twice"),
        (("--nonce", ""), "nonce"),
    ],
)
def test_wrong_use_is_told(attest: Attest, tmp_path: Path, jwks: Path, arguments: tuple[str, str], words: str) -> None:
    trust = f"{ISSUERS['maa']}={jwks}"
    given = [word.format(trust=trust) for word in arguments]
    ran = attest("verify", write(tmp_path, maa_snp()), "--trust", trust, *given, *WHEN)
    assert ran.code == 2
    assert words in ran.err


def test_a_policy_for_evidence_judges_no_token(attest: Attest, tmp_path: Path, jwks: Path) -> None:
    policy = Path(__file__).parents[2] / "policies/snp-h100-lab-simulated.yaml"
    claims = maa_snp()
    ran = attest("appraise", write(tmp_path, claims), *options(claims, jwks), "--policy", policy)
    assert ran.code == 2
    assert "tokens" in ran.err


# -- inspect


def test_what_a_token_says_can_be_looked_at_and_is_not_verified(attest: Attest, tmp_path: Path) -> None:
    token = write(tmp_path, ita_tdx())
    ran = attest("inspect", token, "--json")
    assert ran.code == 0, ran.err
    assert ran.document["verified"] is False
    (file,) = ran.document["files"]
    assert file["form"] == "token"
    told = file["token"]
    assert told["service"] == "ita"
    assert told["signature_verified"].startswith("no")
    assert told["header"] == {"alg": "RS256", "typ": "JWT", "kid": SERVICE.kid}
    assert told["claims"] == ita_tdx()
    page = attest("inspect", token)
    assert "nothing here was verified" in page.out
    assert REGISTER in page.out.replace("\n", "").replace(" ", "")


def test_the_parts_of_nvidias_token_can_be_looked_at(attest: Attest, tmp_path: Path) -> None:
    from tests.results.tokens import Signer, token

    path = tmp_path / "eat.json"
    path.write_bytes(token(Signer()))
    (file,) = attest("inspect", path, "--json").document["files"]
    told = file["token"]
    assert told["service"] == "nras"
    assert told["submodules"]["GPU-0"]["claims"]["measres"] == "success"


@pytest.mark.parametrize(
    "data",
    [
        json.dumps({"payload": "e30", "signature": "AA", "protected": "e30"}).encode(),
        b'[["JWT", "e30.e30.AA"], {"GPU-0": 5}]',
        b"eyJhIjoxfQ.eyJhIjoxLCJhIjoxfQ.AAAA",
    ],
    ids=["another serialisation", "another device", "duplicated members"],
)
def test_a_token_that_cannot_be_read_is_refused(attest: Attest, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(data)
    ran = attest("inspect", path)
    assert ran.code == 3
    assert "error:" in ran.err
