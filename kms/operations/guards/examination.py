"""Examination of the rollback guards, for ``kms guard show``, ``kms config check`` and ``kms fsck``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from attest.clock import Clock
from attest.errors import AttestError
from kms.config.settings import Settings
from kms.domain.errors import UnavailableError
from kms.domain.rollback import RollbackGuard, read_guards
from kms.log.publisher import Identity
from kms.operations.guards.file import FileGuard, is_on_same_device
from kms.operations.guards.opening import open_local_guards, open_remote_guards
from kms.operations.guards.watch import require_current
from kms.store import Store, locate


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardFinding:
    """Result for a guard.

    ``problem`` is the reason why the database is refused, or None.
    """

    guard: str
    remembers: str | None
    problem: str | None


def examine_guards(
    settings: Settings, store: Store, identity: Callable[[], Identity], *, clock: Clock
) -> Iterator[GuardFinding]:
    """Compare the database with every guard, including those on other machines, for which ``identity`` is called.

    Raises:
        ConfigurationError: as ``open_local_guards`` and ``open_remote_guards``.
        UnavailableError: the database is in use, or away.
    """
    guards = (*open_local_guards(settings), *open_remote_guards(settings, store, identity, clock=clock))
    return _findings(guards, store)


def _findings(guards: Iterable[RollbackGuard], store: Store) -> Iterator[GuardFinding]:
    for guard in guards:
        remembers = None
        try:
            kept = read_guards([guard])
            remembers = kept[0].position.text
            require_current(store, kept)
        except UnavailableError:
            raise
        except AttestError as exc:
            yield GuardFinding(guard=guard.name, remembers=remembers, problem=f"{exc.message} [{exc.code}]")
        else:
            yield GuardFinding(guard=guard.name, remembers=remembers, problem=None)


def guards_beside_database(settings: Settings) -> tuple[str, ...]:
    """Return the guards in files on the disk of an SQLite database, whose snapshots would contain both.

    Raises:
        ConfigurationError: as ``open_local_guards``.
    """
    database = locate(settings.database)
    if not isinstance(database, Path):
        return ()
    files = (one for one in open_local_guards(settings) if isinstance(one, FileGuard))
    return tuple(one.name for one in files if is_on_same_device(one.path, database))
