"""``kms backup``, ``kms restore`` and ``kms fsck``: commands for the whole database."""

from __future__ import annotations

import secrets
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attest.terminal import ExampleCommand
from kms.cli.inputs import checkpoint_option, expect_option, read_input
from kms.cli.options import AS_JSON, FILE, moment, print_json, say, vault, wants_json, with_settings

if TYPE_CHECKING:
    from kms.config.settings import LoadedSettings
    from kms.operations.fsck import FsckFinding
    from kms.store.backup import BackupSummary


@click.command(cls=ExampleCommand, examples=("kms backup kms-2027-01-01.backup --config kms.toml",))
@click.argument("file", type=FILE)
@with_settings(AS_JSON)
def backup(file: Path, loaded: LoadedSettings) -> None:
    """Back up the database to FILE, which must not exist.

    The backup is a consistent copy; the service may be running. It contains the keys in wrapped form, and not the
    key-encryption key. Run this on the service's machine.
    """
    from kms.operations.backup import back_up

    settings = loaded.settings
    opened = vault(loaded)
    summary = back_up(opened.store, file, origin=settings.origin, at=moment())
    _show(summary)
    say("note: store the head, the state of the log, elsewhere; 'kms restore --expect' compares it")


@click.command(
    cls=ExampleCommand,
    examples=(
        "kms restore kms-2027-01-01.backup --dry-run --config kms.toml",
        "kms restore kms-2027-01-01.backup --config kms.toml",
    ),
)
@click.argument("file", type=FILE)
@expect_option("An earlier state (SIZE:ROOT) or a receipt's decision that the backup must contain. Repeatable.")
@checkpoint_option("Signed checkpoint stored elsewhere; the backup must not be older. Repeatable.")
@click.option(
    "--accept-rollback",
    metavar="REASON",
    help="Restore the backup although it is older than a noted state; the reason is logged.",
)
@click.option("--dry-run", is_flag=True, help="Make the database, check it, and remove it.")
@with_settings(AS_JSON)
def restore(
    *,
    file: Path,
    expected: tuple[str, ...],
    checkpoints: tuple[Path, ...],
    accept_rollback: str | None,
    dry_run: bool,
    loaded: LoadedSettings,
) -> None:
    """Restore a backup into the database of the settings. Existing databases are never overwritten.

    Run this on the service's machine. The new database may be of another kind than the original, so you can also use
    this to migrate from SQLite to PostgreSQL.
    """
    from kms.domain.actors import local_actor
    from kms.domain.log_verification import parse_noted
    from kms.operations.backup import restore as restore_backup
    from kms.operations.continuity import AcceptedRollback, NotedElsewhere

    noted = NotedElsewhere(
        noted=[parse_noted(one) for one in expected],
        checkpoints=[read_input(one) for one in checkpoints],
        accepted=None if accept_rollback is None else AcceptedRollback(reason=accept_rollback),
    )
    settings = loaded.settings
    _show(
        restore_backup(
            settings,
            file,
            noted=noted,
            random=secrets.token_bytes,
            actor=local_actor(),
            at=moment(),
            dry_run=dry_run,
        ),
    )
    if dry_run:
        say("note: dry run; nothing was kept")
        return
    say("note: earlier challenges are refused; repeat the changes made since the backup, such as disabled keys")


@click.command(cls=ExampleCommand, examples=("kms fsck --config kms.toml",))
@expect_option("An earlier state (SIZE:ROOT) or a receipt's decision that the log must still contain. Repeatable.")
@with_settings(AS_JSON)
def fsck(*, expected: tuple[str, ...], loaded: LoadedSettings) -> None:
    """Examine the whole database, and change nothing.

    Exit code 1 if anything is wrong. This checks schema and triggers, the database's own structures, foreign keys, the
    log and its tree, and every wrapped key, policy and signature of reference values. It replays the log and reports
    each difference between the database and the state that the entries produce. Run this on the service's machine; the
    service may be running.
    """
    from kms.domain.errors import KmsError
    from kms.domain.log_verification import parse_noted
    from kms.operations.fsck import examine
    from kms.operations.guards.opening import open_local_guards

    noted = [parse_noted(one) for one in expected]
    origin = loaded.settings.origin
    guards = open_local_guards(loaded.settings)
    findings = list(examine(vault(loaded, guarded=False), origin=origin, noted=noted, guards=guards))
    sound = not any(finding.problems for finding in findings)
    if wants_json():
        rows = [asdict(finding) for finding in findings]
        print_json({"schema": "kms.fsck/1", "sound": sound, "checks": rows})
    else:
        _show_findings(findings)
    for finding in findings:
        if finding.warning:
            say(f"warning: {finding.check}: {finding.warning}")
    if not sound:
        failed = ", ".join(finding.check for finding in findings if finding.problems)
        raise KmsError(
            f"the examination of the database failed: {failed}",
            code="store-unsound",
            field=failed,
            hint="preserve the database, find out who wrote to it, and restore a backup",
        )


def _show_findings(findings: list[FsckFinding]) -> None:
    for finding in findings:
        click.echo(f"{finding.check:14} {'FAILED' if finding.problems else 'ok':8} {finding.looked_at}")
        for problem in finding.problems:
            click.echo(f"  {problem}")


def _show(summary: BackupSummary) -> None:
    members = {
        "origin": summary.origin,
        "created_at": summary.created_at,
        "head": summary.head,
        "sha256": summary.digest.hex(),
    }
    if wants_json():
        print_json({"schema": "kms.backup-summary/1", **members, "rows": dict(summary.rows)})
        return
    for name, value in members.items():
        click.echo(f"{name + ':':12} {value}")
    click.echo("rows:        " + ", ".join(f"{table} {number}" for table, number in summary.rows.items()))
