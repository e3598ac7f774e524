"""What the service keeps: keys, policies, used challenges and the log, in one database."""

from __future__ import annotations

from kms.store.bootstrap import create_database, migrate_database, open_store
from kms.store.database import Reader, Store, Writer
from kms.store.location import Access, locate

__all__ = ["Access", "Reader", "Store", "Writer", "create_database", "locate", "migrate_database", "open_store"]
