"""Documents of reference values in the database: kept as they came, never changed."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, insert, select

from attest.encoding import rfc3339_text
from kms.domain.errors import IntegrityError
from kms.domain.references import Proof, StoredDocument
from kms.store.schema import reference_documents, reference_signatures

__all__ = ["ReferenceReader", "ReferenceWriter"]


class ReferenceReader:
    """What can be read of them in one transaction."""

    def __init__(self, connection: Connection) -> None:
        """Work on a transaction that the store opened."""
        self._connection = connection

    def reference_versions(self, name: str) -> tuple[tuple[int, bytes], ...]:
        """Return version and digest of the documents of this name, the highest first; of one version the oldest."""
        columns = reference_documents.c
        statement = select(columns.version, columns.digest).where(columns.name == name)
        rows = self._connection.execute(statement.order_by(columns.version.desc(), columns.seq))
        return tuple((_number(row.version), _stored_blob(row.digest)) for row in rows)

    def reference_names(self) -> tuple[str, ...]:
        """Return the names of all documents of reference values."""
        statement = select(reference_documents.c.name).distinct().order_by(reference_documents.c.name)
        return tuple(self._connection.execute(statement).scalars())

    def reference_document(self, digest: bytes) -> StoredDocument | None:
        """Return the document of this digest with the signatures over it, as they were taken in.

        Raises:
            IntegrityError: ``references-altered``: the row holds something else than bytes.
        """
        columns = reference_documents.c
        row = self._connection.execute(select(reference_documents).where(columns.digest == digest)).one_or_none()
        if row is None:
            return None
        proofs = select(reference_signatures).where(reference_signatures.c.digest == digest)
        return StoredDocument(
            digest=digest,
            name=str(row.name),
            version=_number(row.version),
            document=_stored_blob(row.document),
            proofs=tuple(
                Proof(
                    key_id=_stored_blob(proof.key_id),
                    public_key=_stored_blob(proof.public_key),
                    signature=_stored_blob(proof.signature),
                )
                for proof in self._connection.execute(proofs.order_by(reference_signatures.c.key_id))
            ),
        )


class ReferenceWriter(ReferenceReader):
    """What can be written."""

    def add_reference_document(self, given: StoredDocument, *, at: datetime) -> bool:
        """Keep a document and the signatures over it; what is there already stays as it is.

        Returns:
            Whether anything was not there before.
        """
        before = self.reference_document(given.digest)
        added = {"added_at": rfc3339_text(at)}
        if before is None:
            values = {"digest": given.digest, "name": given.name, "version": given.version, "document": given.document}
            self._connection.execute(insert(reference_documents).values(**values, **added))
        known = set() if before is None else {proof.key_id for proof in before.proofs}
        fresh = [proof for proof in given.proofs if proof.key_id not in known]
        for proof in fresh:
            signed = {"key_id": proof.key_id, "public_key": proof.public_key, "signature": proof.signature}
            self._connection.execute(insert(reference_signatures).values(digest=given.digest, **signed, **added))
        return before is None or bool(fresh)


def _stored_blob(value: object) -> bytes:
    """Read a column. SQLite keeps whatever type somebody writes into it."""
    if not isinstance(value, bytes):
        raise _altered()
    return value


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise _altered()
    return value


def _altered() -> IntegrityError:
    return IntegrityError(
        "a stored document of reference values cannot be read",
        code="references-altered",
        field="reference_documents",
        hint="the database was altered or damaged; restore it from a backup",
    )
