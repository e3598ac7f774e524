"""Keys of vaults: what the service makes, what an owner may import, and what is public of them."""

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from attest.encoding import base64url_bytes
from kms.domain.errors import KeyConflictError
from kms.domain.keys import KeyPurpose
from kms.domain.material import ALGORITHMS, DEFAULT_ALGORITHMS, new_material, require_algorithm, require_material
from kms.domain.secret import EXPORT, SecretBytes
from kms.domain.vault_material import VAULT_ALGORITHMS, imported_private_key, public_members
from kms.release.exchange import _PURPOSES
from tests.kms.support import FakeRandom

GENERATED = [name for name, one in VAULT_ALGORITHMS.items() if one.is_generated]


ED25519 = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))


def pkcs8(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


@pytest.mark.parametrize("algorithm", GENERATED)
def test_the_service_makes_a_key_that_fits_its_algorithm(algorithm: str) -> None:
    made = new_material(algorithm, random=FakeRandom())
    require_material(made, algorithm=algorithm)
    for other in set(GENERATED) - {algorithm}:
        with pytest.raises(KeyConflictError) as caught:
            require_material(made, algorithm=other)
        assert caught.value.code == "key-material-invalid"


def test_symmetric_keys_of_other_lengths_are_imported() -> None:
    with pytest.raises(KeyConflictError) as caught:
        new_material("skr-oct", random=FakeRandom())
    assert caught.value.code == "secret-not-generated"
    for size in (1, 15, 16, 64):
        require_material(SecretBytes(bytes(range(size))), algorithm="skr-oct")
    for size in (0, 65):
        with pytest.raises(KeyConflictError) as caught:
            require_material(SecretBytes(bytes(range(size))), algorithm="skr-oct")
        assert caught.value.code == "key-material-invalid"
    with pytest.raises(KeyConflictError) as caught:
        require_material(SecretBytes(bytes(32)), algorithm="skr-oct")
    assert caught.value.code == "key-material-weak"


@pytest.mark.parametrize(
    "content", [b"", b"\x30\x00", b"text", pkcs8(ED25519)], ids=["nothing", "a DER", "text", "Ed25519"]
)
def test_another_content_is_no_key_of_a_vault(content: bytes) -> None:
    with pytest.raises(KeyConflictError) as caught:
        require_material(SecretBytes(content), algorithm="skr-ec-p256")
    assert caught.value.code == "key-material-invalid"
    with pytest.raises(KeyConflictError):
        public_members(SecretBytes(content))


def test_the_numbers_of_an_rsa_key_are_examined_once_before_it_is_stored() -> None:
    key = rsa.generate_private_key(65537, 2048)
    whole = pkcs8(key)
    numbers = key.private_numbers()
    prime, other = (number.to_bytes(128, "big") for number in (numbers.p, numbers.p ^ 2))
    damaged = whole.replace(prime, other)
    assert damaged != whole
    require_material(SecretBytes(whole), algorithm="skr-rsa-2048")
    with pytest.raises(KeyConflictError) as caught:
        require_material(SecretBytes(damaged), algorithm="skr-rsa-2048")
    assert caught.value.code == "key-material-invalid"
    assert public_members(SecretBytes(damaged)) == public_members(SecretBytes(whole)), "what is stored was examined"


def test_an_imported_key_gets_the_algorithm_that_fits() -> None:
    curve = ec.generate_private_key(ec.SECP384R1())
    material, algorithm = imported_private_key(curve)
    assert algorithm == "skr-ec-p384"
    assert material.lend(EXPORT, bytes) == pkcs8(curve)
    point = curve.public_key().public_numbers()
    found = public_members(material)
    assert found["crv"] == "P-384"
    assert int.from_bytes(base64url_bytes(found["y"], what="y"), "big") == point.y
    assert len(base64url_bytes(found["x"], what="x")) == 48
    for key in (ec.generate_private_key(ec.SECP256K1()), rsa.generate_private_key(65537, 2056)):
        with pytest.raises(KeyConflictError) as caught:
            imported_private_key(key)
        assert caught.value.code == "key-material-invalid"


def test_every_purpose_has_a_default_algorithm() -> None:
    for purpose in KeyPurpose:
        assert ALGORITHMS[require_algorithm(DEFAULT_ALGORITHMS[purpose], purpose=purpose)].purpose is purpose


def test_each_protocol_carries_the_purposes_that_it_can_encrypt() -> None:
    carried = {str(wire): set(purposes) for wire, purposes in _PURPOSES.items()}
    vault = {"skr-oct", "skr-rsa", "skr-ec"}
    assert carried == {
        "native": {"model-key", "prompt-key", "secret"},
        "kbs": {"model-key", "prompt-key", "secret", *vault},
        "skr": {"model-key", *vault},
    }
