"""``kms key policy``: another policy for a key."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kms.cli.changes import PROPOSING, carry_out, desk
from kms.cli.options import (
    AS_JSON,
    SETTINGS,
    key_argument,
    load,
    moment,
    print_json,
    read_input,
    read_policy_input,
    read_time,
    references_options,
    say,
    with_options,
)

if TYPE_CHECKING:
    from datetime import datetime

    from attest.policy.authoring.policy_diff import PolicyDifference
    from kms.config.settings import Settings
    from kms.domain.keys import KeyName
    from kms.domain.references import StoredDocument
    from kms.keys.policy_trials import PolicyTrial
    from kms.quorum.admin import QuorumService
    from kms.quorum.key_policy import KeyPolicySet

__all__ = ["policy"]

_SUMMARY = {
    "looser": "the new policy accepts more",
    "stricter": "the new policy accepts less",
    "changed": "the new policy accepts something that the old one refuses, and refuses something else, or may",
}


@click.group()
def policy() -> None:
    """Replace the policy that guards a key.

    \b
    Examples:
      kms key policy set my-model --policy policy-2.yaml --dry-run --evidence recorded.cmw
      kms key policy set my-model --policy policy-2.yaml
      kms key policy set my-model --policy policy-2.yaml --propose --reason "new firmware"
    """  # noqa: D301  \b is click's mark for text that is not wrapped


@policy.command("set")
@key_argument
@click.option("--policy", "policy_file", required=True, type=click.Path(path_type=Path), help="Policy document.")
@click.option("--dry-run", is_flag=True, help="Show what it would change, and change nothing.")
@click.option(
    "--evidence",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Recorded evidence: what does each policy say of it? With --dry-run. Repeatable.",
)
@click.option("--at", "at_text", metavar="TIME", help="Moment for which it is judged (RFC 3339). Default: now.")
@click.option("--reason", default="", metavar="TEXT", help="Why; a proposal needs one.")
@references_options
@with_options(*PROPOSING, *SETTINGS, AS_JSON)
def policy_set(
    *,
    name: KeyName,
    policy_file: Path,
    dry_run: bool,
    evidence: tuple[Path, ...],
    at_text: str | None,
    reason: str,
    references: tuple[StoredDocument, ...],
    propose: bool,
    hours: int,
    person: str | None,
    config: Path | None,
    as_json: bool,
    **flags: object,
) -> None:
    """Put all versions of a key under a higher version of its policy, from the next request on.

    The version only grows, and the name stays. Under a rule for 'key-policy' it takes a proposal.
    """
    from kms.quorum.key_policy import KeyPolicySet

    if evidence and not dry_run:
        raise click.UsageError("--evidence is for trying a policy out: add --dry-run")
    change = KeyPolicySet(name=name, policy=read_policy_input(policy_file), references=references)
    at_desk = desk(config, flags)
    with at_desk.vault.store.reading() as reader:
        change.state(reader)
        difference = change.difference(reader)
    if not dry_run:
        document = _members("kms.policy-change/1", change, difference) if as_json else None
        if document is None:
            _show(difference)
        carry_out(
            change, at_desk=at_desk, reason=reason, propose=propose, hours=hours, person=person, document=document
        )
        return
    at = moment() if at_text is None else read_time(at_text, "--at")
    settings = load(config, flags).settings
    trials = _tried(change, at_desk, evidence, at=at, settings=settings) if evidence else ()
    if as_json:
        tried = [
            {"evidence": one.name, "before": one.before, "after": one.after, "changed": one.changed} for one in trials
        ]
        print_json({**_members("kms.policy-trial/1", change, difference), "evidence": tried})
        return
    _show(difference)
    for one in trials:
        click.echo(f"{one.name}: {'CHANGES' if one.changed else 'the same'}")
        click.echo(f"  before: {one.before}\n  after:  {one.after}")
    say("note: a dry run; nothing was changed")
    say(f"note: 'kms releases affected --policy {policy_file}' shows which live leases it would not renew")


def _tried(
    change: KeyPolicySet, at_desk: QuorumService, files: tuple[Path, ...], *, at: datetime, settings: Settings
) -> tuple[PolicyTrial, ...]:
    from attest import read_evidence
    from kms.clock import system_clock
    from kms.keys.policy_trials import try_evidence
    from kms.operations.services import open_services

    with at_desk.vault.store.reading() as reader:
        policies = change.policies(reader)
    services = open_services(settings, clock=system_clock, random=secrets.token_bytes, report=say)
    try:
        return tuple(
            try_evidence(
                str(file),
                read_evidence([(file.name, read_input(file))]).evidence,
                policies=policies,
                endorsements=services.endorsements.current(at=at),
                anchors=services.anchors,
                at=at,
            )
            for file in files
        )
    finally:
        services.store.close()


def _members(schema: str, change: KeyPolicySet, difference: PolicyDifference) -> dict[str, object]:
    from kms.keys.policy_trials import difference_members

    identity = change.identity
    named = {"policy": identity.name, "policy_version": identity.version, "policy_sha256": identity.digest.hex()}
    return {"schema": schema, "key": str(change.name), **named, **difference_members(difference)}


def _show(difference: PolicyDifference) -> None:
    for change in difference.changes:
        click.echo(f"{change.effect:9} {change.path}: {change.text}")
    effect = "" if difference.effect is None else str(difference.effect)
    click.echo(_SUMMARY.get(effect, "both policies accept the same"))
