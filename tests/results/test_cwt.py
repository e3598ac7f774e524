"""COSE_Sign1: the known answers bit by bit, and every way in which a message is not one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import AttestError, EvidenceError
from attest.results.cbor import claims_bytes, claims_value
from attest.results.cwt import COSE_NUMBERS, is_cwt, peek_cwt, sign_cwt, verify_cwt
from attest.results.ear_codec import ear_to_cbor
from attest.results.jose import MAX_TOKEN_BYTES, TokenKey
from attest.results.raw_signatures import SigningKey
from tests.results.ear_vectors import COSE_EDDSA_HEX, EAR, ED25519, ES256_SIGNATURE_HEX, P256

CLAIMS = ear_to_cbor(EAR)
ALL = frozenset({"ES256", "ES384", "EdDSA", "Ed25519"})
P384 = SigningKey.of(ec.derive_private_key(7, ec.SECP384R1()))
EDDSA = bytes.fromhex(COSE_EDDSA_HEX)


def trusted(*keys: SigningKey) -> tuple[TokenKey, ...]:
    return tuple(TokenKey(kid=key.kid, jwk=key.jwk) for key in keys or (ED25519, P256, P384))


def refusal(data: bytes, *, algorithms: frozenset[str] = ALL, keys: tuple[TokenKey, ...] | None = None) -> AttestError:
    with pytest.raises(AttestError) as outcome:
        verify_cwt(data, keys=trusted() if keys is None else keys, algorithms=algorithms)
    return outcome.value


def message(
    *,
    protected: Any = None,  # noqa: ANN401  headers of any shape
    unprotected: Any = None,  # noqa: ANN401
    payload: Any = None,  # noqa: ANN401
    sign: Callable[[bytes], bytes] = P256.sign,
    tag: bytes = b"\xd2",
) -> bytes:
    """A COSE_Sign1 of given parts, its signature right for them."""
    header = claims_bytes({1: -7}) if protected is None else protected
    header = header if isinstance(header, bytes) else claims_bytes(header)
    body = claims_bytes(CLAIMS) if payload is None else payload
    signature = sign(claims_bytes(("Signature1", header, b"", body)))
    kid: Any = {4: thumbprint(P256)}
    return tag + claims_bytes((header, kid if unprotected is None else unprotected, body, signature))


def thumbprint(key: SigningKey) -> bytes:
    from attest.encoding import base64url_bytes

    return base64url_bytes(key.kid, what="kid")


# -- known answers


def test_the_known_message_comes_out_bit_by_bit_and_verifies() -> None:
    assert message(protected={1: -8}, unprotected={4: thumbprint(ED25519)}, sign=ED25519.sign) == EDDSA
    found = verify_cwt(EDDSA, keys=trusted(ED25519), algorithms=frozenset({"EdDSA"}))
    assert (found.claims, found.algorithm, found.kid) == (CLAIMS, "EdDSA", ED25519.kid)


def test_the_known_es256_signature_comes_out_bit_by_bit() -> None:
    signed = message()
    assert signed[-64:].hex() == ES256_SIGNATURE_HEX
    assert verify_cwt(signed, keys=trusted(), algorithms=ALL).algorithm == "ES256"


@pytest.mark.parametrize("key", [ED25519, replace(ED25519, algorithm="Ed25519"), P256, P384], ids=lambda k: k.algorithm)
def test_what_is_signed_verifies_in_all_forms(key: SigningKey) -> None:
    unprotected = message(
        protected={1: COSE_NUMBERS[key.algorithm]}, unprotected={4: thumbprint(key)}, sign=key.sign
    )  # as older implementations write it
    for signed in (sign_cwt(CLAIMS, key), unprotected):
        for tagged in (signed, b"\xd8\x3d" + signed):  # inside tag 61, too
            assert is_cwt(tagged)
            assert verify_cwt(tagged, keys=trusted(), algorithms=ALL).claims == CLAIMS == peek_cwt(tagged)


@pytest.mark.parametrize(("number", "name"), [(-9, "ES256"), (-7, "ES256")])
def test_fully_specified_numbers_are_accepted(number: int, name: str) -> None:
    assert verify_cwt(message(protected={1: number}), keys=trusted(), algorithms=ALL).algorithm == name


def test_a_kid_may_be_the_text_of_the_key_set() -> None:
    signed = message(unprotected={4: P256.kid.encode()})
    assert verify_cwt(signed, keys=trusted(), algorithms=ALL).kid == P256.kid
    other = (TokenKey(kid="key 1", jwk=P256.jwk),)
    assert verify_cwt(message(unprotected={4: b"key 1"}), keys=other, algorithms=ALL).kid == "key 1"


# -- what is refused


def test_every_bit_of_a_message_counts() -> None:
    for index in range(len(EDDSA)):
        for bit in range(8):
            bad = bytearray(EDDSA)
            bad[index] ^= 1 << bit
            refusal(bytes(bad))


def test_every_shorter_message_and_one_byte_more_is_refused() -> None:
    for length in range(len(EDDSA)):
        assert isinstance(refusal(EDDSA[:length]), EvidenceError)
    for tag in (b"", b"\xd8\x3d"):
        assert refusal(tag + EDDSA + b"\0").code == "cbor-invalid"


@pytest.mark.parametrize("tag", [b"", b"\xd1", b"\xd8\x3d", b"\xd8\x3d\xd8\x3d\xd2", b"\xd2\xd2", b"\xd8\x12"])
def test_a_message_without_its_tag_or_with_others_is_refused(tag: bytes) -> None:
    error = refusal(message(tag=tag))
    assert error.code in {"token-malformed", "cbor-invalid"}


def test_a_der_signature_is_refused() -> None:
    def der(data: bytes) -> bytes:
        raw = P256.sign(data)
        return encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))

    assert refusal(message(sign=der)).code == "token-signature-invalid"
    assert isinstance(P256.public, ec.EllipticCurvePublicKey)
    P256.public.verify(der(b"x"), b"x", ec.ECDSA(hashes.SHA256()))  # it is right but for its form


@pytest.mark.parametrize("size", [0, 1, 63, 65, 96, 128])
def test_a_signature_of_another_length_is_refused(size: int) -> None:
    assert refusal(message(sign=lambda _: bytes(size))).code == "token-signature-invalid"


@pytest.mark.parametrize("number", [-35, -51, -8, -19, -37, 5, 0, -47])
def test_the_header_does_not_choose_another_algorithm(number: int) -> None:
    error = refusal(message(protected={1: number}))
    assert error.code in {"token-signature-invalid", "token-algorithm-refused"}


def test_an_algorithm_outside_the_allow_list_is_refused_before_any_key_is_asked() -> None:
    assert refusal(EDDSA, algorithms=frozenset({"ES256"}), keys=()).code == "token-algorithm-refused"


def test_a_key_of_another_kind_signs_nothing() -> None:
    rsa = (TokenKey(kid=P256.kid, jwk={"kty": "RSA", "n": "AQAB", "e": "AQAB"}),)
    assert refusal(message(), keys=rsa).code == "token-signature-invalid"
    other = (TokenKey(kid=P256.kid, jwk=P384.jwk),)
    assert refusal(message(), keys=other).code == "token-signature-invalid"


def test_an_unknown_key_is_refused_as_something_that_is_missing() -> None:
    error = refusal(message(), keys=trusted(ED25519))
    assert (error.code, error.exit_code) == ("token-key-unknown", 5)


@pytest.mark.parametrize(
    "protected",
    [{}, {1: "ES256"}, {1: True}, {1: None}, {1: -7, 2: [1]}, {1: -7, 33: b"x"}, {1: -7, 5: b"iv"}, {"alg": -7},
     b"", b"\xa0\0", [1], {1: -7, 16: "application/at+cwt"}, {1: -7, 16: 61}, {1: -7, 4: "text"}],
    ids=repr,
)  # fmt: skip
def test_a_protected_header_with_something_missing_or_not_understood_is_refused(protected: Any) -> None:  # noqa: ANN401
    unprotected: Any = {} if isinstance(protected, dict) and 4 in protected else None
    assert refusal(message(protected=protected, unprotected=unprotected)).code in {"token-malformed", "cbor-invalid"}


@pytest.mark.parametrize("unprotected", [{}, {1: -7}, {4: b"x", 33: b"c"}, {4: "text"}, {4: None}, [], 3], ids=repr)
def test_an_unprotected_header_holds_the_kid_and_nothing_else(unprotected: Any) -> None:  # noqa: ANN401
    assert refusal(message(unprotected=unprotected)).code == "token-malformed"


def test_the_algorithm_must_be_protected_and_the_kid_stands_once() -> None:
    assert refusal(message(protected={}, unprotected={1: -7, 4: b"x"})).code == "token-malformed"
    assert refusal(message(protected={1: -7, 4: thumbprint(P256)})).code == "token-malformed"


@pytest.mark.parametrize("kind", ["application/eat+cwt", "application/eat-cwt", 'Application/EAT+CWT; eat_profile="x"'])
def test_both_spellings_of_the_media_type_are_accepted(kind: str) -> None:
    assert verify_cwt(message(protected={1: -7, 16: kind}), keys=trusted(), algorithms=ALL).algorithm == "ES256"


@pytest.mark.parametrize(
    "payload",
    [
        b"\x80",  # an array
        b"",
        b"\xa2\x06\x01\x06\x02",  # a key twice
        b"\xa1\x18\x06\x01",  # a key that could be shorter
        b"\xbf\x06\x01\xff",  # indefinite length
        b"\xa1\x06\x01\x00",  # trailing byte
        b"\xa1\x06\xfb\x41\xda\x55\x6e\x40\x00\x00\x00",  # a float
        b"\xa1\x06\xc1\x01",  # a tag
        b"\xa1\xf5\x01",  # a boolean as key
        b"\xa1\x41\x00\x01",  # bytes as key
        b"\x81" * 20 + b"\x00",  # too deep
        b"\xa1\x06" + b"\x81" * 17 + b"\x00",
    ],
    ids=lambda data: data.hex()[:20],
)
def test_claims_that_are_not_strict_cbor_are_refused(payload: bytes) -> None:
    assert refusal(message(payload=payload)).code in {"cbor-invalid", "token-malformed"}


def test_claims_may_stand_in_any_order_as_cose_does_not_demand_one() -> None:
    claims = list(CLAIMS.items())
    unordered = b"\xa7" + b"".join(claims_bytes(key) + claims_bytes(value) for key, value in reversed(claims))
    assert verify_cwt(message(payload=unordered), keys=trusted(), algorithms=ALL).claims == CLAIMS


def test_a_message_that_is_too_long_is_refused() -> None:
    assert refusal(EDDSA + bytes(MAX_TOKEN_BYTES)).code == "token-malformed"


@given(data=st.binary(max_size=200))
def test_any_bytes_at_all_are_refused_with_a_documented_error(data: bytes) -> None:
    for head in (b"", b"\xd2", b"\xd2\x84"):
        assert refusal(head + data).code in {"token-malformed", "cbor-invalid"}


CBOR = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64), 2**64 - 1) | st.binary(max_size=9) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.integers(-99, 99) | st.text(max_size=4), inner),
    max_leaves=20,
)


@given(value=CBOR)
def test_what_is_written_in_cbor_is_read_again(value: Any) -> None:  # noqa: ANN401
    assert claims_value(claims_bytes(value), what="x") == value


@pytest.mark.parametrize(
    "value", [1.5, {b"x": 1}, {True: 1}, {1}, object()], ids=["float", "bytes key", "boolean key", "set", "object"]
)
def test_values_without_a_canonical_form_are_not_written(value: Any) -> None:  # noqa: ANN401
    with pytest.raises(TypeError):
        claims_bytes(value)
