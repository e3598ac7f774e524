"""Maker of ``vectors.json``, the test vectors of receipts: ``python -m tests.receipts.vectors``.

Keys follow from seeds, so statement, claims and signed bytes are the same on each run. The signatures of ML-DSA-65 and
the sealed key in the release are drawn anew.
"""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import cbor2

from attest.encoding import JsonValue
from attest.receipts import ReceiptFile
from attest.receipts.json_view import claims_to_json
from attest.receipts.signed_receipt import ED25519_ALGORITHM, ML_DSA_65_ALGORITHM, TAG_SIGN, to_be_signed
from attest.results.cbor import claims_bytes
from tests.receipts.machine import CHALLENGE, ISSUER, REQUEST, RESPONSE, Machine, stream
from tests.release.test_client import SERVICE
from tests.sealed.made import OWNER, public_pem

PATH = Path(__file__).parent / "vectors.json"
SEED = "vectors"


def vectors(machine: Machine, file: ReceiptFile) -> dict[str, JsonValue]:
    """Return the vectors of one receipt, with everything that leads to it."""
    statement, random = machine.signer.statement, stream(SEED)
    receipt = file.receipt
    view: JsonValue = json.loads(file.to_json())
    return {
        "description": "One receipt of a simulated machine. Bytes are hex, where not stated otherwise.",
        "issuer": ISSUER,
        "at": machine.at.isoformat(),
        "owner_pem": public_pem(OWNER).decode(),
        "service": SERVICE.text,
        "request": REQUEST.hex(),
        "response": RESPONSE.hex(),
        "challenge": CHALLENGE.hex(),
        "ed25519_seed": random(32).hex(),
        "ml_dsa_65_seed": random(32).hex(),
        "statement": statement.to_bytes().hex(),
        "statement_digest": statement.digest.hex(),
        "model_record_digest": machine.record.digest.hex(),
        "claims": claims_to_json(receipt.claims),
        "payload": receipt.payload.hex(),
        "ed25519_signed_bytes": to_be_signed(ED25519_ALGORITHM, statement.ed25519, receipt.payload).hex(),
        "ml_dsa_65_signed_bytes": to_be_signed(ML_DSA_65_ALGORITHM, statement.ml_dsa_65, receipt.payload).hex(),
        "receipt": receipt.to_bytes().hex(),
        "file_cbor_base64": b64encode(file.to_bytes()).decode(),
        "file_json": view,
        "refused": refused(receipt.to_bytes()),
    }


def refused(receipt: bytes) -> list[JsonValue]:
    """Return changed receipts, each with the code of its refusal."""
    body, _, payload, signers = cbor2.loads(receipt).value
    first, second = signers
    critical = claims_bytes({2: [16], **cbor2.loads(body)})
    other = claims_bytes({**cbor2.loads(payload), "sequence": 1})
    changed: dict[str, tuple[Any, str]] = {  # Any: COSE, nested
        "Ed25519 alone": ((body, {}, payload, [first]), "receipt-malformed"),
        "ML-DSA-65 alone": ((body, {}, payload, [second]), "receipt-malformed"),
        "the other order of signers": ((body, {}, payload, [second, first]), "receipt-malformed"),
        "a critical header": ((critical, {}, payload, [first, second]), "receipt-malformed"),
        "an unprotected header": ((body, {4: b"kid"}, payload, [first, second]), "receipt-malformed"),
        "another sequence number": ((body, {}, other, [first, second]), "receipt-signature-invalid"),
        "another signature of ML-DSA-65": (
            (body, {}, payload, [first, [*second[:2], bytes(len(second[2]))]]),
            "receipt-signature-invalid",
        ),
    }
    return [
        {"name": name, "code": code, "receipt": (TAG_SIGN + claims_bytes(message)).hex()}
        for name, (message, code) in changed.items()
    ]


def main() -> None:
    """Write the file."""
    machine = Machine(seed=SEED)
    document = vectors(machine, machine.file(challenge=CHALLENGE))
    PATH.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
