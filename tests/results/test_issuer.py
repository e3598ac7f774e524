"""A Verifier that signs: its tokens, its published keys, and their rotation."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import cbor2
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from attest.encoding import base64url_bytes
from attest.errors import AttestError
from attest.results.ear import VerifierId
from attest.results.ear_verify import ExpectedEar, VerifiedEar, verify_ear
from attest.results.issuer import IssuerKey, SigningKeyState, TokenForm, TokenIssuer
from attest.results.jose import read_jwks
from attest.results.raw_signatures import SigningKey
from tests.results.test_ear_build import result
from tests.samples import AT, NONCE

ISSUER = "https://verifier.example"
KEYS = [
    SigningKey.of(ec.derive_private_key(11, ec.SECP256R1())),
    SigningKey.of(ec.derive_private_key(12, ec.SECP384R1())),
    SigningKey.of(Ed25519PrivateKey.from_private_bytes(b"\x0d" * 32)),
]
RESULT = result()
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


def issuer(key: SigningKey = KEYS[0], **options: object) -> TokenIssuer:
    return TokenIssuer(
        issuer=ISSUER,
        verifier=VerifierId(developer="attest-kms", build="test"),
        keys=(IssuerKey(key=key, state=SigningKeyState.CURRENT),),
        **options,  # type: ignore[arg-type]  # its other fields
    )


def token(of: TokenIssuer, form: TokenForm = "jwt", **options: object) -> bytes:
    return of.issue(RESULT, token_id=bytes(16), form=form, **options)  # type: ignore[arg-type]  # of any type here


def verified(data: bytes, of: TokenIssuer, **expected: object) -> VerifiedEar:
    trusted = {ISSUER: read_jwks(of.jwks(AT))}
    return verify_ear(data, trusted=trusted, at=AT, expected=ExpectedEar(**expected))  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["jwt", "cwt"])
@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.algorithm)
def test_what_is_issued_verifies_with_the_published_keys(key: SigningKey, form: TokenForm) -> None:
    one = issuer(key)
    found = verified(token(one, form, nonce=NONCE, audience=("kms",)), one, nonce=NONCE, audience="kms")
    assert (found.issuer, found.key_id, found.form) == (ISSUER, key.kid, form)
    assert found.ear.issued_at == int(AT.timestamp())
    assert found.ear.expires == found.ear.issued_at + 300
    assert found.ear.token_id == "A" * 21 + "A"


def test_a_result_that_is_not_affirmed_is_issued_all_the_same() -> None:
    one = issuer()
    refused = result({**json.loads(json.dumps(_strict())), "simulated": {"unchecked": "x"}})
    data = one.issue((RESULT, refused), token_id=bytes(16))
    found = verified(data, one)
    assert len(found.ear.submods["cpu"].policy_ids) == 2


def _strict() -> dict[str, object]:
    from tests.policy.documents import STRICT

    return STRICT


def test_the_same_input_gives_the_same_token_as_nothing_is_drawn_here() -> None:
    for key in KEYS:
        for form in ("jwt", "cwt"):
            assert token(issuer(key), form) == token(issuer(key), form)


@pytest.mark.parametrize(
    "options",
    [
        {"token_id": bytes(15)},
        {"lifetime": timedelta(0)},
        {"lifetime": timedelta(milliseconds=999)},
        {"lifetime": timedelta(days=1, seconds=1)},
        {"nonce": bytes(7)},
        {"audience": ("",)},
    ],
)
def test_a_token_that_nobody_should_accept_is_not_issued(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        issuer().issue(RESULT, **{"token_id": bytes(16), **options})  # type: ignore[arg-type]


# -- publication and rotation


def kids(data: bytes) -> list[str]:
    return [key.kid for key in read_jwks(data)]


def test_the_key_set_has_thumbprints_algorithms_and_no_private_half() -> None:
    published = json.loads(issuer(KEYS[1]).jwks(AT))
    (key,) = published["keys"]
    assert set(key) == {"kty", "crv", "x", "y", "kid", "alg", "use"}
    assert (key["kid"], key["alg"], key["use"]) == (KEYS[1].kid, "ES384", "sig")


def test_no_private_key_shows_in_any_repr() -> None:
    one = issuer().with_next(KEYS[2])
    assert "sign" not in repr(KEYS[0]).replace("SigningKey", "")
    assert "private" not in repr(one).lower()
    assert (b"\x0d" * 32).hex() not in repr(one)


def test_a_next_key_is_published_before_it_signs() -> None:
    one = issuer(KEYS[0]).with_next(KEYS[1])
    assert kids(one.jwks(AT)) == [KEYS[0].kid, KEYS[1].kid]
    assert verified(token(one), one).key_id == KEYS[0].kid


def test_a_retired_key_stays_published_until_its_last_token_has_expired() -> None:
    before = issuer(KEYS[0], max_lifetime=HOUR)
    old = token(before, lifetime=HOUR)
    after = before.with_next(KEYS[1]).rotated(AT)
    assert after.current == KEYS[1]
    assert kids(after.jwks(AT)) == [KEYS[1].kid, KEYS[0].kid]
    last = AT + HOUR - SECOND
    trusted = {ISSUER: read_jwks(after.jwks(last))}
    assert verify_ear(old, trusted=trusted, at=last).key_id == KEYS[0].kid
    assert kids(after.jwks(AT + HOUR)) == [KEYS[1].kid]
    with pytest.raises(AttestError):
        verify_ear(old, trusted={ISSUER: read_jwks(after.jwks(AT + HOUR))}, at=AT + HOUR)


def test_a_further_rotation_keeps_what_still_counts_and_drops_the_rest() -> None:
    first = issuer(KEYS[0], max_lifetime=HOUR).with_next(KEYS[1]).rotated(AT)
    soon = first.with_next(KEYS[2]).rotated(AT + HOUR / 2)
    assert kids(soon.jwks(AT + HOUR / 2)) == [KEYS[2].kid, KEYS[1].kid, KEYS[0].kid]
    later = first.with_next(KEYS[2]).rotated(AT + HOUR)
    assert [entry.key for entry in later.keys] == [KEYS[2], KEYS[1]]


def test_a_key_that_was_never_published_does_not_sign() -> None:
    with pytest.raises(ValueError, match="published before"):
        issuer().rotated(AT)
    with pytest.raises(ValueError, match="published before"):
        issuer().with_next(KEYS[1]).with_next(KEYS[2]).rotated(AT)


@pytest.mark.parametrize(
    "keys",
    [
        (),
        (IssuerKey(key=KEYS[0], state=SigningKeyState.NEXT),),
        (IssuerKey(key=KEYS[0], state=SigningKeyState.CURRENT), IssuerKey(key=KEYS[1], state=SigningKeyState.CURRENT)),
        (IssuerKey(key=KEYS[0], state=SigningKeyState.CURRENT), IssuerKey(key=KEYS[0], state=SigningKeyState.NEXT)),
    ],
)
def test_an_issuer_has_exactly_one_current_key_and_no_key_twice(keys: tuple[IssuerKey, ...]) -> None:
    with pytest.raises(ValueError, match="key"):
        replace(issuer(), keys=keys)


def test_a_life_of_no_length_and_a_retirement_without_end_are_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        issuer(max_lifetime=timedelta(0))
    with pytest.raises(ValueError, match="retired"):
        IssuerKey(key=KEYS[0], state=SigningKeyState.RETIRED)
    with pytest.raises(ValueError, match="retired"):
        IssuerKey(key=KEYS[0], state=SigningKeyState.CURRENT, until=AT)


def test_the_cose_key_set_names_the_same_keys() -> None:
    one = issuer(KEYS[0]).with_next(KEYS[1]).with_next(KEYS[2])
    found = cbor2.loads(one.cose_key_set(AT))
    assert [key[2] for key in found] == [base64url_bytes(key.kid, what="kid") for key in KEYS]
    assert [(key[1], key[3], key[-1], len(key[-2]), len(key.get(-3, b""))) for key in found] == [
        (2, -7, 1, 32, 32),
        (2, -35, 2, 48, 48),
        (1, -19, 6, 32, 0),
    ]
