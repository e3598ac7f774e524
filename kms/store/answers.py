"""Answers of the database to queries.

A row that the authenticated state holds is genuine, and may still not be one that a query asked for: an
administrator of the server can give its operators another meaning, or put a view in the place of a table.
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
        problem = f"the database answered a query of {table.name} with a row that was not asked for"
        raise forged(problem, field=table.name)
