"""``kms break-glass``: one named relaxation for one key, until a moment, by a quorum."""

from __future__ import annotations

from pathlib import Path

import click

from kms.cli.changes import CHANGING, TELLING, carry_out, desk, tell_change
from kms.cli.options import (
    AS_JSON,
    SETTINGS,
    moment,
    print_json,
    read_policy_input,
    read_time,
    say,
    vault,
    with_options,
)

__all__ = ["break_glass"]


@click.group("break-glass")
def break_glass() -> None:
    """Relax one thing for one key for a limited time. It takes a quorum, and never skips attestation.

    \b
    Examples:
      kms break-glass open --key my-model --lift-freeze tenant:research --until 2026-06-01T14:00:00Z \\
          --reason "incident 4711" --propose
      kms break-glass open --key my-model --policy emergency.yaml --until 2026-06-01T14:00:00Z \\
          --reason "incident 4711" --propose
      kms break-glass list
      kms break-glass close 1 --reason "over"
    """  # noqa: D301  \b is click's mark for text that is not wrapped


@break_glass.command("open")
@click.option("--key", "key_text", required=True, metavar="KEY", help="For which key.")
@click.option("--lift-freeze", metavar="SCOPE:NAME", help="The freeze that is not to count: key:…, tenant:…, … or all.")
@click.option("--policy", "policy_file", type=click.Path(path_type=Path), help="The policy that is to judge instead.")
@click.option("--until", required=True, metavar="TIME", help="RFC 3339, UTC, such as 2026-06-01T14:00:00Z.")
@click.option("--reason", required=True, metavar="TEXT", help="Why; kept for ever in the log.")
@with_options(*CHANGING, *SETTINGS)
def break_glass_open(
    *,
    key_text: str,
    lift_freeze: str | None,
    policy_file: Path | None,
    until: str,
    reason: str,
    propose: bool,
    hours: int,
    person: str | None,
    config: Path | None,
    **flags: object,
) -> None:
    """Propose a relaxation: one freeze does not count for the key, or another policy judges for it."""
    from attest.release import KeyName
    from kms.domain.freezes import require_reason, target
    from kms.quorum.break_glass import BreakGlassOpen

    if (lift_freeze is None) is (policy_file is None):
        raise click.UsageError("give --lift-freeze or --policy: one thing is relaxed at a time")
    scope, _, frozen = (lift_freeze or "").partition(":")
    change = BreakGlassOpen(
        name=KeyName.parse(key_text),
        lifts=None if lift_freeze is None else target(scope, frozen or None),
        policy=None if policy_file is None else read_policy_input(policy_file),
        reason=require_reason(reason),
        until=read_time(until, "--until").replace(microsecond=0),
    )
    opened = desk(config, flags)
    carry_out(change, at_desk=opened, reason=reason, propose=propose, hours=hours, person=person)


@break_glass.command("list")
@with_options(*SETTINGS, AS_JSON)
def break_glass_list(config: Path | None, as_json: bool, **flags: object) -> None:
    """List every relaxation that was ever opened, and whether it counts."""
    from kms.controls.break_glass import BreakGlassService
    from kms.domain.break_glass import glass_state

    opened = vault(config, flags)
    sealed, at = BreakGlassService(opened.kek), moment()
    with opened.store.reading() as reader:
        found = [
            (one, glass_state(one, closed, sealed=sealed.is_sealed(one), at=at))
            for one, closed in reader.break_glass.all()
        ]
    if as_json:
        rows = [{"number": one.number, "state": state, **one.members()} for one, state in found]
        print_json({"schema": "kms.break-glass/1", "break_glass": rows})
        return
    for one, state in found:
        members = one.members()
        click.echo(f"{one.number}  {state}  {one.relaxation}  for {one.key}  until {members['until']}  {one.reason}")
    if not found:
        say("note: break-glass was never opened")


@break_glass.command("close")
@click.argument("number", type=int)
@click.option("--reason", required=True, metavar="TEXT", help="Why; kept for ever in the log.")
@with_options(*SETTINGS, TELLING)
def break_glass_close(number: int, reason: str, config: Path | None, **flags: object) -> None:
    """End a relaxation before its time, at once."""
    from kms.domain.actors import local_actor
    from kms.quorum.break_glass import close_glass

    close_glass(vault(config, flags).store, number, reason=reason, actor=local_actor(), at=moment())
    tell_change("break-glass-close", f"break-glass {number} is closed", details={"number": number})
