"""Policies and documents of reference values."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, String, Table

from kms.store.schema.base import APPEND_ONLY, metadata, name_of

__all__ = ["policies", "reference_documents", "reference_signatures"]

policies = Table(
    "policies",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("name", name_of(64), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("document", LargeBinary, nullable=False),
    Column("added_at", String(40), nullable=False),
    info=APPEND_ONLY,
)
"""Policy documents by the SHA-256 of their canonical JSON; never changed, never removed."""

reference_documents = Table(
    "reference_documents",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("digest", LargeBinary, nullable=False, unique=True),
    Column("name", name_of(256), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("document", LargeBinary, nullable=False),
    Column("added_at", String(40), nullable=False),
    Index("reference_documents_name", "name", "version"),
    info=APPEND_ONLY,
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
    info=APPEND_ONLY,
)
"""Signatures over them with the keys that made them; verified whenever a document counts."""
