"""Leases of released keys."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, LargeBinary, String, Table

from kms.store.schema.base import APPEND_ONLY, metadata, name_of

__all__ = ["lease_claims", "lease_ends", "lease_stops", "leases"]

lease_claims = Table(
    "lease_claims",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("claims", LargeBinary, nullable=False),
    info=APPEND_ONLY,
)
"""Claims that Attesters proved, see ``kms/domain/lease_claims.py``, by their SHA-256; never changed, never removed."""

leases = Table(
    "leases",
    metadata,
    Column("lease_id", name_of(32), primary_key=True),
    Column("tenant", name_of(64), nullable=False),
    Column("key_id", name_of(128), nullable=False),
    Column("version", Integer, nullable=False),
    Column("policy_digest", LargeBinary, ForeignKey("policies.digest"), nullable=False),
    Column("evidence_digest", LargeBinary, nullable=False),
    Column("tee", name_of(32), nullable=False),
    Column("product", name_of(64)),
    Column("chip", name_of(160)),
    Column("measurement", LargeBinary),
    Column("instance", LargeBinary, nullable=False),
    Column("holder", LargeBinary, nullable=False),
    Column("recipient", LargeBinary, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("simulated", Boolean, nullable=False),
    Column("claims_digest", LargeBinary, ForeignKey("lease_claims.digest"), nullable=False),
    Column("log_seq", BigInteger, nullable=False),
    Column("released_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("renewed_from", name_of(32)),
    Index("leases_key", "tenant", "key_id", "expires_at"),
    Index("leases_holder", "holder"),
    Index("leases_chip", "chip"),
    Index("leases_log_seq", "log_seq", "lease_id"),
    info=APPEND_ONLY,
)
"""Each released version of a key, see ``kms/domain/leases.py``; never changed, never removed. The row outlives its
key, which it names without a foreign key. Moments are milliseconds since 1970, UTC."""

lease_ends = Table(
    "lease_ends",
    metadata,
    Column("lease_id", name_of(32), ForeignKey("leases.lease_id"), primary_key=True),
    Column("ended_at", BigInteger, nullable=False),
    Column("reason", String(32), nullable=False),
    Column("log_seq", BigInteger, nullable=False),
    info=APPEND_ONLY,
)
"""Leases that ended before their time; never changed, never removed."""

lease_stops = Table(
    "lease_stops",
    metadata,
    Column("lease_id", name_of(32), ForeignKey("leases.lease_id"), primary_key=True),
    Column("tenant", name_of(64), nullable=False),
    Column("key_id", name_of(128), nullable=False),
    Column("instance", LargeBinary, nullable=False),
    Column("reason", String(1024), nullable=False),
    Column("stopped_at", BigInteger, nullable=False),
    Column("log_seq", BigInteger, nullable=False),
    Index("lease_stops_instance", "tenant", "key_id", "instance"),
)
"""Leases that are not renewed; a row is removed when the operator takes that back."""
