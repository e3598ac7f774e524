"""Attestations through other protocols in the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from attest.encoding import JsonValue
from attest.errors import AttestError
from kms.domain.decide import ReleaseOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestationRecord:
    """An attestation for the log: what the protocol says of it, and the refusal, or None."""

    kind: str
    members: Mapping[str, JsonValue]
    refusal: AttestError | None


def attestation_body(record: AttestationRecord, *, nonce_digest: bytes | None) -> dict[str, JsonValue]:
    """Return the body of an attestation's log entry; without a digest the protocol has no nonce of this service."""
    refusal = record.refusal
    return {
        **({} if nonce_digest is None else {"nonce_sha256": nonce_digest.hex()}),
        **record.members,
        "outcome": str(ReleaseOutcome.ALLOW if refusal is None else ReleaseOutcome.DENY),
        "reasons": [] if refusal is None else [{"code": refusal.code, "text": refusal.message}],
    }
