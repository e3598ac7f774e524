"""``kms key release-settings``: what a refused workload is told, and how long a lease lasts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kms.cli.options import AS_JSON, SETTINGS, key_argument, moment, print_json, say, vault, with_options

if TYPE_CHECKING:
    from kms.domain.keys import KeyName

__all__ = ["key_release_settings"]

_LEVELS = ("none", "codes", "checks", "full")


@click.command("release-settings")
@key_argument
@click.option("--disclosure", type=click.Choice(_LEVELS), help="What a workload is told that is refused the key.")
@click.option("--lease-seconds", metavar="N|default", help="How long a lease lasts.")
@with_options(*SETTINGS, AS_JSON)
def key_release_settings(
    *,
    name: KeyName,
    disclosure: str | None,
    lease_seconds: str | None,
    config: Path | None,
    as_json: bool,
    **flags: object,
) -> None:
    """Set what a refused workload is told, and how long a lease lasts; without an option both are shown.

    With 'none' a key that is refused cannot be told from one that does not exist. The log has every reason in any case.
    """
    from kms.domain.actors import local_actor
    from kms.domain.keys import Disclosure
    from kms.keys.admin import find_key
    from kms.keys.release_settings import ReleaseSettings, set_release_settings

    store = vault(config, flags).store
    now = ReleaseSettings.of(find_key(store, name)[0])
    then = now if disclosure is None else replace(now, disclosure=Disclosure(disclosure))
    if lease_seconds is not None:
        if lease_seconds != "default" and not (lease_seconds.isascii() and lease_seconds.isdigit()):
            raise click.UsageError("--lease-seconds: expected a number of seconds, or 'default'")
        then = replace(then, lease_seconds=None if lease_seconds == "default" else int(lease_seconds[:12]))
    if disclosure is not None or lease_seconds is not None:
        set_release_settings(store, name, then, actor=local_actor(), at=moment())
    if as_json:
        print_json({"schema": "kms.release-settings/1", "tenant": name.tenant, "key_id": name.key_id, **then.members()})
        return
    lasts = "as the service's settings say" if then.lease_seconds is None else f"{then.lease_seconds} s"
    click.echo(f"{name}: disclosure {then.disclosure}, lease {lasts}")
    if lease_seconds is not None:
        say("note: leases that are out keep their end")
