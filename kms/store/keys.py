"""Keys and their versions in the database."""

from __future__ import annotations

from datetime import datetime
from typing import Any

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
    select,
    true,
)
from sqlalchemy.exc import IntegrityError as ConstraintError

from attest.encoding import rfc3339, rfc3339_text
from kms.domain.errors import KeyConflictError
from kms.domain.keys import DEFAULT_DISCLOSURE, Disclosure, KeyName, KeyPurpose, KeyRecord, KeyReference, Wrapped
from kms.domain.wires import NATIVE_ONLY, Wire, parse_wires, wires_text
from kms.store.answers import require_answer
from kms.store.keks import KekReader
from kms.store.repository import Repository, blob, readable, whole_number
from kms.store.schema import metadata, name_of
from kms.store.state_rows import Values, authenticated, whole_rows
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
    Column("via", String(64), nullable=True),
    info=authenticated(),
)
"""``via`` has the names of protocols, sorted and with commas; nothing is ``native``."""

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
    info=authenticated(),
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
    """Keys in a reading transaction. A malformed record is an ``IntegrityError``, ``key-record-invalid``."""

    def find(self, asked: KeyName | KeyReference) -> KeyRecord | None:
        """Return the version that a reference names, by default the current one; None if it does not exist."""
        reference = asked if isinstance(asked, KeyReference) else KeyReference(name=asked)
        name = stored_name(reference.name)
        if reference.version is None:
            row = self._connection.execute(_CURRENT, name).one_or_none()
            if row is not None:
                found = self._record(row)
                require_answer(key_versions, holds=found.name == reference.name and found.is_current)
                return found
            self._require_none(keys, **name)
            return None
        key, version = self._row(keys, **name), self._row(key_versions, **name, version=reference.version)
        return None if key is None or version is None else _record(key, version)

    def _record(self, row: Row[Any]) -> KeyRecord:  # Any: rows of two tables
        return _record(self._genuine(keys, row), self._genuine(key_versions, row))

    def versions(self, name: KeyName) -> tuple[KeyRecord, ...]:
        """Return every version of a key, the oldest first; none if it is unknown."""
        rows = self._connection.execute(_KEY_VERSIONS.where(of_key(key_versions, name))).all()
        found = tuple(map(self._record, rows))
        require_answer(key_versions, holds=all(one.name == name for one in found))
        # Versions are numbered from 1 without gaps.
        for version in range(1, len(found) + 2):
            if version > len(found) or found[version - 1].version != version:
                self._require_none(key_versions, **stored_name(name), version=version)
        return found

    def all(self, tenant: str | None = None) -> tuple[KeyRecord, ...]:
        """Return every version of every key of a tenant, or of all, in the order of names and versions."""
        statement = _KEY_VERSIONS if tenant is None else _KEY_VERSIONS.where(keys.c.tenant == tenant)
        return tuple(map(self._record, self._connection.execute(statement).all()))

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
        if not TenantReader(self._connection, self._state).exists(tenant):
            hint = f"create it with 'kms tenant create {tenant}'"
            raise KeyConflictError(f"there is no tenant {tenant!r}", code="tenant-unknown", field=name, hint=hint)
        values = {**stored_name(record.name), "purpose": str(record.purpose), "enabled": record.enabled}
        values |= {"via": _stored_wires(record.via)}
        try:
            self._add(keys, {**values, "created_at": rfc3339_text(record.created_at)})
        except ConstraintError as exc:
            hint = f"show it with 'kms key show {name}', or choose another id"
            raise KeyConflictError(
                f"the key {name!r} already exists", code="key-exists", field=name, hint=hint
            ) from exc
        self.add_version(record)

    def add_version(self, record: KeyRecord) -> None:
        """Store a further version of a key, after ``supersede``.

        Raises:
            UnavailableError: ``kek-changing``.
        """
        KekReader(self._connection, self._state).require_wrapping(record.wrapped)
        self._add(
            key_versions,
            {
                **stored_name(record.name),
                "version": record.version,
                "algorithm": record.algorithm,
                "policy_digest": record.policy_digest,
                "wrapped": record.wrapped.content,
                "kek_id": record.wrapped.kek_id,
                "created_at": rfc3339_text(record.created_at),
                "enabled": record.version_enabled,
            },
        )

    def supersede(self, record: KeyRecord, *, overlap_until: datetime) -> None:
        """End the time of a version as the current one."""
        self._update(record, overlap_until=milliseconds(overlap_until))

    def set_enabled(self, name: KeyName, *, enabled: bool) -> None:
        """Enable or disable a key with all its versions."""
        self._update_key(name, enabled=enabled)

    def set_release(self, name: KeyName, *, disclosure: str, lease_seconds: int | None, via: frozenset[Wire]) -> None:
        """Set how a key is released, in all its versions."""
        values = {"disclosure": str(disclosure), "lease_seconds": lease_seconds, "via": _stored_wires(via)}
        self._update_key(name, **values)

    def _update_key(self, name: KeyName, **values: object) -> None:
        row = self._row(keys, **stored_name(name))
        if row is not None:
            self._replace(keys, row, **values)

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
        row = self._row(key_versions, **stored_name(record.name), version=record.version)
        if row is not None:
            self._replace(key_versions, row, **values)


def of_key(table: Table, name: KeyName) -> ColumnElement[bool]:
    """Return the condition that a row belongs to this key."""
    return and_(table.c.tenant == name.tenant, table.c.key_id == name.key_id)


def stored_name(name: KeyName) -> dict[str, str]:
    """Return a key's name as columns."""
    return {"tenant": name.tenant, "key_id": name.key_id}


_KEY_VERSIONS: Select[tuple[object, ...]] = (
    whole_rows(keys, key_versions)
    .join(keys, (keys.c.tenant == key_versions.c.tenant) & (keys.c.key_id == key_versions.c.key_id))
    .order_by(keys.c.tenant, keys.c.key_id, key_versions.c.version)
)
# Statements of every release are built once: building one takes longer than executing it.
_OF_NAME = _KEY_VERSIONS.where(
    key_versions.c.tenant == bindparam("tenant"), key_versions.c.key_id == bindparam("key_id")
)
_CURRENT = _OF_NAME.where(key_versions.c.overlap_until.is_(None))
_ENABLED = {1: True, 0: False}
"""Stored as a number."""


def _record(key: Values, version: Values) -> KeyRecord:
    key_id, disclosure, seconds = str(key["key_id"]), key["disclosure"], key["lease_seconds"]
    problem = f"the stored record of key {key_id!r} is malformed"
    with readable(problem, code="key-record-invalid", field=key_id):
        return KeyRecord(
            name=KeyName(tenant=str(key["tenant"]), key_id=key_id),
            version=whole_number(version["version"]),
            purpose=KeyPurpose(str(key["purpose"])),
            algorithm=str(version["algorithm"]),
            policy_digest=blob(version["policy_digest"]),
            enabled=_ENABLED[whole_number(key["enabled"])],
            version_enabled=_ENABLED[whole_number(version["enabled"])],
            overlap_until=_moment(version["overlap_until"]),
            destroy_at=_moment(version["destroy_at"]),
            created_at=rfc3339(str(version["created_at"]), what="created_at"),
            wrapped=Wrapped(kek_id=blob(version["kek_id"]), content=blob(version["wrapped"])),
            disclosure=DEFAULT_DISCLOSURE if disclosure is None else Disclosure(str(disclosure)),
            lease_seconds=None if seconds is None else whole_number(seconds),
            via=NATIVE_ONLY if key["via"] is None else parse_wires(str(key["via"]).split(",")),
        )


def _stored_wires(via: frozenset[Wire]) -> str | None:
    """Return the column of protocols: nothing for the default, which a database had before the column."""
    return None if via == NATIVE_ONLY else wires_text(via)


def _moment(value: object) -> datetime | None:
    return None if value is None else moment_of(whole_number(value))
