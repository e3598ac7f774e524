"""Documents of which every version is kept: the highest is in force."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Select, Table, bindparam

from kms.store.answers import require_answer
from kms.store.repository import Repository
from kms.store.state_rows import Values, whole_rows


class VersionReader(Repository):
    """Versions, numbered from 1 without gaps: there is none without the first, and no newer one without the next."""

    def _newest(self, table: Table, **scope: str) -> Values | None:
        """Return the row of the highest version of a scope; None if there is none.

        Raises:
            IntegrityError: ``state-forged``.
        """
        if self._row(table, **scope, version=1) is None:
            return None
        row = self._connection.execute(_newest_of(table, tuple(scope)), scope).one_or_none()
        found = None if row is None else self._genuine(table, row)
        require_answer(table, holds=found is None or scope.items() <= found.items())
        version = 0 if found is None else found["version"]
        self._require_none(table, **scope, version=version + 1 if isinstance(version, int) else 1)
        return found


# Statements of every release are built once: building one takes longer than executing it.
@cache
def _newest_of(table: Table, scope: tuple[str, ...]) -> Select[Any]:  # Any: the columns of a row
    same = (table.c[name] == bindparam(name) for name in scope)
    return whole_rows(table).where(*same).order_by(table.c.version.desc()).limit(1)
