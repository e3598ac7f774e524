"""Somebody who may write to the database of a running service and has no key of it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, and_, create_engine, delete, insert, select, text, update

from kms.domain.log_entries import GENESIS, LogEntry, LogHead, make_entry
from kms.domain.log_tree import Frontier, edge_nodes, node_position
from kms.store import locate
from kms.store.log import log_entries, log_nodes
from kms.store.schema import metadata
from tests.kms.support import Harness

Values = dict[str, Any]
Copy = Mapping[str, list[Values]]
"""Rows by table."""

_TRIGGERS = text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")


class DatabaseWriter:
    """Edits by SQL, behind the service's back; triggers and foreign keys are no obstacle, and stay."""

    def __init__(self, harness: Harness) -> None:
        place = locate(harness.settings.database)
        self._engine = create_engine(f"sqlite:///{place}" if isinstance(place, Path) else place)

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Open a transaction in which nothing is enforced."""
        try:
            with self._engine.connect() as connection, connection.begin(), _nothing_enforced(connection):
                yield connection
        finally:
            self._engine.dispose()

    def rows(self, name: str, **where: object) -> list[Values]:
        """Return rows of a table."""
        table = metadata.tables[name]
        with self.connection() as connection:
            found = connection.execute(select(table).where(_same(table, where)).order_by(*table.primary_key.columns))
            return [{str(column): value for column, value in row.items()} for row in found.mappings()]

    def insert(self, name: str, *rows: Mapping[str, object]) -> None:
        """Write rows."""
        with self.connection() as connection:
            connection.execute(insert(metadata.tables[name]), [dict(row) for row in rows])

    def update(self, name: str, where: Mapping[str, object] | None = None, /, **changes: object) -> None:
        """Change rows, at least one."""
        table = metadata.tables[name]
        with self.connection() as connection:
            assert connection.execute(update(table).where(_same(table, where or {})).values(**changes)).rowcount

    def delete(self, name: str, **where: object) -> None:
        """Remove rows, at least one."""
        table = metadata.tables[name]
        with self.connection() as connection:
            assert connection.execute(delete(table).where(_same(table, where))).rowcount

    def copy(self, *names: str) -> Copy:
        """Return all rows of tables, or of all of them."""
        return {name: self.rows(name) for name in names or metadata.tables}

    def put_back(self, copy: Copy, *names: str) -> None:
        """Let tables, or all of the copy, hold what they held when it was made."""
        with self.connection() as connection:
            for name in names or copy:
                connection.execute(delete(metadata.tables[name]))
                if copy[name]:
                    connection.execute(insert(metadata.tables[name]), copy[name])

    @contextmanager
    def redefined(self, kind: str, operators: Mapping[str, str]) -> Iterator[None]:
        """Give operators of a PostgreSQL server another meaning, in sessions that begin in this block."""
        with self.connection() as connection:
            name = connection.exec_driver_sql("SELECT current_database()").scalar_one()
            connection.exec_driver_sql("CREATE SCHEMA own")
            for number, (operator, meaning) in enumerate(operators.items()):
                head, body = f"own.f{number}(a {kind}, b {kind})", f"$$ SELECT {meaning} $$"
                connection.exec_driver_sql(f"CREATE FUNCTION {head} RETURNS boolean LANGUAGE sql AS {body}")
                sides = f"LEFTARG = {kind}, RIGHTARG = {kind}"
                connection.exec_driver_sql(f"CREATE OPERATOR own.{operator} ({sides}, FUNCTION = own.f{number})")
            connection.exec_driver_sql(f'ALTER DATABASE "{name}" SET search_path = own, pg_catalog, public')
        try:
            yield
        finally:
            with self.connection() as connection:
                connection.exec_driver_sql(f'ALTER DATABASE "{name}" RESET search_path')
                connection.exec_driver_sql("DROP SCHEMA own CASCADE")

    def log(self, kind: str, **body: Any) -> LogEntry:  # noqa: ANN401  any JSON
        """Append an entry to the log, with the hashes of its tree: neither takes a key."""
        last = [LogEntry(seq=row["seq"], raw=row["entry"]) for row in self.rows("log_entries")][-1:]
        head = LogHead(seq=last[0].seq, time=last[0].time()) if last else GENESIS
        assert head.time is not None
        entry = make_entry(head, kind=kind, at=head.time, body=body)
        nodes = {row["position"]: row["hash"] for row in self.rows("log_nodes")}
        tree = Frontier(head.seq, {node: nodes[node_position(node)] for node in edge_nodes(head.seq)})
        made = [{"position": node_position(node), "hash": one} for node, one in tree.add(entry.leaf_hash)]
        self.insert(log_entries.name, {"seq": entry.seq, "entry": entry.raw})
        self.insert(log_nodes.name, *made)
        return entry


@contextmanager
def _nothing_enforced(connection: Connection) -> Iterator[None]:
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
        yield
        return
    triggers = [(row.name, row.sql) for row in connection.execute(_TRIGGERS)]
    for name, _ in triggers:
        connection.exec_driver_sql(f"DROP TRIGGER {name}")
    yield
    for _, statement in triggers:
        connection.exec_driver_sql(statement)


def _same(table: Table, where: Mapping[str, object]) -> Any:  # noqa: ANN401  a condition
    return and_(True, *(table.c[name] == value for name, value in where.items()))
