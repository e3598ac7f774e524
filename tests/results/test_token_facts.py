"""Facts of tokens: in the registry, typed, and absent where the token says nothing."""

from __future__ import annotations

from typing import Any

import pytest

from attest.encoding import JsonValue
from attest.errors import AttestError
from attest.evidence.claims import ClaimTree
from attest.results.service_token import verify_service_token
from attest.results.token_facts import ClaimReader, claim_tree
from tests.results.facts import TRUSTED, facts_of, refusal, require_registered
from tests.results.services import (
    AT,
    SAMPLES,
    SERVICE,
    b64url,
    maa_guest,
    without,
)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_claim_is_one_of_the_registry_with_its_type(name: str) -> None:
    for facts in facts_of(SAMPLES[name]):
        require_registered(facts)


@pytest.mark.parametrize("name", SAMPLES)
def test_each_claim_that_is_null_is_absent_or_was_needed(name: str) -> None:
    claims = SAMPLES[name]
    for member in claims:
        gone = _outcome(without(claims, member))
        assert _outcome({**claims, member: None}) == gone
        if isinstance(gone, AttestError):
            assert gone.code


def _outcome(claims: dict[str, Any]) -> object:
    audience = "https://kms.example" if claims.get("aud") is not None else None
    try:
        found = verify_service_token(SERVICE.sign(claims), trusted=TRUSTED, at=AT, audience=audience)
    except AttestError as error:
        return (error.code, error.field)
    return found.facts


WRONG: tuple[JsonValue, ...] = (True, 5, 0.5, "", "x", [], {}, ["x"], {"x": 1}, "x" * 2000, -1)
UNTYPED = {"jti", "x-ms-ver", "ver", "eat_profile", "sub", "oemid", "intuse"}


@pytest.mark.parametrize("name", SAMPLES)
def test_no_claim_may_have_every_type(name: str) -> None:
    for member in without(SAMPLES[name], *UNTYPED):
        outcomes = [_outcome({**SAMPLES[name], member: value}) for value in WRONG]
        assert any(isinstance(one, tuple) and isinstance(one[0], str) for one in outcomes), member


def test_fractions_are_no_claim() -> None:
    tree: JsonValue = {"a": [1, None, {"b": "c", "d": None}], "e": True}
    expected: ClaimTree = {"a": (1, {"b": "c"}), "e": True}
    assert claim_tree(tree, "x") == expected
    assert claim_tree(None, "x") is None
    assert refusal(maa_guest(**{"x-ms-azurevm-a": {"b": 0.5}})).field == "x-ms-azurevm-a.b"


def test_a_reader_knows_where_it_stands() -> None:
    reader = ClaimReader(members={"a": {"b": 1}, "c": None})
    assert "a" in reader
    assert "c" not in reader
    inner = reader.object("a")
    assert inner is not None
    assert inner.where("b") == "a.b"
    assert b64url(b"") == ""
