"""``kms anchors``: the configured and the approved trust anchors."""

from __future__ import annotations

import click

from attest.terminal import ExampleGroup
from kms.cli.administration import AdminClient, administering
from kms.cli.changes import Manner, carry_out, changing
from kms.cli.options import AS_JSON, FILE, print_json, wants_json

_FILE = click.option("--anchors-file", type=FILE, help="Changes to the accepted roots (TOML).")


@click.group(
    cls=ExampleGroup,
    examples=(
        "kms anchors show --config kms.toml",
        "kms anchors approve --config kms.toml",
    ),
)
def anchors() -> None:
    """Show and approve trust anchors. With a quorum rule for 'anchors' the service starts only with approved ones."""


@anchors.command("show", examples=("kms anchors show --config kms.toml",))
@administering(_FILE, AS_JSON)
def anchors_show(service: AdminClient) -> None:
    """Show the configured trust anchors and whether they are approved."""
    found = service.get("/v1/anchors")
    if wants_json():
        print_json({"schema": "kms.anchors/1", **found})
        return
    for line in found["anchors"]:
        click.echo(line)
    state = "approved" if found["approved"] else "not approved"
    click.echo(f"{found['sha256']}: {state}{'' if found['rule'] else '; no rule requires approval'}")


@anchors.command("approve", examples=("kms anchors approve --reason 'AMD Turin' --propose --config kms.toml",))
@changing()
@administering(_FILE)
def anchors_approve(service: AdminClient, *, manner: Manner) -> None:
    """Approve the configured trust anchors. Do this before you set a rule for 'anchors'; afterwards, propose it."""
    from kms.quorum.anchors import AnchorsApprove

    change = AnchorsApprove(lines=tuple(service.get("/v1/anchors")["anchors"]))
    carry_out(service, change, manner)
