"""Authenticated state: keys and examination."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from sqlalchemy import Table

from kms.domain.kek import KeyEncryptionKey
from kms.domain.state_root import StateKeys
from kms.operations.own_keys import STATE, own_secret
from kms.store import ReadTransaction, Store, authenticated_tables

STATE_SECRET_BYTES = 32
STATE_BEGUN = "state-begun"


def authenticate(store: Store, kek: KeyEncryptionKey, *, origin: str) -> None:
    """Verify the state of a database from now on.

    Raises:
        ConfigurationError: ``database-not-initialised``.
        IntegrityError: ``wrapped-key-invalid`` or ``state-forged``.
    """
    with store.opening() as tx:
        keys = state_keys(tx, kek, origin=origin)
    store.authenticate(keys)


def state_keys(tx: ReadTransaction, kek: KeyEncryptionKey, *, origin: str) -> StateKeys:
    """Unwrap the secret of the state, and derive its keys.

    Raises:
        ConfigurationError: ``database-not-initialised``.
        IntegrityError: ``wrapped-key-invalid``.
    """
    with own_secret(tx, kek, origin, STATE) as secret:
        return StateKeys(secret)


def state_problems(tx: ReadTransaction) -> Iterator[str]:
    """Yield a line for each table whose rows differ from the state. This reads every row.

    Raises:
        IntegrityError: ``state-forged``: the root or a node of the map is not genuine.
    """
    genuine = 0
    for table in authenticated_tables():
        found, altered = _compared(tx, table)
        genuine += found
        if altered:
            yield f"{table.name}: {altered} rows were altered or added"
    missing = tx.state.count() - genuine
    if missing:
        yield f"{missing} stored rows were altered or removed"


def _compared(tx: ReadTransaction, table: Table) -> tuple[int, int]:
    """Return the numbers of genuine and of other entries of a table."""
    genuine = altered = 0
    with closing(tx.tables.entries(table)) as entries:
        for key, value in entries:
            if tx.state.value(key) == value:
                genuine += 1
            else:
                altered += 1
    return genuine, altered
