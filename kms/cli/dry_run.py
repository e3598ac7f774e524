"""``kms releases try``: what a release on given evidence would come to."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kms.cli.options import AS_JSON, SETTINGS, load, moment, print_json, read_input, read_time, say, with_options

if TYPE_CHECKING:
    from kms.release.dry_run import ReleaseTrial

__all__ = ["releases_try"]


@click.command("try")
@click.option("--evidence", required=True, type=click.Path(path_type=Path), help="Evidence; - for stdin.")
@click.option("--key", "asked", required=True, multiple=True, metavar="KEY", help="KEY, TENANT/KEY, or with @VERSION.")
@click.option("--renews", multiple=True, metavar="LEASE", help="A lease that would be named. Repeatable.")
@click.option("--at", "at_text", metavar="TIME", help="Judge for this moment (RFC 3339) and not for now.")
@with_options(*SETTINGS, AS_JSON)
def releases_try(
    *,
    evidence: Path,
    asked: tuple[str, ...],
    renews: tuple[str, ...],
    at_text: str | None,
    config: Path | None,
    as_json: bool,
    **flags: object,
) -> None:
    """Say what a release on this evidence would come to, with every reason and failed check. Nothing is changed.

    The evidence is taken to answer a challenge of this service. Exit code 1 when the keys would not be released.
    """
    from attest import read_evidence
    from attest.release import KeyReference
    from kms.clock import system_clock
    from kms.domain.errors import ReleaseDeniedError
    from kms.operations.services import open_services
    from kms.release.service import ReleaseService

    at = moment() if at_text is None else read_time(at_text, "--at")
    names = tuple(dict.fromkeys(str(KeyReference.parse(one)) for one in asked))
    given = read_evidence([(evidence.name, read_input(evidence))]).evidence
    services = open_services(load(config, flags).settings, clock=system_clock, random=secrets.token_bytes, report=say)
    try:
        trial = ReleaseService(services).try_release(given, names, renews=renews, at=at)
    finally:
        services.store.close()
    if as_json:
        print_json(trial.members())
    else:
        _tell(trial)
    if not trial.would_release:
        raise ReleaseDeniedError("the keys would not be released", code="release-would-be-refused")


def _tell(trial: ReleaseTrial) -> None:
    members = trial.members()
    click.echo(f"{', '.join(trial.requested)}: {'would be released' if trial.would_release else 'REFUSED'}")
    reasons = members["reasons"]
    for reason in reasons if isinstance(reasons, list) else ():
        click.echo("  {code}: {text}".format(**reason))  # type: ignore[arg-type]  # an object, as ReleaseTrial makes it
    for asked, check in trial.failed():
        where = "" if asked is None else f" (policy of {asked})"
        click.echo(f"    {check.id}{where}: expected {check.expected}, got {check.got}")
    say("note: nothing was decided, logged or released")
