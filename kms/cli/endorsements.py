"""``kms endorsements``: what vendors say, as the service would use it."""

from __future__ import annotations

import secrets
from pathlib import Path

import click

from kms.cli.options import AS_JSON, SERVING, SETTINGS, load, moment, print_json, say, with_options


@click.group()
def endorsements() -> None:
    """See what vendors say and until when, on the service's machine."""


@endorsements.command("status")
@with_options(*SETTINGS, *SERVING, AS_JSON)
def endorsements_status(config: Path | None, as_json: bool, **flags: object) -> None:
    """List what is in the files and in the cache directory, with the moment at which each stops counting.

    What ends soonest is first. What a running service keeps in memory alone is not seen.
    """
    from attest.clock import system_clock
    from attest.encoding import rfc3339_text
    from kms.config.external_files import open_endorsements, read_cached
    from kms.release.endorsement_dates import dated

    settings, at = load(config, flags).settings, moment()
    desk = open_endorsements(settings, clock=system_clock, random=secrets.token_bytes, report=say)
    found = [("files", one) for one in dated(desk.current(at=at))]
    found += [("cache", one) for one in dated(read_cached(settings, at=at))]
    rows = [
        {"from": where, "kind": one.kind, "name": one.name, "ends": rfc3339_text(one.ends), "current": at < one.ends}
        for where, one in sorted(found, key=lambda each: each[1].ends)
    ]
    if as_json:
        print_json({"schema": "kms.endorsements/1", "at": rfc3339_text(at), "endorsements": rows})
        return
    for row in rows:
        state = "current" if row["current"] else "ENDED"
        click.echo(f"{row['ends']:27} {state:8} {row['from']:6} {row['kind']:12} {row['name']}")
    if not rows:
        say("note: there is nothing; 'attest endorsements fetch' makes a bundle, or set fetch")
