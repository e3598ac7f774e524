"""Keys and their versions in the database."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Row,
    Select,
    String,
    Table,
    and_,
    bindparam,
    insert,
    select,
    true,
    type_coerce,
    update,
)
from sqlalchemy.exc import IntegrityError as ConstraintError

from attest.encoding import rfc3339, rfc3339_text
from kms.domain.errors import KeyConflictError
from kms.domain.keys import DEFAULT_DISCLOSURE, Disclosure, KeyName, KeyPurpose, KeyRecord, KeyReference, Wrapped
from kms.store.keks import KekReader
from kms.store.repository import Repository, blob, readable
from kms.store.schema import metadata, name_of
from kms.store.tenants import TenantReader
from kms.store.timestamps import milliseconds, moment_of

keys = Table(
    "keys",
    metadata,
    Column("tenant", name_of(64), primary_key=True),
    Column("key_id", name_of(128), primary_key=True),
    Column("purpose", String(32), nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("created_at", String(40), nullable=False),
    Column("disclosure", String(16), nullable=True),
    Column("lease_seconds", Integer, nullable=True),
)

key_versions = Table(
    "key_versions",
    metadata,
    Column("tenant", name_of(64), primary_key=True),
    Column("key_id", name_of(128), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("algorithm", String(32), nullable=False),
    Column("policy_digest", LargeBinary, ForeignKey("policies.digest"), nullable=False),
    Column("wrapped", LargeBinary, nullable=False),
    Column("kek_id", LargeBinary, ForeignKey("keks.id"), nullable=False),
    Column("created_at", String(40), nullable=False),
    Column("enabled", Boolean, nullable=False, server_default=true()),
    Column("overlap_until", BigInteger),
    Column("destroy_at", BigInteger),
    ForeignKeyConstraint(["tenant", "key_id"], ["keys.tenant", "keys.key_id"]),
    Index("key_versions_kek_id", "kek_id"),
)
"""``overlap_until`` and ``destroy_at`` are milliseconds since 1970, UTC."""
Index(
    "key_versions_current",
    key_versions.c.tenant,
    key_versions.c.key_id,
    unique=True,
    sqlite_where=key_versions.c.overlap_until.is_(None),
    postgresql_where=key_versions.c.overlap_until.is_(None),
)
Index("key_versions_destroy_at", key_versions.c.destroy_at)


class KeyReader(Repository):
    """Keys in a reading transaction. One that cannot be read is an ``IntegrityError``, ``key-record-invalid``."""

    def find(self, asked: KeyName | KeyReference) -> KeyRecord | None:
        """Return the version that a reference names, by default the current one; None if it does not exist."""
        reference = asked if isinstance(asked, KeyReference) else KeyReference(name=asked)
        if reference.version is None:
            row = self._connection.execute(_CURRENT, stored_name(reference.name)).one_or_none()
        else:
            values = {**stored_name(reference.name), "version": reference.version}
            row = self._connection.execute(_VERSION, values).one_or_none()
        return None if row is None else _record(row)

    def versions(self, name: KeyName) -> tuple[KeyRecord, ...]:
        """Return every version of a key, the oldest first; none if it is unknown."""
        rows = self._connection.execute(_KEY_VERSIONS.where(of_key(key_versions, name)))
        return tuple(_record(row) for row in rows)

    def all(self, tenant: str | None = None) -> tuple[KeyRecord, ...]:
        """Return every version of every key of a tenant, or of all, in the order of names and versions."""
        statement = _KEY_VERSIONS if tenant is None else _KEY_VERSIONS.where(keys.c.tenant == tenant)
        return tuple(_record(row) for row in self._connection.execute(statement))

    def due_destructions(self, at: datetime, *, limit: int) -> tuple[KeyReference, ...]:
        """Return the versions whose destruction is due, the oldest first."""
        columns = key_versions.c
        statement = (
            select(columns.tenant, columns.key_id, columns.version)
            .where(columns.destroy_at <= milliseconds(at), columns.wrapped != b"")
            .order_by(columns.destroy_at)
            .limit(limit)
        )
        return tuple(
            KeyReference(name=KeyName(tenant=row.tenant, key_id=row.key_id), version=row.version)
            for row in self._connection.execute(statement)
        )


class KeyRepository(KeyReader):
    """Keys in a writing transaction."""

    def add(self, record: KeyRecord) -> None:
        """Store a new key with its first version.

        Raises:
            KeyConflictError: ``key-exists`` or ``tenant-unknown``.
            UnavailableError: ``kek-changing``.
        """
        name, tenant = str(record.name), record.name.tenant
        if not TenantReader(self._connection).exists(tenant):
            hint = f"'kms tenant create {tenant}' makes it"
            raise KeyConflictError(f"there is no tenant {tenant!r}", code="tenant-unknown", field=name, hint=hint)
        values = {**stored_name(record.name), "purpose": record.purpose, "enabled": record.enabled}
        try:
            self._connection.execute(insert(keys).values(**values, created_at=rfc3339_text(record.created_at)))
        except ConstraintError as exc:
            hint = f"see it with 'kms key show {name}', or choose another id"
            raise KeyConflictError(
                f"there is a key {name!r} already", code="key-exists", field=name, hint=hint
            ) from exc
        self.add_version(record)

    def add_version(self, record: KeyRecord) -> None:
        """Store a further version of a key, after ``supersede``.

        Raises:
            UnavailableError: ``kek-changing``.
        """
        KekReader(self._connection).require_wrapping(record.wrapped)
        self._connection.execute(
            insert(key_versions).values(
                **stored_name(record.name),
                version=record.version,
                algorithm=record.algorithm,
                policy_digest=record.policy_digest,
                wrapped=record.wrapped.content,
                kek_id=record.wrapped.kek_id,
                created_at=rfc3339_text(record.created_at),
                enabled=record.version_enabled,
            )
        )

    def supersede(self, record: KeyRecord, *, overlap_until: datetime) -> None:
        """End the time of a version as the current one."""
        self._update(record, overlap_until=milliseconds(overlap_until))

    def set_enabled(self, name: KeyName, *, enabled: bool) -> None:
        """Enable or disable a key with all its versions."""
        self._connection.execute(update(keys).where(of_key(keys, name)).values(enabled=enabled))

    def set_release(self, name: KeyName, *, disclosure: str, lease_seconds: int | None) -> None:
        """Set how a key is released, in all its versions."""
        values = {"disclosure": str(disclosure), "lease_seconds": lease_seconds}
        self._connection.execute(update(keys).where(of_key(keys, name)).values(**values))

    def set_version_enabled(self, record: KeyRecord, *, enabled: bool) -> None:
        """Enable or disable one version."""
        self._update(record, enabled=enabled)

    def put_under_policy(self, record: KeyRecord, *, digest: bytes, wrapped: Wrapped) -> None:
        """Bind a version of a key to another policy, with its material wrapped for that."""
        self._update(record, policy_digest=digest, wrapped=wrapped.content, kek_id=wrapped.kek_id)

    def set_destruction(self, record: KeyRecord, *, destroy_at: datetime | None) -> None:
        """Schedule the destruction of a version's material, or cancel it."""
        self._update(record, destroy_at=None if destroy_at is None else milliseconds(destroy_at))

    def erase(self, record: KeyRecord) -> None:
        """Delete the wrapped material of a version; its row stays."""
        self._update(record, wrapped=b"")

    def _update(self, record: KeyRecord, **values: object) -> None:
        where = of_key(key_versions, record.name) & (key_versions.c.version == record.version)
        self._connection.execute(update(key_versions).where(where).values(**values))


def of_key(table: Table, name: KeyName) -> ColumnElement[bool]:
    """Return the condition that a row belongs to this key."""
    return and_(table.c.tenant == name.tenant, table.c.key_id == name.key_id)


def stored_name(name: KeyName) -> dict[str, str]:
    """Return a key's name as columns."""
    return {"tenant": name.tenant, "key_id": name.key_id}


_KEY_VERSIONS: Select[tuple[object, ...]] = (
    select(
        *(column for column in key_versions.c if column.name != "enabled"),
        keys.c.purpose,
        type_coerce(keys.c.enabled, Integer).label("enabled"),
        type_coerce(key_versions.c.enabled, Integer).label("version_enabled"),
        keys.c.disclosure,
        keys.c.lease_seconds,
    )
    .join(keys, (keys.c.tenant == key_versions.c.tenant) & (keys.c.key_id == key_versions.c.key_id))
    .order_by(keys.c.tenant, keys.c.key_id, key_versions.c.version)
)
# Statements of every release are built once: building one takes longer than executing it.
_OF_NAME = _KEY_VERSIONS.where(
    key_versions.c.tenant == bindparam("tenant"), key_versions.c.key_id == bindparam("key_id")
)
_CURRENT = _OF_NAME.where(key_versions.c.overlap_until.is_(None))
_VERSION = _OF_NAME.where(key_versions.c.version == bindparam("version"))
_ENABLED = {1: True, 0: False}
"""Read as a number: the library's boolean would take any text for true."""


def _record(row: Row[tuple[object, ...]]) -> KeyRecord:
    problem = f"the stored record of key {row.key_id!r} cannot be read"
    with readable(problem, code="key-record-invalid", field=str(row.key_id)):
        return KeyRecord(
            name=KeyName(tenant=row.tenant, key_id=row.key_id),
            version=row.version,
            purpose=KeyPurpose(row.purpose),
            algorithm=row.algorithm,
            policy_digest=blob(row.policy_digest),
            enabled=_ENABLED[row.enabled],
            version_enabled=_ENABLED[row.version_enabled],
            overlap_until=None if row.overlap_until is None else moment_of(row.overlap_until),
            destroy_at=None if row.destroy_at is None else moment_of(row.destroy_at),
            created_at=rfc3339(row.created_at, what="created_at"),
            wrapped=Wrapped(kek_id=blob(row.kek_id), content=blob(row.wrapped)),
            disclosure=DEFAULT_DISCLOSURE if row.disclosure is None else Disclosure(row.disclosure),
            lease_seconds=row.lease_seconds,
        )
