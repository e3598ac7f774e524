"""COSE_Sign1 over one pinned key."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from attest.endorsements.cose import algorithm_numbers, cose_signature_holds
from tests.endorsements.cose_made import CosePrivateKey, cose_sign

KEYS: list[CosePrivateKey] = [
    ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32))),
    ec.derive_private_key(5, ec.SECP256R1()),
    ec.derive_private_key(6, ec.SECP384R1()),
]


@pytest.mark.parametrize("key", KEYS)
def test_a_signature_holds_for_its_key_header_and_payload_only(key: CosePrivateKey) -> None:
    public = key.public_key()
    signature = cose_sign(key, protected=b"p", payload=b"data")
    assert cose_signature_holds(public, protected=b"p", payload=b"data", signature=signature)
    assert not cose_signature_holds(public, protected=b"q", payload=b"data", signature=signature)
    assert not cose_signature_holds(public, protected=b"p", payload=b"datb", signature=signature)
    for other in KEYS:
        if other is not key:
            holds = cose_signature_holds(other.public_key(), protected=b"p", payload=b"data", signature=signature)
            assert not holds


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("length", [0, 63, 65, 96, 97])
def test_a_signature_of_another_length_does_not_hold(key: CosePrivateKey, length: int) -> None:
    assert not cose_signature_holds(key.public_key(), protected=b"p", payload=b"data", signature=bytes(length))


def test_each_curve_has_its_algorithms_and_others_have_none() -> None:
    assert [algorithm_numbers(key.public_key())[0] for key in KEYS] == [-8, -7, -35]
    assert algorithm_numbers(ec.derive_private_key(5, ec.SECP521R1()).public_key()) == ()
