"""Migration of a database to this version, with the beginning of its authenticated state."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kms.config.settings import Settings
from kms.domain.actors import Actor
from kms.domain.kek import RandomBytes
from kms.operations.fsck import findings
from kms.operations.own_keys import opened_ring
from kms.operations.state import begin
from kms.store import WriteTransaction, migrate_database


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """A migration that was done.

    ``before`` and ``after`` are revisions of the schema; ``differences`` were accepted with a reason, a line each.
    """

    before: str
    after: str
    differences: tuple[str, ...]


def migrate(
    settings: Settings, *, random: RandomBytes, actor: Actor, at: datetime, accepted: str | None = None
) -> Migration:
    """Bring a database to this version's schema, all or nothing. It takes the key-encryption key.

    A database of a version without authenticated state is examined first, and its rows are authenticated as they are.

    Raises:
        ConfigurationError: as ``migrate_database`` and ``open_backend``.
        UnavailableError: another process uses the database, or what holds the key does not answer.
        KmsError: ``store-unsound``: the examination found something, and ``accepted`` gives no reason.
    """
    differences: tuple[str, ...] = ()

    def establish(tx: WriteTransaction) -> None:
        nonlocal differences
        with opened_ring(settings, tx.keks.all(), random=random) as kek:
            found = findings(tx, kek=kek, origin=settings.origin)
            differences = tuple(f"{one.check}: {problem}" for one in found for problem in one.problems)
            begin(
                tx,
                kek,
                origin=settings.origin,
                random=random,
                actor=actor,
                at=at,
                accepted=accepted,
                problems=differences,
            )

    before, after = migrate_database(settings.database, establish=establish, access=settings.database_access)
    return Migration(before=before, after=after, differences=differences)
