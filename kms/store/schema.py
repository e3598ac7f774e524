"""The tables as SQLAlchemy knows them. The migrations make them; a test compares the two."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    true,
)
from sqlalchemy.types import TypeEngine

__all__ = [
    "PROTECTED",
    "REVISIONS",
    "approvals",
    "break_glass",
    "break_glass_ends",
    "freezes",
    "grants",
    "keks",
    "key_limits",
    "key_schedules",
    "key_tags",
    "key_versions",
    "keys",
    "lease_claims",
    "lease_ends",
    "lease_stops",
    "leases",
    "log_entries",
    "log_nodes",
    "meta",
    "metadata",
    "policies",
    "prompt_keys",
    "proposal_ends",
    "proposals",
    "quorum_documents",
    "reference_documents",
    "reference_signatures",
    "secrets",
    "tenants",
    "used_nonces",
]

REVISIONS: Final = (
    "0001",
    "0002",
    "0003",
    "0012",
    "0005",
    "0009",
    "0007",
    "0004",
    "0010",
    "0011",
    "0006",
    "0008",
    "0014",
    "0015",
)
"""Every schema that this version knows, oldest first; the last one is what it works with."""

PROTECTED: Final = (
    "lease_claims",
    "lease_ends",
    "leases",
    "log_entries",
    "log_nodes",
    "policies",
    "prompt_keys",
    "reference_documents",
    "reference_signatures",
    "tenants",
    "quorum_documents",
    "proposals",
    "approvals",
    "proposal_ends",
    "key_limits",
    "break_glass",
    "break_glass_ends",
)
"""Tables whose rows are never changed and never removed; triggers see to it."""

metadata = MetaData()


def _name(length: int) -> TypeEngine[str]:
    """Make a column of names, which PostgreSQL too orders by their bytes.

    The collations of an operating system change with its upgrades, and an index that was made under the old one then
    misses rows.
    """
    return String(length).with_variant(String(length, collation="C"), "postgresql")


meta = Table(
    "meta",
    metadata,
    Column("name", _name(64), primary_key=True),
    Column("value", LargeBinary, nullable=False),
)
"""``origin``: what this database belongs to."""

keks = Table(
    "keks",
    metadata,
    Column("id", LargeBinary, primary_key=True),
    Column("backend", String(16), nullable=False),
    Column("description", String(1024), nullable=False),
    Column("state", String(16), nullable=False),
    Column("proof", LargeBinary, nullable=True),
    Column("created_at", String(40), nullable=False),
)
"""Key-encryption keys: which there are, and what proves each. None of them is in here."""

secrets = Table(
    "secrets",
    metadata,
    Column("name", _name(64), primary_key=True),
    Column("algorithm", String(32), nullable=False),
    Column("wrapped", LargeBinary, nullable=False),
    Column("kek_id", LargeBinary, ForeignKey("keks.id"), nullable=False),
    Column("created_at", String(40), nullable=False),
    Index("secrets_kek_id", "kek_id"),
)
"""The service's own keys, wrapped."""

policies = Table(
    "policies",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("name", _name(64), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("document", LargeBinary, nullable=False),
    Column("added_at", String(40), nullable=False),
)
"""Policy documents by the SHA-256 of their canonical JSON; never changed, never removed."""

reference_documents = Table(
    "reference_documents",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("digest", LargeBinary, nullable=False, unique=True),
    Column("name", _name(256), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("document", LargeBinary, nullable=False),
    Column("added_at", String(40), nullable=False),
    Index("reference_documents_name", "name", "version"),
)
"""Every version of every document of reference values that was taken in; never changed, never removed."""

reference_signatures = Table(
    "reference_signatures",
    metadata,
    Column("digest", LargeBinary, ForeignKey("reference_documents.digest"), primary_key=True),
    Column("key_id", LargeBinary, primary_key=True),
    Column("public_key", LargeBinary, nullable=False),
    Column("signature", LargeBinary, nullable=False),
    Column("added_at", String(40), nullable=False),
)
"""Signatures over them with the keys that made them; verified whenever a document counts."""

tenants = Table(
    "tenants",
    metadata,
    Column("name", _name(64), primary_key=True),
    Column("created_at", String(40), nullable=False),
)
"""Whose keys there are; never changed, never removed. That the tenant of a key is one of them, ``kms fsck`` checks:
SQLite cannot add a foreign key to a table that is there."""

keys = Table(
    "keys",
    metadata,
    Column("tenant", _name(64), primary_key=True),
    Column("key_id", _name(128), primary_key=True),
    Column("purpose", String(32), nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("created_at", String(40), nullable=False),
    Column("disclosure", String(16), nullable=True),
    Column("lease_seconds", Integer, nullable=True),
)

key_versions = Table(
    "key_versions",
    metadata,
    Column("tenant", _name(64), primary_key=True),
    Column("key_id", _name(128), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("algorithm", String(32), nullable=False),
    Column("policy_digest", LargeBinary, ForeignKey("policies.digest"), nullable=False),
    Column("wrapped", LargeBinary, nullable=False),
    Column("kek_id", LargeBinary, ForeignKey("keks.id"), nullable=False),
    Column("created_at", String(40), nullable=False),
    Column("enabled", Boolean, nullable=False, server_default=true()),
    Column("overlap_until", BigInteger),
    Column("destroy_at", BigInteger),
    ForeignKeyConstraint(["tenant", "key_id"], ["keys.tenant", "keys.key_id"]),
    Index("key_versions_kek_id", "kek_id"),
)
"""``overlap_until`` and ``destroy_at`` are milliseconds since 1970, UTC."""
Index(
    "key_versions_current",
    key_versions.c.tenant,
    key_versions.c.key_id,
    unique=True,
    sqlite_where=key_versions.c.overlap_until.is_(None),
    postgresql_where=key_versions.c.overlap_until.is_(None),
)
Index("key_versions_destroy_at", key_versions.c.destroy_at)

key_schedules = Table(
    "key_schedules",
    metadata,
    Column("tenant", _name(64), primary_key=True),
    Column("key_id", _name(128), primary_key=True),
    Column("every_seconds", BigInteger, nullable=False),
    Column("overlap_seconds", BigInteger, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    ForeignKeyConstraint(["tenant", "key_id"], ["keys.tenant", "keys.key_id"]),
    Index("key_schedules_due_at", "due_at"),
)
"""Which keys get a new version by themselves, and when the next time; milliseconds since 1970, UTC."""

key_tags = Table(
    "key_tags",
    metadata,
    Column("tenant", _name(64), primary_key=True),
    Column("key_id", _name(128), primary_key=True),
    Column("name", _name(64), primary_key=True),
    Column("value", _name(256), nullable=False),
    ForeignKeyConstraint(["tenant", "key_id"], ["keys.tenant", "keys.key_id"]),
    Index("key_tags_name", "name", "value"),
)
"""What operators call keys by, beside their names; nothing is decided by it."""

prompt_keys = Table(
    "prompt_keys",
    metadata,
    Column("tenant", _name(64), primary_key=True),
    Column("key_id", _name(128), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("policy_digest", LargeBinary, primary_key=True),
    Column("public_key", LargeBinary, nullable=False),
    Column("published_at", String(40), nullable=False),
    Column("seq", BigInteger, nullable=False),
    ForeignKeyConstraint(
        ["tenant", "key_id", "version"], ["key_versions.tenant", "key_versions.key_id", "key_versions.version"]
    ),
)
"""Public halves of prompt keys, and which entry of the log published each for which policy; never changed."""

used_nonces = Table(
    "used_nonces",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("expires_at", BigInteger, nullable=False),
    Index("used_nonces_expires_at", "expires_at"),
)
"""SHA-256 of each nonce that was used, until it expires; milliseconds since 1970, UTC."""

log_entries = Table(
    "log_entries",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("entry", LargeBinary, nullable=False),
)
"""The log, see ``kms/domain/log_entries.py``. Triggers refuse every UPDATE and DELETE."""

log_nodes = Table(
    "log_nodes",
    metadata,
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary, nullable=False),
)
"""The tree over it, see ``kms/domain/log_tree.py``: whole subtrees by their position. Triggers refuse likewise."""

grants = Table(
    "grants",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("means", String(16), nullable=False),
    Column("name", _name(512), nullable=False),
    Column("tenant", _name(64), nullable=False),
    Column("role", String(32), nullable=False),
    Column("granted_by_means", String(16), nullable=False),
    Column("granted_by", _name(512), nullable=False),
    Column("granted_at", String(40), nullable=False),
    Column("revoked_by_means", String(16)),
    Column("revoked_by", _name(512)),
    Column("revoked_at", String(40)),
    Index("grants_identity", "means", "name"),
)
"""Who has which role where, see ``kms/auth/``. ``kms fsck`` compares it with the log, which says the same."""

freezes = Table(
    "freezes",
    metadata,
    Column("scope", _name(16), primary_key=True),
    Column("name", _name(256), primary_key=True),
    Column("reason", String(1000), nullable=False),
    Column("actor", String(1024), nullable=False),
    Column("means", String(16), nullable=False),
    Column("frozen_at", String(40), nullable=False),
)
"""What nobody gets now, see ``kms/domain/freezes.py``: the freezes in force; those that ended are in the log."""

lease_claims = Table(
    "lease_claims",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("claims", LargeBinary, nullable=False),
)
"""What Attesters proved, see ``kms/domain/lease_claims.py``, by its SHA-256; never changed, never removed."""

leases = Table(
    "leases",
    metadata,
    Column("lease_id", _name(32), primary_key=True),
    Column("tenant", _name(64), nullable=False),
    Column("key_id", _name(128), nullable=False),
    Column("version", Integer, nullable=False),
    Column("policy_digest", LargeBinary, ForeignKey("policies.digest"), nullable=False),
    Column("evidence_digest", LargeBinary, nullable=False),
    Column("tee", _name(32), nullable=False),
    Column("product", _name(64)),
    Column("chip", _name(160)),
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
    Column("renewed_from", _name(32)),
    Index("leases_key", "tenant", "key_id", "expires_at"),
    Index("leases_holder", "holder"),
    Index("leases_chip", "chip"),
    Index("leases_log_seq", "log_seq", "lease_id"),
)
"""Each released version of a key, see ``kms/domain/leases.py``; never changed, never removed. The row outlives its
key, which it names without a foreign key. Moments are milliseconds since 1970, UTC."""

lease_ends = Table(
    "lease_ends",
    metadata,
    Column("lease_id", _name(32), ForeignKey("leases.lease_id"), primary_key=True),
    Column("ended_at", BigInteger, nullable=False),
    Column("reason", String(32), nullable=False),
    Column("log_seq", BigInteger, nullable=False),
)
"""Leases that ended before their time; never changed, never removed."""

lease_stops = Table(
    "lease_stops",
    metadata,
    Column("lease_id", _name(32), ForeignKey("leases.lease_id"), primary_key=True),
    Column("tenant", _name(64), nullable=False),
    Column("key_id", _name(128), nullable=False),
    Column("instance", LargeBinary, nullable=False),
    Column("reason", String(1024), nullable=False),
    Column("stopped_at", BigInteger, nullable=False),
    Column("log_seq", BigInteger, nullable=False),
    Index("lease_stops_instance", "tenant", "key_id", "instance"),
)
"""Leases that are not renewed; a row is removed when the operator takes that back."""

quorum_documents = Table(
    "quorum_documents",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("document", LargeBinary, nullable=False),
    Column("set_at", String(40), nullable=False),
)
"""Named people and rules, see ``kms/domain/people.py``; the highest version is in force. Triggers refuse changes."""

proposals = Table(
    "proposals",
    metadata,
    Column("digest", _name(64), primary_key=True),
    Column("serial", Integer, nullable=False, unique=True),
    Column("document", LargeBinary, nullable=False),
)
"""Proposals by the SHA-256 of their document, hex; never changed."""

approvals = Table(
    "approvals",
    metadata,
    Column("digest", _name(64), ForeignKey("proposals.digest"), primary_key=True),
    Column("key_id", _name(64), primary_key=True),
    Column("person", _name(64), nullable=False),
    Column("signature", LargeBinary, nullable=False),
    Column("added_at", String(40), nullable=False),
)
"""Signatures over them; verified whenever they count. Never changed."""

proposal_ends = Table(
    "proposal_ends",
    metadata,
    Column("digest", _name(64), ForeignKey("proposals.digest"), primary_key=True),
    Column("outcome", String(16), nullable=False),
    Column("ended_at", String(40), nullable=False),
)
"""How proposals ended: each at most once. Never changed."""

key_limits = Table(
    "key_limits",
    metadata,
    Column("tenant", _name(64), primary_key=True),
    Column("key_id", _name(128), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("document", LargeBinary, nullable=False),
    Column("set_at", String(40), nullable=False),
    ForeignKeyConstraint(["tenant", "key_id"], ["keys.tenant", "keys.key_id"]),
)
"""Limits of keys, see ``kms/domain/limits.py``; the highest version is in force. Triggers refuse changes."""

break_glass = Table(
    "break_glass",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("tenant", _name(64), nullable=False),
    Column("key_id", _name(128), nullable=False),
    Column("lifts_scope", _name(16)),
    Column("lifts_name", _name(256)),
    Column("policy_digest", LargeBinary, ForeignKey("policies.digest")),
    Column("reason", String(1000), nullable=False),
    Column("opened_at", BigInteger, nullable=False),
    Column("until", BigInteger, nullable=False),
    Column("kek_id", LargeBinary, nullable=False),
    Column("seal", LargeBinary, nullable=False),
    ForeignKeyConstraint(["tenant", "key_id"], ["keys.tenant", "keys.key_id"]),
    Index("break_glass_until", "until"),
)
"""Named relaxations, see ``kms/domain/break_glass.py``; milliseconds since 1970, UTC. Triggers refuse changes."""

break_glass_ends = Table(
    "break_glass_ends",
    metadata,
    Column("number", Integer, ForeignKey("break_glass.number"), primary_key=True, autoincrement=False),
    Column("closed_at", BigInteger, nullable=False),
)
"""Those that were closed early. Triggers refuse changes."""
