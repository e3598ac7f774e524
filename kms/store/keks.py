"""Records of key-encryption keys in the database."""

from __future__ import annotations

from sqlalchemy import Column, LargeBinary, Row, String, Table, insert, select, update

from attest.encoding import rfc3339, rfc3339_text
from kms.domain.errors import UnavailableError
from kms.domain.kek_records import Backend, KekRecord, KekState
from kms.domain.keys import Wrapped
from kms.store.repository import Repository, blob, readable
from kms.store.schema import metadata

keks = Table(
    "keks",
    metadata,
    Column("id", LargeBinary, primary_key=True),
    Column("backend", String(16), nullable=False),
    Column("description", String(1024), nullable=False),
    Column("state", String(16), nullable=False),
    Column("proof", LargeBinary, nullable=True),
    Column("created_at", String(40), nullable=False),
)
"""Records of key-encryption keys with their proofs; never the keys themselves."""


class KekReader(Repository):
    """Key-encryption keys in a reading transaction."""

    def all(self) -> tuple[KekRecord, ...]:
        """Return all of them, oldest first.

        Raises:
            IntegrityError: ``kek-record-invalid``.
        """
        return tuple(map(_record, self._connection.execute(select(keks).order_by(keks.c.created_at, keks.c.id))))

    def require_wrapping(self, wrapped: Wrapped) -> None:
        """Refuse a secret under a key that no longer wraps; called before each new secret is stored.

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
        """Store a new record."""
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
        """Change the use of a key-encryption key."""
        self._connection.execute(update(keks).where(keks.c.id == kek_id).values(state=str(state)))


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
