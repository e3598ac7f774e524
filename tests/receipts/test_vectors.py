"""The published vectors: what the specification says of them holds, byte by byte."""

import json
from base64 import b64decode
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PrivateKey

from attest.errors import AttestError
from attest.receipts import parse_receipt, parse_receipt_file, parse_statement
from attest.sealed import read_trusted_key
from tests.receipts.machine import Machine, checked
from tests.receipts.vectors import PATH, SEED, vectors


@pytest.fixture(scope="module")
def vector() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(PATH.read_text())
    return document


def octets(vector: dict[str, Any], name: str) -> bytes:
    return bytes.fromhex(vector[name])


def test_the_keys_of_the_statement_are_those_of_the_seeds(vector: dict[str, Any]) -> None:
    statement = parse_statement(octets(vector, "statement"))
    ed25519 = Ed25519PrivateKey.from_private_bytes(octets(vector, "ed25519_seed"))
    ml_dsa_65 = MLDSA65PrivateKey.from_seed_bytes(octets(vector, "ml_dsa_65_seed"))
    assert statement.ed25519 == ed25519.public_key().public_bytes_raw()
    assert statement.ml_dsa_65 == ml_dsa_65.public_key().public_bytes_raw()
    assert statement.digest == octets(vector, "statement_digest")
    assert statement.models[0].digest == octets(vector, "model_record_digest")


def test_both_keys_sign_the_stated_bytes(vector: dict[str, Any]) -> None:
    receipt = parse_receipt(octets(vector, "receipt"))
    ed25519 = Ed25519PrivateKey.from_private_bytes(octets(vector, "ed25519_seed"))
    ml_dsa_65 = MLDSA65PrivateKey.from_seed_bytes(octets(vector, "ml_dsa_65_seed"))
    assert ed25519.sign(octets(vector, "ed25519_signed_bytes")) == receipt.ed25519
    ml_dsa_65.public_key().verify(receipt.ml_dsa_65, octets(vector, "ml_dsa_65_signed_bytes"))


def test_the_two_forms_of_the_file_are_the_same(vector: dict[str, Any]) -> None:
    cbor = b64decode(vector["file_cbor_base64"])
    assert parse_receipt_file(json.dumps(vector["file_json"]).encode()).to_bytes() == cbor
    assert parse_receipt_file(cbor).receipt.to_bytes() == octets(vector, "receipt")


def test_the_receipt_is_verified_with_its_bodies(vector: dict[str, Any]) -> None:
    verified = checked(
        parse_receipt_file(b64decode(vector["file_cbor_base64"])),
        request=octets(vector, "request"),
        response=octets(vector, "response"),
        at=datetime.fromisoformat(vector["at"]),
        owners=(read_trusted_key(vector["owner_pem"].encode()),),
        challenge=octets(vector, "challenge"),
        audience=vector["issuer"],
    )
    assert verified.simulated
    assert verified.parts[0].release is not None
    assert verified.parts[0].release.service.text == vector["service"]


def test_each_changed_receipt_is_refused_by_its_code(vector: dict[str, Any]) -> None:
    file = parse_receipt_file(b64decode(vector["file_cbor_base64"]))
    assert len(vector["refused"]) == 7
    for one in vector["refused"]:
        with pytest.raises(AttestError) as caught:
            checked(replace(file, receipt=parse_receipt(bytes.fromhex(one["receipt"]))))
        assert caught.value.code == one["code"], one["name"]


def test_the_maker_still_makes_a_file_of_this_form(vector: dict[str, Any]) -> None:
    machine = Machine(seed=SEED)
    again = vectors(machine, machine.file(challenge=octets(vector, "challenge")))
    assert again.keys() == vector.keys()
    for name in ("ed25519_seed", "ml_dsa_65_seed", "issuer", "request", "response", "owner_pem"):
        assert again[name] == vector[name]
