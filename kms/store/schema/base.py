"""The collection of all tables, and what several of them have in common."""

from __future__ import annotations

from typing import Final

from sqlalchemy import MetaData, String
from sqlalchemy.types import TypeEngine

__all__ = ["APPEND_ONLY", "metadata", "name_of"]

metadata = MetaData()

APPEND_ONLY: Final = {"append_only": True}
"""Of a table whose rows are never changed and never removed; triggers see to it."""


def name_of(length: int) -> TypeEngine[str]:
    """Make the type of a column of names, which PostgreSQL too orders by their bytes.

    The collations of an operating system change with its upgrades, and an index that was made under the old one then
    misses rows.
    """
    return String(length).with_variant(String(length, collation="C"), "postgresql")
