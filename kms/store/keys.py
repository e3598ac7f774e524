"""Keys, their versions and their tenants in the database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Row,
    Select,
    Table,
    and_,
    bindparam,
    exists,
    insert,
    select,
    type_coerce,
    update,
)
from sqlalchemy.exc import IntegrityError as ConstraintError

from attest.encoding import rfc3339, rfc3339_text
from attest.errors import AttestError
from kms.domain.errors import IntegrityError, KeyConflictError
from kms.domain.keys import DEFAULT_DISCLOSURE, Disclosure, KeyName, KeyPurpose, KeyRecord, KeyReference, Wrapped
from kms.store.keks import KekWriter
from kms.store.schema import key_versions, keys, tenants
from kms.store.timestamps import milliseconds, moment_of

__all__ = ["KeyReader", "KeyWriter", "of_key", "stored_name"]


class KeyReader:
    """What can be read of keys in one transaction."""

    def __init__(self, connection: Connection) -> None:
        """Work on a transaction that the store opened."""
        self._connection = connection

    def newest(self, names: Iterable[KeyName]) -> Mapping[KeyName, KeyRecord]:
        """Return the current version of each of these keys; unknown ones are absent."""
        found = self.asked(KeyReference(name=name) for name in names)
        return {one.name: record for one, record in found.items()}

    def asked(self, references: Iterable[KeyReference]) -> Mapping[KeyReference, KeyRecord]:
        """Return what is asked for: a version, or the current one; what there is none of is absent."""
        found = {one: self._one(one) for one in dict.fromkeys(references)}
        return {one: record for one, record in found.items() if record is not None}

    def _one(self, asked: KeyReference) -> KeyRecord | None:
        if asked.version is None:
            row = self._connection.execute(_CURRENT, stored_name(asked.name)).one_or_none()
        else:
            values = {**stored_name(asked.name), "version": asked.version}
            row = self._connection.execute(_VERSION, values).one_or_none()
        return None if row is None else _record(row)

    def versions_of(self, name: KeyName) -> tuple[KeyRecord, ...]:
        """Return every version of a key, the oldest first; none when it is unknown."""
        rows = self._connection.execute(_KEY_VERSIONS.where(of_key(key_versions, name)))
        return tuple(_record(row) for row in rows)

    def all_keys(self, tenant: str | None = None) -> tuple[KeyRecord, ...]:
        """Return every version of every key of a tenant, or of all, in the order of names and versions."""
        statement = _KEY_VERSIONS if tenant is None else _KEY_VERSIONS.where(keys.c.tenant == tenant)
        return tuple(_record(row) for row in self._connection.execute(statement))

    def tenants(self) -> Mapping[str, datetime]:
        """Return every tenant, and since when there is it."""
        rows = self._connection.execute(select(tenants).order_by(tenants.c.name))
        return {row.name: rfc3339(row.created_at, what="created_at") for row in rows}

    def is_tenant(self, name: str) -> bool:
        """Say whether there is a tenant of this name."""
        return self._connection.execute(select(exists().where(tenants.c.name == name))).scalar_one()


class KeyWriter(KeyReader, KekWriter):
    """What can be written of them."""

    def add_tenant(self, name: str, *, at: datetime) -> None:
        """Keep a tenant that is not there yet.

        Raises:
            KeyConflictError: ``tenant-exists``.
        """
        try:
            self._connection.execute(insert(tenants).values(name=name, created_at=rfc3339_text(at)))
        except ConstraintError as exc:
            raise KeyConflictError(
                f"there is a tenant {name!r} already",
                code="tenant-exists",
                field=name,
                hint="'kms tenant list' shows all of them",
            ) from exc

    def add_key(self, record: KeyRecord) -> None:
        """Keep a key that is not there yet, with its first version.

        Raises:
            KeyConflictError: ``key-exists`` or ``tenant-unknown``.
            UnavailableError: ``kek-changing``.
        """
        if not self.is_tenant(record.name.tenant):
            raise KeyConflictError(
                f"there is no tenant {record.name.tenant!r}",
                code="tenant-unknown",
                field=str(record.name),
                hint=f"'kms tenant create {record.name.tenant}' makes it",
            )
        created = rfc3339_text(record.created_at)
        values = {**stored_name(record.name), "purpose": record.purpose, "enabled": record.enabled}
        try:
            self._connection.execute(insert(keys).values(**values, created_at=created))
        except ConstraintError as exc:
            raise KeyConflictError(
                f"there is a key {str(record.name)!r} already",
                code="key-exists",
                field=str(record.name),
                hint=f"see it with 'kms key show {record.name}', or choose another id",
            ) from exc
        self.add_version(record)

    def add_version(self, record: KeyRecord) -> None:
        """Keep a version of a key that is there; the one that was current was superseded before.

        Raises:
            UnavailableError: ``kek-changing``.
        """
        self.require_wrapping(record.wrapped)
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
        """Mark a version as the current one no longer."""
        self._update(record, overlap_until=milliseconds(overlap_until))

    def set_enabled(self, name: KeyName, *, enabled: bool) -> None:
        """Let a key be released, or stop it, in all its versions."""
        self._connection.execute(update(keys).where(of_key(keys, name)).values(enabled=enabled))

    def set_release(self, name: KeyName, *, disclosure: str, lease_seconds: int | None) -> None:
        """Set how a key is released, in all its versions."""
        values = {"disclosure": str(disclosure), "lease_seconds": lease_seconds}
        self._connection.execute(update(keys).where(of_key(keys, name)).values(**values))

    def set_version_enabled(self, record: KeyRecord, *, enabled: bool) -> None:
        """Let one version be released, or stop it."""
        self._update(record, enabled=enabled)

    def set_destruction(self, record: KeyRecord, *, destroy_at: datetime | None) -> None:
        """Say when a version's material is destroyed, or that it is not."""
        self._update(record, destroy_at=None if destroy_at is None else milliseconds(destroy_at))

    def erase(self, record: KeyRecord) -> None:
        """Overwrite the wrapped material of a version with nothing; its row stays."""
        self._update(record, wrapped=b"")

    def _update(self, record: KeyRecord, **values: object) -> None:
        where = of_key(key_versions, record.name) & (key_versions.c.version == record.version)
        self._connection.execute(update(key_versions).where(where).values(**values))


def of_key(table: Table, name: KeyName) -> ColumnElement[bool]:
    """Return the condition that a row is of this key."""
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
# Of every release, and so made once: making a statement takes longer than the database takes to answer it.
_OF_NAME = _KEY_VERSIONS.where(
    key_versions.c.tenant == bindparam("tenant"), key_versions.c.key_id == bindparam("key_id")
)
_CURRENT = _OF_NAME.where(key_versions.c.overlap_until.is_(None))
_VERSION = _OF_NAME.where(key_versions.c.version == bindparam("version"))
_ENABLED = {1: True, 0: False}
"""Read as a number: the library's boolean would take any text for true."""


def _record(row: Row[tuple[object, ...]]) -> KeyRecord:
    """Read a row; one that was altered into nonsense is an integrity failure and no crash."""
    try:
        return KeyRecord(
            name=KeyName(tenant=row.tenant, key_id=row.key_id),
            version=row.version,
            purpose=KeyPurpose(row.purpose),
            algorithm=row.algorithm,
            policy_digest=_blob(row.policy_digest),
            enabled=_ENABLED[row.enabled],
            version_enabled=_ENABLED[row.version_enabled],
            overlap_until=None if row.overlap_until is None else moment_of(row.overlap_until),
            destroy_at=None if row.destroy_at is None else moment_of(row.destroy_at),
            created_at=rfc3339(row.created_at, what="created_at"),
            wrapped=Wrapped(kek_id=_blob(row.kek_id), content=_blob(row.wrapped)),
            disclosure=DEFAULT_DISCLOSURE if row.disclosure is None else Disclosure(row.disclosure),
            lease_seconds=row.lease_seconds,
        )
    except (ValueError, TypeError, KeyError, OverflowError, AttestError) as exc:
        raise IntegrityError(
            f"the stored record of key {row.key_id!r} cannot be read",
            code="key-record-invalid",
            field=str(row.key_id),
            hint="the database was altered or damaged; restore it from a backup",
        ) from exc


def _blob(value: object) -> bytes:
    if not isinstance(value, bytes):
        msg = "expected bytes in the database"
        raise TypeError(msg)
    return value
