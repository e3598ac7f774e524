"""``kms guard``: rollback guards, which record the newest state outside of the database."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from attest.terminal import ExampleGroup
from kms.cli.changes import DRY_RUN, TELLING, tell_change
from kms.cli.options import AS_JSON, moment, print_json, say, vault, wants_json, with_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kms.config.settings import LoadedSettings
    from kms.domain.rollback import StatePosition
    from kms.operations.guards.examination import GuardFinding


@click.group(cls=ExampleGroup, examples=("kms guard show --config kms.toml",))
def guard() -> None:
    """Show and create rollback guards.

    They detect an older copy of the database; 'accept' accepts such a copy. Run these commands on the service's
    machine; they do not work over the network.
    """


@guard.command("show", examples=("kms guard show --config kms.toml",))
@with_settings(AS_JSON)
def guard_show(loaded: LoadedSettings) -> None:
    """Compare the database with every guard.

    Exit code 1 if a guard rejects it or does not respond.
    """
    from kms.domain.errors import KmsError

    found = _examined(loaded)
    if wants_json():
        rows = [{"guard": one.guard, "remembers": one.remembers, "problem": one.problem} for one in found]
        print_json({"schema": "kms.guards/1", "guards": rows})
    else:
        for one in found:
            click.echo(f"{one.guard}\n  {one.remembers or 'remembers nothing'}\n  {one.problem or 'ok'}")
    if not found:
        say("warning: allow_no_rollback_guard is on: there is no guard")
    failed = [one.guard for one in found if one.problem]
    if failed:
        raise KmsError(
            f"the database cannot be served: {', '.join(failed)}", code="rollback-guard-refuses", field=failed[0]
        )


@guard.command("init", examples=("kms guard init --config kms.toml",))
@with_settings(TELLING)
def guard_init(loaded: LoadedSettings) -> None:
    """Create guards that are missing or empty. They accept the present state of the database and later ones.

    First make sure that the database is the newest: a missing guard can conceal an older copy ('kms fsck --expect').
    """
    from kms.domain.actors import local_actor
    from kms.operations.guards.opening import open_local_guards
    from kms.operations.guards.setting import make_guards

    opened = vault(loaded, guarded=False)
    guards = open_local_guards(loaded.settings)
    made = make_guards(opened.store, guards, actor=local_actor(), at=moment())
    tell_change("guard-init", *(f"made: {name}" for name in made), details={"guards": [*made]})
    if not made:
        say("note: every guard exists already")


@guard.command(
    "accept",
    examples=(
        "kms guard accept --because 'restored with pg_restore' --dry-run --config kms.toml",
        "kms guard accept --because 'restored with pg_restore' --config kms.toml",
    ),
)
@click.option("--because", required=True, metavar="REASON", help="Reason to use this database; recorded in the log.")
@DRY_RUN
@with_settings(TELLING)
def guard_accept(*, because: str, dry_run: bool, loaded: LoadedSettings) -> None:
    """Accept a database that is older than its guards.

    Use this, for example, after a restoration by other means. Stop every service first. Repeat every disable, freeze
    and revocation made since the copy: this undoes them.
    """
    from kms.domain.actors import local_actor
    from kms.operations.continuity import AcceptedRollback
    from kms.operations.guards.opening import open_local_guards
    from kms.operations.guards.setting import Acceptance, accept_rollback, read_memories

    accepted = AcceptedRollback(reason=because, field="--because")
    opened = vault(loaded, guarded=False)
    guards = open_local_guards(loaded.settings)
    remembered = read_memories(guards)
    if dry_run:
        with opened.store.reading() as tx:
            _tell_accepted(tx.position, remembered, would=True)
        say("note: dry run; nothing was changed")
        return
    acceptance = Acceptance(accepted=accepted, remembered=remembered, actor=local_actor(), at=moment())
    _tell_accepted(accept_rollback(opened.store, guards, acceptance), remembered)
    say("note: earlier challenges are refused; disable and freeze again what was disabled or frozen since the copy")
    if len(guards) < len(loaded.settings.rollback_guard):
        say("note: witnesses and replicas cannot be reset: remove one that has a longer log from rollback_guard")


def _tell_accepted(
    position: StatePosition, remembered: Mapping[str, StatePosition | None], *, would: bool = False
) -> None:
    """Print the position that guards have now, or, in a dry run, the one in place of what each has."""
    details = {"counter": position.counter, "log": position.log.text, "guards": [*remembered]}
    lines = [f"{'would accept' if would else 'accepted'}: the database at {position.text}"]
    if would:
        lines += [f"{name}: {'nothing' if one is None else one.text}" for name, one in remembered.items()]
    tell_change("guard-accept", *lines, details=details, would=would)


def _examined(loaded: LoadedSettings) -> list[GuardFinding]:
    from attest.clock import system_clock
    from kms.operations.guards.examination import examine_guards
    from kms.operations.services import open_identity

    opened = vault(loaded, guarded=False)
    identity = partial(open_identity, opened, loaded.settings)
    return list(examine_guards(loaded.settings, opened.store, identity, clock=system_clock))
