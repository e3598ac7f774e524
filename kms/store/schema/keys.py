"""Tenants, keys and everything that belongs to a key."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    true,
)

from kms.store.schema.base import APPEND_ONLY, metadata, name_of

__all__ = ["key_limits", "key_schedules", "key_tags", "key_versions", "keys", "prompt_keys", "tenants"]

tenants = Table(
    "tenants",
    metadata,
    Column("name", name_of(64), primary_key=True),
    Column("created_at", String(40), nullable=False),
    info=APPEND_ONLY,
)
"""Never changed, never removed. ``kms fsck`` checks that the tenant of a key is one of them: SQLite
cannot add a foreign key to a table that is there."""

keys = Table(
    "keys",
    metadata,
    Column("tenant", name_of(64), primary_key=True),
    Column("key_id", name_of(128), primary_key=True),
    Column("purpose", String(32), nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("created_at", String(40), nullable=False),
    Column("disclosure", String(16), nullable=True),
    Column("lease_seconds", Integer, nullable=True),
)

key_versions = Table(
    "key_versions",
    metadata,
    Column("tenant", name_of(64), primary_key=True),
    Column("key_id", name_of(128), primary_key=True),
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
    Column("tenant", name_of(64), primary_key=True),
    Column("key_id", name_of(128), primary_key=True),
    Column("every_seconds", BigInteger, nullable=False),
    Column("overlap_seconds", BigInteger, nullable=False),
    Column("due_at", BigInteger, nullable=False),
    ForeignKeyConstraint(["tenant", "key_id"], ["keys.tenant", "keys.key_id"]),
    Index("key_schedules_due_at", "due_at"),
)
"""Keys that get a new version by themselves, with the moment of the next one; milliseconds since 1970, UTC."""

key_tags = Table(
    "key_tags",
    metadata,
    Column("tenant", name_of(64), primary_key=True),
    Column("key_id", name_of(128), primary_key=True),
    Column("name", name_of(64), primary_key=True),
    Column("value", name_of(256), nullable=False),
    ForeignKeyConstraint(["tenant", "key_id"], ["keys.tenant", "keys.key_id"]),
    Index("key_tags_name", "name", "value"),
)
"""Labels that operators give to keys; no decision depends on them."""

key_limits = Table(
    "key_limits",
    metadata,
    Column("tenant", name_of(64), primary_key=True),
    Column("key_id", name_of(128), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("document", LargeBinary, nullable=False),
    Column("set_at", String(40), nullable=False),
    ForeignKeyConstraint(["tenant", "key_id"], ["keys.tenant", "keys.key_id"]),
    info=APPEND_ONLY,
)
"""Limits of keys, see ``kms/domain/limits.py``; the highest version is in force. Triggers refuse changes."""

prompt_keys = Table(
    "prompt_keys",
    metadata,
    Column("tenant", name_of(64), primary_key=True),
    Column("key_id", name_of(128), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("policy_digest", LargeBinary, primary_key=True),
    Column("public_key", LargeBinary, nullable=False),
    Column("published_at", String(40), nullable=False),
    Column("seq", BigInteger, nullable=False),
    ForeignKeyConstraint(
        ["tenant", "key_id", "version"], ["key_versions.tenant", "key_versions.key_id", "key_versions.version"]
    ),
    info=APPEND_ONLY,
)
"""Public halves of prompt keys, and which entry of the log published each for which policy; never changed."""
