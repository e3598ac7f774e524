"""How far the database has come, for rollback guards."""

from __future__ import annotations

from kms.domain.rollback import StatePosition
from kms.store.transactions import ReadTransaction


def position_of(tx: ReadTransaction) -> StatePosition:
    """Return the position of the database in this transaction.

    Raises:
        IntegrityError: ``state-forged`` or ``state-rolled-back``.
    """
    now = tx.state.root
    return StatePosition(counter=now.counter, log_size=now.log.size, log_root=now.log.root)
