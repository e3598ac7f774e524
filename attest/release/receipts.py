"""Receipts of releases: texts that a key-release service signs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256

from attest.encoding import JsonValue, rfc3339_text
from attest.release.wire import SealedKey, read_signed_text, signed_text

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
    return signed_text(RECEIPT, document)


def read_receipt(text: str) -> dict[str, JsonValue]:
    """Parse the text of a receipt after verification of its signature.

    Raises:
        EvidenceError: ``wire-invalid`` or ``json-invalid``.
    """
    return read_signed_text(text, RECEIPT, what="receipt")


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
