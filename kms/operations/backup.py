"""Backups: made while the service runs, and restored into a database that is not there yet."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from attest.encoding import JsonValue, rfc3339_text
from attest.errors import ConfigurationError, OutputError
from attest.files import new_file
from kms.config.settings import Settings
from kms.domain.actors import Actor
from kms.domain.errors import LogBrokenError
from kms.domain.log_verification import verify_log
from kms.operations.continuity import NotedElsewhere
from kms.store import Store, WriteTransaction, create_database
from kms.store.backup import BackupSummary, check_backup, fill_from, write_backup

RESTORED = "restored"
RESTORED_AT = "restored_at"
"""Fact of a database that was made from a backup: challenges from before are refused, used or not."""


class _DryRunError(Exception):
    """Undoes a restoration that would have succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Restoration:
    """Fills a new database, and refuses to leave it unless it is what was backed up."""

    source: BinaryIO
    summary: BackupSummary
    noted: NotedElsewhere
    actor: Actor
    at: datetime
    dry_run: bool

    def __call__(self, tx: WriteTransaction) -> None:
        # (1) Every row; the database itself refuses one whose parent is missing, or that is there twice.
        fill_from(tx, self.source)
        # (2) The log is unbroken and its tree is that of its entries, it passes through what was noted elsewhere, and
        # it ends where the backup says.
        required, lacked = self.noted.weighed(tx)
        state = verify_log(tx.log, noted=required).text
        if state != self.summary.head:
            raise LogBrokenError(
                "the log of the backup does not end where the backup says",
                code="log-head-mismatch",
                expected=self.summary.head,
                got=state,
                hint="take another backup",
            )
        # (3) Which challenges were used since the backup is not known, so none from before counts (MC-36).
        tx.facts.put(RESTORED_AT, rfc3339_text(self.at).encode())
        # (4) That it was restored is an entry: what was logged since the backup is lost, and its numbers come again.
        body: dict[str, JsonValue] = {
            "actor": self.actor.members(),
            "backup_sha256": self.summary.digest.hex(),
            "backup_head": self.summary.head,
        }
        if lacked and self.noted.accepted is not None:
            lost: list[JsonValue] = [one.text for one in lacked]
            body["accepted_rollback"] = {"reason": self.noted.accepted.reason, "noted": lost}
        tx.log.add(kind=RESTORED, at=self.at, body=body)
        if self.dry_run:
            raise _DryRunError


def back_up(store: Store, path: Path, *, origin: str, at: datetime) -> BackupSummary:
    """Write a backup into a new file that its owner alone can read, and flush it to the disk.

    The service may run meanwhile; the backup is of one moment. What fails leaves no file.

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
                f"there is a file {path} already, and a backup is never overwritten",
                code="backup-exists",
                field="backup",
                hint="name another file",
            ) from exc
        raise _unusable(path, exc.reason) from exc


def restore(
    settings: Settings, path: Path, *, noted: NotedElsewhere, actor: Actor, at: datetime, dry_run: bool
) -> BackupSummary:
    """Make a database from a backup, all or nothing. The key-encryption key has to be there; it is not read.

    The database must not exist, the service must be that of the backup, and the log must hold the noted states.

    Raises:
        ConfigurationError: ``backup-invalid``, ``backup-other-schema``, ``backup-unusable``, ``origin-mismatch``, or as
            ``create_database``.
        SignatureError: ``note-signature-invalid``: a checkpoint of another service.
        LogBrokenError: the log is broken, ``log-rolled-back``, ``log-forked`` or ``log-head-mismatch``.
        UnavailableError: ``clock-went-back``, or a row does not fit (``store-failed``).
    """
    try:
        source = path.open("rb")
    except OSError as exc:
        raise _unusable(path, exc.strerror or str(exc)) from exc
    with source:
        try:
            summary = check_backup(source)  # to its end first, so that a damaged one touches nothing
        except OSError as exc:  # a directory, or a disk that fails
            raise _unusable(path, exc.strerror or str(exc)) from exc
        _require_origin(summary, settings)
        fill = _Restoration(source=source, summary=summary, noted=noted, actor=actor, at=at, dry_run=dry_run)
        with suppress(_DryRunError):
            create_database(settings.database, fill=fill, access=settings.database_access)
    return summary


def _require_origin(summary: BackupSummary, settings: Settings) -> None:
    if summary.origin != settings.origin:
        raise ConfigurationError(
            f"the backup is of {summary.origin[:140]!r}, not of {settings.origin!r}",
            code="origin-mismatch",
            field="origin",
            expected=settings.origin,
            got=summary.origin[:140],
            hint="name the settings of the service that the backup is of",
        )


def _unusable(path: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"the backup {path} cannot be used: {problem}", code="backup-unusable", field="backup", got=problem
    )
