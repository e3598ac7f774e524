"""Facts about the database, the service's own keys, and used nonces."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, LargeBinary, String, Table

from kms.store.schema.base import metadata, name_of

__all__ = ["keks", "meta", "secrets", "used_nonces"]

meta = Table(
    "meta",
    metadata,
    Column("name", name_of(64), primary_key=True),
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
    Column("name", name_of(64), primary_key=True),
    Column("algorithm", String(32), nullable=False),
    Column("wrapped", LargeBinary, nullable=False),
    Column("kek_id", LargeBinary, ForeignKey("keks.id"), nullable=False),
    Column("created_at", String(40), nullable=False),
    Index("secrets_kek_id", "kek_id"),
)
"""The service's own keys, wrapped."""

used_nonces = Table(
    "used_nonces",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("expires_at", BigInteger, nullable=False),
    Index("used_nonces_expires_at", "expires_at"),
)
"""SHA-256 of each nonce that was used, until it expires; milliseconds since 1970, UTC."""
