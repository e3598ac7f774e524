"""Tenants: each has its own keys and names of keys. A tenant is never removed."""

from __future__ import annotations

from datetime import datetime

from attest.release import require_tenant
from kms.domain.actors import Actor
from kms.store import Store

TENANT_CREATED = "tenant-created"


def create_tenant(store: Store, tenant: str, *, actor: Actor, at: datetime) -> None:
    """Add a tenant of an unused name.

    Raises:
        ConfigurationError: ``tenant-invalid``.
        KeyConflictError: ``tenant-exists``.
        UnavailableError: the database is in use.
    """
    require_tenant(tenant)
    with store.writing() as tx:
        tx.tenants.add(tenant, at=at)
        tx.log.add(kind=TENANT_CREATED, at=at, body={"tenant": tenant, "actor": actor.members()})
