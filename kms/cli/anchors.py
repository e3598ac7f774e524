"""``kms anchors``: the trust anchors of the settings, and those that were approved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kms.cli.changes import CHANGING, carry_out, desk
from kms.cli.options import AS_JSON, SETTINGS, load, print_json, vault, with_options

if TYPE_CHECKING:
    from kms.quorum.anchors import AnchorsApprove

__all__ = ["anchors"]

_FILE = click.option("--anchors-file", type=click.Path(path_type=Path), help="Changes to the accepted roots (TOML).")


@click.group()
def anchors() -> None:
    """See and approve the roots that evidence may rest on. Under a rule for 'anchors' no others are started with."""


@anchors.command("show")
@with_options(*SETTINGS, _FILE, AS_JSON)
def anchors_show(config: Path | None, as_json: bool, **flags: object) -> None:
    """Show the trust anchors of the settings, and whether they are those that were approved."""
    from kms.domain.people import ChangeKind
    from kms.quorum.approved_anchors import APPROVED_ANCHORS

    change = _change(config, flags)
    with vault(config, flags).store.reading() as reader:
        approved, rule = reader.facts.find(APPROVED_ANCHORS), reader.quorum.current().rule(ChangeKind.ANCHORS)
    if as_json:
        known = {"anchors": list(change.lines), "sha256": change.digest.hex()}
        print_json({"schema": "kms.anchors/1", **known, "approved": approved == change.digest, "rule": bool(rule)})
        return
    for line in change.lines:
        click.echo(line)
    state = "approved" if approved == change.digest else "not approved"
    click.echo(f"{change.digest.hex()}: {state}{'' if rule else ', and no rule demands it'}")


@anchors.command("approve")
@click.option("--reason", default="", metavar="TEXT", help="Why; a proposal needs one.")
@with_options(*CHANGING, *SETTINGS, _FILE)
def anchors_approve(
    *, reason: str, propose: bool, hours: int, person: str | None, config: Path | None, **flags: object
) -> None:
    """Approve the trust anchors of the settings. Do it before the rule for 'anchors' is set, or propose it."""
    change = _change(config, flags)
    opened = desk(config, flags)
    carry_out(change, at_desk=opened, reason=reason, propose=propose, hours=hours, person=person)


def _change(config: Path | None, flags: dict[str, object]) -> AnchorsApprove:
    from kms.config.configuration import trust_lines
    from kms.config.external_files import read_anchors
    from kms.quorum.anchors import AnchorsApprove

    settings = load(config, flags).settings
    return AnchorsApprove(lines=trust_lines(settings, read_anchors(settings)))
