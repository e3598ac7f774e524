"""Keys and raw signatures: RFC 7638 thumbprints, fixed lengths, and nothing of another kind."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from attest.errors import ConfigurationError
from attest.results.raw_signatures import SigningKey, jwk_thumbprint, public_key_of, read_signing_key, signature_holds
from tests.results.ear_vectors import ED25519, ED25519_THUMBPRINT, P256, P256_THUMBPRINT

P384_PRIVATE = ec.derive_private_key(7, ec.SECP384R1())
P384 = SigningKey.of(P384_PRIVATE)
RFC_7638 = {
    "kty": "RSA",
    "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjB"
    "ZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8"
    "KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_"
    "xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw",
    "e": "AQAB",
    "alg": "RS256",
    "kid": "2011-04-29",
}


def test_the_known_keys_have_the_known_thumbprints() -> None:
    assert (ED25519.kid, P256.kid) == (ED25519_THUMBPRINT, P256_THUMBPRINT)
    assert jwk_thumbprint(RFC_7638) == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"


@pytest.mark.parametrize("jwk", [{}, {"kty": "EC", "crv": "P-256"}, {"kty": "oct", "k": "AA"}, {"kty": 3}, {"kty": []}])
def test_a_key_without_its_members_has_no_thumbprint(jwk: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="JWK"):
        jwk_thumbprint(jwk)


@pytest.mark.parametrize("key", [ED25519, P256, P384], ids=lambda key: key.algorithm)
def test_a_key_survives_its_jwk_and_its_signature_holds_for_one_algorithm(key: SigningKey) -> None:
    public, signature = public_key_of(key.jwk), key.sign(b"message")
    assert public == key.public
    for algorithm in ("ES256", "ES384", "RS256", "none"):
        holds = signature_holds(public, algorithm=algorithm, message=b"message", signature=signature)
        assert holds is (algorithm == key.algorithm)
    assert not signature_holds(public, algorithm=key.algorithm, message=b"massage", signature=signature)
    assert not signature_holds(public, algorithm=key.algorithm, message=b"message", signature=signature + b"\0")
    assert not signature_holds(public, algorithm=key.algorithm, message=b"message", signature=bytes(len(signature)))


@pytest.mark.parametrize(
    "change",
    [{"x": "AA"}, {"x": "!"}, {"y": "AA"}, {"x": 3}, {"crv": "P-521"}, {"kty": "RSA"}, {"y": "A" * 43}],
    ids=repr,
)
def test_a_key_that_is_not_on_its_curve_is_none(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        public_key_of({**P256.jwk, **change})


def pem(key: Any, encryption: Any = None) -> bytes:  # noqa: ANN401  of any kind
    data: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption())
    return data


def test_a_private_key_is_read_from_pem() -> None:
    assert read_signing_key(pem(P384_PRIVATE)).kid == P384.kid


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        pem(P384_PRIVATE, BestAvailableEncryption(b"secret")),
        P384.public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        pem(rsa.generate_private_key(public_exponent=65537, key_size=2048)),
        pem(ec.generate_private_key(ec.SECP521R1())),
        pem(Ed448PrivateKey.generate()),
    ],
    ids=["empty", "garbage", "encrypted", "public", "rsa", "p521", "ed448"],
)
def test_what_is_no_key_for_tokens_is_refused_without_repeating_it(data: bytes) -> None:
    with pytest.raises(ConfigurationError) as outcome:
        read_signing_key(data)
    assert outcome.value.code == "token-key-invalid"
    assert outcome.value.__cause__ is None


def test_an_algorithm_of_another_key_is_refused() -> None:
    with pytest.raises(ValueError, match="not an algorithm of this key"):
        SigningKey.of(P384_PRIVATE, algorithm="ES256")
    with pytest.raises(ConfigurationError):
        read_signing_key(pem(P384_PRIVATE), algorithm="ES256")
