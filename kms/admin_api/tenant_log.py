"""``/v1/log/tenants/{tenant}``: entries of the log that concern one tenant, for its auditors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Final

from fastapi import APIRouter, Query

from attest.errors import AttestError
from attest.release import MAX_SIZE
from kms.admin_api.changes import demanded_by
from kms.admin_api.context import WithCaller
from kms.admin_api.freezes import tenant_of
from kms.admin_api.models.access import TenantLogEntryModel, TenantLogPageModel
from kms.admin_api.models.common import Tenant
from kms.admin_api.routes import AdminRoute, reads
from kms.domain.freezes import Scope, Target
from kms.domain.permissions import Operation
from kms.log.tenant_view import Owners, seen_by
from kms.quorum.break_glass import BreakGlassOpen
from kms.quorum.changes import read_change
from kms.store import ReadTransaction

MAX_PAGE: Final = 200
MAX_LOOKED_AT: Final = 2000
"""Entries of all tenants that one request reads; this bounds its time if a tenant has few of them."""

router = APIRouter(route_class=AdminRoute, prefix="/v1/log/tenants", tags=["log"])


@router.get(
    "/{tenant}/entries",
    summary="List log entries of a tenant",
    responses=reads(422),
)
def list_tenant_log_entries(
    tenant: Tenant,
    caller: WithCaller,
    after: Annotated[int, Query(ge=0, le=MAX_SIZE, description="Only entries after this number.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
) -> TenantLogPageModel:
    """Return entries that concern the tenant. Repeat with ``after=next`` until ``at_end``; pages may be empty."""
    caller.require(Operation.TENANT_LOG_READ, tenant=tenant)
    with caller.vault.store.reading() as reader:
        return _page(reader, tenant, after=after, limit=limit)


def _page(reader: ReadTransaction, tenant: str, *, after: int, limit: int) -> TenantLogPageModel:
    owners = _owners(reader)
    found: list[TenantLogEntryModel] = []
    last, size = after, reader.log.size()
    for entry in reader.log.entries(after=after, limit=MAX_LOOKED_AT):
        shown = seen_by(entry.document(), tenant=tenant, owners=owners)
        last = entry.seq
        if shown is not None:
            found.append(
                TenantLogEntryModel(entry=dict(shown.document), hash=entry.leaf_hash.hex(), redacted=shown.redacted)
            )
        if len(found) == limit:
            break
    return TenantLogPageModel(tenant=tenant, entries=found, next=last, at_end=last >= size)


def _owners(reader: ReadTransaction) -> Owners:
    """Return look-ups of owners in the page's transaction; unreadable records have no owner."""

    @cache
    def relaxations() -> Mapping[int, str]:
        return {one.number: one.key.tenant for one, _ in reader.break_glass.all()}

    def leases(ids: tuple[str, ...]) -> Mapping[str, str]:
        return {one: state.lease.name.tenant for one, state in reader.leases.states(ids).items()}

    @cache
    def proposal(digest: str) -> str | None:
        return _proposed_for(reader, digest)

    return Owners(leases=leases, relaxation=lambda number: relaxations().get(number), proposal=proposal)


def _proposed_for(reader: ReadTransaction, digest: str) -> str | None:
    """Return the only tenant that a proposal concerns, or None."""
    try:
        found = reader.proposals.find(digest)
        change = None if found is None else read_change(found.action, found.arguments)
    except AttestError:
        return None  # altered, or an action of another version: its owner is unknown
    demanded = None if change is None else demanded_by(change)
    if demanded is None:
        return None
    if isinstance(change, BreakGlassOpen) and not _is_lifted_for(change.lifts, change.name.tenant):
        return None
    return demanded[1]


def _is_lifted_for(lifts: Target | None, tenant: str) -> bool:
    return lifts is None or lifts.scope in {Scope.PRODUCT, Scope.ALL} or tenant_of(lifts) == tenant
