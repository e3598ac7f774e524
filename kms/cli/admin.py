"""``kms admin``: the roles of the administration API."""

from __future__ import annotations

from pathlib import Path

import click

from attest.terminal import ExampleGroup
from kms.cli.administration import AdminClient, administering
from kms.cli.changes import TELLING, tell_change
from kms.cli.inputs import read_input
from kms.cli.options import AS_JSON, FILE, JsonObject, print_rows, say, with_name


@click.group(
    cls=ExampleGroup,
    examples=(
        "kms admin whois alice.crt",
        "kms admin list --config kms.toml",
    ),
)
def admin() -> None:
    """Grant, revoke and list the roles of people and programs."""


@admin.command("grant", examples=('kms admin grant "$ALICE" key-owner --tenant hospital --config kms.toml',))
@click.argument("identity")
@click.argument("role")
@click.option("--tenant", help="Tenant that the role applies to; '*' for all (required for administrators).")
@administering(TELLING)
def admin_grant(service: AdminClient, *, identity: str, role: str, tenant: str | None) -> None:
    """Grant a ROLE to IDENTITY.

    ROLE is key-owner, policy-owner, auditor, operator, workload or administrator. IDENTITY is jwt:ISSUER|SUBJECT, or
    the name of a client certificate as printed by 'kms admin whois'.
    """
    from kms.auth.grants import read_role
    from kms.auth.names import parse_identity
    from kms.domain.permissions import EVERY_TENANT, SERVICE_ROLES

    parse_identity(identity)
    if tenant is None:
        if read_role(role) not in SERVICE_ROLES:
            raise click.UsageError("name the tenant with --tenant, or '*' for all tenants")
        tenant = EVERY_TENANT
    grant = service.post("/v1/grants", {"identity": identity, "role": str(read_role(role)), "tenant": tenant})
    tell_change("admin-grant", _line(grant), details={"grant": grant})
    if tenant != EVERY_TENANT and tenant not in service.get("/v1/tenants")["tenants"]:
        say(f"warning: there is no tenant {tenant!r}; the role takes effect after 'kms tenant create {tenant}'")


@admin.command("revoke", examples=("kms admin revoke 7 --config kms.toml",))
@click.argument("number", type=int)
@administering(TELLING)
def admin_revoke(service: AdminClient, *, number: int) -> None:
    """Revoke grant NUMBER, effective immediately."""
    grant = service.post(f"/v1/grants/{number}/revoke")
    tell_change("admin-revoke", f"revoked: {_about(grant)}", details={"grant": grant})


@admin.command("list", examples=("kms admin list --all --config kms.toml",))
@click.option("--all", "everything", is_flag=True, help="Include revoked grants.")
@administering(AS_JSON)
def admin_list(service: AdminClient, *, everything: bool) -> None:
    """List the roles of every identity."""
    found = service.get("/v1/grants", revoked=everything)["grants"]
    none = "no roles are granted; 'kms admin grant IDENTITY administrator' adds the first administrator"
    print_rows({"schema": "kms.grants/1", "grants": found}, found, _line, none=none)


@admin.command("whois", examples=("kms admin whois alice.crt",))
@click.argument("certificate", type=FILE)
@AS_JSON
def admin_whois(certificate: Path) -> None:
    """Print the identities of a client certificate (PEM).

    One identity is printed per line. Roles are granted to identities. The command reads only this file. It does not
    contact a service.
    """
    from kms.auth.certificates import identities_of, read_certificate

    found = identities_of(read_certificate(read_input(certificate)))
    print_rows({"schema": "kms.identities/1", "identities": found}, found, str)


def _line(grant: JsonObject) -> str:
    return _about(grant) if grant["revoked_at"] is None else f"{_about(grant)}  revoked"


def _about(grant: JsonObject) -> str:
    shown = {member: with_name(str(grant[member])) for member in ("identity", "granted_by")}
    return "{number:4}  {identity}  {role}  for {tenant}  by {granted_by}".format(**{**grant, **shown})
