"""Which key-encryption keys a database knows, and what lies wrapped under which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import ColumnElement, Row, Table, func, insert, select, tuple_, update

from attest.encoding import rfc3339, rfc3339_text
from kms.domain.errors import UnavailableError
from kms.domain.kek_records import Backend, KekRecord, KekState
from kms.domain.keys import Wrapped
from kms.store.repository import Repository, blob, readable
from kms.store.schema import keks, key_versions, keys, metadata

__all__ = ["WRAPPED_TABLES", "KekReader", "KekRepository"]

WRAPPED_TABLES = tuple(
    table for table in metadata.sorted_tables if any(key.references(keks) for key in table.foreign_keys)
)
"""Every table with something wrapped in it: columns ``wrapped`` and ``kek_id``."""


class KekReader(Repository):
    """Key-encryption keys in a reading transaction."""

    def all(self) -> tuple[KekRecord, ...]:
        """Return all of them, oldest first.

        Raises:
            IntegrityError: ``kek-record-invalid``.
        """
        return tuple(map(_record, self._connection.execute(select(keks).order_by(keks.c.created_at, keks.c.id))))

    def wrapped_under(self) -> dict[bytes, dict[str, int]]:
        """Count what is wrapped, by the id of the key-encryption key and then by table."""
        counts: dict[bytes, dict[str, int]] = {}
        for table in WRAPPED_TABLES:
            grouped = select(table.c.kek_id, func.count()).where(_holds_something(table)).group_by(table.c.kek_id)
            for kek_id, number in self._connection.execute(grouped):
                counts.setdefault(bytes(kek_id), {})[table.name] = number
        return counts

    def wrapped_elsewhere(
        self, table: Table, *, than: bytes, after: Sequence[object] | None, limit: int
    ) -> tuple[Mapping[str, object], ...]:
        """Return rows that are wrapped under another key than this, in the order of their primary key.

        A version of a key comes with the key's purpose, to which it is bound.

        Args:
            table: one of ``WRAPPED_TABLES``.
            than: id of a key-encryption key.
            after: primary key of the row after which to go on; None begins.
            limit: most rows.
        """
        columns = tuple(table.primary_key.columns)
        wanted = select(table, keys.c.purpose).join(keys) if table is key_versions else select(table)
        statement = wanted.where(table.c.kek_id != than, _holds_something(table))
        if after is not None:
            statement = statement.where(tuple_(*columns) > tuple_(*after))
        rows = self._connection.execute(statement.order_by(*columns).limit(limit)).mappings()
        return tuple({str(name): value for name, value in row.items()} for row in rows)

    def require_wrapping(self, wrapped: Wrapped) -> None:
        """Refuse what was wrapped under a key that does not wrap any more; asked wherever something new is kept.

        Raises:
            UnavailableError: ``kek-changing``: it was replaced a moment ago.
        """
        state = self._connection.execute(select(keks.c.state).where(keks.c.id == wrapped.kek_id)).scalar_one_or_none()
        if state not in {KekState.ENTERING, KekState.ACTIVE}:
            raise UnavailableError(
                "another key-encryption key took over while this was being wrapped",
                code="kek-changing",
                hint="do it again",
                retryable=True,
            )


class KekRepository(KekReader):
    """Key-encryption keys in a writing transaction."""

    def add(self, record: KekRecord) -> None:
        """Keep what is known of a key-encryption key that is not there yet."""
        self._connection.execute(
            insert(keks).values(
                id=record.id,
                backend=str(record.backend),
                description=record.description,
                state=str(record.state),
                proof=record.proof,
                created_at=rfc3339_text(record.created_at),
            )
        )

    def set_state(self, kek_id: bytes, state: KekState) -> None:
        """Change what a key-encryption key is used for."""
        self._connection.execute(update(keks).where(keks.c.id == kek_id).values(state=str(state)))

    def rewrap(self, table: Table, row: Mapping[str, object], wrapped: Wrapped) -> bool:
        """Put another wrapped form in the place of the one that a row had when it was read, if it still has it."""
        same = [table.c[column.name] == row[column.name] for column in table.primary_key.columns]
        same += [table.c.kek_id == row["kek_id"], table.c.wrapped == row["wrapped"]]
        values = {"wrapped": wrapped.content, "kek_id": wrapped.kek_id}
        return self._connection.execute(update(table).where(*same).values(**values)).rowcount == 1


def _holds_something(table: Table) -> ColumnElement[bool]:
    """Leave out what was wiped: it needs no key any more."""
    return func.length(table.c.wrapped) > 0


def _record(row: Row[tuple[object, ...]]) -> KekRecord:
    problem = "what is stored of a key-encryption key cannot be read"
    with readable(problem, code="kek-record-invalid", field="keks"):
        return KekRecord(
            id=blob(row.id),
            backend=Backend(row.backend),
            description=row.description,
            state=KekState(row.state),
            proof=None if row.proof is None else blob(row.proof),
            created_at=rfc3339(row.created_at, what="created_at"),
        )
