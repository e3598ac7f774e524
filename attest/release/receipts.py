"""Receipts of releases: texts that a key-release service signs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256

from attest.encoding import JsonValue, json_value, rfc3339_text
from attest.release.wire import SealedKey, wire_invalid

RECEIPT = "attest-release-receipt/v1"


def receipt_text(
    *,
    audience: str,
    nonce: bytes,
    evidence_digest: bytes,
    decision_digest: bytes,
    keys: Iterable[SealedKey],
    released_at: datetime,
    simulated: bool,
    break_glass: bool = False,
) -> str:
    """Return the text of a receipt: recipient, evidence, policies, and period of the released keys."""
    document: dict[str, JsonValue] = {
        "audience": audience,
        "nonce": nonce.hex(),
        "evidence": evidence_digest.hex(),
        "decision": decision_digest.hex(),
        "keys": [key_members(key) for key in keys],
        "released_at": rfc3339_text(released_at),
        "simulated": simulated,
        **({"break_glass": True} if break_glass else {}),
    }
    return f"{RECEIPT}\n{json.dumps(document, sort_keys=True, separators=(',', ':'))}\n"


def read_receipt(text: str) -> dict[str, JsonValue]:
    """Parse the text of a receipt after verification of its signature.

    Raises:
        EvidenceError: ``wire-invalid`` or ``json-invalid``.
    """
    head, _, body = text.partition("\n")
    if head != RECEIPT:
        raise wire_invalid("receipt", f"expected {RECEIPT}")
    document = json_value(body.encode(), what="receipt")
    if not isinstance(document, dict):
        raise wire_invalid("receipt", "expected an object")
    return document


def key_members(key: SealedKey) -> dict[str, JsonValue]:
    """Return the members of a receipt about one released key."""
    return {
        "tenant": key.tenant,
        "key_id": key.key_id,
        "version": key.version,
        "purpose": key.purpose,
        "policy_digest": key.policy_digest.hex(),
        "sealed_sha256": sha256(key.sealed).hexdigest(),
        "lease_id": key.lease_id,
        "expires_at": rfc3339_text(key.expires_at),
    }
