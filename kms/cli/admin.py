"""``kms admin``: the roles of the administration API."""

from __future__ import annotations

from pathlib import Path

import click

from kms.cli.administration import AdminClient, administering
from kms.cli.changes import TELLING, tell_change
from kms.cli.inputs import read_input
from kms.cli.options import AS_JSON, FILE, JsonObject, print_rows, say


@click.group()
def admin() -> None:
    """Give roles to people and programs, take them away, and list them.

    \b
    Examples:
      kms admin whois alice.crt
      kms admin grant mtls:sha256:4c… administrator
      kms admin grant 'jwt:https://login.example|alice' key-owner --tenant team-a
      kms admin revoke 2
    """  # noqa: D301  \b is click's mark for text that is not wrapped


@admin.command("grant")
@click.argument("identity")
@click.argument("role")
@click.option("--tenant", help="Where it counts; '*' for every tenant (the only one for administrators).")
@administering(TELLING)
def admin_grant(service: AdminClient, *, identity: str, role: str, tenant: str | None) -> None:
    """Give IDENTITY a ROLE: key-owner, policy-owner, auditor, operator, workload or administrator.

    IDENTITY is jwt:ISSUER|SUBJECT, or a name of a client certificate as 'kms admin whois' prints it.
    """
    from kms.auth.grants import read_role
    from kms.auth.names import parse_identity
    from kms.domain.permissions import EVERY_TENANT, SERVICE_ROLES

    parse_identity(identity)
    if tenant is None:
        if read_role(role) not in SERVICE_ROLES:
            raise click.UsageError("name the tenant with --tenant, or '*' for every one")
        tenant = EVERY_TENANT
    grant = service.post("/v1/grants", {"identity": identity, "role": str(read_role(role)), "tenant": tenant})
    tell_change("admin-grant", _line(grant), details={"grant": grant})
    if tenant != EVERY_TENANT and tenant not in service.get("/v1/tenants")["tenants"]:
        say(f"warning: there is no tenant {tenant!r}; the role counts once 'kms tenant create {tenant}' makes it")


@admin.command("revoke")
@click.argument("number", type=int)
@administering(TELLING)
def admin_revoke(service: AdminClient, *, number: int) -> None:
    """Take the role of grant NUMBER away, at once."""
    grant = service.post(f"/v1/grants/{number}/revoke")
    tell_change("admin-revoke", f"revoked: {_about(grant)}", details={"grant": grant})


@admin.command("list")
@click.option("--all", "everything", is_flag=True, help="Those that were revoked, too.")
@administering(AS_JSON)
def admin_list(service: AdminClient, *, everything: bool) -> None:
    """List who has which role where."""
    found = service.get("/v1/grants", revoked=everything)["grants"]
    none = "nobody has a role; 'kms admin grant IDENTITY administrator' makes the first administrator"
    print_rows({"schema": "kms.grants/1", "grants": found}, found, _line, none=none)


@admin.command("whois")
@click.argument("certificate", type=FILE)
@AS_JSON
def admin_whois(certificate: Path) -> None:
    """Print what the client certificate in a PEM file can be granted roles as, one identity a line.

    It reads the file alone, on this machine.
    """
    from kms.auth.certificates import identities_of, read_certificate

    found = identities_of(read_certificate(read_input(certificate)))
    print_rows({"schema": "kms.identities/1", "identities": found}, found, str)


def _line(grant: JsonObject) -> str:
    return _about(grant) if grant["revoked_at"] is None else f"{_about(grant)}  revoked"


def _about(grant: JsonObject) -> str:
    return "{number:4}  {identity}  {role}  for {tenant}  by {granted_by}".format(**grant)
