"""Where documents lie: one collection for each user, encrypted wherever it leaves memory.

::

    limits.py       how much a collection holds
    checking.py     what callers hand in
    words.py        a text → the words it is found by
    fusing.py       two rankings → one
    matrices.py     vectors of a collection in memory, within a bound
    cipher_file.py  one SQLCipher file: opened, checked, locked
    schema.py       its tables
    deleting.py     what deletion takes there
    searching.py    what a search asks of it
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
