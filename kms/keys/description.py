"""A version of a key as JSON, without its material."""

from __future__ import annotations

from datetime import datetime

from attest.encoding import JsonValue, rfc3339_text
from kms.domain.key_states import state_of
from kms.domain.keys import KeyRecord


def record_members(record: KeyRecord, *, at: datetime) -> dict[str, JsonValue]:
    """Return one version of a key as JSON members, with its state at a moment."""
    return {
        "tenant": record.name.tenant,
        "key_id": record.name.key_id,
        "version": record.version,
        "purpose": str(record.purpose),
        "algorithm": record.algorithm,
        "state": str(state_of(record, at=at)),
        "enabled": record.enabled and record.version_enabled,
        "policy_sha256": record.policy_digest.hex(),
        "disclosure": str(record.disclosure),
        "lease_seconds": record.lease_seconds,
        "via": [str(one) for one in sorted(record.via)],
        "created_at": rfc3339_text(record.created_at),
        "overlap_until": _moment(record.overlap_until),
        "destroy_at": _moment(record.destroy_at),
    }


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else rfc3339_text(moment)
