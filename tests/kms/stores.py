"""Databases without a service: their state is authenticated with keys of the tests."""

from collections.abc import Mapping

from kms.domain.secret import SecretBytes
from kms.domain.state_root import StateKeys
from kms.operations.fsck import FsckFinding, findings
from kms.store import Access, Store, WriteTransaction, authenticated_tables, create_database, open_store
from kms.store.schema import metadata, protected
from kms.store.state_rows import row_of, whole_rows
from tests.kms.support import Harness

KEYS = StateKeys(SecretBytes(bytes(range(32))))


def make_store(database: str, *, access: Access | None = None) -> str:
    """Make an empty database; return its name."""
    create_database(database, fill=lambda tx: tx.begin_state(KEYS), access=access or Access())
    return database


def opened_store(database: str, *, access: Access | None = None) -> Store:
    """Open such a database."""
    store = open_store(database, access=access or Access())
    store.authenticate(KEYS)
    return store


def establish(tx: WriteTransaction) -> None:
    """Authenticate whatever a migrated database holds."""
    tx.begin_state(KEYS)
    tx.begin_log()
    for table in authenticated_tables():
        tx.tables.authenticate(table)


def write_genuine(harness: Harness, name: str, where: Mapping[str, object] | None = None, **changes: object) -> None:
    """Change rows as the service itself would, so that their readers alone can refuse them."""
    table = metadata.tables[name]
    if name in protected():
        harness.unprotect(name)
    with harness.services.store.writing() as tx:
        rows = [row_of(table, row) for row in tx.connection.execute(whole_rows(table)).all()]
        for row in rows:
            if (where or {}).items() <= row.items():
                tx.tables._replace(table, row, **changes)


def examined_unauthenticated(harness: Harness) -> dict[str, FsckFinding]:
    """Examine a database as one of a version without authenticated state."""
    with harness.services.store.opening() as tx:
        return {one.check: one for one in findings(tx, kek=harness.services.kek, origin=harness.settings.origin)}
