"""Tenants at the command line."""

from __future__ import annotations

from pathlib import Path

import click

from kms.cli.changes import TELLING, tell_change
from kms.cli.options import AS_JSON, SETTINGS, moment, print_json, vault, with_options

__all__ = ["tenant"]


@click.group()
def tenant() -> None:
    """Make and list tenants. Keys of a tenant are named TENANT/KEY; those of the tenant 'default' by KEY alone."""


@tenant.command("create")
@click.argument("name", metavar="TENANT")
@with_options(*SETTINGS, TELLING)
def tenant_create(name: str, config: Path | None, **flags: object) -> None:
    """Make a tenant, so that keys can be made for it. It cannot be removed."""
    from kms.domain.actors import local_actor
    from kms.keys.tenants import create_tenant

    create_tenant(vault(config, flags).store, name, actor=local_actor(), at=moment())
    tell_change("tenant-create", f"there is a tenant {name}", details={"tenant": name})


@tenant.command("list")
@with_options(*SETTINGS, AS_JSON)
def tenant_list(config: Path | None, as_json: bool, **flags: object) -> None:
    """List the tenants."""
    from attest.encoding import rfc3339_text

    with vault(config, flags).store.reading() as reader:
        found = {name: rfc3339_text(since) for name, since in reader.tenants.all().items()}
    if as_json:
        rows = [{"tenant": name, "created_at": since} for name, since in found.items()]
        print_json({"schema": "kms.tenants/1", "tenants": rows})
        return
    for name, since in found.items():
        click.echo(f"{name}  since {since}")
