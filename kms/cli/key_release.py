"""``kms key release-settings``: what a refused workload is told, and how long a lease lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kms.cli.options import AS_JSON, administering, key_argument, print_json, say

if TYPE_CHECKING:
    from kms.cli.admin_client import AdminClient
    from kms.domain.keys import KeyName

_LEVELS = ("none", "codes", "checks", "full")


@click.command("release-settings")
@key_argument
@click.option("--disclosure", type=click.Choice(_LEVELS), help="What a workload is told that is refused the key.")
@click.option("--lease-seconds", metavar="N|default", help="How long a lease lasts.")
@administering(AS_JSON)
def key_release_settings(
    service: AdminClient, *, name: KeyName, disclosure: str | None, lease_seconds: str | None, as_json: bool
) -> None:
    """Set what a refused workload is told, and how long a lease lasts; without an option both are shown.

    With 'none' a key that is refused cannot be told from one that does not exist. The log has every reason in any case.
    """
    from kms.cli.admin_client import key_path

    if lease_seconds and lease_seconds != "default" and not (lease_seconds.isascii() and lease_seconds.isdigit()):
        raise click.UsageError("--lease-seconds: expected a number of seconds, or 'default'")
    now = service.get(key_path(name))
    then = {"disclosure": disclosure or now["disclosure"], "lease_seconds": now["lease_seconds"]}
    if lease_seconds is not None:
        then["lease_seconds"] = None if lease_seconds == "default" else int(lease_seconds[:12])
    if disclosure is not None or lease_seconds is not None:
        service.post(key_path(name, "release-settings"), then)
    if as_json:
        print_json({"schema": "kms.release-settings/1", "tenant": name.tenant, "key_id": name.key_id, **then})
        return
    seconds = then["lease_seconds"]
    lasts = "as the service's settings say" if seconds is None else f"{seconds} s"
    click.echo(f"{name}: disclosure {then['disclosure']}, lease {lasts}")
    if lease_seconds is not None:
        say("note: leases that are out keep their end")
