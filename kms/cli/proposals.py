"""``kms proposal``: changes that require the signatures of several registered people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from attest.files import write_result
from attest.terminal import ExampleGroup
from kms.cli.administration import AdminClient, administering
from kms.cli.changes import TELLING, Manner, carry_out, tell_change
from kms.cli.inputs import read_input
from kms.cli.options import AS_JSON, FILE, JsonObject, path, print_json, print_rows, say, wants_json

if TYPE_CHECKING:
    from kms.domain.proposals import Proposal


@click.group(
    cls=ExampleGroup,
    examples=(
        "kms proposal list --config kms.toml",
        "kms proposal show 3 --export proposal.json --config kms.toml",
    ),
)
def proposal() -> None:
    """Propose, sign and execute changes by a quorum."""


@proposal.command(
    "create",
    examples=("kms proposal create thaw --arguments thaw.json --reason 'incident 4711 is closed' --config kms.toml",),
)
@click.argument("action")
@click.option("--arguments", required=True, type=FILE, help="File with the arguments as JSON; - for stdin.")
@click.option("--reason", required=True, metavar="TEXT", help="Why.")
@click.option("--hours", type=click.IntRange(1, 720), default=72, help="Hours until the proposal expires (default 72).")
@click.option("--as", "person", metavar="NAME", help="Registered person who proposes it.")
@administering(TELLING)
def proposal_create(
    service: AdminClient, *, action: str, arguments: Path, reason: str, hours: int, person: str | None
) -> None:
    """Propose an action by its name.

    The arguments have the form of 'kms proposal show --json'.
    """
    from attest.encoding import json_value
    from attest.errors import ConfigurationError, EvidenceError
    from kms.quorum.changes import read_change

    try:
        members = json_value(read_input(arguments), what="arguments")
    except EvidenceError as exc:
        raise ConfigurationError(exc.message, code="change-invalid", field="arguments") from exc
    if not isinstance(members, dict):
        raise ConfigurationError("the arguments are not a JSON object", code="change-invalid", field="arguments")
    change = read_change(action, members)
    carry_out(service, change, Manner(reason=reason, propose=True, hours=hours, person=person))


@proposal.command("list", examples=("kms proposal list --config kms.toml",))
@administering(AS_JSON)
def proposal_list(service: AdminClient) -> None:
    """List all proposals and their states."""
    found = service.get("/v1/proposals")["proposals"]
    print_rows({"schema": "kms.proposals/1", "proposals": found}, found, _line)


def _line(one: JsonObject) -> str:
    line = "{serial:4} {state:10} {kind:12} {action:16} {digest}  {reason}"
    return line.format(**{**one["document"], "state": one["state"], "digest": one["digest"]})


@proposal.command("show", examples=("kms proposal show 3 --export proposal.json --config kms.toml",))
@click.argument("which")
@click.option("--export", type=FILE, help="Write the document to be signed to this file.")
@administering(AS_JSON)
def proposal_show(service: AdminClient, *, which: str, export: Path | None) -> None:
    """Show a proposal, its signers, and what is missing.

    The proposal is given by number or digest.
    """
    found = service.get(_path(which))
    if export is not None:
        write_result(export, _document(found).raw, replace=True)
    if wants_json():
        print_json({"schema": "kms.proposal-standing/1", **found})
        return
    _show(found["document"], found["digest"])
    click.echo(f"state:       {found['state']}\nsigned:      {', '.join(found['signed']) or 'no signatures'}")
    for one in found["missing"]:
        click.echo(f"missing:     {one}")


@proposal.command("sign", examples=("kms proposal sign proposal.json --key alice.pem --out alice.sig",))
@click.argument("document", type=FILE)
@click.option("--key", required=True, type=FILE, help="Your private key (PEM, not encrypted).")
@click.option("--out", type=FILE, help="Output file for the signature. Default: standard output.")
@click.option("--audience", metavar="IDENTITY", help="Service that the proposal must be for.")
def proposal_sign(document: Path, key: Path, out: Path | None, audience: str | None) -> None:
    """Sign an exported proposal. Run this on your own machine: no service or database is needed."""
    from attest.policy import read_private_key
    from kms.domain.proposals import approve_with, read_proposal

    found = read_proposal(read_input(document))
    if audience is not None:
        _require_audience(found, audience)
    signature = (
        json.dumps(approve_with(found, read_private_key(read_input(key, secret=True))).members(), indent=2) + "\n"
    )
    if out is None:
        click.echo(signature, nl=False)
        return
    write_result(out, signature.encode(), replace=True)
    _show(json.loads(found.raw), found.digest)
    say(f"signed; next: 'kms proposal approve {out}'")


@proposal.command("approve", examples=("kms proposal approve alice.sig --config kms.toml",))
@click.argument("signature", type=FILE)
@administering(TELLING)
def proposal_approve(service: AdminClient, *, signature: Path) -> None:
    """Submit a signature. Anyone can submit it; only the signer counts."""
    from kms.domain.proposals import read_approval

    given = read_input(signature)
    approval = {"approval": given.decode("utf-8", errors="replace")}
    found = service.post(_path(read_approval(given).proposal, "approve"), approval)
    text = f"proposal {found['document']['serial']} is signed by {', '.join(found['signed'])}"
    more = {"signed": found["signed"], "missing": found["missing"]}
    tell_change("proposal-approve", text, details=_serial(found) | more)
    for one in found["missing"]:
        say(f"note: still missing: {one}")


@proposal.command("withdraw", examples=("kms proposal withdraw 3 --reason 'wrong key' --config kms.toml",))
@click.argument("which")
@click.option("--reason", required=True, metavar="TEXT", help="Why.")
@administering(TELLING)
def proposal_withdraw(service: AdminClient, *, which: str, reason: str) -> None:
    """Withdraw a proposal without executing it."""
    done = service.post(_path(which, "withdraw"), {"reason": reason})
    text = f"proposal {done['document']['serial']} is withdrawn"
    tell_change("proposal-withdraw", text, details=_serial(done))


@proposal.command("execute", examples=("kms proposal execute 3 --config kms.toml",))
@click.argument("which")
@administering(TELLING)
def proposal_execute(service: AdminClient, *, which: str) -> None:
    """Execute a proposal that enough people signed.

    It can be executed once, if its preconditions still hold.
    """
    done = service.post(_path(which, "execute"))
    tell_change("proposal-execute", done["done"], details=_serial(done) | {"action": done["document"]["action"]})


def _require_audience(found: Proposal, audience: str) -> None:
    from attest.errors import ConfigurationError

    if found.audience != audience:
        raise ConfigurationError(
            "the proposal is for another service",
            code="proposal-other-service",
            field="audience",
            expected=audience[:200],
            got=found.audience[:200],
        )


def _path(which: str, *verb: str) -> str:
    return path("proposals", which, *verb)


def _document(found: JsonObject) -> Proposal:
    """Return the signed form of a proposal, and refuse one whose digest differs from the one of the service."""
    from attest.errors import ConfigurationError
    from kms.domain.canonical_json import canonical_json
    from kms.domain.proposals import read_proposal

    made = read_proposal(canonical_json(found["document"]))
    if made.digest != found["digest"]:
        raise ConfigurationError(
            "the proposal does not match its digest",
            code="proposal-altered",
            field="digest",
            expected=found["digest"],
            got=made.digest,
        )
    return made


def _serial(found: JsonObject) -> dict[str, object]:
    return {"serial": found["document"]["serial"], "sha256": found["digest"]}


def _show(document: JsonObject, digest: str) -> None:
    for name, value in document.items():
        shown = value if isinstance(value, str) else json.dumps(value, indent=2, sort_keys=True)
        click.echo(f"{name + ':':12} {shown}")
    click.echo(f"{'digest:':12} {digest}")
