"""COSE_Sign1 over one pinned key."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from attest.endorsements.cose import algorithm_numbers, cose_signature_holds
from tests.endorsements.cose_made import CosePrivateKey, cose_sign

RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
KEYS: list[CosePrivateKey] = [
    ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32))),
    ec.derive_private_key(5, ec.SECP256R1()),
    ec.derive_private_key(6, ec.SECP384R1()),
    RSA_KEY,
]


def holds(key: CosePrivateKey, signature: bytes, *, protected: bytes = b"p", payload: bytes = b"data") -> bool:
    public = key.public_key()
    algorithm = algorithm_numbers(public)[0]
    return cose_signature_holds(public, algorithm=algorithm, protected=protected, payload=payload, signature=signature)


@pytest.mark.parametrize("algorithm", [-37, -38, -39])
def test_an_rsa_key_has_three_algorithms_and_a_signature_is_of_one(algorithm: int) -> None:
    signature = cose_sign(RSA_KEY, protected=b"p", payload=b"data", algorithm=algorithm)
    for claimed in (-37, -38, -39, -257):
        found = cose_signature_holds(
            RSA_KEY.public_key(), algorithm=claimed, protected=b"p", payload=b"data", signature=signature
        )
        assert found is (claimed == algorithm)


@pytest.mark.parametrize("key", KEYS)
def test_a_signature_holds_for_its_key_header_and_payload_only(key: CosePrivateKey) -> None:
    signature = cose_sign(key, protected=b"p", payload=b"data")
    assert holds(key, signature)
    assert not holds(key, signature, protected=b"q")
    assert not holds(key, signature, payload=b"datb")
    for other in KEYS:
        if other is not key:
            assert not holds(other, signature)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("length", [0, 63, 65, 96, 97])
def test_a_signature_of_another_length_does_not_hold(key: CosePrivateKey, length: int) -> None:
    assert not holds(key, bytes(length))


def test_each_curve_has_its_algorithms_and_others_have_none() -> None:
    assert [algorithm_numbers(key.public_key())[0] for key in KEYS] == [-8, -7, -35, -37]
    assert algorithm_numbers(ec.derive_private_key(5, ec.SECP521R1()).public_key()) == ()
