"""Migration of a database to this version, including the creation of its authenticated state."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from attest.encoding import JsonValue
from kms.config.settings import Settings
from kms.domain.actors import Actor
from kms.domain.errors import KmsError
from kms.domain.kek import RandomBytes
from kms.domain.keys import own_context
from kms.domain.secret import SecretBytes
from kms.domain.state_root import StateKeys
from kms.operations.fsck import findings
from kms.operations.own_keys import STATE, opened_ring
from kms.operations.state import STATE_BEGUN, STATE_SECRET_BYTES
from kms.store import WriteTransaction, authenticated_tables, migrate_database


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """A completed migration.

    ``before`` and ``after`` are revisions of the schema; ``differences`` were accepted with a reason, a line each.
    """

    before: str
    after: str
    differences: tuple[str, ...]


def migrate(
    settings: Settings,
    *,
    random: RandomBytes,
    actor: Actor,
    at: datetime,
    accepted: str | None = None,
    dry_run: bool = False,
) -> Migration:
    """Migrate a database to the schema of this version, all or nothing. This requires the key-encryption key.

    A database of a version without authenticated state is examined first, and its rows are authenticated as they are.
    A dry run does the same, and keeps nothing of it.

    Raises:
        ConfigurationError: as ``migrate_database`` and ``open_backend``.
        UnavailableError: another process uses the database, or the back-end of the key is unavailable.
        KmsError: ``store-unsound``: the examination found something, and ``accepted`` gives no reason.
    """
    differences: tuple[str, ...] = ()

    def establish(tx: WriteTransaction) -> None:
        """Authenticate the rows as they are. Differences are refused, or with a reason accepted and logged."""
        nonlocal differences
        with opened_ring(settings, tx.keks.all(), random=random) as kek:
            found = findings(tx, kek=kek, origin=settings.origin)
            differences = tuple(f"{one.check}: {problem}" for one in found for problem in one.problems)
            if differences and accepted is None:
                raise _unsound(differences)
            secret = SecretBytes(random(STATE_SECRET_BYTES))
            tx.begin_state(StateKeys(secret))
            tx.begin_log()
            tx.leases.counts.begin(at=at)
            wrapped = kek.wrap(secret, context=own_context(settings.origin, *STATE))
        entries: dict[str, JsonValue] = {table.name: tx.tables.authenticate(table) for table in authenticated_tables()}
        name, algorithm = STATE
        tx.own_secrets.add(name, algorithm=algorithm, wrapped=wrapped, at=at)
        body: dict[str, JsonValue] = {"actor": actor.members(), "entries": entries, "differences": [*differences]}
        tx.log.add(kind=STATE_BEGUN, at=at, body=body | ({} if accepted is None else {"accepted": accepted}))

    before, after = migrate_database(
        settings.database, establish=establish, access=settings.database_access, dry_run=dry_run
    )
    return Migration(before=before, after=after, differences=differences)


def _unsound(differences: tuple[str, ...]) -> KmsError:
    return KmsError(
        f"the database differs from its log: {differences[0]}",
        code="store-unsound",
        got=f"{len(differences)} differences",
        hint="'kms fsck' of the older version lists all; repair them, or give a reason with --accept-differences",
    )
