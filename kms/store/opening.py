"""Making, migrating and opening a database; a service never works with a schema that it does not know."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Connection, text

from attest.errors import ConfigurationError
from kms.store.database import Store, Writer, not_initialised, translated
from kms.store.schema import REVISIONS
from kms.store.sqlite import WRITING, create_file, open_engine, sqlite_path

__all__ = ["create_database", "migrate_database", "open_store"]


def create_database(database: str, *, fill: Callable[[Writer], None]) -> None:
    """Make a database with the newest schema and its first rows, all or nothing.

    Args:
        database: a file that is not there yet.
        fill: writes the first rows, in the same transaction.

    Raises:
        ConfigurationError: ``database-exists``, ``database-unusable`` or ``database-unsupported``.
    """
    path = sqlite_path(database)
    create_file(path)
    engine = open_engine(path)
    try:
        with translated(), engine.connect().execution_options(**{WRITING: True}) as connection, connection.begin():
            _upgrade(connection)
            fill(Writer(connection))
    except BaseException:
        engine.dispose()
        _remove(path)
        raise
    engine.dispose()


def migrate_database(database: str) -> tuple[str, str]:
    """Bring a database to the newest schema; the whole migration is one transaction.

    Returns:
        The revisions before and after.

    Raises:
        ConfigurationError: as ``open_store``, save that an old schema is what this is for.
        UnavailableError: ``store-busy``, something else writes to it.
    """
    engine = open_engine(sqlite_path(database))
    try:
        with translated(), engine.connect().execution_options(**{WRITING: True}) as connection, connection.begin():
            before = _revision(connection)
            _require_known(before)
            _upgrade(connection)
            return before, REVISIONS[-1]
    finally:
        engine.dispose()


def open_store(database: str) -> Store:
    """Open a database of exactly the schema that this version works with.

    Raises:
        ConfigurationError: ``database-missing``, ``database-unusable``, ``database-exposed``, ``database-unsupported``,
            ``database-not-initialised``, ``database-newer`` or ``database-needs-migration``.
        UnavailableError: ``store-busy``.
    """
    engine = open_engine(sqlite_path(database))
    try:
        with translated(), engine.connect() as connection:
            revision = _revision(connection)
        _require_known(revision)
        _require_newest(revision)
    except BaseException:
        engine.dispose()
        raise
    return Store(engine)


def _revision(connection: Connection) -> str:
    """Read the one row of Alembic's table; its absence means that this is no database of ours."""
    rows = connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all()
    if len(rows) != 1:
        raise not_initialised()
    return str(rows[0])


def _require_known(revision: str) -> None:
    if revision not in REVISIONS:
        raise ConfigurationError(
            f"the database has schema {revision!r}, which a newer version made",
            code="database-newer",
            field="database",
            expected=f"{REVISIONS[0]} to {REVISIONS[-1]}",
            got=revision,
            hint="run the newer version; there is no way back for a migrated database but its backup",
        )


def _require_newest(revision: str) -> None:
    if revision != REVISIONS[-1]:
        raise ConfigurationError(
            f"the database has schema {revision}, and this version works with {REVISIONS[-1]}",
            code="database-needs-migration",
            field="database",
            expected=REVISIONS[-1],
            got=revision,
            hint="stop the service, back the database up, then run 'kms migrate'",
        )


def _upgrade(connection: Connection) -> None:
    from alembic import command  # noqa: PLC0415  'kms serve' never migrates and starts faster without it
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", "kms.store:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _remove(path: Path) -> None:
    """Take away what was made a moment ago, so that the next try finds nothing in its way."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
