"""Signed tokens and key sets: what is accepted, and every published way to confuse a verifier of tokens."""

from __future__ import annotations

import base64
import hmac
import json
from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from joserfc.jwk import ECKey

from attest.errors import AttestError, ConfigurationError, EndorsementError, EvidenceError, SignatureError
from attest.results.jose import MAX_JWKS_BYTES, MAX_TOKEN_BYTES, TokenKey, is_jwks, read_jwks, verify_token
from tests.results.tokens import AT, Signer

ES384 = frozenset({"ES384"})
SIGNER = Signer()


def refusal(text: str, *, keys: tuple[TokenKey, ...] | None = None, algorithms: frozenset[str] = ES384) -> AttestError:
    with pytest.raises(AttestError) as outcome:
        verify_token(text, keys=SIGNER.keys() if keys is None else keys, algorithms=algorithms, what="the token")
    return outcome.value


def with_header(**header: object) -> str:
    """A token with a header that a signing library would not write; its signature is right for the other parts."""
    good = SIGNER.sign({"iss": "x"})
    head = base64.urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=").decode()
    return ".".join([head, *good.split(".")[1:]])


def test_a_token_signed_by_a_trusted_key_gives_its_claims() -> None:
    found = verify_token(SIGNER.sign({"iss": "x"}), keys=SIGNER.keys(), algorithms=ES384, what="the token")
    assert (dict(found.claims), found.algorithm, found.kid) == ({"iss": "x"}, "ES384", "kid-1")


def test_a_token_may_be_as_long_as_its_limit_says() -> None:
    claims = {"iss": "x", "more": "x" * 300_000}
    found = verify_token(SIGNER.sign(claims), keys=SIGNER.keys(), algorithms=ES384, what="the token")
    assert found.claims == claims


def test_every_bit_of_payload_and_signature_counts() -> None:
    good = SIGNER.sign({"iss": "x", "n": 1})
    head, payload, signature = good.split(".")
    for index in range(len(payload)):
        other = "A" if payload[index] != "A" else "B"
        with pytest.raises((SignatureError, EvidenceError)):
            verify_token(
                ".".join([head, payload[:index] + other + payload[index + 1 :], signature]),
                keys=SIGNER.keys(),
                algorithms=ES384,
                what="the token",
            )
    raw = base64.urlsafe_b64decode(signature + "==")
    for index in range(len(raw)):
        bad = base64.urlsafe_b64encode(raw[:index] + bytes([raw[index] ^ 1]) + raw[index + 1 :]).rstrip(b"=").decode()
        assert refusal(f"{head}.{payload}.{bad}").code == "token-signature-invalid"


@pytest.mark.parametrize("alg", ["none", "HS256", "HS384", "ES256", "RS256", "", None, 384, ["ES384"]])
def test_the_header_does_not_choose_the_algorithm(alg: object) -> None:
    assert refusal(with_header(alg=alg, kid="kid-1")).code == "token-algorithm-refused"


def test_a_public_key_used_as_a_shared_secret_signs_nothing() -> None:
    secret = SIGNER.key.as_pem(private=False)
    words = with_header(alg="HS256", kid="kid-1").rsplit(".", 1)[0]
    mac = base64.urlsafe_b64encode(hmac.digest(secret, words.encode(), "sha256")).rstrip(b"=").decode()
    assert refusal(f"{words}.{mac}").code == "token-algorithm-refused"


@pytest.mark.parametrize("name", ["jwk", "jku", "x5u", "x5c", "crit", "b64", "zip"])
def test_a_header_that_brings_a_key_an_address_or_something_critical_is_refused(name: str) -> None:
    error = refusal(with_header(alg="ES384", kid="kid-1", **{name: "x"}))
    assert error.code == "token-malformed"
    assert name in error.message


def test_a_key_of_another_name_is_not_tried() -> None:
    error = refusal(SIGNER.sign({"iss": "x"}), keys=Signer(kid="kid-2", key=SIGNER.key).keys())
    assert isinstance(error, EndorsementError)
    assert error.code == "token-key-unknown"


def test_no_keys_trust_nobody() -> None:
    assert refusal(SIGNER.sign({"iss": "x"}), keys=()).code == "token-key-unknown"


def test_another_key_of_the_same_name_does_not_verify() -> None:
    assert refusal(SIGNER.sign({"iss": "x"}), keys=Signer().keys()).code == "token-signature-invalid"


def test_a_key_of_another_curve_is_no_key_for_the_algorithm() -> None:
    other = Signer(key=ECKey.generate_key("P-256"))
    assert refusal(SIGNER.sign({"iss": "x"}), keys=other.keys()).code == "token-signature-invalid"


@pytest.mark.parametrize(
    "text",
    ["", "a.b", "a.b.c.d", "..", "a..c", "é.b.c", "W10.W10.AA", "e30.W10.AA", "x" * (MAX_TOKEN_BYTES + 1)],
    ids=["empty", "two words", "four words", "empty words", "no payload", "not ascii", "arrays", "array", "too long"],
)
def test_what_is_no_token_is_refused(text: str) -> None:
    assert isinstance(refusal(text), EvidenceError)


def test_duplicate_claims_are_refused() -> None:
    head = SIGNER.sign({"iss": "x"}).split(".")[0]
    payload = base64.urlsafe_b64encode(b'{"iss":"a","iss":"b"}').rstrip(b"=").decode()
    assert refusal(f"{head}.{payload}.AAAA").code == "json-invalid"


@given(text=st.text(max_size=200))
def test_any_text_at_all_is_a_token_or_a_documented_refusal(text: str) -> None:
    with pytest.raises(AttestError):
        verify_token(text, keys=SIGNER.keys(), algorithms=ES384, what="the token")


# -- key sets


def test_a_key_set_is_recognised_by_its_member() -> None:
    assert is_jwks(SIGNER.jwks())
    assert not is_jwks(b"[]")
    assert not is_jwks(b'{"key": 1}')


def entry(**members: object) -> dict[str, Any]:
    return {**SIGNER.key.as_dict(private=False), "kid": "kid-1", **members}


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([], "expected an object"),
        ({"keys": []}, "1 to 64 keys"),
        ({"keys": [entry()] * 65}, "1 to 64 keys"),
        ({"keys": [1]}, "keys[0]: expected an object"),
        ({"keys": [entry(), entry()]}, "one kid"),
        ({"keys": [entry(kid="")]}, "kid"),
        ({"keys": [entry(kid=None)]}, "kid"),
        ({"keys": [entry(kty="oct")]}, "kty"),
        ({"keys": [entry(kty={"keys": ["AAB"]})]}, "kty"),
        ({"keys": [entry(kty=["RSA"])]}, "kty"),
        ({"keys": [entry(d="AAAA")]}, "private"),
        ({"keys": [{"kty": "oct", "kid": "a", "k": "AAAA"}]}, "symmetric"),
        ({"keys": [entry(x="AAAA")]}, "cannot be read"),
        ({"keys": [entry(crv="P-999")]}, "cannot be read"),
        ({"keys": [{"kty": "EC", "kid": "a"}]}, "cannot be read"),
        ({"keys": [entry(x5c="AAAA")]}, "x5c"),
        ({"keys": [entry(x5c=["%"])]}, "cannot be read"),
        ({"keys": [entry(x5c=[1])]}, "cannot be read"),
        ({"keys": [entry(x5c=["AAAA"] * 9)]}, "x5c"),
    ],
)
def test_a_key_set_with_a_defect_is_refused(document: object, problem: str) -> None:
    with pytest.raises(ConfigurationError) as outcome:
        read_jwks(json.dumps(document).encode())
    assert outcome.value.code == "jwks-invalid"
    assert problem in outcome.value.message


@pytest.mark.parametrize("data", [b"", b"\xff", b'{"keys": [], "keys": []}', b" " * (MAX_JWKS_BYTES + 1)])
def test_what_is_no_key_set_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigurationError) as outcome:
        read_jwks(data)
    assert outcome.value.code == "jwks-invalid"


# -- certified keys


class Ca:
    """A pinned intermediate with RSA, as NVIDIA's, and leaves of its making."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test Intermediate")])
        self.certificate = self.issue(self.key.public_key(), self.name)
        spki = self.key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.pin = sha256(spki).digest()

    def issue(self, public: rsa.RSAPublicKey | ec.EllipticCurvePublicKey, name: x509.Name | None = None) -> bytes:
        leaf = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test Leaf")])
        built = x509.CertificateBuilder().subject_name(name or leaf).issuer_name(self.name).public_key(public)
        built = built.serial_number(7).not_valid_before(AT - timedelta(days=1)).not_valid_after(AT + timedelta(days=1))
        return built.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def of_version_92(der: bytes) -> bytes:
    """A certificate of a version that nobody has defined, for which the library has an error of its own kind."""
    version = bytes.fromhex("a003020102")
    assert der.count(version) == 1
    return der.replace(version, bytes.fromhex("a00302015b"))


def certified(ca: Ca, chain: list[bytes]) -> TokenKey:
    members = {"x5c": [base64.b64encode(der).decode() for der in chain]}
    return read_jwks(SIGNER.jwks(**members))[0]


def test_a_key_that_the_pinned_ca_certifies_is_known_within_its_days() -> None:
    ca = Ca()
    public = serialization.load_der_public_key(SIGNER.key.as_der(private=False))
    assert isinstance(public, ec.EllipticCurvePublicKey)
    leaf = ca.issue(public)
    key = certified(ca, [leaf, ca.certificate])
    day = timedelta(days=1)
    second = timedelta(seconds=1)
    assert [key.is_certified_by(ca.pin, at=at) for at in (AT - day, AT, AT + day)] == [True] * 3
    assert [key.is_certified_by(ca.pin, at=at) for at in (AT - day - second, AT + day + second)] == [False] * 2
    # Another pin, no issuer, another issuer, an issuer that is no certificate.
    other = Ca()
    assert not key.is_certified_by(other.pin, at=AT)
    assert not certified(ca, [leaf]).is_certified_by(ca.pin, at=AT)
    assert not certified(ca, [leaf, other.certificate]).is_certified_by(ca.pin, at=AT)
    assert not certified(ca, [leaf, b"junk"]).is_certified_by(ca.pin, at=AT)
    assert not certified(ca, [leaf, of_version_92(ca.certificate)]).is_certified_by(ca.pin, at=AT)


def test_a_key_is_the_one_in_its_certificate_or_no_key() -> None:
    ca = Ca()
    stranger = ec.generate_private_key(ec.SECP384R1()).public_key()
    for leaf in (ca.issue(stranger), ca.certificate, b"junk", of_version_92(ca.certificate)):
        with pytest.raises(ConfigurationError, match="keys\\[0\\]: cannot be read"):
            certified(ca, [leaf])


def rsa_set(**members: object) -> bytes:
    return json.dumps({"keys": [{"kty": "RSA", "kid": "r", **members}]}).encode()


def test_a_key_that_is_told_by_its_certificate_alone_is_read_from_there() -> None:
    ca = Ca()
    chain = [base64.b64encode(ca.certificate).decode()]
    (key,) = read_jwks(rsa_set(x5c=chain))
    numbers = ca.key.public_key().public_numbers()
    assert key.jwk["e"] == "AQAB"
    assert int.from_bytes(base64.urlsafe_b64decode(str(key.jwk["n"]) + "=="), "big") == numbers.n
    again = read_jwks(rsa_set(x5c=chain, n=key.jwk["n"], e="AQAB"))[0]
    assert again.jwk == key.jwk
    for members in ({"e": "AQAB"}, {"n": key.jwk["n"]}, {"n": key.jwk["n"], "e": "Aw"}, {"n": 5, "e": "AQAB"}):
        with pytest.raises(ConfigurationError, match="cannot be read"):
            read_jwks(rsa_set(x5c=chain, **members))


@pytest.mark.parametrize("bits", [0, 1024, 2047, 8193, 16384])
def test_rsa_keys_that_are_too_short_or_too_long_are_refused(bits: int) -> None:
    number = (1 << bits - 1 | 1) if bits else 0
    text = base64.urlsafe_b64encode(number.to_bytes((bits + 7) // 8 or 1, "big")).rstrip(b"=").decode()
    with pytest.raises(ConfigurationError, match=f"a modulus of {bits} bits"):
        read_jwks(rsa_set(n=text, e="AQAB"))


def test_a_key_without_modulus_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_jwks(rsa_set(e="AQAB"))
