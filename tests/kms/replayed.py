"""Schemas by the statements of the migrations that made the first of them.

Alembic takes ten times longer to find out what to do than the databases to do it.
"""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, event, inspect


class Replayed:
    """An upgrade that remembers what it did to an empty database."""

    def __init__(self, upgrade: Callable[[Connection], None]) -> None:
        self._upgrade = upgrade
        self._done: dict[str, list[tuple[str, Any]]] = {}

    def __call__(self, connection: Connection) -> None:
        kind = connection.dialect.name
        if inspect(connection).get_table_names():
            self._upgrade(connection)
        elif kind in self._done:
            for statement, parameters in self._done[kind]:
                connection.exec_driver_sql(statement, parameters)
        else:
            statements: list[tuple[str, Any]] = []

            def remember(_c: object, _u: object, statement: str, parameters: object, *_: object) -> None:
                if not statement.lstrip().startswith(("SELECT", "PRAGMA")):
                    statements.append((statement, parameters))

            event.listen(connection, "before_cursor_execute", remember)
            self._upgrade(connection)
            event.remove(connection, "before_cursor_execute", remember)
            self._done[kind] = statements
