"""``kms people``, ``kms quorum`` and ``kms proposal``: changes that take several named people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kms.cli.changes import CHANGING, TELLING, carry_out, desk, tell_change
from kms.cli.options import AS_JSON, SETTINGS, moment, print_json, read_input, say, vault, with_options, write_output

if TYPE_CHECKING:
    from kms.domain.people import ChangeKind, Quorum
    from kms.domain.proposals import Proposal
    from kms.quorum.admin import ProposalStatus, QuorumService
    from kms.store import ReadTransaction

__all__ = ["people", "proposal", "quorum"]

_REASON = click.option("--reason", default="", metavar="TEXT", help="Why; a proposal needs one.")


# -- people and rules


@click.group()
def people() -> None:
    """Register who can approve changes. Under a rule for 'quorum' this takes a proposal itself."""


@click.group()
def quorum() -> None:
    """See and set how many of whom each kind of change takes."""


@people.command("list")
@with_options(*SETTINGS, AS_JSON)
def people_list(config: Path | None, as_json: bool, **flags: object) -> None:
    """List the registered people with the ids of their keys."""
    with vault(config, flags).store.reading() as reader:
        found = reader.quorum.current()
    if as_json:
        rows = [{"name": one.name, "key_id": one.key_id, "public_key": one.public_key} for one in found.people]
        print_json({"schema": "kms.people/1", "version": found.version, "people": rows})
        return
    for one in found.people:
        click.echo(f"{one.name}  {one.key_id}")
    if not found.people:
        say("note: nobody is registered; 'kms people add NAME --key PUBLIC.pem'")


@people.command("add")
@click.argument("name")
@click.option("--key", required=True, type=click.Path(path_type=Path), help="Public key (PEM).")
@_REASON
@with_options(*CHANGING, *SETTINGS)
def people_add(
    *,
    name: str,
    key: Path,
    reason: str,
    propose: bool,
    hours: int,
    person: str | None,
    config: Path | None,
    **flags: object,
) -> None:
    """Register somebody with a public key: Ed25519, P-256 or P-384."""
    public = read_input(key)
    at_desk = desk(config, flags)
    then = _now(at_desk).with_person(name, public)
    _set(then, at_desk, reason=reason, propose=propose, hours=hours, person=person)


@people.command("remove")
@click.argument("name")
@_REASON
@with_options(*CHANGING, *SETTINGS)
def people_remove(
    *, name: str, reason: str, propose: bool, hours: int, person: str | None, config: Path | None, **flags: object
) -> None:
    """Remove somebody whom no rule names any more."""
    at_desk = desk(config, flags)
    then = _now(at_desk).without_person(name)
    _set(then, at_desk, reason=reason, propose=propose, hours=hours, person=person)


@quorum.command("show")
@with_options(*SETTINGS, AS_JSON)
def quorum_show(config: Path | None, as_json: bool, **flags: object) -> None:
    """Show what each kind of change takes."""
    from kms.domain.people import ChangeKind

    with vault(config, flags).store.reading() as reader:
        found = reader.quorum.current()
    if as_json:
        print_json(found.members() | {"sha256": found.digest})
        return
    click.echo(f"version {found.version}  {found.digest}")
    for kind in ChangeKind:
        rule = found.rule(kind)
        apart = "" if rule is None or rule.proposer_counts else ", not counting the proposer"
        click.echo(f"{kind:12} {'no rule' if rule is None else f'{rule.threshold} of {_names(rule.people)}'}{apart}")


@quorum.command("set")
@click.argument("kind")
@click.option("--of", "threshold", type=int, required=True, metavar="M", help="How many must sign.")
@click.option("--person", "names", multiple=True, required=True, metavar="NAME", help="Who may sign. Repeatable.")
@click.option("--proposer-apart", is_flag=True, help="Whoever proposes must sign as well, and does not count.")
@_REASON
@with_options(*CHANGING, *SETTINGS)
def quorum_set(
    *,
    kind: str,
    threshold: int,
    names: tuple[str, ...],
    proposer_apart: bool,
    reason: str,
    propose: bool,
    hours: int,
    person: str | None,
    config: Path | None,
    **flags: object,
) -> None:
    """Set what a kind of change takes: key-policy, anchors, kek, thaw, break-glass or quorum (first of all)."""
    from kms.domain.people import QuorumRule

    at_desk = desk(config, flags)
    rule = QuorumRule(kind=_kind(kind), threshold=threshold, people=names, proposer_counts=not proposer_apart)
    _set(_now(at_desk).with_rule(rule), at_desk, reason=reason, propose=propose, hours=hours, person=person)


@quorum.command("clear")
@click.argument("kind")
@_REASON
@with_options(*CHANGING, *SETTINGS)
def quorum_clear(
    *, kind: str, reason: str, propose: bool, hours: int, person: str | None, config: Path | None, **flags: object
) -> None:
    """Take the rule for a kind of change away; it takes the signatures of that rule as well."""
    at_desk = desk(config, flags)
    then = _now(at_desk).without_rule(_kind(kind))
    _set(then, at_desk, reason=reason, propose=propose, hours=hours, person=person)


def _kind(text: str) -> ChangeKind:
    from kms.domain.people import ChangeKind

    if text not in set(ChangeKind):
        raise click.UsageError(f"there is no kind of change {text!r}: {', '.join(ChangeKind)}")
    return ChangeKind(text)


def _now(at_desk: QuorumService) -> Quorum:
    with at_desk.vault.store.reading() as reader:
        return reader.quorum.current()


def _set(then: Quorum, at_desk: QuorumService, *, reason: str, propose: bool, hours: int, person: str | None) -> None:
    from kms.quorum.changes import QuorumSet

    change = QuorumSet(then=then)
    carry_out(change, at_desk=at_desk, reason=reason, propose=propose, hours=hours, person=person)


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names)


# -- proposals


@click.group()
def proposal() -> None:
    """Propose, sign, approve, withdraw and execute changes.

    \b
    Examples:
      kms thaw all --reason "all clear" --propose
      kms proposal show 1 --export p.json
      kms proposal sign p.json --key alice.pem --out alice.sig
      kms proposal approve alice.sig
      kms proposal execute 1
    """  # noqa: D301  \b is click's mark for text that is not wrapped


@proposal.command("create")
@click.argument("action")
@click.option("--arguments", required=True, type=click.Path(path_type=Path), help="JSON; - for stdin.")
@click.option("--reason", required=True, metavar="TEXT", help="Why.")
@click.option("--hours", type=click.IntRange(1, 720), default=72, help="How long it stands (default 72).")
@click.option("--as", "person", metavar="NAME", help="Which of the registered people proposes it.")
@with_options(CHANGING[-1], *SETTINGS)
def proposal_create(
    *, action: str, arguments: Path, reason: str, hours: int, person: str | None, config: Path | None, **flags: object
) -> None:
    """Propose an action by its name, with arguments as 'kms proposal show --json' shows them."""
    from attest.encoding import json_value
    from attest.errors import ConfigurationError, EvidenceError
    from kms.quorum.changes import read_change

    try:
        members = json_value(read_input(arguments), what="arguments")
    except EvidenceError as exc:
        raise ConfigurationError(exc.message, code="change-invalid", field="arguments") from exc
    if not isinstance(members, dict):
        raise ConfigurationError("the arguments are no JSON object", code="change-invalid", field="arguments")
    change = read_change(action, members)
    carry_out(change, at_desk=desk(config, flags), reason=reason, propose=True, hours=hours, person=person)


@proposal.command("list")
@with_options(*SETTINGS, AS_JSON)
def proposal_list(config: Path | None, as_json: bool, **flags: object) -> None:
    """List every proposal and how it stands."""
    at_desk = desk(config, flags)
    with at_desk.vault.store.reading() as reader:
        found = [_standing(reader, at_desk, digest) for digest in reader.proposals.digests()]
    if as_json:
        print_json({"schema": "kms.proposals/1", "proposals": [_members(one) for one in found]})
        return
    for one in found:
        made = one.proposal
        click.echo(f"{made.serial:4} {one.state:10} {made.kind:12} {made.action:16} {made.digest}  {made.reason}")


@proposal.command("show")
@click.argument("which")
@click.option("--export", type=click.Path(path_type=Path), help="Write the document that is signed to this file.")
@with_options(*SETTINGS, AS_JSON)
def proposal_show(which: str, export: Path | None, config: Path | None, as_json: bool, **flags: object) -> None:
    """Show a proposal (its number or digest), who signed it, and what it lacks."""
    at_desk = desk(config, flags)
    with at_desk.vault.store.reading() as reader:
        found = _standing(reader, at_desk, _digest(reader, which))
    if export is not None:
        write_output(export, found.proposal.raw)
    if as_json:
        print_json({"schema": "kms.proposal-standing/1", **_members(found)})
        return
    _show(found.proposal)
    click.echo(f"state:       {found.state}\nsigned:      {_names(found.signed) or 'nobody'}")
    for one in found.missing:
        click.echo(f"lacks:       {one}")


@proposal.command("sign")
@click.argument("document", type=click.Path(path_type=Path))
@click.option("--key", required=True, type=click.Path(path_type=Path), help="Your private key (PEM, not encrypted).")
@click.option("--out", type=click.Path(path_type=Path), help="Where the signature goes; else to standard output.")
@click.option("--audience", metavar="IDENTITY", help="The service that it must be for.")
def proposal_sign(document: Path, key: Path, out: Path | None, audience: str | None) -> None:
    """Sign an exported proposal. It takes no service and no database: do it on a machine of your own."""
    from attest.errors import ConfigurationError
    from attest.policy.authoring.signatures import read_private_key
    from kms.domain.proposals import approve_with, read_proposal

    found = read_proposal(read_input(document))
    if audience is not None and found.audience != audience:
        raise ConfigurationError(
            "the proposal is for another service",
            code="proposal-other-service",
            field="audience",
            expected=audience[:200],
            got=found.audience[:200],
        )
    signature = json.dumps(approve_with(found, read_private_key(read_input(key))).members(), indent=2) + "\n"
    if out is None:
        click.echo(signature, nl=False)
        return
    write_output(out, signature.encode())
    _show(found)
    say(f"signed: 'kms proposal approve {out}' hands it in")


@proposal.command("approve")
@click.argument("signature", type=click.Path(path_type=Path))
@with_options(*SETTINGS, TELLING)
def proposal_approve(signature: Path, config: Path | None, **flags: object) -> None:
    """Hand a signature in. Who does it does not matter, only who signed."""
    from kms.domain.actors import local_actor
    from kms.domain.proposals import read_approval
    from kms.quorum.admin import approve

    found = approve(desk(config, flags), read_approval(read_input(signature)), actor=local_actor(), at=moment())
    text = f"proposal {found.proposal.serial} is signed by {_names(found.signed)}"
    more = {"signed": list(found.signed), "missing": list(found.missing)}
    tell_change("proposal-approve", text, details=_serial(found.proposal) | more)
    for one in found.missing:
        say(f"note: it lacks {one}")


@proposal.command("withdraw")
@click.argument("which")
@click.option("--reason", required=True, metavar="TEXT", help="Why.")
@with_options(*SETTINGS, TELLING)
def proposal_withdraw(which: str, reason: str, config: Path | None, **flags: object) -> None:
    """End a proposal without doing it."""
    from kms.domain.actors import local_actor
    from kms.quorum.admin import withdraw

    at_desk = desk(config, flags)
    with at_desk.vault.store.reading() as reader:
        digest = _digest(reader, which)
    done = withdraw(at_desk, digest, reason=reason, actor=local_actor(), at=moment())
    tell_change("proposal-withdraw", f"proposal {done.serial} is withdrawn", details=_serial(done))


@proposal.command("execute")
@click.argument("which")
@with_options(*SETTINGS, TELLING)
def proposal_execute(which: str, config: Path | None, **flags: object) -> None:
    """Do what enough people signed: once, and only while all that it builds on is as they read it."""
    from kms.domain.actors import local_actor
    from kms.quorum.admin import execute, find

    at_desk = desk(config, flags)
    with at_desk.vault.store.reading() as reader:
        digest = _digest(reader, which)
    text = execute(at_desk, digest, actor=local_actor(), at=moment())
    with at_desk.vault.store.reading() as reader:
        executed = find(reader, digest)
    tell_change("proposal-execute", text, details=_serial(executed) | {"action": executed.action})


def _digest(reader: ReadTransaction, which: str) -> str:
    """Return the digest for a number; anything else is taken for a digest."""
    digests = reader.proposals.digests()
    number = int(which) if which.isascii() and which.isdigit() and len(which) < 10 else 0
    return digests[number - 1] if 0 < number <= len(digests) else which


def _serial(one: Proposal) -> dict[str, object]:
    return {"serial": one.serial, "sha256": one.digest}


def _standing(reader: ReadTransaction, at_desk: QuorumService, digest: str) -> ProposalStatus:
    from kms.quorum.admin import find, standing

    return standing(reader, find(reader, digest), alone=at_desk.alone, at=moment())


def _members(one: ProposalStatus) -> dict[str, object]:
    document = json.loads(one.proposal.raw)
    more = {"digest": one.proposal.digest, "state": one.state, "signed": one.signed, "missing": one.missing}
    return {"document": document, **more}


def _show(made: Proposal) -> None:
    for name, value in json.loads(made.raw).items():
        shown = value if isinstance(value, str) else json.dumps(value, indent=2, sort_keys=True)
        click.echo(f"{name + ':':12} {shown}")
    click.echo(f"{'digest:':12} {made.digest}")
