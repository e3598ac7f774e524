"""Creation, migration and opening of a database; a service works only with the schema of its version."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, text
from sqlalchemy.engine import URL

from attest.errors import ConfigurationError
from kms.store import postgres, sqlite
from kms.store.database import Store
from kms.store.failures import not_initialised, translated
from kms.store.location import Access, locate
from kms.store.schema import REVISIONS
from kms.store.state import State
from kms.store.timeouts import WRITING
from kms.store.transactions import WriteTransaction

_DEFAULT = Access()


def create_database(database: str, *, fill: Callable[[WriteTransaction], None], access: Access = _DEFAULT) -> None:
    """Create a database with the newest schema and the first rows, which ``fill`` writes; all or nothing.

    ``fill`` opens the state with its keys, which then authenticate it.

    It is a new file, or an empty PostgreSQL database.

    Raises:
        ConfigurationError: ``database-exists``, ``database-unusable``, or as ``locate``.
        UnavailableError: the server is unavailable.
    """
    place = locate(database)
    with ExitStack() as stack:
        if isinstance(place, Path):
            place = stack.enter_context(sqlite.new_file(place))
        with _writing(place, access) as connection:
            if isinstance(place, URL):
                postgres.require_empty(connection)
                postgres.require_none_serving(connection)  # of an earlier database of this name
            upgrade(connection)
            tx = WriteTransaction(connection, State(connection, None))
            fill(tx)
            tx.settle()


def migrate_database(
    database: str,
    *,
    establish: Callable[[WriteTransaction], None],
    access: Access = _DEFAULT,
    dry_run: bool = False,
) -> tuple[str, str]:
    """Migrate a database to the newest schema in one transaction; return the revisions before and after.

    ``establish`` makes the authenticated state of a database that has none. A dry run does the same, and rolls back.

    Raises:
        ConfigurationError: as ``open_store``, except for an old schema.
        UnavailableError: ``store-busy``, another process writes to it, or is connected to a PostgreSQL database.
    """
    place = locate(database)
    with _writing(place, access) as connection:
        if isinstance(place, URL):
            postgres.require_none_serving(connection)
        before = _revision(connection)
        _require_known(before)
        upgrade(connection)
        tx = WriteTransaction(connection, State(connection, None))
        if not tx.state.exists():
            establish(tx)
            tx.settle()
        if dry_run:
            connection.rollback()
        return before, REVISIONS[-1]


def open_store(database: str, *, access: Access = _DEFAULT) -> Store:
    """Open a database of exactly the schema that this version works with.

    Raises:
        ConfigurationError: ``database-missing``, ``database-unusable``, ``database-exposed``, as ``locate``,
            ``database-not-initialised``, ``database-newer`` or ``database-needs-migration``.
        UnavailableError: ``store-busy``, or ``store-unreachable``.
    """
    store = Store(_engine(locate(database), access), check=_require_current)
    try:
        with store.opening():
            pass
    except BaseException:
        store.close()
        raise
    return store


def _engine(place: Path | URL, access: Access) -> Engine:
    return sqlite.open_engine(place) if isinstance(place, Path) else postgres.open_engine(place, access)


@contextmanager
def _writing(place: Path | URL, access: Access) -> Iterator[Connection]:
    """Open the writing transaction of a database without a check of its schema."""
    engine = _engine(place, access)
    try:
        with translated(), engine.connect().execution_options(**{WRITING: True}) as connection, connection.begin():
            yield connection
    finally:
        engine.dispose()


def _require_current(connection: Connection) -> None:
    revision = _revision(connection)
    _require_known(revision)
    if revision != REVISIONS[-1]:
        raise ConfigurationError(
            f"the database has schema {revision}, but this version requires {REVISIONS[-1]}",
            code="database-needs-migration",
            field="database",
            expected=REVISIONS[-1],
            got=revision,
            hint="stop every service, back up the database, then run 'kms migrate'",
        )


def _revision(connection: Connection) -> str:
    """Read the only row of Alembic's table; without it, this is not a database of the service."""
    rows = connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all()
    if len(rows) != 1:
        raise not_initialised()
    return str(rows[0])


def _require_known(revision: str) -> None:
    if revision not in REVISIONS:
        raise ConfigurationError(
            f"the database has schema {revision!r} of a newer version",
            code="database-newer",
            field="database",
            expected=f"{REVISIONS[0]} to {REVISIONS[-1]}",
            got=revision,
            hint="run the newer version, or restore a backup from before the migration",
        )


def upgrade(connection: Connection) -> None:
    """Run the migrations that a database lacks, in the transaction of this connection."""
    from alembic import command  # noqa: PLC0415  'kms serve' never migrates and starts faster without it
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", "kms.store:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
