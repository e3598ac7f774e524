"""The log and the tree over it."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, LargeBinary, Table

from kms.store.schema.base import APPEND_ONLY, metadata

__all__ = ["log_entries", "log_nodes"]

log_entries = Table(
    "log_entries",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("entry", LargeBinary, nullable=False),
    info=APPEND_ONLY,
)
"""The log, see ``kms/domain/log_entries.py``. Triggers refuse every UPDATE and DELETE."""

log_nodes = Table(
    "log_nodes",
    metadata,
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary, nullable=False),
    info=APPEND_ONLY,
)
"""The tree over it, see ``kms/domain/log_tree.py``: whole subtrees by their position. Triggers refuse likewise."""
