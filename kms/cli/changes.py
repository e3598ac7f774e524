"""What every command has that makes a change: ``--json``, and where a quorum may be needed ``--propose``."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kms.cli.options import load, moment, print_json, say, vault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kms.domain.proposals import Proposal
    from kms.quorum.admin import QuorumService
    from kms.quorum.change_context import ProposedChange

__all__ = ["CHANGING", "PROPOSING", "TELLING", "carry_out", "desk", "tell_change", "tell_proposal", "wants_json"]

PROPOSING = (
    click.option("--propose", is_flag=True, help="Propose the change, for others to sign, instead of making it."),
    click.option("--hours", type=click.IntRange(1, 720), default=72, help="How long the proposal stands (default 72)."),
    click.option("--as", "person", metavar="NAME", help="Which of the registered people proposes it."),
)


_AS_JSON = "kms.cli.changes.as_json"


def _keep_json(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del param
    ctx.meta[_AS_JSON] = value


TELLING = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    callback=_keep_json,
    help="What came of it, for programs (schema kms.change/1).",
)
"""``--json`` of a command of which nothing is told but what came of its change; ``tell_change`` looks at it."""
CHANGING = (*PROPOSING, TELLING)
"""``PROPOSING`` for such a command; ``carry_out`` tells."""


def wants_json() -> bool:
    """Say whether the command that runs was given the flag of ``TELLING``."""
    return bool(click.get_current_context().meta.get(_AS_JSON))


def tell_change(action: str, *lines: str, details: Mapping[str, object] | None = None, would: bool = False) -> None:
    """Tell what came of a change: lines for a person, or with ``--json`` one document.

    Args:
        action: what it was, such as ``key-disable``.
        lines: what was done, for people; nothing when there was nothing to do.
        details: what programs want to know of it, as JSON members.
        would: nothing was changed, and the lines say what would be (a dry run).
    """
    if not wants_json():
        for line in lines:
            click.echo(line)
        return
    text = "\n".join(lines) or None
    members = {"done": None if would else text, "would": text if would else None, "proposal": None}
    print_json({"schema": "kms.change/1", "action": action, **members, "details": dict(details or {})})


def desk(config: Path | None, flags: dict[str, object]) -> QuorumService:
    """Open what changes are made with."""
    from kms.operations.services import open_identity
    from kms.quorum.admin import QuorumService

    settings = load(config, flags).settings
    opened = vault(config, flags)
    audience = open_identity(opened, settings).public.text
    longest = timedelta(seconds=settings.break_glass_seconds)
    return QuorumService(vault=opened, audience=audience, alone=settings.allow_thaw_by_one, longest_glass=longest)


def carry_out(
    change: ProposedChange,
    *,
    at_desk: QuorumService,
    reason: str,
    propose: bool,
    hours: int,
    person: str | None,
    document: Mapping[str, object] | None = None,
) -> None:
    """Make a change, or propose it; with a document for programs, what came of it is printed as members of that."""
    from kms.domain.actors import local_actor
    from kms.quorum.admin import change_now
    from kms.quorum.admin import propose as write_down

    if document is None and wants_json():
        document = {"schema": "kms.change/1", "action": change.action, "would": None, "details": {}}
    if not propose:
        done = change_now(at_desk, change, actor=local_actor(), at=moment())
        if document is None:
            click.echo(done)
        else:
            print_json({**document, "done": done, "proposal": None})
        return
    lifetime = timedelta(hours=hours)
    made = write_down(
        at_desk, change, reason=reason, actor=local_actor(), at=moment(), person=person, lifetime=lifetime
    )
    if document is not None:
        print_json({**document, "done": None, "proposal": {"serial": made.serial, "sha256": made.digest}})
        return
    tell_proposal(made)


def tell_proposal(made: Proposal) -> None:
    """Say what was proposed, and what comes next."""
    click.echo(f"proposal {made.serial}: {made.digest}")
    say(f"next: 'kms proposal show {made.serial} --export FILE'; each signs with 'kms proposal sign FILE --key KEY'")
