"""Tenants: each has keys of its own, under names of its own. One that was made stays."""

from __future__ import annotations

from datetime import datetime

from attest.release import require_tenant
from kms.domain.actors import Actor
from kms.store import Store

TENANT_CREATED = "tenant-created"


def create_tenant(store: Store, tenant: str, *, actor: Actor, at: datetime) -> None:
    """Make a tenant.

    Args:
        store: where it is kept.
        tenant: a name that is not taken.
        actor: who asks for it.
        at: when.

    Raises:
        ConfigurationError: ``tenant-invalid``.
        KeyConflictError: ``tenant-exists``.
        UnavailableError: the database is in use.
    """
    require_tenant(tenant)
    with store.writing() as tx:
        tx.tenants.add(tenant, at=at)
        tx.log.add(kind=TENANT_CREATED, at=at, body={"tenant": tenant, "actor": actor.members()})
