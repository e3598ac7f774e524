"""``kms people`` and ``kms quorum``: the people who sign changes, and the signatures that each change requires."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from attest.terminal import ExampleGroup
from kms.cli.administration import AdminClient, administering
from kms.cli.changes import Manner, carry_out, changing
from kms.cli.inputs import read_input
from kms.cli.options import AS_JSON, FILE, print_json, print_rows, wants_json

if TYPE_CHECKING:
    from kms.domain.people import ChangeKind, Quorum

# -- people and rules


@click.group(
    cls=ExampleGroup,
    examples=(
        "kms people add alice --key alice.pub.pem --config kms.toml",
        "kms people list --config kms.toml",
    ),
)
def people() -> None:
    """Register the people who can approve changes. With a rule for 'quorum' this requires a proposal."""


@click.group(
    cls=ExampleGroup,
    examples=(
        "kms quorum show --config kms.toml",
        "kms quorum set thaw --of 2 --person alice --person bob --person carol --config kms.toml",
    ),
)
def quorum() -> None:
    """Show and set the rules for kinds of changes."""


@people.command("list", examples=("kms people list --config kms.toml",))
@administering(AS_JSON)
def people_list(service: AdminClient) -> None:
    """List the registered people and the ids of their keys."""
    found = _now(service)
    rows = [{"name": one.name, "key_id": one.key_id, "public_key": one.public_key} for one in found.people]
    document = {"schema": "kms.people/1", "version": found.version, "people": rows}
    none = "no people are registered; add one with 'kms people add NAME --key PUBLIC.pem'"
    print_rows(document, rows, "{0[name]}  {0[key_id]}".format, none=none)


@people.command("add", examples=("kms people add alice --key alice.pub.pem --config kms.toml",))
@click.argument("name")
@click.option("--key", required=True, type=FILE, help="Public key (PEM).")
@changing()
@administering()
def people_add(service: AdminClient, *, name: str, key: Path, manner: Manner) -> None:
    """Register a person with a public key: Ed25519, P-256 or P-384."""
    _set(_now(service).with_person(name, read_input(key)), service, manner)


@people.command("remove", examples=("kms people remove alice --reason 'left the team' --propose --config kms.toml",))
@click.argument("name")
@changing()
@administering()
def people_remove(service: AdminClient, *, name: str, manner: Manner) -> None:
    """Remove a person who is not named in any rule."""
    _set(_now(service).without_person(name), service, manner)


@quorum.command("show", examples=("kms quorum show --config kms.toml",))
@administering(AS_JSON)
def quorum_show(service: AdminClient) -> None:
    """Show the signatures that each kind of change requires."""
    from kms.domain.people import ChangeKind

    found = _now(service)
    if wants_json():
        print_json(found.members() | {"sha256": found.digest})
        return
    click.echo(f"version {found.version}  {found.digest}")
    for kind in ChangeKind:
        rule = found.rule(kind)
        apart = "" if rule is None or rule.proposer_counts else ", excluding the proposer"
        text = "no rule" if rule is None else f"{rule.threshold} of {', '.join(rule.people)}"
        click.echo(f"{kind:12} {text}{apart}")


@quorum.command(
    "set", examples=("kms quorum set thaw --of 2 --person alice --person bob --person carol --config kms.toml",)
)
@click.argument("kind")
@click.option("--of", "threshold", type=int, required=True, metavar="M", help="Number of required signatures.")
@click.option("--person", "names", multiple=True, required=True, metavar="NAME", help="Signer. Repeatable.")
@click.option("--proposer-apart", is_flag=True, help="The proposer must sign too, and is not counted.")
@changing()
@administering()
def quorum_set(
    service: AdminClient, *, kind: str, threshold: int, names: tuple[str, ...], proposer_apart: bool, manner: Manner
) -> None:
    """Set the rule for a kind of change.

    The kinds are quorum (set this one first), key-policy, anchors, kek, thaw and break-glass.
    """
    from kms.domain.people import QuorumRule

    rule = QuorumRule(kind=_kind(kind), threshold=threshold, people=names, proposer_counts=not proposer_apart)
    _set(_now(service).with_rule(rule), service, manner)


@quorum.command("clear", examples=("kms quorum clear thaw --reason 'one owner' --propose --config kms.toml",))
@click.argument("kind")
@changing()
@administering()
def quorum_clear(service: AdminClient, *, kind: str, manner: Manner) -> None:
    """Remove the rule for a kind of change.

    This requires the signatures of that rule, too.
    """
    _set(_now(service).without_rule(_kind(kind)), service, manner)


def _kind(text: str) -> ChangeKind:
    from kms.domain.people import ChangeKind

    if text not in set(ChangeKind):
        raise click.UsageError(f"there is no kind of change {text!r}: {', '.join(ChangeKind)}")
    return ChangeKind(text)


def _now(service: AdminClient) -> Quorum:
    from kms.domain.people import read_quorum

    return read_quorum(service.get("/v1/quorum")["quorum"])


def _set(then: Quorum, service: AdminClient, manner: Manner) -> None:
    from kms.quorum.changes import QuorumSet

    carry_out(service, QuorumSet(then=then), manner)
