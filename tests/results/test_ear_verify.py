"""Judging an EAR: signature, profile, time, audience, nonce, status, and what the Relying Party demands."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Literal

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from attest.checks import Outcome, Tier
from attest.errors import AttestError, EndorsementError
from attest.results.cwt import sign_cwt
from attest.results.ear import EAR_PROFILE, Ear, EarAppraisal, TrustVector
from attest.results.ear_codec import ear_to_cbor, ear_to_json
from attest.results.ear_verify import SKEW, ExpectedEar, VerifiedEar, appraise_ear, is_ear, verify_ear
from attest.results.issuer import sign_jwt
from attest.results.jose import MAX_TOKEN_BYTES, TokenKey, read_jwks
from attest.results.raw_signatures import SigningKey
from attest.verification import Freshness
from tests.results.ear_vectors import (
    AT,
    COSE_EDDSA_HEX,
    EAR,
    ED25519,
    EXPIRES,
    ISSUED,
    JWT_EDDSA,
    JWT_ES256,
    NONCE,
    P256,
)
from tests.results.test_ear_codec import DETAILS, TRUSTEE, old_claims

ISSUER = "https://verifier.example"
NAMED = replace(EAR, issuer=ISSUER)
Form = Literal["jwt", "cwt"]
FORMS: tuple[Form, ...] = ("jwt", "cwt")


def keys(*signers: SigningKey) -> tuple[TokenKey, ...]:
    return read_jwks(json.dumps({"keys": [signer.jwk for signer in signers]}).encode())


STRANGER = SigningKey.of(ec.derive_private_key(5, ec.SECP256R1()))
TRUSTED = {
    ISSUER: keys(ED25519, P256),
    "https://other.example": keys(SigningKey.of(ec.derive_private_key(6, ec.SECP256R1()))),
}


def signed(ear: Ear = NAMED, form: Form = "jwt", key: SigningKey = P256) -> bytes:
    return sign_jwt(ear_to_json(ear), key).encode() if form == "jwt" else sign_cwt(ear_to_cbor(ear), key)


def verified(token: bytes | str, *, at: datetime = AT, trusted: Any = None, **expected: Any) -> VerifiedEar:  # noqa: ANN401
    return verify_ear(token, trusted=TRUSTED if trusted is None else trusted, at=at, expected=ExpectedEar(**expected))


def refusal(token: bytes | str, *, at: datetime = AT, trusted: Any = None, **expected: Any) -> AttestError:  # noqa: ANN401
    with pytest.raises(AttestError) as outcome:
        verified(token, at=at, trusted=trusted, **expected)
    error = outcome.value
    assert error.checks[-1].outcome is Outcome.FAIL
    assert error.checks[-1].id == error.check
    return error


def jwt_of(claims: object, *, key: SigningKey = P256, **header: object) -> str:
    """A JWT with claims and a header that no writer here would make; its signature is right."""
    head = {"alg": key.algorithm, "typ": "eat+jwt", "kid": key.kid, **header}
    head = {name: value for name, value in head.items() if value is not ...}
    words = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (head, claims)]
    signature = base64.urlsafe_b64encode(key.sign(b".".join(words))).rstrip(b"=")
    return b".".join([*words, signature]).decode()


# -- known answers


@pytest.mark.parametrize(
    "token", [JWT_EDDSA, JWT_ES256, bytes.fromhex(COSE_EDDSA_HEX), b"\xd8\x3d" + bytes.fromhex(COSE_EDDSA_HEX)]
)
def test_the_known_tokens_verify_and_say_the_same(token: str | bytes) -> None:
    found = verified(token, nonce=NONCE)
    assert found.ear == EAR
    assert (found.issuer, found.status, found.freshness) == (ISSUER, Tier.WARNING, Freshness.MATCHED)
    assert {check.outcome for check in found.checks} == {Outcome.PASS}
    assert is_ear(token if isinstance(token, bytes) else token.encode())


def test_the_known_tokens_are_what_is_written_here() -> None:
    assert sign_jwt(ear_to_json(EAR), ED25519) == JWT_EDDSA
    assert sign_jwt(ear_to_json(EAR), P256) == JWT_ES256


@pytest.mark.parametrize("form", FORMS)
def test_without_a_nonce_freshness_is_not_evaluated(form: Form) -> None:
    found = verified(signed(form=form))
    assert (found.freshness, found.form) == (Freshness.NOT_EVALUATED, form)
    assert [check.outcome for check in found.checks if check.id == "freshness"] == [Outcome.NOT_EVALUATED]


# -- signatures and keys (must-check 20)


def test_every_character_of_a_jwt_counts() -> None:
    text = signed().decode()
    for index, character in enumerate(text):
        bad = text[:index] + ("A" if character != "A" else "B") + text[index + 1 :]
        refusal(bad)


@pytest.mark.parametrize("alg", ["none", "HS256", "ES384", "RS256", "EdDSA", "Ed25519", "", None, ["ES256"]])
def test_the_header_does_not_choose_the_algorithm(alg: object) -> None:
    assert refusal(jwt_of(ear_to_json(NAMED), alg=alg)).code in {"token-algorithm-refused", "token-signature-invalid"}


def test_a_public_key_as_a_shared_secret_signs_nothing() -> None:
    words = jwt_of(ear_to_json(NAMED), alg="HS256").rpartition(".")[0]
    for secret in (json.dumps(P256.jwk).encode(), P256.kid.encode(), b""):
        mac = base64.urlsafe_b64encode(hmac.digest(secret, words.encode(), "sha256")).rstrip(b"=").decode()
        assert refusal(f"{words}.{mac}").code == "token-algorithm-refused"


def test_an_algorithm_that_the_key_set_keeps_for_another_is_refused() -> None:
    other = (TokenKey(kid=P256.kid, jwk={**P256.jwk, "alg": "ES384"}),)
    assert refusal(signed(), trusted={ISSUER: other}).code in {"token-algorithm-refused", "token-signature-invalid"}
    encrypting = (TokenKey(kid=P256.kid, jwk={**P256.jwk, "use": "enc"}),)
    for form in FORMS:
        assert refusal(signed(form=form), trusted={ISSUER: encrypting}).code in {
            "token-algorithm-refused",
            "token-signature-invalid",
        }


def test_both_names_of_ed25519_are_one_algorithm() -> None:
    for name in ("EdDSA", "Ed25519"):
        for published in ("EdDSA", "Ed25519"):
            key = replace(ED25519, algorithm=name)
            trusted = {ISSUER: keys(replace(ED25519, algorithm=published))}
            for form in FORMS:
                assert verified(signed(form=form, key=key), trusted=trusted).algorithm == name


def test_an_issuer_may_be_held_to_fewer_algorithms() -> None:
    for form in FORMS:
        with pytest.raises(AttestError) as outcome:
            verify_ear(signed(form=form), trusted=TRUSTED, at=AT, algorithms={ISSUER: frozenset({"ES384"})})
        assert outcome.value.code == "token-algorithm-refused"


@pytest.mark.parametrize("form", FORMS)
def test_a_key_of_another_issuer_is_not_asked(form: Form) -> None:
    stolen = replace(EAR, issuer="https://other.example")
    error = refusal(signed(stolen, form))
    assert (error.code, error.exit_code) == ("token-key-unknown", 5)
    assert refusal(signed(replace(EAR, issuer="https://nobody.example"), form)).code == "token-issuer-untrusted"


def test_nobody_is_trusted_by_default() -> None:
    for form in FORMS:
        for ear in (EAR, NAMED):
            assert isinstance(refusal(signed(ear, form), trusted={}), EndorsementError)
            assert isinstance(refusal(signed(ear, form), trusted={ISSUER: ()}), EndorsementError)


def test_a_token_without_issuer_belongs_to_the_one_whose_key_signed() -> None:
    assert verified(signed(EAR)).issuer == ISSUER
    both = {ISSUER: keys(P256), "https://other.example": keys(P256)}
    assert refusal(signed(EAR), trusted=both).code == "token-issuer-untrusted"
    assert verified(signed(NAMED), trusted=both).issuer == ISSUER
    # Two issuers may call different keys by one name; an issuer without keys is nobody.
    first = (TokenKey(kid=P256.kid, jwk=STRANGER.jwk),)
    for form in FORMS:
        trusted = {"https://nobody.example": (), "https://other.example": first, ISSUER: keys(P256)}
        assert verified(signed(EAR, form), trusted=trusted).issuer == ISSUER
        assert refusal(signed(EAR, form), trusted={"https://other.example": first, "x": keys(ED25519)}).code == (
            "token-signature-invalid"
        )
    assert refusal(signed(EAR), trusted={"https://other.example": keys(ED25519)}).code == "token-key-unknown"


@pytest.mark.parametrize(
    "header",
    [
        {"jwk": P256.jwk},
        {"jku": "https://x"},
        {"x5u": "https://x"},
        {"x5c": []},
        {"crit": ["exp"]},
        {"b64": False},
        {"typ": "at+jwt"},
        {"typ": "application/json"},
    ],
)
def test_a_header_with_a_key_an_address_something_critical_or_another_type_is_refused(
    header: dict[str, Any],
) -> None:
    assert refusal(jwt_of(ear_to_json(NAMED), **header)).code == "token-malformed"


@pytest.mark.parametrize("typ", ["eat+jwt", "JWT", "application/eat+jwt", "EAT-JWT"])
def test_other_spellings_of_the_type_are_accepted(typ: str) -> None:
    assert verified(jwt_of(ear_to_json(NAMED), typ=typ)).ear == NAMED


@pytest.mark.parametrize("kid", ["", "../x", None, 3, P256.kid + "=", ED25519.kid])
def test_a_kid_finds_a_key_of_exactly_this_name(kid: object) -> None:
    error = refusal(jwt_of(ear_to_json(NAMED), kid=kid))
    assert error.code in {"token-key-unknown", "token-signature-invalid"}


def test_the_key_that_trustee_sends_along_finds_a_trusted_key_and_is_never_used_itself() -> None:
    claims = {**old_claims(TRUSTEE), "iss": ISSUER, "exp": EXPIRES}
    token = jwt_of(claims, jwk=P256.jwk, x5c=["AA"], kid=...)
    assert verified(token).ear.profile == TRUSTEE
    assert refusal(jwt_of(claims, key=STRANGER, jwk=STRANGER.jwk, kid=None)).code == "token-key-unknown"
    assert refusal(jwt_of(claims, key=STRANGER, jwk=P256.jwk, kid=None)).code == "token-signature-invalid"
    assert refusal(jwt_of(claims, jwk={"kty": "EC"}, kid=None)).code == "token-key-unknown"
    assert refusal(jwt_of({**claims, "eat_profile": EAR_PROFILE}, jwk=P256.jwk, kid=None)).code == "token-malformed"


# -- claims


def test_a_member_that_stands_twice_is_refused() -> None:
    head, payload, _ = signed().decode().split(".")
    text = base64.urlsafe_b64decode(payload + "==").replace(b'{"eat_profile"', b'{"iat":1,"eat_profile"', 1)
    words = f"{head}.{base64.urlsafe_b64encode(text).rstrip(b'=').decode()}"
    token = f"{words}.{base64.urlsafe_b64encode(P256.sign(words.encode())).rstrip(b'=').decode()}"
    assert refusal(token).code == "json-invalid"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"eat_profile": "tag:ietf.org,2026:rats/ear#04"}, "ear-profile-unknown"),
        ({"eat_profile": None}, "ear-malformed"),
        ({"iat": 1767225600.0}, "ear-malformed"),
        ({"iss": 3}, "token-malformed"),
        ({"submods": {}}, "ear-malformed"),
    ],
)
def test_claims_that_are_no_ear_are_refused_after_the_signature(change: dict[str, object], code: str) -> None:
    assert refusal(jwt_of({**ear_to_json(NAMED), **change})).code == code


@pytest.mark.parametrize(
    "token", ["", "x", "a.b", "a.b.c", "....", b"\xff\xfe", b"\xd2", "é.b.c", jwt_of([1]), "A" * (MAX_TOKEN_BYTES + 1)]
)
def test_what_is_no_token_is_refused(token: str | bytes) -> None:
    assert refusal(token).code in {"token-malformed", "base64-invalid", "json-invalid", "cbor-invalid"}


def test_an_ear_is_recognised_by_its_claims() -> None:
    assert is_ear(signed())
    assert is_ear(signed() + b"\n")
    assert is_ear(signed(form="cwt"))
    assert not is_ear(jwt_of({"iss": "x", "submods": {}}).encode())
    assert not is_ear(b"\xff")
    assert not is_ear(b"{}")


# -- time

SECOND = timedelta(seconds=1)


def seconds(moment: int) -> datetime:
    return AT + timedelta(seconds=moment - ISSUED)


@pytest.mark.parametrize("form", FORMS)
def test_a_token_counts_from_iat_less_a_minute_until_exp_excluded(form: Form) -> None:
    token = signed(form=form)
    for good in (seconds(ISSUED) - SKEW, seconds(ISSUED), seconds(EXPIRES) - SECOND):
        assert verified(token, at=good).at == good
    assert refusal(token, at=seconds(ISSUED) - SKEW - SECOND).code == "token-not-yet-valid"
    assert refusal(token, at=seconds(EXPIRES)).code == "token-expired"
    assert refusal(token, at=seconds(EXPIRES) + SECOND).code == "token-expired"


def test_nbf_counts_like_iat() -> None:
    later = signed(replace(NAMED, not_before=ISSUED + 600))
    verified(later, at=seconds(ISSUED + 600) - SKEW)
    assert refusal(later, at=seconds(ISSUED + 600) - SKEW - SECOND).code == "token-not-yet-valid"


def test_an_age_of_ones_own_counts_even_when_exp_is_later() -> None:
    for age in (timedelta(minutes=5), timedelta(0)):
        verified(signed(), at=AT + age, max_age=age)
        assert refusal(signed(), at=AT + age + SECOND, max_age=age).code == "token-too-old"


def test_a_token_without_exp_needs_an_age_of_ones_own() -> None:
    endless = signed(replace(NAMED, expires=None))
    verified(endless, at=AT + timedelta(hours=23))
    assert refusal(endless, at=AT + timedelta(hours=25)).code == "token-too-old"
    assert refusal(endless, max_age=None).code == "token-expired"


def test_the_moment_of_appraisal_has_a_time_zone() -> None:
    with pytest.raises(ValueError, match="time zone"):
        verified(signed(), at=AT.replace(tzinfo=None))


@pytest.mark.parametrize("at", [datetime.min.replace(tzinfo=AT.tzinfo), datetime.max.replace(tzinfo=AT.tzinfo)])
def test_the_ends_of_time_are_refused_and_no_accident(at: datetime) -> None:
    assert refusal(signed(), at=at).check == "token.time"


# -- audience and nonce


@pytest.mark.parametrize("form", FORMS)
def test_a_token_for_somebody_is_for_nobody_else(form: Form) -> None:
    token = signed(replace(NAMED, audience=("kms-a", "kms-b")), form)
    assert verified(token, audience="kms-b").ear.audience == ("kms-a", "kms-b")
    for audience in ("kms", "kms-a, kms-b", "", None):
        assert refusal(token, audience=audience).code == "token-audience-mismatch"


def test_who_demands_an_audience_is_not_satisfied_by_none() -> None:
    assert refusal(signed(), audience="kms-a").code == "token-audience-mismatch"


@pytest.mark.parametrize("form", FORMS)
def test_the_nonce_is_the_one_that_was_handed_out(form: Form) -> None:
    assert refusal(signed(form=form), nonce=bytes(32)).code == "nonce-mismatch"
    assert refusal(signed(form=form), nonce=NONCE + b"\0").code == "nonce-mismatch"
    assert refusal(signed(replace(NAMED, nonce=()), form), nonce=NONCE).code == "nonce-mismatch"
    assert refusal(signed(replace(NAMED, nonce=(NONCE, bytes(32))), form), nonce=NONCE).code == "nonce-mismatch"


@pytest.mark.parametrize("size", [0, 7, 65])
def test_a_nonce_that_no_ear_can_carry_is_a_mistake_of_the_caller(size: int) -> None:
    with pytest.raises(ValueError, match="8 to 64"):
        ExpectedEar(nonce=bytes(size))


# -- status (must-check 16)


def with_cpu(status: Tier, vector: TrustVector | None, overall: Tier | None) -> Ear:
    return replace(NAMED, submods={"cpu": EarAppraisal(status=status, vector=vector)}, status=overall)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("status", "vector", "overall"),
    [
        (Tier.AFFIRMING, TrustVector(hardware=32), None),
        (Tier.AFFIRMING, TrustVector(hardware=2, executables=-33), None),
        (Tier.AFFIRMING, TrustVector(hardware=2, executables=1), None),
        (Tier.AFFIRMING, TrustVector(hardware=2, executables=-1), None),
        (Tier.AFFIRMING, TrustVector(hardware=0), None),
        (Tier.AFFIRMING, None, None),
        (Tier.WARNING, TrustVector(hardware=96), None),
        (Tier.NONE, TrustVector(hardware=-128), None),
        (Tier.WARNING, TrustVector(hardware=32), Tier.AFFIRMING),
        (Tier.NONE, None, Tier.AFFIRMING),
        (Tier.CONTRAINDICATED, TrustVector(hardware=2), Tier.WARNING),
    ],
)
def test_a_status_better_than_what_it_rests_on_is_refused(
    status: Tier, vector: TrustVector | None, overall: Tier | None, form: Form
) -> None:
    assert refusal(signed(with_cpu(status, vector, overall), form)).code == "ear-status-unfounded"


def test_none_of_one_device_is_not_hidden_behind_an_overall_affirming() -> None:
    ear = replace(
        NAMED,
        status=Tier.AFFIRMING,
        submods={
            "cpu": EarAppraisal(status=Tier.AFFIRMING, vector=TrustVector(hardware=2)),
            "gpu": EarAppraisal(status=Tier.NONE),
        },
    )
    assert refusal(signed(ear)).code == "ear-status-unfounded"
    assert verified(signed(replace(ear, status=None))).status is Tier.NONE


def test_a_status_that_is_worse_than_its_vector_counts_as_stated() -> None:
    assert verified(signed(with_cpu(Tier.WARNING, TrustVector(hardware=2), None))).status is Tier.WARNING
    assert verified(signed(with_cpu(Tier.AFFIRMING, TrustVector(hardware=2), Tier.CONTRAINDICATED))).status is (
        Tier.CONTRAINDICATED
    )


@given(status=st.sampled_from(Tier), value=st.integers(-128, 127), overall=st.none() | st.sampled_from(Tier))
def test_what_verifies_is_affirming_only_if_everything_in_it_is(status: Tier, value: int, overall: Tier | None) -> None:
    ear = with_cpu(status, TrustVector(hardware=value), overall)
    try:
        found = verified(signed(ear))
    except AttestError:
        assert Tier.AFFIRMING in (status, overall) or Tier.CONTRAINDICATED in (status, ear.founded)
        return
    if found.status is Tier.AFFIRMING:
        assert 2 <= value <= 31 or -32 <= value <= -2
        assert status is Tier.AFFIRMING


# -- what the Relying Party demands

OURS = replace(NAMED, details=DETAILS)


def test_exactly_the_demanded_submodules_must_be_there() -> None:
    verified(signed(), submods=frozenset({"cpu0", "gpu0"}))
    for names in ({"cpu0"}, {"cpu0", "gpu0", "gpu1"}, set()):
        assert refusal(signed(), submods=frozenset(names)).code == "ear-submodules-mismatch"


def test_the_demanded_policies_must_have_judged() -> None:
    verified(signed(OURS), policy_digests=(bytes(32),))
    assert refusal(signed(OURS), policy_digests=(bytes(32), b"\1" * 32)).code == "ear-policy-mismatch"
    assert refusal(signed(), policy_digests=(bytes(32),)).code == "ear-policy-mismatch"


def test_the_bound_key_must_be_the_one_that_secrets_go_to() -> None:
    verified(signed(OURS), bound_key=bytes(32))
    assert refusal(signed(OURS), bound_key=b"\1" * 32).code == "ear-key-mismatch"
    assert refusal(signed(), bound_key=bytes(32)).code == "ear-key-mismatch"
    assert refusal(signed(replace(OURS, details=replace(DETAILS, binding=None))), bound_key=bytes(32)).code == (
        "ear-key-mismatch"
    )


def outcomes(token: VerifiedEar, simulated: str | None = None) -> dict[str, Outcome]:
    return {check.id: check.outcome for check in appraise_ear(token, simulated=simulated) if check.item is None}


def test_the_baseline_for_results_demands_affirming_everywhere_and_hardware() -> None:
    good = with_cpu(Tier.AFFIRMING, TrustVector(hardware=2), None)
    assert set(outcomes(verified(signed(good))).values()) == {Outcome.PASS}
    assert outcomes(verified(signed())) == {"policy.token.status": Outcome.FAIL}
    simulated = verified(signed(replace(good, details=DETAILS)))
    assert outcomes(simulated)["policy.token.not_simulated"] is Outcome.FAIL
    assert outcomes(simulated, "a test")["policy.token.not_simulated"] is Outcome.NOT_EVALUATED
    hardware = verified(signed(replace(good, details=replace(DETAILS, simulated=False))))
    assert outcomes(hardware)["policy.token.not_simulated"] is Outcome.PASS


# -- property


@given(data=st.binary(max_size=80), at=st.integers(0, 60))
def test_any_bytes_at_all_are_refused_with_a_documented_error(data: bytes, at: int) -> None:
    refusal(data)
    token = signed(form="cwt")
    refusal(token[:at] + data)


def splice(text: str) -> Callable[[int], str]:
    return lambda index: text[:index] + "." + text[index:]


@given(index=st.integers(0, 400))
def test_a_token_cut_elsewhere_is_refused(index: int) -> None:
    refusal(splice(signed().decode())(index))
