"""``kms key policy``: replace the policy of a key."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from attest.terminal import ExampleGroup
from kms.cli.administration import AdminClient, administering
from kms.cli.changes import Manner, carry_out, changing
from kms.cli.inputs import given_references, read_evidence_input, read_policy_input, read_time, references_options
from kms.cli.options import AS_JSON, FILE, JsonObject, key_argument, key_path, moment, print_json, say, wants_json

if TYPE_CHECKING:
    from kms.domain.keys import KeyName
    from kms.domain.references import StoredDocument

_SUMMARY = {
    "looser": "the new policy accepts more",
    "stricter": "the new policy accepts less",
    "changed": "the new policy accepts some evidence that the old one refuses, and refuses some other, or may do so",
}


@click.group(
    cls=ExampleGroup, examples=("kms key policy set my-model --policy policy-2.yaml --dry-run --config kms.toml",)
)
def policy() -> None:
    """Replace the policy that guards a key."""


@policy.command(
    "set",
    examples=(
        "kms key policy set my-model --policy policy-2.yaml --dry-run --evidence recorded.cmw --config kms.toml",
        "kms key policy set my-model --policy policy-2.yaml --config kms.toml",
    ),
)
@key_argument
@click.option("--policy", "policy_file", required=True, type=FILE, help="Policy document.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option(
    "--evidence",
    multiple=True,
    type=FILE,
    help="Recorded evidence to appraise with both policies. With --dry-run. Repeatable.",
)
@click.option("--at", "at_text", metavar="TIME", help="Time of the appraisal (RFC 3339). Default: now.")
@references_options
@changing(telling=False)
@administering(AS_JSON)
def policy_set(
    *,
    service: AdminClient,
    name: KeyName,
    policy_file: Path,
    dry_run: bool,
    evidence: tuple[Path, ...],
    at_text: str | None,
    references: tuple[StoredDocument, ...],
    manner: Manner,
) -> None:
    """Put a key under a higher version of its policy.

    This applies to all versions of the key, from the next request on. The version must increase, and the name must not
    change. With a rule for 'key-policy' this requires a proposal.
    """
    from attest.encoding import rfc3339_text
    from kms.quorum.key_policy import KeyPolicySet

    if evidence and not dry_run:
        raise click.UsageError("--evidence requires --dry-run")
    at = moment() if at_text is None else read_time(at_text, "--at")
    change = KeyPolicySet(name=name, policy=read_policy_input(policy_file), references=references)
    trial = {"policy": change.policy.decode(), "references": given_references(references), "at": rfc3339_text(at)}
    trial["evidence"] = [{"name": str(file), "evidence": read_evidence_input(file)} for file in evidence]
    answer = service.post(key_path(name, "policy", "try"), trial)
    trials = answer.pop("evidence")
    about = {"key": str(name), **answer}
    if not wants_json():
        _show(answer)
    if not dry_run:
        document = {"schema": "kms.policy-change/1", **about} if wants_json() else None
        carry_out(service, change, manner, document=document)
        return
    if wants_json():
        print_json({"schema": "kms.policy-trial/1", **about, "evidence": trials})
        return
    for one in trials:
        click.echo(f"{one['evidence']}: {'CHANGES' if one['changed'] else 'the same'}")
        click.echo(f"  before: {one['before']}\n  after:  {one['after']}")
    say("note: dry run; nothing was changed")
    say(f"note: 'kms releases affected --policy {policy_file}' lists live leases that would not be renewed")


def _show(answer: JsonObject) -> None:
    for one in answer["changes"]:
        click.echo(f"{one['effect']:9} {one['path']}: {one['text']}")
    click.echo(_SUMMARY.get(answer["effect"], "both policies accept the same"))
