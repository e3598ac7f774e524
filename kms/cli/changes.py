"""Options and output of commands that make a change: ``--json``, and ``--propose`` where a quorum may be needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from attest.terminal import stacked
from kms.cli.administration import AdminClient
from kms.cli.options import REASON, json_flag, print_json, say, wants_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kms.quorum.change_context import ProposedChange


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """Options of a change; with ``propose`` it is not made but proposed by a registered person, for some hours."""

    reason: str
    propose: bool
    hours: int
    person: str | None


_PROPOSING = (
    click.option("--propose", is_flag=True, help="Propose the change, for others to sign, instead of making it."),
    click.option("--hours", type=click.IntRange(1, 720), default=72, help="Hours until it expires (default 72)."),
    click.option("--as", "person", metavar="NAME", help="Registered person who proposes it."),
)
_OPTIONAL = click.option("--reason", default="", metavar="TEXT", help="Reason for the change; required with --propose.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Check whether this would succeed, and change nothing.")
TELLING = json_flag("Print the outcome as JSON (schema kms.change/1).")
"""``--json`` of a command that prints only the outcome of its change, with ``tell_change``."""


def changing(
    *,
    needs_reason: bool = False,
    telling: bool = True,
    reason: Callable[[Any], Any] | None = None,  # Any: click's own
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options of a change that may require a quorum; the command gets them as ``manner``.

    With ``needs_reason`` a change requires a reason even when it is made immediately; ``reason`` is the option that
    replaces ``--reason``. Without ``telling`` the command has a ``--json`` of its own.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def called(*, reason: str, propose: bool, hours: int, person: str | None, **given: object) -> None:
            command(manner=Manner(reason=reason, propose=propose, hours=hours, person=person), **given)

        reason_option = reason or (REASON if needs_reason else _OPTIONAL)
        return stacked((reason_option, *_PROPOSING, *((TELLING,) if telling else ())))(called)

    return decorate


def tell_change(action: str, *lines: str, details: Mapping[str, object] | None = None, would: bool = False) -> None:
    """Print the outcome of a change, or of a dry run (``would``): lines of text, or one document with ``--json``."""
    if not wants_json():
        for line in lines:
            click.echo(line)
        return
    text = "\n".join(lines) or None
    members = {"done": None if would else text, "would": text if would else None, "proposal": None}
    print_json({"schema": "kms.change/1", "action": action, **members, "details": dict(details or {})})


def carry_out(
    service: AdminClient, change: ProposedChange, manner: Manner, *, document: Mapping[str, object] | None = None
) -> None:
    """Make or propose a change; with a document for programs, print the outcome as members of it."""
    came = service.post("/v1/changes", {"action": change.action, "arguments": change.arguments(), **asdict(manner)})
    if document is None and wants_json():
        document = {"schema": "kms.change/1", "action": change.action, "would": None, "details": {}}
    made = None if came["proposal"] is None else {"serial": came["serial"], "sha256": came["proposal"]}
    if document is not None:
        print_json({**document, "done": came["done"], "proposal": made})
    elif made is None:
        click.echo(came["done"])
    else:
        click.echo("proposal {serial}: {sha256}".format(**made))
        serial = made["serial"]
        say(f"next: 'kms proposal show {serial} --export FILE', then each signer: 'kms proposal sign FILE --key KEY'")
