"""Tokens that are signed here, and the library `ear` for Rust: each reads what the other signed."""

import json
import subprocess
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from attest.clock import this_second
from attest.results import ExpectedEar, verify_ear
from attest.results.ear import EAR_PROFILE
from attest.results.jose import read_jwks
from attest.results.raw_signatures import SigningKey
from tests.compat.conftest import Step, program_of
from tests.results.test_issuer import ISSUER, RESULT, issuer

CLIENT = "ear 0.6.0 (Rust)"
PRIVATE: dict[str, ec.EllipticCurvePrivateKey | Ed25519PrivateKey] = {
    "ES256": ec.derive_private_key(21, ec.SECP256R1()),
    "ES384": ec.derive_private_key(22, ec.SECP384R1()),
    "EdDSA": Ed25519PrivateKey.from_private_bytes(b"\x17" * 32),
}
# The library has the older name of Ed25519 only.
KEYS = {name: replace(SigningKey.of(one), algorithm=name) for name, one in PRIVATE.items()}
Document = dict[str, Any]  # Any: JSON that the tests look into


def ear_peer(act: str, algorithm: str, question: Document) -> subprocess.CompletedProcess[str]:
    """Verify or sign with the library."""
    command = [str(program_of("ATTEST_EAR")), act, algorithm]
    return subprocess.run(command, input=json.dumps(question), capture_output=True, text=True, check=False, timeout=60)


@cache
def signed(algorithm: str) -> tuple[str, Document]:
    """A token that lives for long, since the library reads the clock, and the published key."""
    of = issuer(KEYS[algorithm], max_lifetime=timedelta(days=36500))
    token = of.issue(RESULT, token_id=bytes(16), lifetime=timedelta(days=36500), nonce=b"n" * 32)
    (jwk,) = json.loads(of.jwks(this_second()))["keys"]
    return token.decode(), jwk


@pytest.mark.parametrize("algorithm", KEYS)
def test_the_library_verifies_a_token_with_the_published_key(step: Step, algorithm: str) -> None:
    step(CLIENT, f"verifies a token of this project with {algorithm}")
    token, jwk = signed(algorithm)
    found = ear_peer("verify", algorithm, {"token": token, "jwk": jwk})
    assert found.returncode == 0, found.stderr
    claims = json.loads(found.stdout)
    (submodule,) = claims["submods"].values()
    assert (claims["eat_profile"], submodule["ear_status"]) == (EAR_PROFILE, claims["ear_status"])
    assert submodule["ear_trustworthiness_vector"]


@pytest.mark.parametrize("algorithm", KEYS)
def test_the_library_refuses_an_altered_token_and_another_key(step: Step, algorithm: str) -> None:
    step(CLIENT, f"refuses an altered token with {algorithm}")
    token, jwk = signed(algorithm)
    head, claims, signature = token.split(".")
    other, other_jwk = signed(next(one for one in KEYS if one != algorithm))
    altered = claims[:40] + ("A" if claims[40] != "A" else "B") + claims[41:]
    wrong = "B" if signature[10] == "A" else "A"
    for text in (
        f"{head}.{altered}.{signature}",
        f"{head}.{claims}.{signature[:10]}{wrong}{signature[11:]}",
        f"{head}.{claims}.",
        other,
    ):
        refused = ear_peer("verify", algorithm, {"token": text, "jwk": jwk})
        assert (refused.returncode, refused.stdout) == (1, ""), text
    assert ear_peer("verify", algorithm, {"token": token, "jwk": other_jwk}).returncode == 1


@pytest.mark.parametrize("algorithm", KEYS)
def test_a_token_that_the_library_signed_verifies_here(step: Step, algorithm: str) -> None:
    step(CLIENT, f"signs a token that verifies here with {algorithm}")
    now = this_second()
    claims = {
        "eat_profile": EAR_PROFILE,
        "iss": ISSUER,
        "iat": int(now.timestamp()),
        "exp": int(now.timestamp()) + 300,
        "ear_verifier_id": {"developer": "someone else", "build": "1"},
        "submods": {"cpu": {"ear_status": "affirming", "ear_trustworthiness_vector": {"hardware": 2}}},
    }
    kid = KEYS[algorithm].kid
    pem = PRIVATE[algorithm].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    made = ear_peer("sign", algorithm, {"claims": claims, "pem": pem, "kid": kid})
    assert made.returncode == 0, made.stderr
    trusted = {ISSUER: read_jwks(json.dumps({"keys": [signed(algorithm)[1]]}).encode())}
    found = verify_ear(made.stdout.strip().encode(), trusted=trusted, at=now, expected=ExpectedEar())
    assert (found.issuer, found.key_id, str(found.ear.submods["cpu"].status)) == (ISSUER, kid, "affirming")
