"""Signatures: a closed table of algorithms and keys, remembered within bounds."""

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

from attest.endorsements import signatures
from attest.endorsements.signatures import load_public_key, signature_holds
from attest.errors import ChainError

ECDSA_SHA256 = bytes.fromhex("300a06082a8648ce3d040302")
ECDSA_SHA384 = bytes.fromhex("300a06082a8648ce3d040303")


def spki(key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey) -> bytes:
    """The DER SubjectPublicKeyInfo of a key."""
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def rsa_key(bits: int) -> rsa.RSAPublicKey:
    """A number of so many bits that looks like a modulus; nobody has its factors."""
    return rsa.RSAPublicNumbers(65537, (1 << bits) - (1 << 100) + 1).public_key()


@pytest.mark.parametrize("bits", [2048, 4096, 8192])
def test_rsa_keys_of_the_sizes_that_vendors_use_are_loaded(bits: int) -> None:
    assert load_public_key(spki(rsa_key(bits))).key_size == bits


@pytest.mark.parametrize("bits", [1024, 2047, 8193, 16384])
def test_rsa_keys_that_are_weak_or_slow_are_refused(bits: int) -> None:
    with pytest.raises(ChainError) as outcome:
        load_public_key(spki(rsa_key(bits)))
    assert outcome.value.code == "public-key-invalid"


@pytest.mark.parametrize("curve", [ec.SECP521R1(), ec.SECP256K1()])
def test_curves_that_no_vendor_uses_are_refused(curve: ec.EllipticCurve) -> None:
    with pytest.raises(ChainError):
        load_public_key(spki(ec.generate_private_key(curve).public_key()))


def test_keys_of_another_kind_are_refused() -> None:
    with pytest.raises(ChainError):
        load_public_key(spki(ed25519.Ed25519PrivateKey.generate().public_key()))


@pytest.mark.parametrize("size", [10, 1024, 17 * 1024])
@pytest.mark.parametrize(
    ("curve", "algorithm", "digest"),
    [
        (ec.SECP256R1(), ECDSA_SHA256, hashes.SHA256()),
        (ec.SECP384R1(), ECDSA_SHA384, hashes.SHA384()),
    ],
)
def test_a_signature_holds_over_exactly_its_bytes(
    size: int, curve: ec.EllipticCurve, algorithm: bytes, digest: hashes.HashAlgorithm
) -> None:
    key = ec.generate_private_key(curve)
    public, signed = spki(key.public_key()), bytes(size)
    signature = key.sign(signed, ec.ECDSA(digest))
    for _ in range(2):  # computed, then remembered
        assert signature_holds(signed, signature, algorithm, public)
        assert not signature_holds(signed + b"\0", signature, algorithm, public)
        assert not signature_holds(signed, signature, b"\x30\x00", public)
        assert not signature_holds(signed, b"", algorithm, public)
    signatures.forget()
    assert signature_holds(signed, signature, algorithm, public)


def test_an_algorithm_for_another_kind_of_key_never_holds() -> None:
    """must-check 20: no key confusion."""
    assert not signature_holds(b"x", b"y", ECDSA_SHA256, spki(rsa_key(2048)))


def test_few_large_documents_are_remembered_and_many_small_ones() -> None:
    signatures.forget()
    public = spki(ec.generate_private_key(ec.SECP256R1()).public_key())
    for number in range(100):
        signature_holds(number.to_bytes(20 * 1024, "big"), b"", ECDSA_SHA256, public)
        signature_holds(number.to_bytes(1024, "big"), b"", ECDSA_SHA256, public)
    assert signatures._large_holds.cache_info().currsize == 32  # noqa: SLF001  the bound is the point
    assert signatures._holds.cache_info().currsize == 100  # noqa: SLF001


@pytest.mark.parametrize(
    ("last", "digest"), [("0b", hashes.SHA256()), ("0c", hashes.SHA384()), ("0d", hashes.SHA512())]
)
def test_rsa_with_pkcs_1_holds_for_its_digest_only(last: str, digest: hashes.HashAlgorithm) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    signature, own = key.sign(b"signed", padding.PKCS1v15(), digest), spki(key.public_key())
    for other in ("0b", "0c", "0d"):
        algorithm = bytes.fromhex(f"300d06092a864886f70d0101{other}0500")
        assert signature_holds(b"signed", signature, algorithm, own) is (other == last)
    assert not signature_holds(b"signed", signature, bytes.fromhex(f"300d06092a864886f70d0101{last}0501"), own)
