"""Store of documents: one collection for each user, encrypted everywhere outside memory.

::

    limits.py       limits of a collection and of the store
    validation.py   arguments of callers
    terms.py        a text → its search terms
    rank_fusion.py  two rankings → one
    matrices.py     vectors of a collection in memory, within a bound
    cipher_file.py  one SQLCipher file: opened, checked, locked
    schema.py       its tables
    deletion.py     deletion of a document in steps
    search.py       the queries of a search
    sqlite.py       the store in that file
"""

from rag_demo.enclave.errors import (
    StoreClosedError,
    StoreConflictError,
    StoreDamagedError,
    StoreError,
    StoreInputError,
    StoreInUseError,
    StoreLimitError,
    StoreUnavailableError,
    StoreVersionError,
)
from rag_demo.enclave.store.limits import StoreLimits
from rag_demo.enclave.store.sqlite import SqliteStore

__all__ = [
    "SqliteStore",
    "StoreClosedError",
    "StoreConflictError",
    "StoreDamagedError",
    "StoreError",
    "StoreInUseError",
    "StoreInputError",
    "StoreLimitError",
    "StoreLimits",
    "StoreUnavailableError",
    "StoreVersionError",
]
