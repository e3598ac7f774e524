"""PostgreSQL: connections, the start of transactions, protection of rows.

Writers hold one advisory lock from the start of their transaction to its end. Every entry of the log has the next
number and completes parts of one tree, so each writer must follow the newest entry. Serialisable transactions would
detect a conflict only at their end and need many retries under load; with the lock each waits for its turn and succeeds
at once. Statements after the lock run at READ COMMITTED, so that each sees the commit of the previous writer. If a
program writes without the lock, the primary keys of log entries, hashes of the tree and used challenges still let only
one of two writers succeed. Readers see one state throughout: REPEATABLE READ, READ ONLY.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, Table, create_engine, event, func, inspect, literal, select, text
from sqlalchemy.engine import URL, Dialect
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import ConnectionPoolEntry

from attest.errors import ConfigurationError
from kms.domain.errors import UnavailableError
from kms.store.location import Access
from kms.store.timeouts import BUSY_MILLISECONDS, WRITING

WRITE_LOCK: Final = 0x6B6D_7301
"""Advisory locks apply within one database; the numbers are ``kms`` in ASCII and one byte."""
SERVING_LOCK: Final = 0x6B6D_7302
IDLE_MILLISECONDS: Final = 15_000
"""The server disconnects an idle writer after this, so that a lost replica does not block the others."""
CONNECT_SECONDS: Final = 5
_CONNECT_ARGUMENTS: Final = {"client_encoding": "utf8", "connect_timeout": CONNECT_SECONDS}
"""Unless the URL has others. A database in the C locale has no encoding, and would answer with bytes."""
MAX_PASSWORD_BYTES: Final = 1024
_BUSY_STATES = frozenset({"55P03", "40001", "40P01", "53300"})
"""Lock not available, serialisation failure, deadlock, too many connections: nothing was done; try again."""
_DAMAGED_STATES = frozenset({"XX001", "XX002"})
_GONE_STATES = frozenset({"57P01", "57P02", "57P03", "25P03", "25P04"})
"""Shut down, crashed, still starting, cut off by a timeout."""
_LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})


def open_engine(url: URL, access: Access) -> Engine:
    """Create a pool of connections, without opening one.

    Raises:
        ConfigurationError: ``database-driver-missing``, or ``database-password-exposed``: PGPASSWORD is set.
    """
    _require_no_password()
    try:
        engine = create_engine(
            _guarded(url),
            isolation_level="READ COMMITTED",
            connect_args={name: value for name, value in _CONNECT_ARGUMENTS.items() if name not in url.query},
            hide_parameters=True,
            pool_size=access.connections,
            max_overflow=0,
            pool_timeout=BUSY_MILLISECONDS / 1000,
            pool_pre_ping=True,  # detects a restarted server before a request fails
        )
    except ImportError as exc:
        raise ConfigurationError(
            "PostgreSQL requires a driver that is not installed",
            code="database-driver-missing",
            field="database",
            expected="psycopg",
            hint="pip install 'attest-kms[postgres]'",
        ) from exc
    if access.password_file is not None:
        event.listen(engine, "do_connect", partial(_give_password, access.password_file))
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return engine


def _require_no_password() -> None:
    if os.environ.get("PGPASSWORD") is not None:
        raise ConfigurationError(
            "PGPASSWORD is set, but secrets in the environment are not accepted",
            code="database-password-exposed",
            field="database_password_file",
            hint="unset it; use database_password_file or libpq's password file",
        )


def _guarded(url: URL) -> URL:
    """Require a verified server name, unless the server is local or the URL sets ``sslmode``."""
    host = url.host or str(url.query.get("host", ""))
    if host in _LOCAL_HOSTS or host.startswith("/") or "sslmode" in url.query:
        return url
    return url.update_query_dict({"sslmode": "verify-full"})


def _give_password(
    path: Path,
    dialect: Dialect,
    record: ConnectionPoolEntry,
    arguments: list[Any],  # Any: the library's own
    parameters: dict[str, Any],  # Any: as above
) -> None:
    """Read the password again for each connection: it may have changed, and is not kept in memory."""
    del dialect, record, arguments
    parameters["password"] = _read_password(path)


def _read_password(path: Path) -> str:
    """Check the open file, not its name, which could now be another file. Errors never contain its content."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as exc:
        raise _unusable(f"cannot read it: {exc.strerror or exc}", path) from exc
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _unusable("it is not a regular file", path)
        if status.st_mode & 0o077 or status.st_uid != os.geteuid():
            raise _unusable("other users own or can read it", path, "database-password-exposed")
        content = os.read(descriptor, MAX_PASSWORD_BYTES + 1)
    finally:
        os.close(descriptor)
    line = content.removesuffix(b"\n")
    if not line or len(content) > MAX_PASSWORD_BYTES or b"\n" in line or b"\0" in line or not line.isascii():
        raise _unusable(f"expected one line of 1 to {MAX_PASSWORD_BYTES - 1} ASCII characters", path)
    return line.decode("ascii")


def _unusable(problem: str, path: Path, code: str = "database-password-unusable") -> ConfigurationError:
    return ConfigurationError(
        f"the password file {path}: {problem}",
        code=code,
        field="database_password_file",
        got=problem,
        hint="it must contain only the password, and be owned by the user that runs the service, with mode 0600",
    )


def _prepare(connection: DBAPIConnection, record: object) -> None:
    """Set durable commits and bounded waits, and take the lock that shows a migration that a service is connected."""
    del record
    cursor = connection.cursor()
    cursor.execute(f"SELECT set_config('lock_timeout', '{BUSY_MILLISECONDS}', false)")
    cursor.execute(
        "SELECT set_config('synchronous_commit', 'on', false) "
        "WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')"
    )
    cursor.execute(f"SELECT pg_advisory_lock_shared({SERVING_LOCK})")
    cursor.close()
    connection.commit()


_TAKE_WRITE_LOCK = text(
    f"SELECT set_config('idle_in_transaction_session_timeout', '{IDLE_MILLISECONDS}', true), "
    f"pg_advisory_xact_lock({WRITE_LOCK})"
)


def _begin(connection: Connection) -> None:
    if connection.get_execution_options().get(WRITING, False):
        connection.execute(_TAKE_WRITE_LOCK)
    else:
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


def require_empty(connection: Connection) -> None:
    """Refuse a database with tables.

    Raises:
        ConfigurationError: ``database-exists``.
    """
    found = sorted(inspect(connection).get_table_names())
    if found:
        raise ConfigurationError(
            f"the database already has tables ({found[0]!r}), and existing data is never overwritten",
            code="database-exists",
            field="database",
            expected="an empty database",
            got=f"{len(found)} tables",
            hint="create an empty one with 'createdb', or use this one with 'kms serve'",
        )


def require_none_serving(connection: Connection) -> None:
    """Exclude every service for the rest of the transaction.

    Raises:
        UnavailableError: ``store-busy``: one is connected.
    """
    try:
        # With a wait, since the server notices the end of a service only after a moment.
        connection.execute(text(f"SELECT pg_advisory_xact_lock({SERVING_LOCK})"))
    except DBAPIError as exc:
        if not is_busy(exc):
            raise
        raise UnavailableError(
            "another program is connected to the database",
            code="store-busy",
            hint="first stop every replica and every other 'kms' command",
            retryable=True,
        ) from exc


def settle_numbers(connection: Connection, tables: Iterable[Table]) -> None:
    """Move the sequences of numbered tables behind their highest number."""
    for table in tables:
        column = table.autoincrement_column
        if column is not None:
            sequence = func.pg_get_serial_sequence(table.name, column.name)
            connection.execute(select(func.setval(sequence, func.coalesce(func.max(column), 0) + 1, literal(False))))  # noqa: FBT003


def _state(exc: DBAPIError) -> str | None:
    state = getattr(exc.orig, "sqlstate", None)
    return state if isinstance(state, str) else None


def is_busy(exc: DBAPIError) -> bool:
    """Return True if another program held a lock, or all connections, for too long."""
    return _state(exc) in _BUSY_STATES


def is_foreign(exc: DBAPIError) -> bool:
    """Return True if the table is missing that every database of the service has."""
    return _state(exc) == "42P01" and "alembic_version" in str(exc.orig)


def is_unreachable(exc: DBAPIError) -> bool:
    """Return True if there is no server, or the connection to it was lost."""
    state = _state(exc)
    lost = exc.connection_invalidated or state in _GONE_STATES or (state or "").startswith("08")
    no_answer = state is None and hasattr(exc.orig, "sqlstate") and type(exc.orig).__name__ == "OperationalError"
    return lost or no_answer


def damage(exc: DBAPIError) -> str | None:
    """Return the damage of the data that an error reports; None for other errors."""
    return reason(exc) if _state(exc) in _DAMAGED_STATES else None


def reason(exc: DBAPIError) -> str | None:
    """Return the server's message without its detail, which quotes values; None for another database."""
    diagnostics = getattr(exc.orig, "diag", None)
    return None if diagnostics is None else str(diagnostics.message_primary or "without a reason")


def append_only(table: str) -> tuple[str, ...]:
    """Return the statements that make a table refuse every UPDATE, DELETE and TRUNCATE."""
    refuse = (
        "CREATE OR REPLACE FUNCTION kms_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
    )
    trigger = (
        f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION kms_append_only()"
    )
    return refuse, trigger


def trigger_names(table: str) -> tuple[str, ...]:
    """Return the name of the trigger that ``append_only`` makes."""
    return (f"{table}_append_only",)


def triggers(connection: Connection) -> frozenset[str]:
    """Return the names of the enabled triggers."""
    statement = "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled IN ('O', 'A')"
    return frozenset(connection.exec_driver_sql(statement).scalars())


def storage_problems(connection: Connection) -> tuple[str, ...]:
    """Return nothing: the server's own tools (``pg_amcheck``) check its pages, which needs more rights."""
    del connection
    return ()


def weak_durability(connection: Connection) -> str | None:
    """Return the settings of the server that keep a commit from reaching the disk, or None."""
    names = ("fsync", "full_page_writes", "synchronous_commit")
    off = [name for name in names if connection.exec_driver_sql(f"SHOW {name}").scalar_one() == "off"]
    return f"the server runs with {' and '.join(off)} off: answered changes may be lost" if off else None
