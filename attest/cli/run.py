"""``attest run``: a program that gets keys as descriptors, for the duration of their leases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from attest.cli.documents import show_document
from attest.cli.session_options import SessionOptions, service_options, settings_document
from attest.terminal.display import Display, display_options
from attest.terminal.lazy_commands import ExampleCommand

if TYPE_CHECKING:
    from attest.cli.child_process import WantedKey
    from attest.encoding import JsonValue

RUN_SCHEMA = "attest.run/1"


@click.command(
    cls=ExampleCommand,
    short_help="Start a program with keys as inherited descriptors.",
    context_settings={"allow_interspersed_args": False},
    examples=(
        "attest run --key MODEL=llama-70b -- vllm serve …         # reads the key from $ATTEST_KEY_FD_MODEL",
        "attest run --key A=acme/a@3 --key B=b --on-lost continue -- ./server",
        "attest run --key MODEL=llama-70b --dry-run -- ./server     # show service, keys and variables",
    ),
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--key", "keys", metavar="NAME=KEY", multiple=True, required=True, help="A key, and what the program calls it."
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
    kind: Literal["memfd", "pipe"],
    on_lost: Literal["terminate", "continue"],
    grace: float,
    dry_run: bool,
    service: SessionOptions,
    display: Display,
) -> int:
    """Prove this machine, start COMMAND with its keys, and renew their leases as long as it runs.

    The program finds the number of a key's descriptor in the variable ATTEST_KEY_FD_NAME; the key itself is in no
    argument, variable or file. Signals are passed on, and the exit code is the program's own, or 128 and the number of
    the signal that ended it. Before the program runs: 1 the service refused, 2 usage, 4 what answers is not the
    service, 5 it cannot be reached, 6 this machine gave no evidence. 1 also when a lost lease ended the program.
    """
    from attest.cli.child_process import ChildProgram, WantedKey

    wanted = tuple(map(WantedKey.parse, keys))
    WantedKey.require_different(wanted)
    if dry_run:
        _show(command, wanted, service, kind=kind, on_lost=on_lost, display=display)
        return 0
    program = ChildProgram(command=command, kind=kind, terminate=on_lost == "terminate", grace=grace, warn=display.warn)
    with service.session(display=display, on_lost=program.lost, on_renewed=program.renewed) as session:
        found = session.keys(*(one.reference for one in wanted))
        return program.run(wanted, found)


def _show(
    command: tuple[str, ...],
    wanted: tuple[WantedKey, ...],
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
        "on_lost": on_lost,
        "settings": settings_document(service.settings()),
    }
    show_document(document, display=display)
