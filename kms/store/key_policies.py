"""Versions of keys that come under another policy."""

from __future__ import annotations

from sqlalchemy import Connection, update

from kms.domain.keys import KeyRecord, Wrapped
from kms.store.schema import key_versions

__all__ = ["KeyPolicyWriter"]


class KeyPolicyWriter:
    """What can be written."""

    def __init__(self, connection: Connection) -> None:
        """Work on a transaction that the store opened."""
        self._connection = connection

    def put_under_policy(self, record: KeyRecord, *, digest: bytes, wrapped: Wrapped) -> None:
        """Tie a version of a key to another policy, with its material wrapped for that."""
        columns = key_versions.c
        same = (columns.tenant == record.name.tenant) & (columns.key_id == record.name.key_id)
        self._connection.execute(
            update(key_versions)
            .where(same & (columns.version == record.version))
            .values(policy_digest=digest, wrapped=wrapped.content, kek_id=wrapped.kek_id)
        )
