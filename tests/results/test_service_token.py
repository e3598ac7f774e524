"""Tokens of Azure, Intel and Google: what is genuine, and every way of it that is not."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from attest.checks import Outcome
from attest.errors import AttestError, BindingError, EndorsementError, EvidenceError, SignatureError, VerificationError
from attest.results import appraise_service_token
from attest.results.ear_verify import is_ear
from attest.results.jose import MAX_TOKEN_BYTES, TokenKey, read_jwks
from attest.results.service_token import MAX_AGE, SKEW, VerifiedServiceToken, verify_service_token
from attest.results.token_services import service_of
from attest.verification import Freshness
from tests.results.services import (
    AT,
    GOOGLE,
    ITA,
    MAA,
    NONCE,
    NONCE_TEXT,
    NOW,
    SAMPLES,
    SERVICE,
    Service,
    b64url,
    google,
    ita_flat,
    ita_tdx,
    maa_snp,
    without,
)

KEYS = SERVICE.keys()
TRUSTED: Mapping[str, tuple[TokenKey, ...]] = {MAA: KEYS, ITA: KEYS, GOOGLE: KEYS, "Intel Trust Authority": KEYS}
AUDIENCE = "https://kms.example"
SECOND = timedelta(seconds=1)


def verify(
    token: bytes | dict[str, Any],
    *,
    at: datetime = AT,
    nonce: bytes | None = NONCE,
    audience: str | None = None,
    trusted: Mapping[str, tuple[TokenKey, ...]] = TRUSTED,
) -> VerifiedServiceToken:
    data = token if isinstance(token, bytes) else SERVICE.sign(token)
    return verify_service_token(data, trusted=trusted, at=at, nonce=nonce, audience=audience)


def refusal(
    token: bytes | dict[str, Any],
    *,
    at: datetime = AT,
    nonce: bytes | None = NONCE,
    audience: str | None = None,
    trusted: Mapping[str, tuple[TokenKey, ...]] = TRUSTED,
) -> AttestError:
    with pytest.raises(AttestError) as outcome:
        verify(token, at=at, nonce=nonce, audience=audience, trusted=trusted)
    error = outcome.value
    assert [check.id for check in error.checks if check.outcome is Outcome.FAIL] == [error.check]
    assert error.check
    return error


def audience_of(claims: dict[str, Any]) -> str | None:
    return AUDIENCE if "aud" in claims else None


@pytest.mark.parametrize("name", SAMPLES)
def test_a_genuine_token_is_told_with_every_check(name: str) -> None:
    claims = SAMPLES[name]
    found = verify(claims, audience=audience_of(claims))
    assert found.freshness is Freshness.MATCHED
    assert {check.outcome for check in found.checks} == {Outcome.PASS}
    ids = [check.id for check in found.checks]
    assert ids == [
        "token.signature",
        "token.time",
        "token.claims",
        *(["token.audience"] if "aud" in claims else []),
        "freshness",
    ]
    assert (found.frame.issuer, found.frame.service) == (claims["iss"], name.partition(" ")[0])
    assert found.facts
    assert found.claims == claims
    assert {facts.frame for facts in found.facts} == {found.frame}
    assert all(facts.simulated is None for facts in found.facts)


@pytest.mark.parametrize("name", SAMPLES)
def test_whose_token_it_is_shows_in_its_claims(name: str) -> None:
    token = SERVICE.sign(SAMPLES[name])
    assert service_of(token) == name.partition(" ")[0]
    assert service_of(token + b"\n") == name.partition(" ")[0]


@pytest.mark.parametrize("data", [b"", b"a.b", b"\xff.\xff.\xff", b"e30.W10.AA", b"e30.e30.AA", b"e30.!.AA"])
def test_what_is_no_token_of_a_service_is_recognised_as_none(data: bytes) -> None:
    assert service_of(data) is None


def test_a_token_with_the_claims_of_two_services_is_nobodys() -> None:
    assert refusal({**google(), "x-ms-attestation-type": "sevsnpvm"}).code == "token-malformed"
    assert refusal({**maa_snp(), "attester_type": "TDX"}).code == "token-malformed"


def test_a_token_of_google_looks_like_an_ear_and_is_asked_for_first() -> None:
    token = SERVICE.sign(google())
    assert is_ear(token)
    assert service_of(token) == "google"


# -- header and signature


@pytest.mark.parametrize("alg", ["none", "HS256", "HS384", "RS384", "ES256", "PS256", "", None, 5, ["RS256"]])
def test_must_check_20_the_header_does_not_choose_the_algorithm(alg: object) -> None:
    good = SERVICE.sign(maa_snp()).decode()
    head = b64url(json.dumps({"alg": alg, "kid": SERVICE.kid}).encode())
    assert refusal(".".join([head, *good.split(".")[1:]]).encode()).code == "token-algorithm-refused"


def test_a_token_without_signature_is_refused() -> None:
    head = b64url(json.dumps({"alg": "none", "kid": SERVICE.kid}).encode())
    payload = SERVICE.sign(maa_snp()).decode().split(".")[1]
    assert refusal(f"{head}.{payload}.".encode()).code == "token-algorithm-refused"


def test_must_check_20_a_public_key_used_as_a_shared_secret_signs_nothing() -> None:
    secret = SERVICE.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head = b64url(json.dumps({"alg": "HS256", "kid": SERVICE.kid, "typ": "JWT"}).encode())
    words = f"{head}.{SERVICE.sign(maa_snp()).decode().split('.')[1]}"
    mac = b64url(hmac.digest(secret, words.encode(), "sha256"))
    assert refusal(f"{words}.{mac}".encode()).code == "token-algorithm-refused"


def test_each_service_signs_with_its_own_algorithms_and_no_other() -> None:
    assert verify(SERVICE.sign(ita_tdx(), alg="PS384")).algorithm == "PS384"
    assert verify(SERVICE.sign(ita_tdx(), alg="RS256")).algorithm == "RS256"
    assert refusal(SERVICE.sign(maa_snp(), alg="PS384")).code == "token-algorithm-refused"
    assert refusal(SERVICE.sign(google(), alg="PS384"), audience=AUDIENCE).code == "token-algorithm-refused"


@pytest.mark.parametrize("name", ["jwk", "x5u", "x5c", "crit", "b64", "zip", "cty2"])
@pytest.mark.parametrize("claims", [maa_snp(), ita_tdx(), google()], ids=["maa", "ita", "google"])
def test_must_check_20_a_header_that_brings_a_key_an_address_or_something_critical_is_refused(
    name: str, claims: dict[str, Any]
) -> None:
    header: dict[str, Any] = {name: ["x"]}
    error = refusal(SERVICE.sign(claims, **header))
    assert (error.code, error.check) == ("token-malformed", "token.format")
    assert name in error.message


def test_must_check_14_an_address_of_keys_is_passed_over_where_a_service_sends_one() -> None:
    evil = "https://evil.example/keys"
    assert verify(SERVICE.sign(maa_snp(), jku=evil)).key_id == SERVICE.kid
    assert verify(SERVICE.sign(ita_tdx(), jku=evil)).key_id == SERVICE.kid
    assert refusal(SERVICE.sign(google(), jku=evil)).code == "token-malformed"
    # Whatever stands there: without a trusted key of this name nothing verifies.
    stranger = Service(kid="stranger", number=1)
    assert refusal(stranger.sign(maa_snp(), jku=evil)).code == "token-key-unknown"


@pytest.mark.parametrize("typ", ["JWT", "jwt", None])
def test_types_of_a_token(typ: str | None) -> None:
    assert verify(SERVICE.sign(maa_snp(), typ=typ)).freshness is Freshness.MATCHED


def test_another_kind_of_token_is_refused() -> None:
    assert refusal(SERVICE.sign(maa_snp(), typ="at+jwt")).code == "token-malformed"


@pytest.mark.parametrize("kid", [None, "", "other", 5, [SERVICE.kid], "../" + SERVICE.kid, SERVICE.kid.lower()])
def test_must_check_20_a_key_is_found_by_its_exact_name_or_not_at_all(kid: object) -> None:
    error = refusal(SERVICE.sign(maa_snp(), kid=kid))
    assert isinstance(error, EndorsementError)
    assert error.code == "token-key-unknown"


def test_another_key_of_the_same_name_does_not_verify() -> None:
    error = refusal(Service(number=1).sign(maa_snp()))
    assert isinstance(error, SignatureError)
    assert (error.code, error.check) == ("token-signature-invalid", "token.signature")


@pytest.mark.parametrize(
    "members", [{"use": "enc"}, {"alg": "RS512"}, {"alg": "PS384"}, {"alg": 5}, {"key_ops": ["encrypt"]}]
)
def test_a_key_that_is_kept_for_something_else_signs_nothing(members: dict[str, Any]) -> None:
    trusted = {MAA: read_jwks(SERVICE.jwks(**members))}
    assert isinstance(refusal(maa_snp(), trusted=trusted), SignatureError)


def test_a_key_that_is_for_signatures_with_this_algorithm_signs() -> None:
    trusted = {MAA: read_jwks(SERVICE.jwks(use="sig", alg="RS256"))}
    assert verify(maa_snp(), trusted=trusted).freshness is Freshness.MATCHED


def test_every_part_of_payload_and_signature_counts() -> None:
    head, payload, signature = SERVICE.sign(maa_snp()).decode().split(".")
    for index in range(0, len(payload), 7):
        other = "A" if payload[index] != "A" else "B"
        changed = payload[:index] + other + payload[index + 1 :]
        assert refusal(f"{head}.{changed}.{signature}".encode()).code
    raw = base64.urlsafe_b64decode(signature + "==")
    for index in range(0, len(raw), 5):
        bad = b64url(raw[:index] + bytes([raw[index] ^ 1]) + raw[index + 1 :])
        assert refusal(f"{head}.{payload}.{bad}".encode()).code == "token-signature-invalid"
    for bad in (b64url(raw[:-1]), b64url(raw + b"\0"), ""):
        assert isinstance(refusal(f"{head}.{payload}.{bad}".encode()), SignatureError)


def test_a_signature_has_one_spelling() -> None:
    good = SERVICE.sign(maa_snp())
    assert isinstance(refusal(good + b"="), EvidenceError | SignatureError)


# -- shape


@pytest.mark.parametrize(
    "data",
    [b"", b"a.b", b"a.b.c.d", b"\xff", b"e30.!.AA", b"e30.W10.AA", b" " * (MAX_TOKEN_BYTES + 1)],
    ids=["empty", "two words", "four words", "not ascii", "not base64", "an array", "too long"],
)
def test_what_is_no_token_is_refused(data: bytes) -> None:
    error = refusal(data)
    assert isinstance(error, EvidenceError)
    assert error.check == "token.format"


def test_must_check_13_a_token_that_is_too_long_is_refused_whatever_is_in_it() -> None:
    assert refusal(SERVICE.sign(maa_snp(more="x" * MAX_TOKEN_BYTES))).code == "token-malformed"


def test_must_check_20_duplicated_members_are_refused_wherever_they_stand() -> None:
    text = json.dumps(maa_snp())
    doubled = text.replace('"secure-boot": true', '"secure-boot": true, "secure-boot": false')
    assert doubled != text
    for payload in (text[:-1] + ', "nonce": "x"}', text[:-1] + f', "iss": "{MAA}"}}', doubled):
        assert refusal(SERVICE.sign(payload)).code == "json-invalid"
    head, payload, signature = SERVICE.sign(maa_snp()).decode().split(".")
    twice = b64url(b'{"alg":"RS256","alg":"RS256","kid":"k"}')
    assert refusal(f"{twice}.{payload}.{signature}".encode()).code == "json-invalid"
    assert head != twice


# -- issuer


def test_a_token_of_an_issuer_without_keys_is_refused() -> None:
    for trusted in ({}, {MAA: ()}, {MAA + "/": KEYS}, {MAA.upper(): KEYS}, {ITA: KEYS}):
        error = refusal(maa_snp(), trusted=trusted)
        assert isinstance(error, EndorsementError)
        assert error.code == "token-issuer-untrusted"
        assert "--trust" in (error.hint or "")


def test_a_hint_has_no_word_of_a_stranger_that_somebody_might_paste() -> None:
    error = refusal(maa_snp(iss="https://x;reboot"))
    assert error.code == "token-issuer-untrusted"
    assert "reboot" not in (error.hint or "")


@pytest.mark.parametrize("iss", [None, "", 5, ["x"], "x" * 2000])
def test_an_issuer_is_a_text(iss: object) -> None:
    error = refusal(maa_snp(iss=iss))
    assert (error.code, error.field) == ("token-claim-invalid", "iss")


def test_must_check_20_the_keys_of_one_issuer_do_not_sign_for_another() -> None:
    other = Service(kid="k2", number=1)
    trusted = {MAA: KEYS, "https://other.eus.attest.azure.net": other.keys()}
    assert refusal(other.sign(maa_snp()), trusted=trusted).code == "token-key-unknown"
    moved = SERVICE.sign(maa_snp(iss="https://other.eus.attest.azure.net"))
    assert refusal(moved, trusted=trusted).code == "token-key-unknown"


@pytest.mark.parametrize(
    ("claims", "iss"),
    [
        (maa_snp(), ITA),
        (maa_snp(), GOOGLE),
        (ita_tdx(), MAA),
        (ita_tdx(), GOOGLE),
        (google(), MAA),
        (ita_flat(), "https://evil.attest.azure.us"),
    ],
)
def test_the_issuer_of_one_service_does_not_speak_as_another(claims: dict[str, Any], iss: str) -> None:
    error = refusal({**claims, "iss": iss}, trusted={iss: KEYS})
    assert (error.code, error.field) == ("token-claim-invalid", "iss")


def test_an_issuer_that_is_nobodys_is_who_the_operator_says() -> None:
    for iss in ("https://maa.internal", "https://x.attest.azure.net/path", "http://x.attest.azure.net", "attest"):
        assert verify(maa_snp(iss=iss), trusted={iss: KEYS}).frame.service == "maa"


def test_intel_may_attest_confidential_space_with_googles_claims_and_its_own_algorithms() -> None:
    claims = google(iss=ITA, hwmodel="INTEL_TDX")
    found = verify(SERVICE.sign(claims, alg="PS384", jku="https://x.example"), audience=AUDIENCE)
    assert (found.frame.service, found.frame.issuer, found.facts[0].kind) == ("google", ITA, "tdx")


# -- time


def moments(**changes: int) -> dict[str, Any]:
    return maa_snp(**{name: NOW + offset for name, offset in changes.items()})


def test_a_token_counts_from_a_minute_before_it_was_issued_until_the_second_before_its_end() -> None:
    claims = moments(iat=0, nbf=0, exp=600)
    for offset in (-SKEW, timedelta(0), timedelta(seconds=599)):
        assert verify(claims, at=AT + offset).at == AT + offset
    assert refusal(claims, at=AT - SKEW - SECOND).code == "token-not-yet-valid"
    assert refusal(claims, at=AT + timedelta(seconds=600)).code == "token-expired"
    late = moments(iat=0, nbf=30, exp=600)
    assert refusal(late, at=AT - SKEW).code == "token-not-yet-valid"


def test_must_check_20_a_token_is_good_for_a_day_however_late_its_end_is() -> None:
    claims = moments(iat=0, nbf=0, exp=10 * 86400)
    assert verify(claims, at=AT + MAX_AGE).at == AT + MAX_AGE
    error = refusal(claims, at=AT + MAX_AGE + SECOND)
    assert isinstance(error, VerificationError)
    assert (error.code, error.check) == ("token-too-old", "token.time")


@pytest.mark.parametrize("name", ["iat", "nbf", "exp"])
@pytest.mark.parametrize("value", [None, "1700000000", 1700000000.5, True, -1, 10**12, 10**30, [1]])
def test_times_are_whole_seconds_and_all_are_there(name: str, value: object) -> None:
    error = refusal(maa_snp(**{name: value}))
    assert (error.code, error.field) == ("token-claim-invalid", name)
    assert refusal(without(maa_snp(), name)).code == "token-claim-invalid"


# -- audience


def test_must_check_20_a_token_for_somebody_is_for_nobody_else() -> None:
    assert verify(google(), audience=AUDIENCE).audience == (AUDIENCE,)
    assert verify(google(aud=["a", AUDIENCE]), audience=AUDIENCE).audience == ("a", AUDIENCE)
    for wanted in (None, "https://other.example", AUDIENCE + "/", ""):
        error = refusal(google(), audience=wanted)
        assert isinstance(error, BindingError)
        assert (error.code, error.check) == ("token-audience-mismatch", "token.audience")


def test_who_names_himself_takes_no_token_for_anybody() -> None:
    for claims in (maa_snp(), google(aud=None)):
        error = refusal(claims, audience=AUDIENCE)
        assert error.code == "token-audience-mismatch"
        assert "leave --audience out" in (error.hint or "")
    assert verify(google(aud=None)).audience == ()


def test_must_check_22_an_empty_list_of_audiences_is_nobody() -> None:
    for wanted in (None, AUDIENCE):
        assert refusal(google(aud=[]), audience=wanted).code == "token-claim-invalid"


@pytest.mark.parametrize("aud", [5, "", [5], [""], [None], {"a": 1}, ["x"] * 17])
def test_an_audience_is_text_or_a_few_texts(aud: object) -> None:
    assert refusal(google(aud=aud), audience="x").field is not None


# -- nonce


def test_without_a_nonce_freshness_is_not_evaluated() -> None:
    found = verify(maa_snp(), nonce=None)
    assert found.freshness is Freshness.NOT_EVALUATED
    assert found.checks[-1].outcome is Outcome.NOT_EVALUATED


@pytest.mark.parametrize(
    "spell",
    [
        lambda nonce: nonce.hex(),
        b64url,
        lambda nonce: base64.urlsafe_b64encode(nonce).decode(),
        lambda nonce: base64.b64encode(nonce).decode(),
    ],
    ids=["hex", "base64url", "base64url with padding", "base64"],
)
def test_a_nonce_of_bytes_may_stand_there_as_text(spell: Callable[[bytes], str]) -> None:
    nonce = bytes(range(224, 256)) + b"\xfb\xff"
    assert verify(maa_snp(nonce=spell(nonce)), nonce=nonce).freshness is Freshness.MATCHED
    assert refusal(maa_snp(nonce=spell(nonce) + "A"), nonce=nonce).code == "nonce-mismatch"


@pytest.mark.parametrize("name", SAMPLES)
def test_an_answer_to_another_question_is_refused(name: str) -> None:
    claims = SAMPLES[name]
    for nonce in (NONCE[:-1], NONCE + b"\0", NONCE.upper(), b"\0", b"a key "):
        error = refusal(claims, nonce=nonce, audience=audience_of(claims))
        assert isinstance(error, BindingError)
        assert (error.code, error.check) == ("nonce-mismatch", "freshness")
        assert error.expected == nonce.hex()


def test_a_token_that_repeats_no_nonce_answers_no_question() -> None:
    error = refusal(without(maa_snp(), "nonce"))
    assert (error.code, error.got) == ("nonce-mismatch", "none")
    assert refusal(google(eat_nonce=None), audience=AUDIENCE).got == "none"


def test_one_of_several_nonces_is_enough_and_all_are_told() -> None:
    found = verify(google(), audience=AUDIENCE)
    assert found.nonces == (NONCE, b"another nonce")
    assert verify(google(eat_nonce=NONCE_TEXT), audience=AUDIENCE).nonces == (NONCE,)


@given(data=st.binary(max_size=300))
def test_any_bytes_at_all_are_a_documented_refusal(data: bytes) -> None:
    with pytest.raises(AttestError):
        verify(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(name=st.sampled_from(sorted(SAMPLES)), which=st.integers(0, 10**6), value=JSON)
def test_any_claim_of_any_value_is_read_or_a_documented_refusal(name: str, which: int, value: object) -> None:
    claims = json.loads(json.dumps(SAMPLES[name]))
    places: list[tuple[dict[str, Any], str]] = []
    level: list[Any] = [claims]
    while level:
        current = level.pop()
        members = current.values() if isinstance(current, dict) else current
        places += [(current, key) for key in current] if isinstance(current, dict) else []
        level += [member for member in members if isinstance(member, dict | list)]
    place, key = places[which % len(places)]
    place[key] = value
    with suppress(AttestError):
        assert verify(claims, nonce=None, audience=AUDIENCE).facts


# -- simulated evidence, and tokens for anyone


@pytest.mark.parametrize(("stated", "found"), [({}, False), ({"simulated": False}, False), ({"simulated": True}, True)])
def test_a_token_states_simulated_evidence_by_a_claim(stated: dict[str, Any], *, found: bool) -> None:
    token = verify_service_token(SERVICE.sign(maa_snp(**stated)), trusted={MAA: SERVICE.keys()}, at=AT)
    assert token.simulated is found
    outcomes = {check.id: check.outcome for check in appraise_service_token(token)}
    expected = {True: Outcome.FAIL, False: Outcome.PASS}.get(stated.get("simulated"))  # type: ignore[arg-type]  # a boolean or None
    assert outcomes.get("policy.token.not_simulated") is expected
    tolerated = {check.id: check.outcome for check in appraise_service_token(token, simulated="a test")}
    assert tolerated.get("policy.token.not_simulated") is (Outcome.NOT_EVALUATED if found else expected)


@pytest.mark.parametrize(("stated", "found"), [({}, None), ({"simulated": False}, False), ({"simulated": True}, True)])
def test_an_issuer_that_is_no_service_itself_is_not_taken_to_refuse_simulated_evidence(
    stated: dict[str, Any], *, found: bool | None
) -> None:
    claims = maa_snp(iss="https://ours.example", **stated)
    token = verify_service_token(SERVICE.sign(claims), trusted={"https://ours.example": SERVICE.keys()}, at=AT)
    assert token.simulated is found


def test_intels_tokens_for_google_are_of_a_service_itself() -> None:
    claims = google(iss=ITA)
    token = verify_service_token(
        SERVICE.sign(claims, alg="PS384"), trusted={ITA: SERVICE.keys()}, at=AT, audience="https://kms.example"
    )
    assert token.simulated is False


@pytest.mark.parametrize("simulated", ["false", 0, None])
def test_a_statement_about_simulation_is_a_boolean(simulated: object) -> None:
    data = SERVICE.sign(maa_snp(simulated=simulated))
    if simulated is None:
        assert verify_service_token(data, trusted={MAA: SERVICE.keys()}, at=AT).facts[0].simulated is None
        return
    with pytest.raises(EvidenceError) as caught:
        verify_service_token(data, trusted={MAA: SERVICE.keys()}, at=AT)
    assert caught.value.code == "token-claim-invalid"


def test_a_token_without_audience_is_accepted_where_the_audience_is_optional() -> None:
    def verified(claims: dict[str, Any]) -> tuple[str, ...]:
        trusted = {MAA: SERVICE.keys(), GOOGLE: SERVICE.keys()}
        options: dict[str, Any] = {"audience": "https://kms.example", "audience_optional": True}
        return verify_service_token(SERVICE.sign(claims), trusted=trusted, at=AT, **options).audience

    assert verified(maa_snp()) == ()
    assert verified(google()) == ("https://kms.example",)
    with pytest.raises(BindingError) as caught:
        verified(google(aud="https://another.example"))
    assert caught.value.code == "token-audience-mismatch"
