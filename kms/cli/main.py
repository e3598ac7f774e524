"""Command line: one function per command, with imports at first use.

Exit codes: 0 success · 1 refused or check failed · 2 usage, settings or files · 70 internal error.
"""

from __future__ import annotations

import os
import secrets
import sys
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from attest import __version__
from attest.terminal import ExampleCommand, ExampleGroup, completion_command
from attest_kms.extras import missing_extra
from kms.cli.admin import admin
from kms.cli.aliases import alias
from kms.cli.anchors import anchors
from kms.cli.break_glass import break_glass
from kms.cli.changes import DRY_RUN, TELLING, tell_change
from kms.cli.config import config
from kms.cli.context import context, login, logout
from kms.cli.controls import freeze, thaw
from kms.cli.endorsements import endorsements
from kms.cli.floor import floor
from kms.cli.guard import guard
from kms.cli.kek import kek
from kms.cli.key_import import IMPORTS
from kms.cli.key_life import LIFE
from kms.cli.key_policy import policy
from kms.cli.keys import key
from kms.cli.limits import limits
from kms.cli.log import log
from kms.cli.options import SETTINGS, load, moment, say, with_settings
from kms.cli.proposals import proposal
from kms.cli.quorum import people, quorum
from kms.cli.references import references
from kms.cli.releases import releases
from kms.cli.serve import serve
from kms.cli.status import status
from kms.cli.store import backup, fsck, restore
from kms.cli.tenants import tenant

if TYPE_CHECKING:
    from attest.errors import AttestError
    from kms.config.settings import LoadedSettings

USAGE = 2
BUG = 70


# -- frame


def main() -> NoReturn:
    """Run the command line. A failure prints one ``error:`` line, and a ``hint:`` line if you can do something."""
    from attest.errors import AttestError

    try:
        code = cli.main(prog_name="kms", standalone_mode=False) or 0
    except click.exceptions.Exit as exc:
        code = exc.exit_code
    except click.Abort:
        code = _fail("interrupted", None, 1)
    except click.exceptions.NoArgsIsHelpError as exc:
        exc.show()  # the help of a group, which is no error message
        code = USAGE
    except click.ClickException as exc:
        context = getattr(exc, "ctx", None)
        code = _fail(exc.format_message(), f"{context.command_path} --help" if context else "kms --help", USAGE)
    except AttestError as exc:
        # The command line of ``attest`` has more exit codes for evidence; this one has three.
        code = _fail(f"{exc.message} [{exc.code}]", _hint(exc), _exit_code(exc))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader closed the pipe
        code = 1
    except Exception as exc:  # noqa: BLE001  the last frame: a bug is reported without a traceback of local values
        code = _unexpected(exc)
    sys.exit(code)


def _unexpected(exc: Exception) -> int:
    if missing := missing_extra(exc, command="kms"):
        return _fail(*missing, USAGE)
    return _fail(f"internal error: {type(exc).__name__}: {exc}", "report this with the command", BUG)


def _exit_code(error: AttestError) -> int:
    """Return the exit code; a service answers ``internal-error`` when it has a bug."""
    if error.code == "internal-error":
        return BUG
    return error.exit_code if error.exit_code in {USAGE, BUG} else 1


def _hint(error: AttestError) -> str | None:
    """Return the hint of an error, or the expected value if it has none."""
    if error.hint or not error.expected or error.expected in error.message:
        return error.hint
    return f"expected {error.expected}"


def _fail(message: str, hint: str | None, code: int) -> int:
    click.echo(f"error: {message}", err=True)
    if hint:
        click.echo(f"hint: {hint}", err=True)
    return code


class _Sections(ExampleGroup):
    """Command group that lists its commands in sections."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        for title, section in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(command.name or "", command.get_short_help_str()) for command in section])


@click.group(
    cls=_Sections,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    examples=(
        "kms init /etc/kms --origin kms.example/prod",
        "kms key import my-model --from model.key --policy policy.yaml --config /etc/kms/kms.toml",
        "kms serve --config /etc/kms/kms.toml",
        "kms log verify --config /etc/kms/kms.toml",
    ),
)
@click.version_option(__version__, "-V", "--version", prog_name="kms", message="%(prog)s %(version)s")
def cli() -> None:
    """Release keys to workloads that prove their identity by attestation."""


# -- init, migrate, config


@click.command(
    cls=ExampleCommand,
    examples=(
        "kms init /etc/kms --origin kms.example/prod",
        "kms init svc --origin kms.example/test --allow-simulated",
    ),
)
@click.argument("directory", required=False, type=click.Path(path_type=Path, file_okay=False))
@SETTINGS
@click.option("--allow-simulated", is_flag=True, default=None, help="Add this setting to the new kms.toml.")
@click.option("--administrator", metavar="IDENTITY", help="First administrator (default: none).")
@TELLING
def init(
    *,
    directory: Path | None,
    config: Path | None,
    allow_simulated: bool | None,
    administrator: str | None,
    **flags: object,
) -> None:
    """Create a key-encryption key and a database. Existing files are never overwritten.

    With DIRECTORY, the command creates kms.toml, kek and kms.db in it. Without, it uses the paths of the settings.
    """
    from attest.clock import system_clock
    from kms.auth.names import parse_identity
    from kms.config.settings_file import prepare_directory
    from kms.operations.guards.examination import guards_beside_database
    from kms.operations.services import initialise

    first = None if administrator is None else parse_identity(administrator)
    if directory is not None:
        if config is not None or flags["database"] or flags["kek_file"]:
            raise click.UsageError("DIRECTORY sets all paths: omit --config, --database and --kek-file")
        origin = flags["origin"]
        named = origin if isinstance(origin, str) else None
        config = prepare_directory(directory, origin=named, allow_simulated=bool(allow_simulated))
    settings = load(config, flags).settings
    public = initialise(settings, clock=system_clock, random=secrets.token_bytes, administrator=first)
    described = settings.kek.description
    tell_change(
        "init",
        f"database: {settings.database}",
        f"key-encryption key: {described}",
        f"identity: {public.text}",
        details={"database": str(settings.database), "key_encryption_key": described, "identity": public.text}
        | {"config": None if config is None else str(config)},
    )
    say("note: back up the database and the key-encryption key separately; if you lose either, every key is lost")
    for name in guards_beside_database(settings):
        say(f"note: the rollback guard {name} is on the database's disk; set rollback_guard to a better place")
    say("note: configure workloads with the identity, by which they authenticate this service")


@click.command(
    cls=ExampleCommand, examples=("kms migrate --dry-run --config kms.toml", "kms migrate --config kms.toml")
)
@click.option(
    "--accept-differences",
    metavar="REASON",
    help="Migrate a database that differs from its log; the differences and this reason are logged.",
)
@DRY_RUN
@with_settings(TELLING)
def migrate(*, accept_differences: str | None, dry_run: bool, loaded: LoadedSettings) -> None:
    """Migrate the database to the schema of this version. Run this on the service's machine.

    First stop every service and back up the database. The command needs the key-encryption key. A database of a version
    without authenticated state is compared with its log, and its rows are authenticated as they are.
    """
    from kms.domain.actors import local_actor
    from kms.operations.migration import migrate as migrate_store

    done = migrate_store(
        loaded.settings,
        random=secrets.token_bytes,
        actor=local_actor(),
        at=moment(),
        accepted=accept_differences,
        dry_run=dry_run,
    )
    same = done.before == done.after
    verb = "would be" if dry_run else "is now"
    text = f"schema {done.before}: nothing to do" if same else f"schema {done.before} {verb} {done.after}"
    details = {"before": done.before, "after": done.after, "differences": list(done.differences)}
    tell_change("migrate", text, details=details, would=dry_run)
    for difference in done.differences:
        say(f"warning: {'would be ' if dry_run else ''}accepted without a log entry for it: {difference}")
    if dry_run:
        say("note: dry run; nothing was changed")


_SECTIONS: dict[str, tuple[click.Command, ...]] = {
    "The service": (init, serve, status, config, endorsements),
    "Keys and their holders": (key, alias, tenant, references, releases),
    "Emergency controls": (freeze, thaw, floor, break_glass),
    "Access and approval": (context, login, logout, admin, people, quorum, proposal, anchors),
    "Log and storage": (log, backup, restore, fsck, guard, migrate, kek),
    "Shells": (completion_command("kms"),),
}
for part in (*IMPORTS, *LIFE, limits, policy):
    key.add_command(part)
for command in chain.from_iterable(_SECTIONS.values()):
    cli.add_command(command)


if __name__ == "__main__":  # without this, 'python -m kms.cli.main' would do nothing and exit with 0
    sys.exit(main())
