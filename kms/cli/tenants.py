"""``kms tenant``: create and list tenants."""

from __future__ import annotations

import click

from attest.terminal import ExampleGroup
from kms.cli.administration import AdminClient, administering
from kms.cli.changes import TELLING, tell_change
from kms.cli.options import AS_JSON, print_rows


@click.group(
    cls=ExampleGroup,
    examples=(
        "kms tenant create hospital --config kms.toml",
        "kms tenant list --config kms.toml",
    ),
)
def tenant() -> None:
    """Create and list tenants. Keys are named TENANT/KEY, or KEY for those of the tenant 'default'."""


@tenant.command("create", examples=("kms tenant create hospital --config kms.toml",))
@click.argument("name", metavar="TENANT")
@administering(TELLING)
def tenant_create(service: AdminClient, name: str) -> None:
    """Create a tenant, in which keys can be created. A tenant cannot be removed."""
    from attest.release import require_tenant

    service.post("/v1/tenants", {"tenant": require_tenant(name)})
    tell_change("tenant-create", f"there is a tenant {name}", details={"tenant": name})


@tenant.command("list", examples=("kms tenant list --config kms.toml",))
@administering(AS_JSON)
def tenant_list(service: AdminClient) -> None:
    """List the tenants."""
    found = service.get("/v1/tenants")["tenants"]
    rows = [{"tenant": name, "created_at": since} for name, since in found.items()]
    document = {"schema": "kms.tenants/1", "tenants": rows}
    print_rows(document, rows, "{0[tenant]}  since {0[created_at]}".format)
