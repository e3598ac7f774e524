"""``kms guard``: what remembers outside of the database how far it has come."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from kms.cli.changes import TELLING, tell_change
from kms.cli.options import AS_JSON, moment, print_json, say, vault, wants_json, with_settings

if TYPE_CHECKING:
    from kms.config.settings import LoadedSettings
    from kms.operations.guards.examination import GuardFinding


@click.group()
def guard() -> None:
    """Show, make and accept rollback guards, which tell an older copy of the database from the newest state.

    It takes the service's machine: nothing of this is done over the network.

    \b
    Examples:
      kms guard show
      kms guard init
      kms guard accept --because "disk failed; the backup of 1 June is the newest"
    """  # noqa: D301  \b is click's mark for text that is not wrapped


@guard.command("show")
@with_settings(AS_JSON)
def guard_show(loaded: LoadedSettings) -> None:
    """Compare the database with every guard; exit code 1 if one refuses it or does not answer."""
    from kms.domain.errors import KmsError

    found = _examined(loaded)
    if wants_json():
        rows = [{"guard": one.guard, "remembers": one.remembers, "problem": one.problem} for one in found]
        print_json({"schema": "kms.guards/1", "guards": rows})
    else:
        for one in found:
            click.echo(f"{one.guard}\n  {one.remembers or 'remembers nothing'}\n  {one.problem or 'ok'}")
    if not found:
        say("warning: allow_no_rollback_guard is on: no guard is kept")
    failed = [one.guard for one in found if one.problem]
    if failed:
        raise KmsError(
            f"the database cannot be served: {', '.join(failed)}", code="rollback-guard-refuses", field=failed[0]
        )


@guard.command("init")
@with_settings(TELLING)
def guard_init(loaded: LoadedSettings) -> None:
    """Make the guards that are missing or empty; from now on the present database is the oldest that they accept.

    First make sure that it is the newest one: a guard that is gone may hide an older copy ('kms fsck --expect').
    """
    from kms.domain.actors import local_actor
    from kms.operations.guards.opening import open_local_guards
    from kms.operations.guards.setting import make_guards

    opened = vault(loaded, guarded=False)
    guards = open_local_guards(loaded.settings)
    made = make_guards(opened.store, guards, actor=local_actor(), at=moment())
    tell_change("guard-init", *(f"made: {name}" for name in made), details={"guards": [*made]})
    if not made:
        say("note: every guard is there already")


@guard.command("accept")
@click.option("--because", required=True, metavar="REASON", help="Why this database is used; kept for ever in the log.")
@with_settings(TELLING)
def guard_accept(because: str, loaded: LoadedSettings) -> None:
    """Accept a database that is older than its guards remember, such as one restored by other means.

    What was disabled, frozen or revoked since the copy was made is revived; do it again. Stop every service first.
    """
    from kms.domain.actors import local_actor
    from kms.operations.continuity import AcceptedRollback
    from kms.operations.guards.opening import open_local_guards
    from kms.operations.guards.setting import Acceptance, accept_rollback, read_memories

    accepted = AcceptedRollback(reason=because, field="--because")
    opened = vault(loaded, guarded=False)
    guards = open_local_guards(loaded.settings)
    acceptance = Acceptance(accepted=accepted, remembered=read_memories(guards), actor=local_actor(), at=moment())
    position = accept_rollback(opened.store, guards, acceptance)
    tell_change(
        "guard-accept",
        f"accepted: the database at {position.text}",
        details={"counter": position.counter, "log": position.log.text, "guards": [one.name for one in guards]},
    )
    say("note: challenges of before are refused; what was disabled or frozen since the copy has to be done again")
    if len(guards) < len(loaded.settings.rollback_guard):
        say("note: witnesses and replicas cannot be told: one that knows a longer log has to leave rollback_guard")


def _examined(loaded: LoadedSettings) -> list[GuardFinding]:
    from attest.clock import system_clock
    from kms.operations.guards.examination import examine_guards
    from kms.operations.services import open_identity

    opened = vault(loaded, guarded=False)
    identity = partial(open_identity, opened, loaded.settings)
    return list(examine_guards(loaded.settings, opened.store, identity, clock=system_clock))
