"""Granting and revoking roles; each change is one transaction with its log entry."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Final

from attest.encoding import JsonValue, rfc3339_text
from attest.errors import ConfigurationError
from kms.auth.names import identity_text
from kms.domain.actors import Actor, Means
from kms.domain.errors import GrantConflictError, GrantUnknownError
from kms.domain.permissions import EVERY_TENANT, SERVICE_ROLES, Grant, Role
from kms.store import Store, WriteTransaction

GRANT_ADDED: Final = "grant-added"
GRANT_REVOKED: Final = "grant-revoked"
_TENANT = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def grant_members(grant: Grant) -> dict[str, JsonValue]:
    """Return a grant as JSON members."""
    return {
        "number": grant.number,
        "identity": identity_text(grant.identity),
        "tenant": grant.tenant,
        "role": str(grant.role),
        "granted_by": identity_text(grant.granted_by),
        "granted_at": rfc3339_text(grant.granted_at),
        "revoked_by": None if grant.revoked_by is None else identity_text(grant.revoked_by),
        "revoked_at": None if grant.revoked_at is None else rfc3339_text(grant.revoked_at),
    }


def read_role(text: str) -> Role:
    """Read the name of a role.

    Raises:
        ConfigurationError: ``role-unknown``.
    """
    try:
        return Role(text)
    except ValueError as exc:
        raise ConfigurationError(
            f"there is no role {text[:40]!r}", code="role-unknown", field="role", expected=", ".join(Role)
        ) from exc


def require_tenant(text: str) -> str:
    """Return the name of a tenant, or ``*`` for all tenants.

    Raises:
        ConfigurationError: ``tenant-invalid``.
    """
    if text != EVERY_TENANT and not _TENANT.fullmatch(text):
        raise ConfigurationError(
            f"{text[:80]!r} is not the name of a tenant",
            code="tenant-invalid",
            field="tenant",
            expected="1 to 64 lower-case letters, digits, '.', '_' and '-', the first a letter or digit; or * for all",
            got=repr(text[:80]),
        )
    return text


def give_role(store: Store, *, identity: Actor, tenant: str, role: Role, actor: Actor, at: datetime) -> Grant:
    """Grant a role for a tenant, or for all (``*``), to an identity of a token or a certificate.

    Raises:
        ConfigurationError: ``tenant-invalid``; ``role-service-wide``: the role is for every tenant or none.
        GrantConflictError: ``grant-exists``; ``grant-to-self``.
        UnavailableError: the database is in use.
    """
    if actor == identity:
        raise GrantConflictError(
            "you cannot grant a role to yourself",
            code="grant-to-self",
            field="identity",
            expected="another identity",
            got=identity_text(identity),
            hint="ask another administrator, or run 'kms admin grant' on the service's machine",
        )
    with store.writing() as tx:
        return write_grant(tx, identity=identity, tenant=tenant, role=role, actor=actor, at=at)


def write_grant(tx: WriteTransaction, *, identity: Actor, tenant: str, role: Role, actor: Actor, at: datetime) -> Grant:
    """Grant a role within a transaction, also used for the first administrator of a new service.

    Raises:
        ConfigurationError: as ``give_role``.
        GrantConflictError: ``grant-exists``.
    """
    require_tenant(tenant)
    if identity.means not in {Means.JWT, Means.MTLS}:
        raise ValueError("roles are for identities of a token or a certificate")
    if role in SERVICE_ROLES and tenant != EVERY_TENANT:
        raise ConfigurationError(
            f"the role {role} is for the whole service",
            code="role-service-wide",
            field="tenant",
            expected=f"{EVERY_TENANT} for the role {role}",
            got=tenant,
            hint="use the tenant '*'",
        )
    for grant in tx.grants.held_by(identity):
        if (grant.tenant, grant.role) == (tenant, role):
            raise GrantConflictError(
                f"{identity_text(identity)} already has the role {role} for {tenant}, by grant {grant.number}",
                code="grant-exists",
                field="identity",
            )
    grant = tx.grants.add(identity=identity, tenant=tenant, role=role, by=actor, at=at)
    tx.log.add(kind=GRANT_ADDED, at=at, body=_body(grant, actor))
    return grant


def revoke_role(store: Store, number: int, *, actor: Actor, at: datetime) -> Grant:
    """Revoke a grant, effective with the next transaction, and return it.

    Raises:
        GrantUnknownError: ``grant-unknown``.
        GrantConflictError: ``grant-revoked-already``, or ``last-administrator`` if none would remain.
        UnavailableError: the database is in use.
    """
    with store.writing() as tx:
        grant = _require_revocable(tuple(tx.grants.all()), number)
        tx.grants.revoke(number, by=actor, at=at)
        tx.log.add(kind=GRANT_REVOKED, at=at, body=_body(grant, actor))
    return replace(grant, revoked_by=actor, revoked_at=at)


def _require_revocable(known: tuple[Grant, ...], number: int) -> Grant:
    grant = next((one for one in known if one.number == number), None)
    if grant is None:
        raise GrantUnknownError(
            f"there is no grant {number}",
            code="grant-unknown",
            field="number",
            got=str(number),
            hint="'kms admin list' lists the grants",
        )
    if not grant.counts:
        raise GrantConflictError(f"grant {number} is already revoked", code="grant-revoked-already", field="number")
    administrators = [one for one in known if one.role is Role.ADMINISTRATOR and one.counts]
    if administrators == [grant]:
        raise GrantConflictError(
            "this is the last administrator",
            code="last-administrator",
            field="number",
            got=identity_text(grant.identity),
            hint="first grant the role to another identity: 'kms admin grant IDENTITY administrator'",
        )
    return grant


def _body(grant: Grant, actor: Actor) -> dict[str, JsonValue]:
    return {
        "grant": grant.number,
        "identity": identity_text(grant.identity),
        "tenant": grant.tenant,
        "role": str(grant.role),
        "actor": actor.members(),
    }
