"""What can go wrong with stored documents, ordered by who must act.

::

    AttestError
    └── StoreError                    …                                                        exit 6
        ├── StoreInputError           who sent the document: a name or a passage is none       exit 3
        ├── StoreLimitError           the user: the collection holds no more                   exit 3
        ├── StoreConflictError        the user: there already, or deleted while it came        exit 3
        ├── StoreDamagedError         the operator: not what was written, or another key       exit 4
        ├── StoreVersionError         the operator: of another version or another model        exit 2
        ├── StoreInUseError           the operator: another process has it                     exit 6
        ├── StoreUnavailableError     the operator: no space, no permission                    exit 6
        └── StoreClosedError          nobody: the service was locked, and has forgotten its key  exit 5

No text of these names a document, a word, a question or a key.
"""

from __future__ import annotations

from attest.errors import AttestError

__all__ = [
    "StoreClosedError",
    "StoreConflictError",
    "StoreDamagedError",
    "StoreError",
    "StoreInUseError",
    "StoreInputError",
    "StoreLimitError",
    "StoreUnavailableError",
    "StoreVersionError",
]


class StoreError(AttestError):
    """Stored documents could not be reached, read or changed."""

    exit_code = 6


class StoreInputError(StoreError):
    """A name, an id or a passage is not what a document has."""

    exit_code = 3


class StoreLimitError(StoreError):
    """The collection, or the store, holds no more."""

    exit_code = 3


class StoreConflictError(StoreError):
    """The document is there already, or it was deleted while it came."""

    exit_code = 3


class StoreDamagedError(StoreError):
    """What lies there is not what was written under this key."""

    exit_code = 4


class StoreVersionError(StoreError):
    """What lies there was written by another version, or for another model."""

    exit_code = 2


class StoreInUseError(StoreError):
    """Another process has the store."""


class StoreUnavailableError(StoreError):
    """The place where the store lies does not take it or does not give it."""


class StoreClosedError(StoreError):
    """The store was closed, and its key and vectors are gone."""

    exit_code = 5
