"""Documents of administrators of a Key Broker Service: policies in Rego, and reference values.

Every version is kept; the highest is in force.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Column, Integer, LargeBinary, String, Table

from attest.encoding import rfc3339_text
from kms.store.repository import blob, readable, whole_number
from kms.store.schema import APPEND_ONLY, metadata, name_of
from kms.store.state_rows import Values, authenticated, whole_rows
from kms.store.versions import VersionReader

kbs_documents = Table(
    "kbs_documents",
    metadata,
    Column("name", name_of(512), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("content", LargeBinary, nullable=False),
    Column("set_at", String(40), nullable=False),
    info=authenticated(more=APPEND_ONLY),
)
"""Triggers refuse changes."""


class KbsDocument(NamedTuple):
    """One version of a document."""

    name: str
    version: int
    content: bytes


class KbsDocumentReader(VersionReader):
    """Documents in a reading transaction."""

    def newest(self, name: str) -> KbsDocument | None:
        """Return the document of a name that is in force, or None.

        Raises:
            IntegrityError: ``kbs-document-record-invalid``, or ``state-forged``.
        """
        row = self._newest(kbs_documents, name=name)
        return None if row is None else _document(row)

    def all(self) -> tuple[KbsDocument, ...]:
        """Return every version of every document, in the order of names and versions."""
        order = (kbs_documents.c.name, kbs_documents.c.version)
        rows = self._connection.execute(whole_rows(kbs_documents).order_by(*order)).all()
        return tuple(_document(self._genuine(kbs_documents, row)) for row in rows)


class KbsDocumentRepository(KbsDocumentReader):
    """Documents in a writing transaction."""

    def add(self, document: KbsDocument, *, at: datetime) -> None:
        """Put a version into force."""
        self._add(kbs_documents, {**document._asdict(), "set_at": rfc3339_text(at)})


def _document(row: Values) -> KbsDocument:
    with readable("a stored document is malformed", code="kbs-document-record-invalid", field="kbs_documents"):
        return KbsDocument(str(row["name"]), whole_number(row["version"]), blob(row["content"]))
