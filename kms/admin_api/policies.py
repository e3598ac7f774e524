"""``/v1/policies``: policies that guard the keys of a tenant."""

from __future__ import annotations

from fastapi import APIRouter

from kms.admin_api.context import WithCaller
from kms.admin_api.models.common import Digest, Tenant
from kms.admin_api.models.keys import PolicyListModel, PolicyModel, PolicySummaryModel
from kms.admin_api.routes import AdminRoute, reads
from kms.domain.errors import PolicyUnknownError
from kms.domain.permissions import Operation
from kms.references.resolution import find_guard, stored_policy
from kms.store import ReadTransaction

router = APIRouter(route_class=AdminRoute, prefix="/v1/policies", tags=["policies"])


@router.get("", summary="List policies", responses=reads(422))
def list_policies(tenant: Tenant, caller: WithCaller) -> PolicyListModel:
    """List the policies that guard any version of a key of the tenant."""
    caller.require(Operation.POLICIES_READ, tenant=tenant)
    with caller.vault.store.reading() as reader:
        held = _held(reader, tenant)
        return PolicyListModel(policies=[_summary(reader, digest, keys) for digest, keys in held.items()])


@router.get("/{tenant}/{digest}", summary="Get a policy document", responses=reads(404, 422))
def read_policy(tenant: Tenant, digest: Digest, caller: WithCaller) -> PolicyModel:
    """Return a policy document that guards a key of the tenant; policies used only by other tenants are not found."""
    caller.require(Operation.POLICIES_READ, tenant=tenant)
    wanted = bytes.fromhex(digest)
    with caller.vault.store.reading() as reader:
        document = stored_policy(reader, wanted)[0] if wanted in _held(reader, tenant) else None
    if document is None:
        raise PolicyUnknownError(
            f"no key of the tenant {tenant!r} is guarded by such a policy", code="policy-unknown", field=digest
        )
    return PolicyModel(sha256=digest, document=document.decode("utf-8", errors="replace"))


def _held(reader: ReadTransaction, tenant: str) -> dict[bytes, list[str]]:
    held: dict[bytes, list[str]] = {}
    for record in reader.keys.all(tenant):
        keys = held.setdefault(record.policy_digest, [])
        if record.name.key_id not in keys:
            keys.append(record.name.key_id)
    return held


def _summary(reader: ReadTransaction, digest: bytes, keys: list[str]) -> PolicySummaryModel:
    guard = find_guard(reader, digest)
    name, version = reader.policies.title(digest) or ("", 0)
    return PolicySummaryModel(
        sha256=digest.hex(),
        name=name,
        version=version,
        keys=keys,
        obstacle=None if guard.problem is None else guard.problem.message,
    )
