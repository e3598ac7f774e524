"""The collection of all tables; each stands with its repository. The migrations make them; a test compares the two."""

from __future__ import annotations

from typing import Final

from sqlalchemy import MetaData, String
from sqlalchemy.types import TypeEngine

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

metadata = MetaData()

APPEND_ONLY: Final = {"append_only": True}
"""Of a table whose rows are never changed and never removed; triggers see to it."""


def protected() -> tuple[str, ...]:
    """Return the names of these tables."""
    return tuple(table.name for table in metadata.sorted_tables if table.info == APPEND_ONLY)


def name_of(length: int) -> TypeEngine[str]:
    """Make the type of a column of names, which PostgreSQL too orders by their bytes.

    The collations of an operating system change with its upgrades, and an index that was made under the old one then
    misses rows.
    """
    return String(length).with_variant(String(length, collation="C"), "postgresql")
