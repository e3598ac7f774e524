"""Policies in the database: as their authors wrote them, never changed."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, Column, LargeBinary, String, Table, bindparam, insert, select

from attest.encoding import rfc3339_text
from kms.store.repository import Repository, blob, readable
from kms.store.schema import APPEND_ONLY, metadata, name_of

policies = Table(
    "policies",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("name", name_of(64), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("document", LargeBinary, nullable=False),
    Column("added_at", String(40), nullable=False),
    info=APPEND_ONLY,
)
"""Policy documents by the SHA-256 of their canonical JSON; never changed, never removed."""


class PolicyReader(Repository):
    """Policies in a reading transaction."""

    def document(self, digest: bytes) -> bytes | None:
        """Return the policy of this digest as its author wrote it; the caller compares the digest."""
        value = self._connection.execute(_DOCUMENT, {"digest": digest}).scalar_one_or_none()
        return value if value is None or isinstance(value, bytes) else b""

    def title(self, digest: bytes) -> tuple[str, int] | None:
        """Return the name and the version of the policy of this digest."""
        columns = (policies.c.name, policies.c.version)
        row = self._connection.execute(select(*columns).where(policies.c.digest == digest)).one_or_none()
        return None if row is None else (row.name, row.version)

    def digests(self) -> tuple[bytes, ...]:
        """Return the digests of all policies.

        Raises:
            IntegrityError: ``policy-altered``.
        """
        found = self._connection.execute(select(policies.c.digest).order_by(policies.c.digest)).scalars()
        with readable("a stored digest of a policy is malformed", code="policy-altered", field="policies"):
            return tuple(blob(digest) for digest in found)


class PolicyRepository(PolicyReader):
    """Policies in a writing transaction."""

    def add(self, *, digest: bytes, name: str, version: int, document: bytes, at: datetime) -> None:
        """Store a policy, unless it is stored already."""
        if self.document(digest) is not None:
            return
        values = {"digest": digest, "name": name, "version": version, "document": document}
        self._connection.execute(insert(policies).values(added_at=rfc3339_text(at), **values))


# A statement of every release is built once: building one takes longer than executing it.
_DOCUMENT = select(policies.c.document).where(policies.c.digest == bindparam("digest"))
