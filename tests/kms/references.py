"""Documents of reference values for a key service, who signs them, and policies that name them."""

import json
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attest.policy.reference_values.reference_documents import decode_reference_document
from attest.policy.signatures import sign_policy, signature_json
from attest.policy.signing_keys import key_id
from kms.domain.references import StoredDocument
from kms.references.intake import GivenFile, read_given
from tests.kms.support import AT, GUEST

Json = dict[str, Any]
ALICE, BOB, STRANGER = (Ed25519PrivateKey.from_private_bytes(seed * 32) for seed in (b"a", b"b", b"s"))
GOOD, OTHER = GUEST.measurement.hex(), "0d" * 48


def images(version: int = 1, *, values: tuple[str, ...] = (GOOD,), **changes: Any) -> Json:  # noqa: ANN401  any JSON
    entry = {"kind": "snp-measurement", "values": list(values)}
    return {
        "schema": "attest.references/1",
        "name": "images",
        "version": version,
        "origin": f"build {version}",
        "issued": "2026-05-01T00:00:00Z",
        "expires": "2026-08-01T00:00:00Z",
        "values": {"workload": entry},
    } | changes


def document_file(document: Json) -> GivenFile:
    return GivenFile(name=f"{document['name']}.json", data=json.dumps(document).encode())


def signature_file(document: Json, key: Ed25519PrivateKey) -> GivenFile:
    signed = signature_json(sign_policy(document, key=key, at=AT))
    return GivenFile(name="signature", data=json.dumps(signed).encode())


def key_file(key: Ed25519PrivateKey) -> GivenFile:
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return GivenFile(name="key", data=pem)


def given(document: Json, *keys: Ed25519PrivateKey) -> StoredDocument:
    """Read a document as an operator gives it: signed by these keys."""
    (found,) = read_given(
        [document_file(document)],
        signatures=[signature_file(document, key) for key in keys],
        keys=[key_file(key) for key in keys],
    )
    return found


def fingerprint(key: Ed25519PrivateKey) -> str:
    return key_id(key.public_key()).hex()


def by_signers(*keys: Ed25519PrivateKey, **more: Any) -> Json:  # noqa: ANN401  any JSON
    return {"document": "images", "signers": [fingerprint(key) for key in keys], **more}


def by_digest(document: Json) -> Json:
    return {"document": document["name"], "sha256": decode_reference_document(document).digest.hex()}


def naming(*rows: Json, name: str = "unit", measurement: tuple[str, ...] = ("workload",), **more: Any) -> bytes:  # noqa: ANN401
    """A policy that names documents and has no values of its own."""
    policy = {
        "schema": "attest.policy/1",
        "name": name,
        "version": 1,
        "simulated": {"unchecked": "a test on the simulator"},
        "references": list(rows),
        "snp": {
            "products": ["Genoa"],
            "measurement": list(measurement),
            "minimum_tcb": {"Genoa": {"bootloader": 9, "tee": 0, "snp": 26, "microcode": 80}},
        },
    }
    return json.dumps(policy | more).encode()
