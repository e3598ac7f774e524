"""Public halves of prompt keys in the database, with the log entries that published them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    ForeignKeyConstraint,
    Integer,
    LargeBinary,
    Row,
    String,
    Table,
    and_,
    or_,
    true,
)

from attest.encoding import rfc3339, rfc3339_text
from kms.domain.keys import Disclosure, KeyName, KeyRecord
from kms.store.answers import require_answer
from kms.store.keys import key_versions, keys, of_key, stored_name
from kms.store.repository import Repository, blob, readable, whole_number
from kms.store.schema import APPEND_ONLY, metadata, name_of
from kms.store.state_rows import Values, authenticated, whole_rows

prompt_keys = Table(
    "prompt_keys",
    metadata,
    Column("tenant", name_of(64), primary_key=True),
    Column("key_id", name_of(128), primary_key=True),
    Column("version", Integer, primary_key=True),
    Column("policy_digest", LargeBinary, primary_key=True),
    Column("public_key", LargeBinary, nullable=False),
    Column("published_at", String(40), nullable=False),
    Column("seq", BigInteger, nullable=False),
    ForeignKeyConstraint(
        ["tenant", "key_id", "version"], ["key_versions.tenant", "key_versions.key_id", "key_versions.version"]
    ),
    info=authenticated(more=APPEND_ONLY),
)
"""Public halves of prompt keys by policy, with the log entry that published each; never changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPromptKey:
    """The public half of one version of a prompt key, published for one policy.

    Attributes:
        policy_digest: the policy that guards the private half, 32 bytes.
        public_key: two bytes of KEM id and the raw public key.
        published_at: UTC.
        seq: number of the log entry that published it.
    """

    name: KeyName
    version: int
    algorithm: str
    policy_digest: bytes
    public_key: bytes
    published_at: datetime
    seq: int


class PromptKeyReader(Repository):
    """Public halves in a reading transaction."""

    def current(
        self, *, tenant: str | None = None, key_id: str | None = None, after: KeyName | None = None, limit: int
    ) -> tuple[StoredPromptKey, ...]:
        """Return the prompt keys that clients may use, in the order of names.

        They are current, enabled, kept, not hidden, and published for the policy that guards them now.

        Raises:
            IntegrityError: ``key-record-invalid``.
        """
        wanted = and_(
            keys.c.enabled,
            or_(keys.c.disclosure.is_(None), keys.c.disclosure != str(Disclosure.NONE)),
            key_versions.c.enabled,
            key_versions.c.overlap_until.is_(None),
            key_versions.c.destroy_at.is_(None),
            true() if tenant is None else prompt_keys.c.tenant == tenant,
            true() if key_id is None else prompt_keys.c.key_id == key_id,
            true() if after is None else _behind(after),
        )
        rows = self._connection.execute(_CURRENT.where(wanted).limit(limit)).all()
        found = tuple(map(self._stored, rows))
        for row, one in zip(rows, found, strict=True):
            key, version = self._genuine(keys, row), self._genuine(key_versions, row)
            usable = key["enabled"] and version["enabled"] and key["disclosure"] != str(Disclosure.NONE)
            current = (version["overlap_until"], version["destroy_at"]) == (None, None)
            same = (one.version, one.policy_digest) == (version["version"], version["policy_digest"])
            named = stored_name(one.name).items() <= key.items() & version.items()
            asked_for = tenant in {None, one.name.tenant} and key_id in {None, one.name.key_id}
            require_answer(prompt_keys, holds=bool(usable and current and same and named and asked_for))
        return found

    def public_half(self, record: KeyRecord) -> bytes | None:
        """Return the public half of a version, published for any policy; None if it never was."""
        statement = whole_rows(prompt_keys).where(
            of_key(prompt_keys, record.name), prompt_keys.c.version == record.version
        )
        row = self._connection.execute(statement.order_by(prompt_keys.c.seq).limit(1)).one_or_none()
        found = None if row is None else self._genuine(prompt_keys, row)["public_key"]
        return found if found is None or isinstance(found, bytes) else b""

    def all(self) -> Iterator[StoredPromptKey]:
        """Iterate over all published keys, in the order of the log.

        Raises:
            IntegrityError: ``key-record-invalid``.
        """
        yield from map(self._stored, self._connection.execute(_ALL).all())

    def _stored(self, row: Row[Any]) -> StoredPromptKey:  # Any: rows of two tables
        version = self._genuine(key_versions, row)
        return _stored(self._genuine(prompt_keys, row), algorithm=str(version["algorithm"]))


class PromptKeyRepository(PromptKeyReader):
    """Public halves in a writing transaction."""

    def add(self, record: KeyRecord, *, public_key: bytes, seq: int, at: datetime) -> None:
        """Store a published key."""
        self._add(
            prompt_keys,
            {
                **stored_name(record.name),
                "version": record.version,
                "policy_digest": record.policy_digest,
                "public_key": public_key,
                "published_at": rfc3339_text(at),
                "seq": seq,
            },
        )


_VERSION = and_(
    key_versions.c.tenant == prompt_keys.c.tenant,
    key_versions.c.key_id == prompt_keys.c.key_id,
    key_versions.c.version == prompt_keys.c.version,
)
_KEY = and_(keys.c.tenant == prompt_keys.c.tenant, keys.c.key_id == prompt_keys.c.key_id)
_ALL = (
    whole_rows(prompt_keys, key_versions)
    .select_from(prompt_keys)
    .join(key_versions, _VERSION)
    .order_by(prompt_keys.c.seq)
)
_CURRENT = (
    whole_rows(prompt_keys, key_versions, keys)
    .select_from(prompt_keys)
    .join(key_versions, _VERSION)
    .join(keys, _KEY)
    .where(key_versions.c.policy_digest == prompt_keys.c.policy_digest)
    .order_by(prompt_keys.c.tenant, prompt_keys.c.key_id, prompt_keys.c.seq)
)


def _behind(name: KeyName) -> ColumnElement[bool]:
    tenant, key_id = prompt_keys.c.tenant, prompt_keys.c.key_id
    return or_(tenant > name.tenant, and_(tenant == name.tenant, key_id > name.key_id))


def _stored(row: Values, *, algorithm: str) -> StoredPromptKey:
    key_id = str(row["key_id"])
    problem = f"the stored record of the published key {key_id!r} is malformed"
    with readable(problem, code="key-record-invalid", field=key_id):
        return StoredPromptKey(
            name=KeyName(tenant=str(row["tenant"]), key_id=key_id),
            version=whole_number(row["version"]),
            algorithm=algorithm,
            policy_digest=blob(row["policy_digest"]),
            public_key=blob(row["public_key"]),
            published_at=rfc3339(str(row["published_at"]), what="published_at"),
            seq=whole_number(row["seq"]),
        )
