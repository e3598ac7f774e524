"""``kms endorsements``: the vendors' endorsements that the service would use."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import click

from attest.terminal import ExampleGroup
from kms.cli.options import AS_JSON, JsonObject, moment, print_json, say, wants_json, with_settings

if TYPE_CHECKING:
    from datetime import datetime

    from kms.config.settings import LoadedSettings, Settings


@click.group(cls=ExampleGroup, examples=("kms endorsements status --config kms.toml",))
def endorsements() -> None:
    """Show the vendors' endorsements and their expiry. Run this on the service's machine."""


@endorsements.command("status", examples=("kms endorsements status --config kms.toml",))
@with_settings(AS_JSON, serving=True)
def endorsements_status(loaded: LoadedSettings) -> None:
    """List the endorsements with their expiry.

    The list contains the files and the cache directory, first expiry first. Endorsements that a running service holds
    only in memory are not listed.
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
        say("note: there are no endorsements; create a bundle with 'attest endorsements fetch', or set fetch")


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
