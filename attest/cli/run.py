"""``attest run``: a program that gets keys and secrets for the duration of their leases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from attest.cli.documents import show_document
from attest.cli.session_options import SessionOptions, service_options, settings_document
from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleCommand

if TYPE_CHECKING:
    from attest.cli.child_process import WantedKey
    from attest.cli.program_secrets import WantedSecrets
    from attest.encoding import JsonValue

RUN_SCHEMA = "attest.run/1"


@click.command(
    cls=ExampleCommand,
    short_help="Start a program with keys and secrets of this machine.",
    context_settings={"allow_interspersed_args": False},
    examples=(
        "attest run --key MODEL=llama-70b -- vllm serve …         # reads the key from $ATTEST_KEY_FD_MODEL",
        "attest run --file /run/app/password=database -- ./server  # an unchanged server that reads a file",
        "attest run --env DATABASE_URL=database -- ./server        # or a variable, which others may see",
        "attest run --key A=acme/a@3 --key B=b --on-lost continue -- ./server",
        "attest run --key MODEL=llama-70b --dry-run -- ./server     # show service, keys and variables",
    ),
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--key", "keys", metavar="NAME=KEY", multiple=True, help="A key as a descriptor, and what the program calls it."
)
@click.option(
    "--file",
    "files",
    metavar="PATH=SECRET",
    multiple=True,
    help="A file in memory, mode 0400, removed at the end. PATH becomes a link; a name is one in $ATTEST_SECRETS_DIR.",
)
@click.option(
    "--env",
    "variables",
    metavar="NAME=SECRET",
    multiple=True,
    help="A variable. Processes of the same user, child processes and crash dumps can show it: prefer --file.",
)
@click.option(
    "--as",
    "kind",
    type=click.Choice(["memfd", "pipe"]),
    default="memfd",
    help="A sealed file in memory, or a pipe that can be read once. Default: memfd.",
)
@click.option(
    "--on-lost",
    type=click.Choice(["terminate", "continue"]),
    default="terminate",
    help="When a lease is lost: end the program, or only warn. Default: terminate.",
)
@click.option(
    "--grace",
    type=click.FloatRange(0, 3600),
    default=10.0,
    metavar="SECONDS",
    help="Time between SIGTERM and SIGKILL. Default: 10.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done; no request, no program.")
@service_options
@display_options
def run(  # noqa: PLR0917  click passes them by name
    command: tuple[str, ...],
    keys: tuple[str, ...],
    files: tuple[str, ...],
    variables: tuple[str, ...],
    kind: Literal["memfd", "pipe"],
    on_lost: Literal["terminate", "continue"],
    grace: float,
    dry_run: bool,
    service: SessionOptions,
    display: Display,
) -> int:
    """Prove this machine, start COMMAND with its keys and secrets, and renew their leases as long as it runs.

    With --key the program finds the number of a key's descriptor in the variable ATTEST_KEY_FD_NAME; the key itself is
    in no argument, variable or file. --file and --env are for programs that cannot be changed; a rotation renews the
    files. Signals are passed on, and the exit code is the program's own, or 128 and the number of
    the signal that ended it. Before the program runs: 1 the service refused, 2 usage, 4 what answers is not the
    service, 5 it cannot be reached, 6 this machine gave no evidence. 1 also when a lost lease ended the program.
    """
    from attest.cli.child_process import ChildProgram, WantedKey
    from attest.cli.program_secrets import ProgramSecrets, WantedFile, WantedSecrets, WantedVariable

    wanted = tuple(map(WantedKey.parse, keys))
    WantedKey.require_different(wanted)
    secrets = WantedSecrets(
        variables=tuple(map(WantedVariable.parse, variables)), files=tuple(map(WantedFile.parse, files))
    )
    references = _references(wanted, secrets)
    if dry_run:
        _show(command, wanted, secrets, service, kind=kind, on_lost=on_lost, display=display)
        return 0
    program = ChildProgram(command=command, kind=kind, terminate=on_lost == "terminate", grace=grace, warn=display.warn)
    with service.session(display=display, on_lost=program.lost, on_renewed=program.renewed) as session:
        found = dict(zip(references, session.keys(*references), strict=True))
        placing = {reference: found[reference] for reference in secrets.references}
        keys_found = tuple(found[one.reference] for one in wanted)
        return program.run(wanted, keys_found, ProgramSecrets(wanted=secrets, found=placing))


def _references(wanted: tuple[WantedKey, ...], secrets: WantedSecrets) -> tuple[str, ...]:
    from attest.release.wire import MAX_KEYS

    found = tuple(dict.fromkeys((*(one.reference for one in wanted), *secrets.references)))
    if not 0 < len(found) <= MAX_KEYS:
        raise click.UsageError(f"give --key, --file or --env: 1 to {MAX_KEYS} keys and secrets")
    return found


def _show(
    command: tuple[str, ...],
    wanted: tuple[WantedKey, ...],
    secrets: WantedSecrets,
    service: SessionOptions,
    *,
    kind: str,
    on_lost: str,
    display: Display,
) -> None:
    document: JsonValue = {
        "schema": RUN_SCHEMA,
        "command": list(command),
        "keys": [{"key": one.reference, "variable": one.variable, "as": kind} for one in wanted],
        "files": [{"secret": one.reference, "path": str(one.path)} for one in secrets.files],
        "variables": [{"secret": one.reference, "variable": one.name} for one in secrets.variables],
        "on_lost": on_lost,
        "settings": settings_document(service.settings()),
    }
    show_document(document, display=display)
