"""Settings of a vault's keys in the database. Every revision is kept; the highest is in force."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Column, ForeignKeyConstraint, Integer, LargeBinary, String, Table

from attest.encoding import rfc3339_text
from kms.domain.keys import KeyName
from kms.domain.vault_keys import VaultKeySettings
from kms.store.keys import stored_name
from kms.store.repository import blob, readable, whole_number
from kms.store.schema import APPEND_ONLY, metadata, name_of
from kms.store.state_rows import Values, authenticated, whole_rows
from kms.store.versions import VersionReader

vault_keys = Table(
    "vault_keys",
    metadata,
    Column("tenant", name_of(64), primary_key=True),
    Column("key_id", name_of(128), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("content", LargeBinary, nullable=False),
    Column("set_at", String(40), nullable=False),
    ForeignKeyConstraint(["tenant", "key_id"], ["keys.tenant", "keys.key_id"]),
    info=authenticated(more=APPEND_ONLY),
)
"""Triggers refuse changes; ``version`` is the revision of the settings, not the version of the key."""


class VaultKey(NamedTuple):
    """One revision of a key's settings."""

    name: KeyName
    revision: int
    settings: VaultKeySettings


class VaultKeyReader(VersionReader):
    """Settings in a reading transaction."""

    def newest(self, name: KeyName) -> VaultKey | None:
        """Return the settings of a key that are in force, or None.

        Raises:
            IntegrityError: ``vault-key-record-invalid``, or ``state-forged``.
        """
        row = self._newest(vault_keys, tenant=name.tenant, key_id=name.key_id)
        return None if row is None else _vault_key(row)

    def all(self) -> tuple[VaultKey, ...]:
        """Return every revision, in the order of keys and revisions."""
        order = (vault_keys.c.tenant, vault_keys.c.key_id, vault_keys.c.version)
        rows = self._connection.execute(whole_rows(vault_keys).order_by(*order)).all()
        return tuple(_vault_key(self._genuine(vault_keys, row)) for row in rows)


class VaultKeyRepository(VaultKeyReader):
    """Settings in a writing transaction."""

    def add(self, one: VaultKey, *, at: datetime) -> None:
        """Put a revision into force."""
        row = {**stored_name(one.name), "version": one.revision, "content": one.settings.to_bytes()}
        self._add(vault_keys, {**row, "set_at": rfc3339_text(at)})


def _vault_key(row: Values) -> VaultKey:
    with readable("the settings of a vault's key are malformed", code="vault-key-record-invalid", field="vault_keys"):
        name = KeyName(tenant=str(row["tenant"]), key_id=str(row["key_id"]))
        return VaultKey(name, whole_number(row["version"]), VaultKeySettings.of_bytes(blob(row["content"])))
