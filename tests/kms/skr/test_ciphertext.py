"""The ciphertext of a released key, by known answers (azure-skr.md, 17)."""

import pytest
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA1, SHA256, SHA384

from kms.api.skr.ciphertext import WRAPS, encrypt
from tests.kms.skr.vault import from_b64url
from tests.policy.skr_vectors import CIPHERTEXTS, KEK, P256_PKCS8, P256_WRAPPED, SECRET, SECRET_WRAPPED, WRAPPING_KEY

HASHES = {"CKM_RSA_AES_KEY_WRAP": SHA1(), "RSA_AES_KEY_WRAP_256": SHA256(), "RSA_AES_KEY_WRAP_384": SHA384()}  # noqa: S303


def kek() -> rsa.RSAPrivateKey:
    n, e, d, p, q, dp, dq, qi = (
        int.from_bytes(from_b64url(KEK[name]), "big") for name in ("n", "e", "d", "p", "q", "dp", "dq", "qi")
    )
    public = rsa.RSAPublicNumbers(e=e, n=n)
    return rsa.RSAPrivateNumbers(p=p, q=q, d=d, dmp1=dp, dmq1=dq, iqmp=qi, public_numbers=public).private_key()


@pytest.mark.parametrize("enc", CIPHERTEXTS)
@pytest.mark.parametrize(("material", "wrapped"), [(SECRET.hex(), SECRET_WRAPPED), (P256_PKCS8, P256_WRAPPED)])
def test_the_second_part_is_the_known_answer_and_the_first_opens_to_its_key(
    enc: str, material: str, wrapped: str
) -> None:
    asked: list[int] = []

    def random(size: int) -> bytes:
        asked.append(size)
        return bytes.fromhex(WRAPPING_KEY)

    found = encrypt(bytes.fromhex(material), kek=kek().public_key(), enc=enc, random=random)
    oaep = padding.OAEP(padding.MGF1(HASHES[enc]), HASHES[enc], None)
    assert found[256:].hex() == wrapped
    assert kek().decrypt(found[:256], oaep).hex() == WRAPPING_KEY
    assert asked == [32]
    if material == SECRET.hex():
        assert from_b64url(CIPHERTEXTS[enc])[256:] == found[256:]
        assert kek().decrypt(from_b64url(CIPHERTEXTS[enc])[:256], oaep).hex() == WRAPPING_KEY


def test_each_form_has_a_known_answer() -> None:
    assert set(WRAPS) == set(CIPHERTEXTS)
