"""JSON documents about receipts, for programs: the result of a check, and the content without one."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from attest.checks import Caution
from attest.encoding import JsonValue, rfc3339_text
from attest.receipts.json_view import claims_to_json
from attest.receipts.model_proof import VerifiedPart
from attest.receipts.receipt_file import Part, ReceiptFile
from attest.receipts.statement import ModelRecord, ReceiptStatement, parse_statement
from attest.receipts.verification import VerifiedReceipt
from attest.results.document import appraised_document, check_documents

INFO_SCHEMA: Final = "attest.receipt-info/1"
COMMAND: Final = "receipt verify"


def verified_receipt_document(verified: VerifiedReceipt) -> dict[str, JsonValue]:
    """Return the document of a receipt that holds: that of its appraisal, with the members ``receipt``."""
    appraised = appraised_document(verified.result)
    warnings = appraised["warnings"]
    cautions: list[JsonValue] = [{"code": one.code, "message": one.message} for one in _cautions(verified)]
    return {
        **appraised,
        "command": COMMAND,
        "receipt": {
            "claims": claims_to_json(verified.claims),
            "time": rfc3339_text(verified.claims.issued_at),
            "statement": _statement(verified.statement),
            "quantisation": verified.record.quantisation,
            "loader": verified.record.loader,
            "models": [_part(one) for one in verified.parts],
        },
        "warnings": [*(warnings if isinstance(warnings, list) else []), *cautions],
        "checks": check_documents(verified.checks, set_aside=verified.result.set_aside),
    }


def _cautions(verified: VerifiedReceipt) -> Iterator[Caution]:
    """Yield what a receipt that holds does not show."""
    if not verified.claims.response.complete:
        message = f"the answer was cut off after {verified.claims.response.size} bytes"
        yield Caution(code="answer-incomplete", message=message)
    partial = [path for part in verified.parts for path in part.partial]
    if partial:
        message = f"the machine did not decrypt {len(partial)} files of the model completely: {', '.join(partial)}"
        yield Caution(code="model-partly-decrypted", message=message[:400])
    exceptional = [part.signed.name for part in verified.parts if part.release is not None and part.release.break_glass]
    if exceptional:
        message = f"the key was released outside of its policy (break-glass): {', '.join(exceptional)}"
        yield Caution(code="release-break-glass", message=message[:400])
    open_steps = {check.id for check in verified.findings.checks if str(check.outcome) == "not evaluated"}
    bodies = [name for name in ("request", "response") if f"receipt.{name}" in open_steps]
    if bodies:
        message = f"no {' and no '.join(bodies)} was given: the receipt is about bodies with these digests"
        yield Caution(code="body-not-compared", message=message)


def _statement(statement: ReceiptStatement) -> dict[str, JsonValue]:
    return {
        "digest": statement.digest.hex(),
        "not_before": rfc3339_text(statement.not_before),
        "not_after": rfc3339_text(statement.not_after),
        "models": len(statement.models),
    }


def _part(part: VerifiedPart) -> dict[str, JsonValue]:
    """Return a part of the model with its owner and release."""
    name, release = part.manifest.key, part.release
    return {
        "name": part.signed.name,
        "model": part.manifest.model.hex(),
        "signed_by": part.signed.key,
        "key": f"{name.name.tenant}/{name.name.key_id}@{name.version}",
        "files": len(part.manifest.files),
        "partly_decrypted": list(part.partial),
        "release": None
        if release is None
        else {
            "service": release.service.text,
            "policy_sha256": release.policy_digest.hex(),
            "released_at": rfc3339_text(release.released_at),
            "log_size": release.log_size,
            "simulated": release.simulated,
            "break_glass": release.break_glass,
        },
    }


def unverified_receipt_document(file: ReceiptFile) -> dict[str, JsonValue]:
    """Return the content of a file, of which nothing is verified.

    Raises:
        EvidenceError: a statement in the file is malformed.
    """
    receipt = file.receipt
    stated: dict[str, JsonValue] = dict(_reference(file.statement))
    if isinstance(file.statement, bytes):
        statement = parse_statement(file.statement)
        stated |= {**_statement(statement), "models": [_record(one) for one in statement.models]}
    return {
        "schema": INFO_SCHEMA,
        "verified": False,
        "claims": claims_to_json(receipt.claims),
        "time": rfc3339_text(receipt.claims.issued_at),
        "keys": {"ed25519": receipt.ed25519_kid.hex(), "ml-dsa-65": receipt.ml_dsa_65_kid.hex()},
        "statement": stated,
        "evidence": _reference(file.evidence),
        "models": [
            {
                "manifest": _reference(one.manifest),
                "signature": _reference(one.signature),
                "release": None if one.release is None else _reference(one.release),
            }
            for one in file.models
        ],
    }


def _record(record: ModelRecord) -> dict[str, JsonValue]:
    return {
        "digest": record.digest.hex(),
        "loader": record.loader,
        "quantisation": record.quantisation,
        "parts": [
            {
                "manifest": part.manifest.hex(),
                "model": part.model.hex(),
                "release": None if release is None else release.hex(),
                "files": {one.path: one.decrypted for one in part.files},
            }
            for part, release in zip(record.parts, record.releases, strict=True)
        ],
    }


def _reference(part: Part) -> dict[str, JsonValue]:
    """Return the digest of a part, and its size where the file contains it."""
    if isinstance(part, bytes):
        return {"sha256": sha256(part).hexdigest(), "size": len(part)}
    return {"sha256": part.sha256.hex(), "size": None}
