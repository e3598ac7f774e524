"""The collection of all tables, each defined with its repository. A test compares them with the migrations."""

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
    "0016",
    "0017",
    "0018",
    "0019",
    "0020",
)
"""Every schema that this version can migrate, oldest first; it works with the last one."""

metadata = MetaData()

APPEND_ONLY: Final = {"append_only": True}
"""Mark of a table whose rows are never changed and never removed; triggers enforce it."""


def protected() -> tuple[str, ...]:
    """Return the names of these tables."""
    return tuple(table.name for table in metadata.sorted_tables if "append_only" in table.info)


def name_of(length: int) -> TypeEngine[str]:
    """Return the type of a column of names, which PostgreSQL also orders by their bytes.

    An upgrade of the operating system can change its collations, and an index made under the old one then misses rows.
    Migrations use it too, so that it stays as it is.
    """
    return String(length).with_variant(String(length, collation="C"), "postgresql")
