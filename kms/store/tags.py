"""Tags of keys in the database."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Column, ForeignKeyConstraint, Index, Table, delete, insert, select

from kms.domain.keys import KeyName
from kms.store.keys import of_key, stored_name
from kms.store.repository import Repository
from kms.store.schema import metadata, name_of

key_tags = Table(
    "key_tags",
    metadata,
    Column("tenant", name_of(64), primary_key=True),
    Column("key_id", name_of(128), primary_key=True),
    Column("name", name_of(64), primary_key=True),
    Column("value", name_of(256), nullable=False),
    ForeignKeyConstraint(["tenant", "key_id"], ["keys.tenant", "keys.key_id"]),
    Index("key_tags_name", "name", "value"),
)
"""Labels that operators give to keys; no decision depends on them."""


class TagReader(Repository):
    """Tags in a reading transaction."""

    def of_key(self, name: KeyName) -> Mapping[str, str]:
        """Return the tags of a key by their names."""
        rows = self._connection.execute(select(key_tags).where(of_key(key_tags, name)).order_by(key_tags.c.name))
        return {row.name: row.value for row in rows}

    def keys_with(self, tags: Mapping[str, str]) -> frozenset[KeyName]:
        """Return the keys that have all of these tags; there is at least one."""
        found: list[frozenset[KeyName]] = []
        for name, value in tags.items():
            rows = self._connection.execute(
                select(key_tags.c.tenant, key_tags.c.key_id).where(key_tags.c.name == name, key_tags.c.value == value)
            )
            found.append(frozenset(KeyName(tenant=row.tenant, key_id=row.key_id) for row in rows))
        return frozenset.intersection(*found)


class TagRepository(TagReader):
    """Tags in a writing transaction."""

    def put(self, name: KeyName, tag: str, value: str) -> None:
        """Tag a key, or replace its tag of that name."""
        self.remove(name, tag)
        self._connection.execute(insert(key_tags).values(**stored_name(name), name=tag, value=value))

    def remove(self, name: KeyName, tag: str) -> None:
        """Remove a tag of a key."""
        self._connection.execute(delete(key_tags).where(of_key(key_tags, name), key_tags.c.name == tag))
