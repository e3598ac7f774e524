"""``kms admin``: who may use the administration API, and as what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kms.cli.changes import TELLING, tell_change
from kms.cli.options import AS_JSON, SETTINGS, moment, print_json, read_input, say, vault, with_options

if TYPE_CHECKING:
    from kms.domain.permissions import Grant

__all__ = ["admin"]


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
@with_options(*SETTINGS, TELLING)
def admin_grant(*, identity: str, role: str, tenant: str | None, config: Path | None, **flags: object) -> None:
    """Give IDENTITY a ROLE: key-owner, policy-owner, auditor, operator, workload or administrator.

    IDENTITY is jwt:ISSUER|SUBJECT, or a name of a client certificate as 'kms admin whois' prints it.
    """
    from kms.auth.grants import give_role, grant_members, read_role
    from kms.auth.names import parse_identity
    from kms.domain.actors import local_actor
    from kms.domain.permissions import EVERY_TENANT, SERVICE_ROLES

    named, wanted = parse_identity(identity), read_role(role)
    if tenant is None:
        if wanted not in SERVICE_ROLES:
            raise click.UsageError("name the tenant with --tenant, or '*' for every one")
        tenant = EVERY_TENANT
    store = vault(config, flags).store
    with store.reading() as reader:
        there_is = tenant == EVERY_TENANT or reader.tenants.exists(tenant)
    grant = give_role(store, identity=named, tenant=tenant, role=wanted, actor=local_actor(), at=moment())
    tell_change("admin-grant", _line(grant), details={"grant": grant_members(grant)})
    if not there_is:
        say(f"warning: there is no tenant {tenant!r}; the role counts once 'kms tenant create {tenant}' makes it")


@admin.command("revoke")
@click.argument("number", type=int)
@with_options(*SETTINGS, TELLING)
def admin_revoke(number: int, config: Path | None, **flags: object) -> None:
    """Take the role of grant NUMBER away, at once."""
    from kms.auth.grants import grant_members, revoke_role
    from kms.domain.actors import local_actor

    grant = revoke_role(vault(config, flags).store, number, actor=local_actor(), at=moment())
    tell_change("admin-revoke", f"revoked: {_about(grant)}", details={"grant": grant_members(grant)})


@admin.command("list")
@click.option("--all", "everything", is_flag=True, help="Those that were revoked, too.")
@with_options(*SETTINGS, AS_JSON)
def admin_list(*, everything: bool, config: Path | None, as_json: bool, **flags: object) -> None:
    """List who has which role where."""
    from kms.auth.grants import grant_members

    with vault(config, flags).store.reading() as reader:
        found = [grant for grant in reader.grants.all() if everything or grant.counts]
    if as_json:
        print_json({"schema": "kms.grants/1", "grants": [grant_members(grant) for grant in found]})
        return
    for grant in found:
        click.echo(_line(grant))
    if not found:
        say("note: nobody has a role; 'kms admin grant IDENTITY administrator' makes the first administrator")


@admin.command("whois")
@click.argument("certificate", type=click.Path(path_type=Path))
@AS_JSON
def admin_whois(certificate: Path, *, as_json: bool) -> None:
    """Print what the client certificate in a PEM file can be granted roles as, one identity a line."""
    from kms.auth.certificates import identities_of, read_certificate

    found = identities_of(read_certificate(read_input(certificate)))
    if as_json:
        print_json({"schema": "kms.identities/1", "identities": found})
        return
    for identity in found:
        click.echo(identity)


def _line(grant: Grant) -> str:
    return _about(grant) if grant.counts else f"{_about(grant)}  revoked"


def _about(grant: Grant) -> str:
    from kms.auth.grants import grant_members

    return "{number:4}  {identity}  {role}  for {tenant}  by {granted_by}".format(**grant_members(grant))
