"""Backups: made while the service runs, and restored into a new database."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from attest.encoding import JsonValue, rfc3339_text
from attest.errors import ConfigurationError, OutputError
from attest.files import new_file
from kms.config.settings import Settings
from kms.domain.actors import Actor
from kms.domain.errors import LogBrokenError
from kms.domain.kek import RandomBytes
from kms.domain.log_verification import verify_log
from kms.domain.rollback import StatePosition
from kms.domain.state_root import forged
from kms.operations.continuity import RESTORED_AT, NotedElsewhere
from kms.operations.guards.opening import open_local_guards
from kms.operations.guards.setting import put_guards, read_memories, texts
from kms.operations.own_keys import opened_ring
from kms.operations.services import open_vault
from kms.operations.state import state_keys, state_problems
from kms.store import Store, WriteTransaction, create_database
from kms.store.backup import BackupSummary, check_backup, fill_from, write_backup

RESTORED = "restored"


class _DryRunError(Exception):
    """Rolls back a dry run of a restoration that succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Restoration:
    """Fills a new database, and fails unless the result equals the backup."""

    source: BinaryIO
    summary: BackupSummary
    settings: Settings
    random: RandomBytes
    noted: NotedElsewhere
    remembered: Mapping[str, StatePosition | None]
    actor: Actor
    at: datetime
    dry_run: bool

    def __call__(self, tx: WriteTransaction) -> None:
        # (1) Every row; the database itself refuses a duplicate, or one whose parent is missing.
        fill_from(tx, self.source)
        # (1.1) This service made the backup and stored every row.
        self._authenticate(tx)
        # (2) The log is unbroken, its tree matches its entries, it contains the noted states, and it ends at the head
        # of the backup.
        required, lacked = self.noted.weighed(tx)
        state = verify_log(tx.log, noted=required).text
        if state != self.summary.head:
            raise LogBrokenError(
                "the log of the backup does not end at its head",
                code="log-head-mismatch",
                expected=self.summary.head,
                got=state,
                hint="use another backup",
            )
        # (3) It is unknown which challenges were used since the backup, so all earlier ones are refused (MC-36).
        tx.facts.put(RESTORED_AT, rfc3339_text(self.at).encode())
        # (4) The restoration is logged: later entries are lost, and their numbers are used again.
        body: dict[str, JsonValue] = {
            "actor": self.actor.members(),
            "backup_sha256": self.summary.digest.hex(),
            "backup_head": self.summary.head,
            "restored_at": rfc3339_text(self.at),
            "rollback_guards": texts(self.remembered),
        }
        if lacked and self.noted.accepted is not None:
            lost: list[JsonValue] = [one.text for one in lacked]
            body["accepted_rollback"] = {"reason": self.noted.accepted.reason, "noted": lost}
        tx.log.add(kind=RESTORED, at=self.at, body=body)
        if self.dry_run:
            raise _DryRunError

    def _authenticate(self, tx: WriteTransaction) -> None:
        with opened_ring(self.settings, tx.keks.all(), random=self.random) as kek:
            keys = state_keys(tx, kek, origin=self.settings.origin)
        if not keys.backup.holds(self.summary.digest, self.summary.mac):
            raise forged("the backup was not made by this service", field="backup")
        tx.open_state(keys)
        problem = next(state_problems(tx), None)
        if problem is not None:
            raise forged(f"the backup contains an altered database: {problem}", field="backup")


def back_up(store: Store, path: Path, *, origin: str, at: datetime) -> BackupSummary:
    """Write a backup to a new file that only its owner can read, and flush it to disk.

    The service may be running; the backup is a consistent snapshot. A failure leaves no file.

    Raises:
        ConfigurationError: ``backup-exists`` (it is never overwritten) or ``backup-unusable``.
        IntegrityError: ``backup-row-invalid``.
        LogBrokenError: ``log-tree-broken``.
        UnavailableError: the database is in use, or away.
    """
    try:
        with new_file(path) as file, store.reading() as tx:
            return write_backup(tx, file, origin=origin, at=at)
    except OutputError as exc:
        if exc.code == "output-exists":
            raise ConfigurationError(
                f"the file {path} already exists, and a backup is never overwritten",
                code="backup-exists",
                field="backup",
                hint="name another file",
            ) from exc
        raise _unusable(path, exc.reason) from exc


def restore(
    settings: Settings,
    path: Path,
    *,
    noted: NotedElsewhere,
    random: RandomBytes,
    actor: Actor,
    at: datetime,
    dry_run: bool,
) -> BackupSummary:
    """Create a database from a backup, all or nothing, with the key-encryption key of the backup.

    The database must not exist, the service must be that of the backup, and the log must contain the noted states and
    the positions of the rollback guards; afterwards these are set to the restored database. A missing guard is created.

    Raises:
        ConfigurationError: ``backup-invalid``, ``backup-other-schema``, ``backup-unusable``, ``origin-mismatch``, or as
            ``create_database``; or ``rollback-guard-missing`` after everything was restored.
        SignatureError: ``note-signature-invalid``: a checkpoint of another service.
        LogBrokenError: the log is broken, ``log-rolled-back``, ``log-forked`` or ``log-head-mismatch``.
        IntegrityError: ``state-forged``: this service did not make it, or its database was altered.
        UnavailableError: ``clock-went-back``, or a row does not fit (``store-failed``).
    """
    try:
        source = path.open("rb")
    except OSError as exc:
        raise _unusable(path, exc.strerror or str(exc)) from exc
    with source:
        try:
            summary = check_backup(source)  # completely, so that a damaged one changes nothing
        except OSError as exc:  # a directory, or a disk that fails
            raise _unusable(path, exc.strerror or str(exc)) from exc
        _require_origin(summary, settings)
        guards = open_local_guards(settings)
        remembered = read_memories(guards)
        known = [one.log for one in remembered.values() if one is not None]
        fill = _Restoration(
            source=source,
            summary=summary,
            settings=settings,
            random=random,
            noted=replace(noted, noted=(*noted.noted, *known)),
            remembered=remembered,
            actor=actor,
            at=at,
            dry_run=dry_run,
        )
        with suppress(_DryRunError):
            create_database(settings.database, fill=fill, access=settings.database_access)
            # The guards are set to the restored database.
            with closing(open_vault(settings, random=random, guarded=False).store) as store:
                put_guards(guards, store)
    return summary


def _require_origin(summary: BackupSummary, settings: Settings) -> None:
    if summary.origin != settings.origin:
        raise ConfigurationError(
            f"the backup belongs to {summary.origin[:140]!r}, not to {settings.origin!r}",
            code="origin-mismatch",
            field="origin",
            expected=settings.origin,
            got=summary.origin[:140],
            hint="use the settings of the service that made the backup",
        )


def _unusable(path: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"the backup {path} cannot be used: {problem}", code="backup-unusable", field="backup", got=problem
    )
