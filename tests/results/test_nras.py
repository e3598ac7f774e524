"""Tokens of NRAS: the recorded one, and every part exchanged, left out, repeated or out of time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.checks import Outcome
from attest.errors import AttestError, BindingError, EndorsementError, EvidenceError, SignatureError, VerificationError
from attest.results.jose import TokenKey, read_jwks
from attest.results.nras import NRAS_INTERMEDIATE_SPKI, NRAS_ISSUER, appraise_nras, verify_nras_token
from attest.verification import Freshness
from tests.results.tokens import (
    AT,
    EXPIRES,
    ISSUER,
    NONCE,
    NOT_BEFORE,
    Signer,
    detached,
    device_claims,
    overall_claims,
    token,
)

SIGNER = Signer()
Trusted = Mapping[str, tuple[TokenKey, ...]]
TRUSTED = {ISSUER: SIGNER.keys()}


def refusal(
    data: bytes, *, at: datetime = AT, nonce: bytes | None = NONCE, trusted: Trusted | None = None
) -> AttestError:
    with pytest.raises(AttestError) as outcome:
        verify_nras_token(data, trusted=TRUSTED if trusted is None else trusted, at=at, nonce=nonce)
    failed = [check for check in outcome.value.checks if check.outcome is Outcome.FAIL]
    assert [check.id for check in failed] == [outcome.value.check]
    return outcome.value


def test_a_genuine_token_is_told_with_every_check() -> None:
    found = verify_nras_token(token(SIGNER, devices=8), trusted=TRUSTED, at=AT, nonce=NONCE)
    assert found.freshness is Freshness.MATCHED
    assert len(found.submodules) == 8
    assert [check.id for check in found.checks] == ["token.signature", "token.submodules", "token.time", "freshness"]
    assert {check.outcome for check in (*found.checks, *appraise_nras(found))} == {Outcome.PASS}


def test_without_a_nonce_freshness_is_not_evaluated() -> None:
    found = verify_nras_token(token(SIGNER), trusted=TRUSTED, at=AT)
    assert found.freshness is Freshness.NOT_EVALUATED
    assert found.checks[-1].outcome is Outcome.NOT_EVALUATED


def test_what_nras_denies_is_genuine_and_not_affirmed() -> None:
    for overall, device, failed in (
        ({"x-nvidia-overall-att-result": False}, {}, ["policy.token.overall_result"]),
        ({"x-nvidia-overall-att-result": "true"}, {}, ["policy.token.overall_result"]),
        ({"x-nvidia-overall-att-result": None}, {}, ["policy.token.overall_result"]),
        ({}, {"measres": "fail"}, ["policy.token.measres"]),
        ({}, {"measres": "Success"}, ["policy.token.measres"]),
        ({}, {"measres": None}, ["policy.token.measres"]),
    ):
        found = verify_nras_token(token(SIGNER, device=device, **overall), trusted=TRUSTED, at=AT)
        assert [c.id for c in appraise_nras(found) if c.outcome is Outcome.FAIL] == failed


def test_one_device_that_failed_fails_the_set() -> None:
    texts = {f"GPU-{i}": SIGNER.sign(device_claims(measres="fail" if i == 5 else "success")) for i in range(8)}
    found = verify_nras_token(detached(SIGNER.sign(overall_claims(texts)), texts), trusted=TRUSTED, at=AT)
    assert [c.item for c in appraise_nras(found) if c.outcome is Outcome.FAIL] == ["GPU-5"]


def parts(devices: int = 2) -> tuple[str, dict[str, str]]:
    texts = {f"GPU-{index}": SIGNER.sign(device_claims(ueid=str(index))) for index in range(devices)}
    return SIGNER.sign(overall_claims(texts)), texts


def test_a_device_token_that_was_exchanged_left_out_added_or_renamed_is_refused() -> None:
    overall, texts = parts()
    other = SIGNER.sign(device_claims(measres="success", ueid="another"))
    for changed in (
        {**texts, "GPU-0": other},
        {"GPU-0": texts["GPU-0"]},
        {**texts, "GPU-2": other},
        {"GPU-0": texts["GPU-1"], "GPU-1": texts["GPU-0"]},
        {"GPU-0": texts["GPU-0"], "GPU-9": texts["GPU-1"]},
    ):
        error = refusal(detached(overall, changed))
        assert isinstance(error, SignatureError)
        assert error.code == "token-digest-mismatch"


@pytest.mark.parametrize(
    "submods",
    [
        None,
        [],
        {"GPU-0": "x"},
        {"GPU-0": ["DIGEST", ["SHA256", "00"]]},
        {"GPU-0": ["DIGEST", ["SHA-256", "00" * 32]]},
        {"GPU-0": ["DIGEST"]},
    ],
)
def test_digests_of_another_form_or_value_are_refused(submods: object) -> None:
    assert refusal(token(SIGNER, submods=submods)).code == "token-digest-mismatch"


def test_a_device_token_of_another_key_is_refused() -> None:
    texts = {"GPU-0": Signer().sign(device_claims())}
    assert refusal(detached(SIGNER.sign(overall_claims(texts)), texts)).code == "token-signature-invalid"


def test_an_overall_token_of_another_key_is_refused() -> None:
    assert refusal(token(Signer())).code == "token-signature-invalid"


def test_unsigned_tokens_and_the_constant_secret_of_the_python_sdk_are_refused() -> None:
    _, texts = parts(1)
    overall = overall_claims(texts)
    import base64

    def words(header: dict[str, str]) -> str:
        encoded = (
            base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, overall)
        )
        return ".".join([*encoded, ""])

    for alg in ("none", "HS256"):
        assert refusal(detached(words({"alg": alg, "kid": "kid-1"}), texts)).code == "token-algorithm-refused"


@pytest.mark.parametrize(
    ("claim", "value", "code"),
    [
        ("iss", "https://nras.attestation-stg.nvidia.com", "token-issuer-mismatch"),
        ("iss", None, "token-issuer-mismatch"),
        ("eat_nonce", "00" * 32, "token-nonce-mismatch"),
        ("eat_nonce", None, "token-nonce-mismatch"),
        ("exp", NOT_BEFORE, "token-expired"),
        ("nbf", EXPIRES, "token-not-yet-valid"),
        ("nbf", None, "token-malformed"),
        ("exp", 1.5, "token-malformed"),
        ("exp", True, "token-malformed"),
        ("exp", 10**18, "token-malformed"),
        ("exp", -1, "token-malformed"),
    ],
)
def test_a_device_token_that_says_something_else_is_refused(claim: str, value: object, code: str) -> None:
    assert refusal(token(SIGNER, device={claim: value})).code == code


@pytest.mark.parametrize(
    ("claim", "value", "code"),
    [
        ("sub", "somebody", "token-malformed"),
        ("eat_nonce", 7, "token-malformed"),
        ("eat_nonce", "zz", "token-nonce-mismatch"),
        ("iss", "https://example.org", "token-issuer-untrusted"),
        ("iss", None, "token-malformed"),
        ("iss", "", "token-malformed"),
        ("iss", "x" * 257, "token-malformed"),
    ],
)
def test_an_overall_token_that_says_something_else_is_refused(claim: str, value: object, code: str) -> None:
    changed: dict[str, Any] = {claim: value}
    assert refusal(token(SIGNER, **changed)).code == code


def test_a_nonce_that_is_no_hex_or_has_another_length_is_refused() -> None:
    for nonce in ("zz" * 32, "00" * 31, "00" * 33):
        error = refusal(token(SIGNER, eat_nonce=nonce, device={"eat_nonce": nonce}))
        assert isinstance(error, EvidenceError)


def test_a_token_counts_from_its_first_second_until_before_its_last() -> None:
    data = token(SIGNER)
    first = datetime.fromtimestamp(NOT_BEFORE, tz=UTC)
    end = datetime.fromtimestamp(EXPIRES, tz=UTC)
    for at in (first, end - timedelta(seconds=1)):
        assert verify_nras_token(data, trusted=TRUSTED, at=at).at == at
    assert refusal(data, at=first - timedelta(seconds=1)).code == "token-not-yet-valid"
    error = refusal(data, at=end)
    assert isinstance(error, VerificationError)
    assert error.code == "token-expired"


def test_another_nonce_is_refused() -> None:
    error = refusal(token(SIGNER), nonce=bytes(32))
    assert isinstance(error, BindingError)
    assert (error.code, error.check) == ("nonce-mismatch", "freshness")


def test_nobody_is_trusted_without_being_named() -> None:
    error = refusal(token(SIGNER), trusted={})
    assert isinstance(error, EndorsementError)
    assert error.code == "token-issuer-untrusted"
    assert refusal(token(SIGNER), trusted={ISSUER: ()}).code == "token-issuer-untrusted"


@pytest.mark.parametrize(
    "document",
    [
        {},
        [],
        [["JWT", "a.b.c"]],
        [["JWT", "a.b.c"], {}],
        [["JWT", "a.b.c"], {"GPU-0": 1}],
        [["CBOR", "a.b.c"], {"GPU-0": "a.b.c"}],
        [["JWT", 1], {"GPU-0": "a.b.c"}],
        [["JWT", "a.b"], {"GPU-0": "a.b.c"}],
        [["JWT", "a.b.c"], {"GPU-0": "a.b.c"}, {}],
        [["JWT", "a.b.c"], {f"GPU-{i}": "a.b.c" for i in range(33)}],
    ],
)
def test_what_is_no_detached_token_is_refused(document: object) -> None:
    assert isinstance(refusal(json.dumps(document).encode()), EvidenceError)


def test_a_huge_token_is_refused_unread() -> None:
    assert refusal(b" " * (1024 * 1024 + 1)).code == "token-malformed"


@given(data=st.binary(max_size=300))
def test_any_bytes_at_all_are_a_token_or_a_documented_refusal(data: bytes) -> None:
    with pytest.raises(AttestError):
        verify_nras_token(data, trusted=TRUSTED, at=AT)


# -- the recorded token


def recorded(vectors_dir: Path) -> tuple[bytes, dict[str, tuple[TokenKey, ...]], dict[str, Any]]:
    folder = vectors_dir / "nvidia"
    case = next(c for c in json.loads((folder / "MANIFEST.json").read_text())["cases"] if c["id"] == "nras-token")
    keys = read_jwks((folder / case["files"]["jwks"]).read_bytes())
    return (folder / case["files"]["token"]).read_bytes(), {NRAS_ISSUER: keys}, case


def test_the_recorded_token_verifies_within_its_hour_only(vectors_dir: Path) -> None:
    data, trusted, case = recorded(vectors_dir)
    nonce = bytes.fromhex(case["expected_nonce"])
    at = datetime.fromisoformat(case["at"])
    found = verify_nras_token(data, trusted=trusted, at=at, nonce=nonce)
    assert found.submodules["GPU-0"]["ueid"] == case["expected"]["ueid"]
    assert {check.outcome for check in appraise_nras(found)} == {Outcome.PASS}
    for moment, code in (
        (datetime(2025, 6, 11, 0, 30, 57, tzinfo=UTC), "token-not-yet-valid"),
        (datetime(2025, 6, 11, 1, 30, 58, tzinfo=UTC), "token-expired"),
    ):
        assert refusal(data, at=moment, nonce=nonce, trusted=trusted).code == code


def test_the_recorded_key_certificate_counts_for_its_two_days(vectors_dir: Path) -> None:
    from base64 import b64decode, urlsafe_b64encode

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    chain = json.loads((vectors_dir / "nvidia/nras-token/x5c_chain.json").read_text())["x5c"]
    public = x509.load_der_x509_certificate(b64decode(chain[0])).public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)
    numbers = public.public_numbers()
    x, y = (urlsafe_b64encode(n.to_bytes(48, "big")).rstrip(b"=").decode() for n in (numbers.x, numbers.y))
    entry = {"kty": "EC", "crv": "P-384", "kid": "a", "x": x, "y": y, "x5c": chain}
    key = read_jwks(json.dumps({"keys": [entry]}).encode())[0]
    assert key.is_certified_by(NRAS_INTERMEDIATE_SPKI, at=datetime(2026, 6, 9, tzinfo=UTC))
    assert not key.is_certified_by(NRAS_INTERMEDIATE_SPKI, at=datetime(2026, 6, 11, tzinfo=UTC))
    assert not key.is_certified_by(bytes(32), at=datetime(2026, 6, 9, tzinfo=UTC))
