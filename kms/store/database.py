"""Transactions on the database. Whoever writes holds the one write lock from the first statement on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TypeVar

from sqlalchemy import (
    Connection,
    Engine,
    Select,
    Table,
    bindparam,
    delete,
    exists,
    insert,
    select,
)
from sqlalchemy.exc import IntegrityError as ConstraintError

from attest.encoding import JsonValue, rfc3339_text
from kms.domain.errors import ChallengeUsedError, UnavailableError
from kms.domain.keys import Wrapped
from kms.domain.log_entries import LogEntry, LogHead, make_entry
from kms.store import postgres
from kms.store.break_glass import GlassReader, GlassWriter
from kms.store.failures import UNREACHABLE, busy, translated, unknown_outcome
from kms.store.freezes import FreezeReader, FreezeWriter
from kms.store.grants import GrantReader, GrantWriter
from kms.store.group_commit import Batching
from kms.store.keks import KekReader, KekWriter
from kms.store.key_policies import KeyPolicyWriter
from kms.store.keys import KeyReader, KeyWriter
from kms.store.leases import LeaseReader, LeaseWriter
from kms.store.lifecycles import LifecycleReader, LifecycleWriter
from kms.store.limits import LimitReader, LimitWriter
from kms.store.log import LogReader, LogWriter
from kms.store.prompt_keys import PromptKeyReader, PromptKeyWriter
from kms.store.quorum import QuorumReader, QuorumWriter
from kms.store.references import ReferenceReader, ReferenceWriter
from kms.store.schema import meta, metadata, policies, secrets, used_nonces
from kms.store.timeouts import BUSY_MILLISECONDS, WRITING
from kms.store.timestamps import milliseconds
from kms.telemetry import stage

__all__ = ["CLOCK_TOLERANCE_SECONDS", "Reader", "Store", "Writer"]

CLOCK_TOLERANCE_SECONDS = 60
"""How far behind the newest log entry a moment may lie: requests overlap. A used challenge is remembered for as long
after its end, so a clock that goes back by less revives none, and one that goes back by more is refused."""
T = TypeVar("T")
_PAGE_ROWS = 500


class Store:
    """One database.

    Args:
        engine: an open engine.
        check: refuses a schema that this version does not work with; asked once of each connection.
    """

    def __init__(self, engine: Engine, *, check: Callable[[Connection], None]) -> None:
        """Keep the engine, a lock that makes this process's writers wait in line, and what lets them go together."""
        self._engine = engine
        self._check = check
        self._writers = threading.Lock()
        self._batching = Batching(self.writing)

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        """Open a transaction that sees one state of the database.

        Raises:
            UnavailableError: ``store-busy``, ``store-unreachable`` or ``store-failed``.
            ConfigurationError: the schema is another one now.
        """
        with stage("read"), translated(), self._engine.connect() as connection, connection.begin():
            self._require_schema(connection)
            yield Reader(connection)

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """Open the one writing transaction. It is on the disk when the block has been left, or nothing of it is.

        Raises:
            UnavailableError: ``store-busy``, ``store-unreachable`` or ``store-failed``, and nothing was written; or
                ``store-outcome-unknown``: a PostgreSQL server went away during the commit.
            ConfigurationError: the schema is another one now.
        """
        with stage("write"), self._written() as writer:
            yield writer

    @contextmanager
    def _written(self) -> Iterator[Writer]:
        if not self._writers.acquire(timeout=BUSY_MILLISECONDS / 1000):
            raise busy()
        committing = False
        try:
            with translated(), self._engine.connect() as plain:
                connection = plain.execution_options(**{WRITING: True})
                with connection.begin():
                    self._require_schema(connection)
                    yield Writer(connection)
                    committing = True
        except UnavailableError as exc:
            if committing and exc.code == UNREACHABLE:
                raise unknown_outcome() from exc
            raise
        finally:
            self._writers.release()

    def write(self, work: Callable[[Writer], T]) -> T:
        """Do a piece of work in a writing transaction that others may share; it is on the disk when this returns.

        Raises:
            UnavailableError: as ``writing``, and nothing of the work was written, or that is not known.
            ConfigurationError: the schema is another one now.
            Exception: what the work raises; nothing that it wrote stays.
        """
        return self._batching.run(work)

    @property
    def waiting(self) -> int:
        """Number of pieces of work that ``write`` was given and no transaction has taken yet."""
        return self._batching.waiting

    def _require_schema(self, connection: Connection) -> None:
        """Look at the schema when a connection is new: the database may have been migrated since the last one."""
        if _CHECKED not in connection.info:
            self._check(connection)
            connection.info[_CHECKED] = True

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()


class Reader(
    LogReader,
    KeyReader,
    LifecycleReader,
    ReferenceReader,
    GrantReader,
    FreezeReader,
    LeaseReader,
    KekReader,
    QuorumReader,
    LimitReader,
    GlassReader,
    PromptKeyReader,
):
    """What can be read in one transaction."""

    def fact(self, name: str) -> bytes | None:
        """Return a row of ``meta``."""
        return self._scalar(select(meta.c.value).where(meta.c.name == name))

    def own_secret(self, name: str) -> tuple[str, Wrapped] | None:
        """Return algorithm and wrapped form of one of the service's own keys."""
        row = self._connection.execute(
            select(secrets.c.algorithm, secrets.c.wrapped, secrets.c.kek_id).where(secrets.c.name == name)
        ).one_or_none()
        if row is None:
            return None
        content = row.wrapped if isinstance(row.wrapped, bytes) else b""
        return row.algorithm, Wrapped(kek_id=bytes(row.kek_id), content=content)

    def policy_document(self, digest: bytes) -> bytes | None:
        """Return the policy of this digest as its author wrote it."""
        return self._scalar(_POLICY, {"digest": digest})

    def policy_title(self, digest: bytes) -> tuple[str, int] | None:
        """Return the name and the version of the policy of this digest, as its author calls it."""
        columns = (policies.c.name, policies.c.version)
        row = self._connection.execute(select(*columns).where(policies.c.digest == digest)).one_or_none()
        return None if row is None else (row.name, row.version)

    def require_unused(self, digest: bytes) -> None:
        """Refuse the nonce of this digest when it was used before.

        Raises:
            ChallengeUsedError: ``challenge-used``.
        """
        if self._connection.execute(_IS_USED, {"digest": digest}).scalar_one():
            raise _used()

    def own_names(self) -> tuple[str, ...]:
        """Return the names of the service's own keys."""
        return tuple(self._connection.execute(select(secrets.c.name).order_by(secrets.c.name)).scalars())

    def policy_digests(self) -> tuple[bytes, ...]:
        """Return the digests of all policies."""
        found = self._connection.execute(select(policies.c.digest).order_by(policies.c.digest)).scalars()
        return tuple(_blob(digest) for digest in found)

    def examined(self, question: Callable[[Connection], T]) -> T:
        """Ask one of the questions of ``kms.store.audit_queries``."""
        return question(self._connection)

    def rows_of(self, table: Table) -> Generator[Mapping[str, object], None, None]:
        """Iterate over every row of a table in the order of its primary key; who stops early closes it."""
        statement = select(table).order_by(*table.primary_key.columns).execution_options(yield_per=_PAGE_ROWS)
        with self._connection.execute(statement) as rows:
            for row in rows.mappings():
                yield {column.name: row[column] for column in table.columns}

    def _scalar(self, statement: Select[bytes], values: Mapping[str, object] | None = None) -> bytes | None:
        """Return bytes, or None where there is no row; bytes that somebody made text are none of ours."""
        value = self._connection.execute(statement, values).scalar_one_or_none()
        return value if value is None or isinstance(value, bytes) else b""


class Writer(
    Reader,
    LogWriter,
    KeyWriter,
    LifecycleWriter,
    ReferenceWriter,
    GrantWriter,
    FreezeWriter,
    LeaseWriter,
    KekWriter,
    QuorumWriter,
    LimitWriter,
    PromptKeyWriter,
    KeyPolicyWriter,
    GlassWriter,
):
    """What can be written in one transaction, all or nothing."""

    @contextmanager
    def part(self) -> Iterator[None]:
        """Make a block that takes back what was written in it when it is left by an exception."""
        try:
            with self._connection.begin_nested():
                yield
        except BaseException:
            self.forget()
            raise

    def set_fact(self, name: str, value: bytes) -> None:
        """Write a row of ``meta`` that is not there yet."""
        self._connection.execute(insert(meta).values(name=name, value=value))

    def put_fact(self, name: str, value: bytes) -> None:
        """Write a row of ``meta``, in place of the one that may be there."""
        self._connection.execute(delete(meta).where(meta.c.name == name))
        self.set_fact(name, value)

    def add_own_secret(self, name: str, *, algorithm: str, wrapped: Wrapped, at: datetime) -> None:
        """Keep one of the service's own keys.

        Raises:
            UnavailableError: ``kek-changing``.
        """
        self.require_wrapping(wrapped)
        values = {"name": name, "algorithm": algorithm, "wrapped": wrapped.content, "kek_id": wrapped.kek_id}
        self._connection.execute(insert(secrets).values(created_at=rfc3339_text(at), **values))

    def add_policy(self, *, digest: bytes, name: str, version: int, document: bytes, at: datetime) -> None:
        """Keep a policy; one that is there already stays as it is."""
        if self.policy_document(digest) is not None:
            return
        values = {"digest": digest, "name": name, "version": version, "document": document}
        self._connection.execute(insert(policies).values(added_at=rfc3339_text(at), **values))

    def add_rows(self, table: Table, rows: Sequence[Mapping[str, object]]) -> None:
        """Write rows as they were elsewhere, numbers included; ``settle_numbers`` follows the last of them."""
        self._connection.execute(insert(table), [dict(row) for row in rows])

    def settle_numbers(self) -> None:
        """Let what the database numbers go on behind the numbers that are taken."""
        if self._connection.dialect.name == "postgresql":
            postgres.settle_numbers(self._connection, metadata.sorted_tables)

    def require_time(self, at: datetime) -> LogHead:
        """Return the head of the log, and refuse a moment that lies before it by more than the tolerance (MC-35).

        Raises:
            UnavailableError: ``clock-went-back``.
        """
        head = self.head()
        if head.time is not None and at < head.time - timedelta(seconds=CLOCK_TOLERANCE_SECONDS):
            raise UnavailableError(
                f"the clock says {rfc3339_text(at)}, and the log was written at {rfc3339_text(head.time)}",
                code="clock-went-back",
                expected=f"at most {CLOCK_TOLERANCE_SECONDS} s before the newest log entry",
                got=rfc3339_text(at),
                hint="correct the machine's clock",
                retryable=True,
            )
        return head

    def use_nonce(self, digest: bytes, *, expires_at: datetime, at: datetime) -> None:
        """Use a nonce up, and forget those whose challenge has long ended.

        Raises:
            ChallengeUsedError: ``challenge-used``.
        """
        forget = at - timedelta(seconds=CLOCK_TOLERANCE_SECONDS)
        self._connection.execute(_FORGET_USED, {"moment": milliseconds(forget)})
        try:
            self._connection.execute(_USE, {"digest": digest, "expires_at": milliseconds(expires_at)})
        except ConstraintError as exc:
            raise _used() from exc

    def prepare(self, *, kind: str, at: datetime, body: Mapping[str, JsonValue]) -> LogEntry:
        """Make the next entry of the log; it is written by ``append``.

        Raises:
            UnavailableError: ``clock-went-back``.
        """
        return make_entry(self.require_time(at), kind=kind, at=at, body=body)


_CHECKED = "kms_schema_checked"
# Statements of every release are made once: making one takes longer than the database takes to answer it.
_POLICY = select(policies.c.document).where(policies.c.digest == bindparam("digest"))
_IS_USED = select(exists().where(used_nonces.c.digest == bindparam("digest")))
_FORGET_USED = delete(used_nonces).where(used_nonces.c.expires_at < bindparam("moment"))
_USE = insert(used_nonces)


def _used() -> ChallengeUsedError:
    return ChallengeUsedError(
        "this challenge was used before",
        code="challenge-used",
        hint="each attempt takes a challenge of its own, and evidence collected under it",
    )


def _blob(value: object) -> bytes:
    if not isinstance(value, bytes):
        msg = "expected bytes in the database"
        raise TypeError(msg)
    return value
