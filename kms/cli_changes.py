"""What every command has that makes a change for which a quorum may be needed: ``--propose`` and what goes with it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kms.cli_options import load, moment, print_json, say, vault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kms.quorum.admin import Desk
    from kms.quorum.changing import Change
    from kms.quorum.proposals import Proposal

__all__ = ["CHANGING", "PROPOSING", "carry_out", "desk", "tell_proposal"]

PROPOSING = (
    click.option("--propose", is_flag=True, help="Propose the change, for others to sign, instead of making it."),
    click.option("--hours", type=click.IntRange(1, 720), default=72, help="How long the proposal stands (default 72)."),
    click.option("--as", "person", metavar="NAME", help="Which of the registered people proposes it."),
)


_AS_JSON = "kms.cli_changes.as_json"


def _keep_json(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del param
    ctx.meta[_AS_JSON] = value


CHANGING = (
    *PROPOSING,
    click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        callback=_keep_json,
        help="What came of it, for programs (schema kms.change/1).",
    ),
)
"""``PROPOSING`` for a command of which nothing is told but what came of its change; ``carry_out`` sees to the JSON."""


def desk(config: Path | None, flags: dict[str, object]) -> Desk:
    """Open what changes are made with."""
    from kms.quorum.admin import Desk
    from kms.services import open_identity

    settings = load(config, flags).settings
    opened = vault(config, flags)
    audience = open_identity(opened, settings).public.text
    longest = timedelta(seconds=settings.break_glass_seconds)
    return Desk(vault=opened, audience=audience, alone=settings.allow_thaw_by_one, longest_glass=longest)


def carry_out(
    change: Change,
    *,
    at_desk: Desk,
    reason: str,
    propose: bool,
    hours: int,
    person: str | None,
    document: Mapping[str, object] | None = None,
) -> None:
    """Make a change, or propose it; with a document for programs, what came of it is printed as members of that."""
    from kms.actors import local_actor
    from kms.quorum.admin import change_now
    from kms.quorum.admin import propose as write_down

    if document is None and click.get_current_context().meta.get(_AS_JSON):
        document = {"schema": "kms.change/1", "action": change.action}
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
