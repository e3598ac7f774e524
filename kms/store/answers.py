"""Checks of query results of the database.

A row that is in the authenticated state is genuine, but may still not match the query: an administrator of the server
can redefine its operators, or replace a table by a view.
"""

from __future__ import annotations

from sqlalchemy import Table

from kms.domain.state_root import forged


def require_answer(table: Table, *, holds: bool) -> None:
    """Refuse a genuine row for which the condition of its query does not hold.

    Raises:
        IntegrityError: ``state-forged``.
    """
    if not holds:
        problem = f"the database returned a row of {table.name} that does not match the query"
        raise forged(problem, field=table.name)
