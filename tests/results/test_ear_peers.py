"""What is issued here is read by other people's libraries: PyJWT with our key set, pycose and cwt with our keys."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import cbor2
import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attest.results.ear import EAR_PROFILE, VerifierId
from attest.results.issuer import IssuerKey, SigningKeyState, TokenIssuer
from attest.results.raw_signatures import SigningKey
from tests.results.ear_vectors import COSE_EDDSA_HEX, ED25519
from tests.results.test_issuer import ISSUER, KEYS, RESULT, issuer, token
from tests.samples import AT, NONCE

PEER = os.environ.get("ATTEST_COSE_PYTHON")
needs_cose = pytest.mark.skipif(
    not PEER, reason="ATTEST_COSE_PYTHON names no interpreter that has pycose and cwt, which need cbor2 below 6"
)


# PyJWT knows the algorithm by its older name only.
@pytest.mark.parametrize("key", [*KEYS[:2], replace(KEYS[2], algorithm="EdDSA")], ids=lambda key: key.algorithm)
def test_pyjwt_verifies_our_token_with_our_key_set(key: SigningKey) -> None:
    of = issuer(key).with_next(KEYS[2] if key is not KEYS[2] and key.algorithm != "EdDSA" else KEYS[0])
    published = json.loads(of.jwks(AT))
    # A key set may have members that PyJWT does not know (Ed25519 by its new name); it passes over those.
    keys = jwt.PyJWKSet.from_dict(published)
    text = token(of, nonce=NONCE, audience=("kms",)).decode()
    header = jwt.get_unverified_header(text)
    assert header["typ"] == "eat+jwt"
    found = keys[header["kid"]]
    claims: dict[str, Any] = jwt.decode(
        text, found.key, algorithms=[key.algorithm], audience="kms", issuer=ISSUER,
        options={"verify_exp": False, "verify_iat": False, "verify_nbf": False},
    )  # fmt: skip
    assert claims["eat_profile"] == EAR_PROFILE
    assert claims["submods"]["cpu"]["ear_status"] == claims["ear_status"]
    with pytest.raises(jwt.InvalidAudienceError):
        jwt.decode(text, found.key, algorithms=[key.algorithm], audience="other", options={"verify_exp": False})
    with pytest.raises(jwt.InvalidSignatureError):
        jwt.decode(text[:-8] + "AAAAAAAA", found.key, algorithms=[key.algorithm], audience="kms")


def test_pyjwt_finds_our_token_expired_in_real_life() -> None:
    with pytest.raises(jwt.ExpiredSignatureError):
        jwt.decode(token(issuer()).decode(), KEYS[0].public, algorithms=["ES256"])


def asked(data: bytes, key: SigningKey) -> dict[str, Any]:
    assert PEER is not None
    single = TokenIssuer(
        issuer=ISSUER,
        verifier=VerifierId(developer="a", build="b"),
        keys=(IssuerKey(key=key, state=SigningKeyState.CURRENT),),
    )
    (cose,) = cbor2.loads(single.cose_key_set(AT))
    question = {
        "token": data.hex(),
        "pem": key.public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode(),
        "kid": cose[2].hex(),
        "algorithm": key.algorithm,
        # The older number of EdDSA: the peers do not know -19.
        "cose": {
            str(name): value.hex() if isinstance(value, bytes) else value for name, value in cose.items() if name != 3
        },
    }
    found = subprocess.run(
        [PEER, str(Path(__file__).with_name("cose_peer.py"))],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert found.returncode == 0, found.stderr[-2000:]
    told: dict[str, Any] = json.loads(found.stdout)
    return told


@needs_cose
@pytest.mark.parametrize("key", [*KEYS[:2], replace(KEYS[2], algorithm="EdDSA")], ids=lambda key: key.algorithm)
def test_pycose_and_cwt_verify_our_token(key: SigningKey) -> None:
    # cwt reads the clock, for which a token of this test's moment has expired unless it lives long.
    of = issuer(key, max_lifetime=timedelta(days=36500))
    data = of.issue(RESULT, token_id=bytes(16), form="cwt", lifetime=timedelta(days=36500))
    told = asked(data, key)
    assert told["pycose"] is True
    assert told["cwt"]["265"] == EAR_PROFILE
    assert told["cwt"]["1"] == ISSUER


@needs_cose
def test_pycose_agrees_on_the_known_message() -> None:
    assert PEER is not None
    script = """if True:
        import sys
        sys.path.insert(0, sys.argv[1])
        from cose_peer import by_pycose
        key = {1: 1, -1: 6, -2: bytes.fromhex(sys.argv[3])}
        print(by_pycose(bytes.fromhex(sys.argv[2]), key))
    """
    raw = ED25519.public.public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
    found = subprocess.run(
        [PEER, "-c", script, str(Path(__file__).parent), COSE_EDDSA_HEX, raw],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert found.stdout.strip() == "True", found.stderr[-2000:]
