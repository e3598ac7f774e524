"""``kms endorsements``: the vendors' endorsements, as the service would use them."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import click

from kms.cli.options import AS_JSON, JsonObject, moment, print_json, say, wants_json, with_settings

if TYPE_CHECKING:
    from datetime import datetime

    from kms.config.settings import LoadedSettings, Settings


@click.group()
def endorsements() -> None:
    """See what vendors say and until when, on the service's machine."""


@endorsements.command("status")
@with_settings(AS_JSON, serving=True)
def endorsements_status(loaded: LoadedSettings) -> None:
    """List what is in the files and in the cache directory, with the moment at which each stops counting.

    What ends soonest is first. What a running service keeps in memory alone is not seen.
    """
    from attest.encoding import rfc3339_text

    at = moment()
    rows = _rows(loaded.settings, at)
    if wants_json():
        print_json({"schema": "kms.endorsements/1", "at": rfc3339_text(at), "endorsements": rows})
        return
    for row in rows:
        state = "current" if row["current"] else "ENDED"
        click.echo(f"{row['ends']:27} {state:8} {row['from']:6} {row['kind']:12} {row['name']}")
    if not rows:
        say("note: there is nothing; 'attest endorsements fetch' makes a bundle, or set fetch")


def _rows(settings: Settings, at: datetime) -> list[JsonObject]:
    from attest.clock import system_clock
    from attest.encoding import rfc3339_text
    from kms.config.external_files import open_endorsements, read_cached
    from kms.release.endorsement_dates import dated

    provider = open_endorsements(settings, clock=system_clock, random=secrets.token_bytes, report=say)
    found = [("files", one) for one in dated(provider.current(at=at))]
    found += [("cache", one) for one in dated(read_cached(settings, at=at))]
    return [
        {"from": where, "kind": one.kind, "name": one.name, "ends": rfc3339_text(one.ends), "current": at < one.ends}
        for where, one in sorted(found, key=lambda each: each[1].ends)
    ]
