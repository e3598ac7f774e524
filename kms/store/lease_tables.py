"""Tables of leases: granted once and never changed. Ends, stops, and what may be live are in tables of their own."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, LargeBinary, String, Table

from kms.store.schema import APPEND_ONLY, metadata, name_of
from kms.store.state_rows import authenticated

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
    Column("number", BigInteger),
    Column("chip_number", BigInteger),
    Index("leases_key", "tenant", "key_id", "expires_at"),
    Index("leases_holder", "holder"),
    Index("leases_chip", "chip"),
    Index("leases_log_seq", "log_seq", "lease_id"),
    Index("leases_number", "tenant", "key_id", "number"),
    Index("leases_chip_number", "tenant", "key_id", "chip", "chip_number"),
    info=authenticated(more=APPEND_ONLY),
)
"""Each released version of a key, see ``kms/domain/leases.py``; never changed, never removed. The row outlives its
key, which it names without a foreign key. Moments are milliseconds since 1970, UTC. ``number`` counts the leases of a
key from 1, ``chip_number`` those of the key to its chip."""

lease_ends = Table(
    "lease_ends",
    metadata,
    Column("lease_id", name_of(32), ForeignKey("leases.lease_id"), primary_key=True),
    Column("ended_at", BigInteger, nullable=False),
    Column("reason", String(32), nullable=False),
    Column("log_seq", BigInteger, nullable=False),
    info=authenticated(more=APPEND_ONLY),
)
"""Leases that ended before their time; never changed, never removed."""

live_leases = Table(
    "live_leases",
    metadata,
    Column("lease_id", name_of(32), ForeignKey("leases.lease_id"), primary_key=True),
    Column("tenant", name_of(64), nullable=False),
    Column("key_id", name_of(128), nullable=False),
    Column("holder", LargeBinary, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Index("live_leases_key", "tenant", "key_id", "expires_at"),
    Index("live_leases_holder", "tenant", "key_id", "holder"),
    Index("live_leases_expires_at", "expires_at"),
)
"""The way to the leases that may be live, past those that ended: their number does not grow with the age of a service.
A row is removed when its lease ends early, or some time after it expires. The rows are not authenticated: a reader
compares the leases that they lead to, and a lease that they leave out changes the sum in ``lease_counts``."""

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
    Column("tee", name_of(32)),
    Column("measurement", LargeBinary),
    Index("lease_stops_instance", "tenant", "key_id", "instance"),
    info=authenticated("tenant", "key_id"),
)
"""Leases that are not renewed; a row is removed when the operator resumes renewals."""
