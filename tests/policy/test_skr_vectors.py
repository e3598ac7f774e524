"""The key-wrapping vectors of specs/azure-skr.md, 9 and 17, hold with the library that a key server would use."""

from hashlib import sha256

import pytest
from cryptography.hazmat.primitives import hashes, keywrap
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from attest.encoding import base64url_bytes
from tests.policy.skr_vectors import (
    CIPHERTEXTS,
    KEK,
    P256_PKCS8,
    P256_SEED,
    P256_WRAPPED,
    RFC5649,
    RFC5649_KEK,
    SECRET,
    SECRET_WRAPPED,
    WRAPPING_KEY,
)

HASHES: dict[str, hashes.HashAlgorithm] = {
    "CKM_RSA_AES_KEY_WRAP": hashes.SHA1(),  # noqa: S303  the default of the published SDK
    "RSA_AES_KEY_WRAP_256": hashes.SHA256(),
    "RSA_AES_KEY_WRAP_384": hashes.SHA384(),
}


def number(name: str) -> int:
    return int.from_bytes(base64url_bytes(KEK[name], what=name), "big")


@pytest.mark.parametrize(("plain", "wrapped"), RFC5649)
def test_the_vectors_of_rfc_5649_hold(plain: str, wrapped: str) -> None:
    found = keywrap.aes_key_wrap_with_padding(bytes.fromhex(RFC5649_KEK), bytes.fromhex(plain))
    assert found.hex() == wrapped


def test_a_secret_and_a_private_key_wrap_to_the_bytes_of_the_specification() -> None:
    key = bytes.fromhex(WRAPPING_KEY)
    scalar = int.from_bytes(sha256(P256_SEED).digest(), "big")
    pkcs8 = ec.derive_private_key(scalar, ec.SECP256R1()).private_bytes(
        Encoding.DER, PrivateFormat.PKCS8, NoEncryption()
    )
    assert pkcs8.hex() == P256_PKCS8
    assert len(pkcs8) == 138
    for plain, wrapped in ((SECRET, SECRET_WRAPPED), (pkcs8, P256_WRAPPED)):
        assert keywrap.aes_key_wrap_with_padding(key, plain).hex() == wrapped
        assert len(wrapped) // 2 == 8 + -(-len(plain) // 8) * 8


@pytest.mark.parametrize("enc", sorted(HASHES))
def test_a_whole_ciphertext_opens_to_the_wrapping_key_and_the_secret(enc: str) -> None:
    public = rsa.RSAPublicNumbers(e=number("e"), n=number("n"))
    parts = {name: number(name) for name in ("p", "q", "d")}
    key = rsa.RSAPrivateNumbers(
        **parts, dmp1=number("dp"), dmq1=number("dq"), iqmp=number("qi"), public_numbers=public
    ).private_key()
    ciphertext = base64url_bytes(CIPHERTEXTS[enc], what=enc)
    first = key.key_size // 8  # never a constant: azure-skr.md 15, the container sidecar's 256
    oaep = padding.OAEP(mgf=padding.MGF1(HASHES[enc]), algorithm=HASHES[enc], label=None)
    wrapping = key.decrypt(ciphertext[:first], oaep)
    assert wrapping.hex() == WRAPPING_KEY
    assert ciphertext[first:].hex() == SECRET_WRAPPED
    assert keywrap.aes_key_unwrap_with_padding(wrapping, ciphertext[first:]) == SECRET
    assert len(ciphertext) == 296
