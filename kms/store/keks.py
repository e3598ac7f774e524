"""Records of key-encryption keys in the database."""

from __future__ import annotations

from sqlalchemy import Column, LargeBinary, String, Table

from attest.encoding import rfc3339, rfc3339_text
from kms.domain.errors import UnavailableError
from kms.domain.kek_records import Backend, KekRecord, KekState
from kms.domain.keys import Wrapped
from kms.store.repository import Repository, blob, readable
from kms.store.schema import metadata
from kms.store.state_rows import Values, authenticated

keks = Table(
    "keks",
    metadata,
    Column("id", LargeBinary, primary_key=True),
    Column("backend", String(16), nullable=False),
    Column("description", String(1024), nullable=False),
    Column("state", String(16), nullable=False),
    Column("proof", LargeBinary, nullable=True),
    Column("created_at", String(40), nullable=False),
    info=authenticated("*"),
)
"""Records of key-encryption keys with their proofs; never the keys themselves."""


class KekReader(Repository):
    """Key-encryption keys in a reading transaction."""

    def all(self) -> tuple[KekRecord, ...]:
        """Return all of them, oldest first.

        Raises:
            IntegrityError: ``kek-record-invalid``.
        """
        records = map(_record, self._all_of_scope(keks, {}))
        return tuple(sorted(records, key=lambda one: (one.created_at, one.id)))

    def require_wrapping(self, wrapped: Wrapped) -> None:
        """Refuse a secret under a key that no longer wraps; called before each new secret is stored.

        Raises:
            UnavailableError: ``kek-changing``: it was just replaced.
        """
        if not any(record.wraps for record in self.all() if record.id == wrapped.kek_id):
            raise UnavailableError(
                "the active key-encryption key changed during wrapping",
                code="kek-changing",
                hint="repeat the command",
                retryable=True,
            )


class KekRepository(KekReader):
    """Key-encryption keys in a writing transaction."""

    def add(self, record: KekRecord) -> None:
        """Store a new record."""
        self._add(
            keks,
            {
                "id": record.id,
                "backend": str(record.backend),
                "description": record.description,
                "state": str(record.state),
                "proof": record.proof,
                "created_at": rfc3339_text(record.created_at),
            },
        )

    def set_state(self, kek_id: bytes, state: KekState) -> None:
        """Change the use of a key-encryption key."""
        for row in self._all_of_scope(keks, {}):
            if row["id"] == kek_id:
                self._replace(keks, row, state=str(state))


def _record(row: Values) -> KekRecord:
    problem = "the stored record of a key-encryption key is malformed"
    with readable(problem, code="kek-record-invalid", field="keks"):
        return KekRecord(
            id=blob(row["id"]),
            backend=Backend(str(row["backend"])),
            description=str(row["description"]),
            state=KekState(str(row["state"])),
            proof=None if row["proof"] is None else blob(row["proof"]),
            created_at=rfc3339(str(row["created_at"]), what="created_at"),
        )
