"""The service's database: a transaction is a unit of work, with one repository per aggregate."""

from __future__ import annotations

from kms.store.bootstrap import create_database, migrate_database, open_store
from kms.store.database import Store
from kms.store.location import Access, locate
from kms.store.state_rows import authenticated_tables
from kms.store.transactions import ReadTransaction, WriteTransaction

__all__ = [
    "Access",
    "ReadTransaction",
    "Store",
    "WriteTransaction",
    "authenticated_tables",
    "create_database",
    "locate",
    "migrate_database",
    "open_store",
]
