"""The authenticated state: its keys, its beginning in a database of an older version, and its examination."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime

from sqlalchemy import Table

from attest.encoding import JsonValue
from kms.domain.actors import Actor
from kms.domain.errors import KmsError
from kms.domain.kek import KeyEncryptionKey, RandomBytes
from kms.domain.secret import SecretBytes
from kms.domain.state_root import StateKeys
from kms.operations.own_keys import STATE, own_context, own_secret
from kms.store import ReadTransaction, Store, WriteTransaction, authenticated_tables

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


def begin(
    tx: WriteTransaction,
    kek: KeyEncryptionKey,
    *,
    origin: str,
    random: RandomBytes,
    actor: Actor,
    at: datetime,
    accepted: str | None,
    problems: tuple[str, ...],
) -> None:
    """Authenticate the rows of a database that an older version made, as they are.

    What the examination found is refused, or with a reason accepted and logged.

    Raises:
        KmsError: ``store-unsound``.
    """
    if problems and accepted is None:
        raise KmsError(
            f"the database is not as its log says: {problems[0]}",
            code="store-unsound",
            got=f"{len(problems)} differences",
            hint="'kms fsck' of the older version shows all; mend them, or give a reason with --accept-differences",
        )
    secret = SecretBytes(random(STATE_SECRET_BYTES))
    tx.begin_state(StateKeys(secret))
    tx.begin_log()
    tx.leases.counts.begin(at=at)
    wrapped = kek.wrap(secret, context=own_context(origin, *STATE))
    entries: dict[str, JsonValue] = {table.name: tx.tables.authenticate(table) for table in authenticated_tables()}
    name, algorithm = STATE
    tx.own_secrets.add(name, algorithm=algorithm, wrapped=wrapped, at=at)
    body: dict[str, JsonValue] = {"actor": actor.members(), "entries": entries, "differences": [*problems]}
    tx.log.add(kind=STATE_BEGUN, at=at, body=body | ({} if accepted is None else {"accepted": accepted}))


def state_problems(tx: ReadTransaction) -> Iterator[str]:
    """Yield a line for each table whose rows are not those of the state. It reads every row.

    Raises:
        IntegrityError: ``state-forged``: the root or a node of the map is not genuine.
    """
    genuine = 0
    for table in authenticated_tables():
        found, altered = _compared(tx, table)
        genuine += found
        if altered:
            yield f"{table.name}: {altered} rows are not what was stored last, or were added"
    missing = tx.state.count() - genuine
    if missing:
        yield f"{missing} rows that were stored were altered or removed"


def _compared(tx: ReadTransaction, table: Table) -> tuple[int, int]:
    """Return the number of genuine entries of a table, and that of others."""
    genuine = altered = 0
    with closing(tx.tables.entries(table)) as entries:
        for key, value in entries:
            if tx.state.value(key) == value:
                genuine += 1
            else:
                altered += 1
    return genuine, altered
