"""``kms releases try``: what a release on given evidence would come to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kms.cli.inputs import read_evidence_input, read_time
from kms.cli.options import AS_JSON, administering, print_json, say

if TYPE_CHECKING:
    from kms.cli.admin_client import AdminClient


@click.command("try")
@click.option("--evidence", required=True, type=click.Path(path_type=Path), help="Evidence; - for stdin.")
@click.option("--key", "asked", required=True, multiple=True, metavar="KEY", help="KEY, TENANT/KEY, or with @VERSION.")
@click.option("--renews", multiple=True, metavar="LEASE", help="A lease that would be named. Repeatable.")
@click.option("--at", "at_text", metavar="TIME", help="Judge for this moment (RFC 3339) and not for now.")
@administering(AS_JSON)
def releases_try(
    service: AdminClient,
    *,
    evidence: Path,
    asked: tuple[str, ...],
    renews: tuple[str, ...],
    at_text: str | None,
    as_json: bool,
) -> None:
    """Say what a release on this evidence would come to, with every reason and failed check. Nothing is changed.

    The evidence is taken to answer a challenge of this service. Exit code 1 when the keys would not be released.
    """
    from attest.encoding import rfc3339_text
    from attest.release import KeyReference
    from kms.domain.errors import ReleaseDeniedError

    at = None if at_text is None else rfc3339_text(read_time(at_text, "--at"))
    names = list(dict.fromkeys(str(KeyReference.parse(one)) for one in asked))
    given = {"evidence": read_evidence_input(evidence), "keys": names, "renews": list(renews), "at": at}
    answer = service.post("/v1/releases/try", given)
    would_release = answer["trial"]["outcome"] == "allow"
    if as_json:
        print_json(answer["trial"])
    else:
        _tell(answer, would_release=would_release)
    if not would_release:
        raise ReleaseDeniedError("the keys would not be released", code="release-would-be-refused")


def _tell(answer: dict[str, Any], *, would_release: bool) -> None:  # Any: members of JSON
    trial = answer["trial"]
    click.echo(f"{', '.join(trial['requested'])}: {'would be released' if would_release else 'REFUSED'}")
    for reason in trial["reasons"]:
        click.echo("  {code}: {text}".format(**reason))
    for check in answer["failed"]:
        where = "" if check["key"] is None else f" (policy of {check['key']})"
        click.echo(f"    {check['id']}{where}: expected {check['expected']}, got {check['got']}")
    say("note: nothing was decided, logged or released")
