"""Runtime claims: one attestation key, members of known types, and any bytes at all."""

import base64
import contextlib
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import EvidenceError
from attest.evidence.azure.claims import azure_claim
from attest.evidence.azure.runtime import VM_CONFIGURATION, RuntimeClaims, parse_runtime_claims
from attest.evidence.claims import ClaimType
from tests.evidence.azure.made import AzureVm, jwk, key

GOOD: dict[str, Any] = json.loads(AzureVm().runtime_data)


def parsed(**changes: Any) -> RuntimeClaims:  # noqa: ANN401
    return parse_runtime_claims(json.dumps(GOOD | changes).encode())


def test_the_attestation_key_is_found_by_its_name() -> None:
    assert parsed(keys=GOOD["keys"][::-1]).ak.public_numbers() == key().public_key().public_numbers()


def test_operations_of_the_key_are_not_judged() -> None:
    old = {**jwk(key()), "key_ops": ["encrypt"]}
    assert parsed(keys=[old]).ak.key_size == 2048


@pytest.mark.parametrize(("bits", "accepted"), [(2047, False), (2048, True), (4096, True), (4097, False)])
def test_a_key_has_2048_to_4096_bits(bits: int, accepted: bool) -> None:
    modulus = ((1 << bits - 1) + 1).to_bytes((bits + 7) // 8, "big")
    keys = [{**jwk(key()), "n": base64.urlsafe_b64encode(modulus).rstrip(b"=").decode()}]
    if accepted:
        assert parsed(keys=keys).ak.key_size == bits
    else:
        with pytest.raises(EvidenceError):
            parsed(keys=keys)


def test_the_key_may_be_one_of_sixteen() -> None:
    assert parsed(keys=[{}] * 15 + [AK]).ak.key_size == 2048
    with pytest.raises(EvidenceError):
        parsed(keys=[{}] * 16 + [AK])


def small() -> dict[str, Any]:
    return jwk(rsa.generate_private_key(public_exponent=65537, key_size=1024))  # noqa: S505


AK = jwk(key())
BAD: list[tuple[str, dict[str, Any]]] = [
    ("no keys", {"keys": None}),
    ("no array", {"keys": {}}),
    ("none of the name", {"keys": [jwk(key(), "HCLEkPub")]}),
    ("two of the name", {"keys": [AK, jwk(key("EK"))]}),
    ("too many", {"keys": [AK] + [{}] * 16}),
    ("another kind", {"keys": [{**AK, "kty": "EC"}]}),
    ("a short key", {"keys": [small()]}),
    ("another exponent", {"keys": [{**AK, "e": "Aw"}]}),
    ("an even modulus", {"keys": [{**AK, "n": AK["n"][:-2] + "AA"}]}),
    ("no modulus", {"keys": [{**AK, "n": 5}]}),
    ("a modulus that is no text", {"keys": [{**AK, "n": "*"}]}),
    ("a configuration that is none", {"vm-configuration": []}),
    ("a switch that is text", {"vm-configuration": {"secure-boot": "true"}}),
    ("a switch that is a number", {"vm-configuration": {"secure-boot": 1}}),
    ("a switch that is nothing", {"vm-configuration": {"secure-boot": None}}),
    ("an id that is a switch", {"vm-configuration": {"vmUniqueId": True}}),
    ("user data that is short", {"user-data": "00"}),
    ("user data that is no hex", {"user-data": "zz" * 64}),
    ("user data that is no text", {"user-data": None}),
]


@pytest.mark.parametrize("changes", [c for _, c in BAD], ids=[name for name, _ in BAD])
def test_claims_that_could_be_read_two_ways_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(EvidenceError) as outcome:
        parsed(**changes)
    assert outcome.value.exit_code == 3


@pytest.mark.parametrize(
    ("member", "value", "wanted"), [("secure-boot", "true", "true or false"), ("vmUniqueId", True, "text")]
)
def test_the_refusal_of_a_setting_names_its_type(member: str, value: object, wanted: str) -> None:
    with pytest.raises(EvidenceError) as outcome:
        parsed(**{"vm-configuration": {member: value}})
    assert outcome.value.expected == wanted


def test_a_member_that_stands_twice_is_refused() -> None:
    text = json.dumps(GOOD).replace('"user-data"', '"keys": [], "user-data"')
    with pytest.raises(EvidenceError) as outcome:
        parse_runtime_claims(text.encode())
    assert outcome.value.code == "json-invalid"


def test_claims_without_a_configuration_say_nothing_of_it() -> None:
    claims = {name: value for name, value in GOOD.items() if name != "vm-configuration"}
    assert parse_runtime_claims(json.dumps(claims).encode()).vm_configuration == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.binary(max_size=64)
    | st.tuples(st.sampled_from(sorted(GOOD)), JSON).map(lambda c: json.dumps(GOOD | dict([c])).encode())
)
def test_any_bytes_are_claims_or_a_documented_refusal(data: bytes) -> None:
    with contextlib.suppress(EvidenceError):
        parse_runtime_claims(data)


@pytest.mark.parametrize("data", [b"[]", b"1", b"\xff"])
def test_claims_are_an_object(data: bytes) -> None:
    with pytest.raises(EvidenceError):
        parse_runtime_claims(data)


def test_a_setting_is_a_claim_of_its_own_type() -> None:
    for name, kind in VM_CONFIGURATION.values():
        assert azure_claim(f"vm_configuration.{name}").type is {bool: ClaimType.BOOLEAN, str: ClaimType.TEXT}[kind]
