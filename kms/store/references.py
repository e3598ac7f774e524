"""Documents of reference values in the database: stored unchanged, never changed."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    func,
    select,
)

from attest.encoding import rfc3339_text
from kms.domain.references import Proof, StoredDocument
from kms.domain.state_root import forged
from kms.store.repository import Repository, blob, readable, whole_number
from kms.store.schema import APPEND_ONLY, metadata, name_of
from kms.store.state_rows import Values, authenticated

reference_documents = Table(
    "reference_documents",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("digest", LargeBinary, nullable=False, unique=True),
    Column("name", name_of(256), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("document", LargeBinary, nullable=False),
    Column("added_at", String(40), nullable=False),
    Index("reference_documents_name", "name", "version"),
    info=authenticated("name", more=APPEND_ONLY, addressed=["document"]),
)
"""Every version of every document of reference values; never changed, never removed."""

reference_signatures = Table(
    "reference_signatures",
    metadata,
    Column("digest", LargeBinary, ForeignKey("reference_documents.digest"), primary_key=True),
    Column("key_id", LargeBinary, primary_key=True),
    Column("public_key", LargeBinary, nullable=False),
    Column("signature", LargeBinary, nullable=False),
    Column("added_at", String(40), nullable=False),
    info=authenticated("digest", more=APPEND_ONLY),
)
"""Signatures over them with the signers' keys, verified at every use of a document; without one, an older document
would be in force."""


class ReferenceReader(Repository):
    """Documents of reference values in a reading transaction."""

    def versions(self, name: str) -> tuple[tuple[int, bytes], ...]:
        """Return version and digest of the documents of this name, the highest version and oldest document first."""
        rows = self._all_of_scope(reference_documents, {"name": name})
        with _readable():
            found = [(-whole_number(row["version"]), whole_number(row["seq"]), blob(row["digest"])) for row in rows]
            return tuple((-version, digest) for version, _, digest in sorted(found))

    def names(self) -> tuple[str, ...]:
        """Return the names of all documents of reference values."""
        statement = select(reference_documents.c.name).distinct().order_by(reference_documents.c.name)
        return tuple(self._connection.execute(statement).scalars())

    def find(self, digest: bytes) -> StoredDocument | None:
        """Return the document of this digest with the signatures over it, unverified, or None.

        Raises:
            IntegrityError: ``state-forged``; ``references-altered``: the row holds something else than bytes.
        """
        columns = reference_documents.c
        row = self._connection.execute(select(reference_documents).where(columns.digest == digest)).one_or_none()
        if row is None or (row.version, digest) not in self.versions(str(row.name)):
            return None
        proofs = self._all_of_scope(reference_signatures, {"digest": digest})
        with _readable():
            return StoredDocument(
                digest=digest,
                name=str(row.name),
                version=whole_number(row.version),
                document=blob(row.document),
                proofs=tuple(map(_proof, proofs)),
            )

    def require(self, digest: bytes) -> StoredDocument:
        """Return a document that ``versions`` lists, as ``find``.

        Raises:
            IntegrityError: ``state-forged``: it was removed; ``references-altered``.
        """
        found = self.find(digest)
        if found is None:
            raise forged(f"a row of reference_documents was removed: {digest.hex()[:16]}", field="reference_documents")
        return found


class ReferenceRepository(ReferenceReader):
    """Documents of reference values in a writing transaction."""

    def add(self, given: StoredDocument, *, at: datetime) -> bool:
        """Store a document and the signatures over it, unless they are stored; return True if anything is new."""
        before = self.find(given.digest)
        added = {"added_at": rfc3339_text(at)}
        if before is None:
            last: int | None = self._connection.execute(select(func.max(reference_documents.c.seq))).scalar_one()
            values = {"digest": given.digest, "name": given.name, "version": given.version, "document": given.document}
            self._add(reference_documents, {"seq": (last or 0) + 1, **values, **added})
        known = set() if before is None else {proof.key_id for proof in before.proofs}
        fresh = [proof for proof in given.proofs if proof.key_id not in known]
        for proof in fresh:
            signed = {"key_id": proof.key_id, "public_key": proof.public_key, "signature": proof.signature}
            self._add(reference_signatures, {"digest": given.digest, **signed, **added})
        return before is None or bool(fresh)


def _proof(row: Values) -> Proof:
    return Proof(key_id=blob(row["key_id"]), public_key=blob(row["public_key"]), signature=blob(row["signature"]))


def _readable() -> AbstractContextManager[None]:
    problem = "a stored document of reference values is malformed"
    return readable(problem, code="references-altered", field="reference_documents")
