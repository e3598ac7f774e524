"""The rollback guards of the settings, opened."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

from attest.clock import Clock
from attest.errors import ConfigurationError
from kms.config.external_files import read_panel
from kms.config.guards import GuardKind, GuardPlace, parse_guard
from kms.config.settings import Settings
from kms.domain.rollback import RollbackGuard
from kms.log.publisher import Identity, LogPublisher
from kms.log.witness_client import ASK_SECONDS, Witness, poster
from kms.operations.guards.file import FileGuard
from kms.operations.guards.remote import ReplicaGuard, WitnessGuard
from kms.operations.guards.tpm import TpmGuard
from kms.store import Store, locate
from kms.store.timestamps import milliseconds, moment_of

DEFAULT_FOLDER: Final = "guard"
_LOCAL: Final = frozenset({GuardKind.FILE, GuardKind.TPM})


def guard_places(settings: Settings) -> tuple[GuardPlace, ...]:
    """Return the guards of the settings, or the default one; none under ``allow_no_rollback_guard``.

    The default is a file in the folder ``guard`` next to an SQLite database, or for PostgreSQL next to the file of the
    key-encryption key.

    Raises:
        ConfigurationError: ``rollback-guard-unnamed``: there is no default.
    """
    if settings.allow_no_rollback_guard:
        return ()
    if settings.rollback_guard:
        return tuple(parse_guard(one) for one in settings.rollback_guard)
    beside = _default_file(settings)
    if beside is None:
        raise ConfigurationError(
            "rollback_guard is not set, and has no default, because neither database nor key-encryption key is a file",
            code="rollback-guard-unnamed",
            field="rollback_guard",
            expected="a guard for the position of the database",
            got="nothing",
            hint='set one, such as rollback_guard = ["file:/var/lib/kms-guard/position.json"]; docs/operations.md '
            "lists the kinds",
        )
    return (GuardPlace(kind=GuardKind.FILE, place=str(beside)),)


def refused_before(settings: Settings, started: datetime) -> datetime | None:
    """Return the moment before which challenges are refused by a service that started then; None without a guard.

    A service that was killed may have used challenges that no guard has recorded. If the database was replaced by an
    older copy before the start, they would be accepted again.
    """
    return moment_of(milliseconds(started)) if guard_places(settings) else None


def open_local_guards(settings: Settings) -> tuple[RollbackGuard, ...]:
    """Return the guards on this machine, without reading them.

    Raises:
        ConfigurationError: ``rollback-guard-unnamed``.
    """
    return tuple(_local(one, settings) for one in guard_places(settings) if one.kind in _LOCAL)


def _local(place: GuardPlace, settings: Settings) -> RollbackGuard:
    if place.kind is GuardKind.FILE:
        return FileGuard(path=Path(place.place))
    beside = _default_file(settings)
    folder = Path("/tmp") if beside is None else beside.parent.parent  # noqa: S108  it is locked, not written
    return TpmGuard(index=int(place.place, 16), tcti=place.tcti, folder=folder)


def open_remote_guards(
    settings: Settings, store: Store, identity: Callable[[], Identity], *, clock: Clock
) -> tuple[RollbackGuard, ...]:
    """Return the guards on other machines, without a request. ``identity`` is called if there are any.

    Raises:
        ConfigurationError: ``rollback-guard-unknown``: the file of witnesses has no such witness; or as
            ``read_panel`` and ``guard_places``.
    """
    places = [one for one in guard_places(settings) if one.kind not in _LOCAL]
    if not places:
        return ()
    witnesses, signer = {one.key.name: one for one in read_panel(settings)}, identity()
    log = LogPublisher(store=store, signer=signer)

    def opened(place: GuardPlace) -> RollbackGuard:
        if place.kind is GuardKind.REPLICA:
            return ReplicaGuard(url=place.place, log=signer.public)
        import httpx  # noqa: PLC0415  slow to load, and few commands send anything

        post = poster(httpx.Client(timeout=ASK_SECONDS))
        return WitnessGuard(witness=_witness(place.place, witnesses), log=log, clock=clock, post=post)

    return tuple(map(opened, places))


def _witness(name: str, known: dict[str, Witness]) -> Witness:
    if name in known:
        return known[name]
    raise ConfigurationError(
        f"rollback_guard: the file of witnesses does not contain {name[:100]!r}",
        code="rollback-guard-unknown",
        field="rollback_guard",
        expected=", ".join(known) or "a witness in witnesses_file",
        got=name[:100],
        hint="use the name of a witness in witnesses_file",
    )


def _default_file(settings: Settings) -> Path | None:
    """Return the place of the default guard, which other key-encryption keys in the same folder do not change."""
    database = locate(settings.database)
    if isinstance(database, Path):
        return database.absolute().parent / DEFAULT_FOLDER / f"{database.stem}.json"
    if settings.kek_file is not None:
        return settings.kek_file.absolute().parent / DEFAULT_FOLDER / "kms.json"
    return None
