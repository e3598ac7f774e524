"""``/v1/keys``: the keys of a tenant. Nothing here ever carries one."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import datetime
from functools import partial

from fastapi import APIRouter, Request

from attest.release import KeyName, KeyReference
from kms.admin_api.bodies import read_body
from kms.admin_api.context import Caller, WithCaller
from kms.admin_api.models.common import KeyId, Tenant
from kms.admin_api.models.keys import KeyListModel, KeyModel, KeyRequestModel, KeyStateModel, VersionModel
from kms.admin_api.references import stored_documents
from kms.api.schema import refusals, request_body
from kms.auth.authorisation import GuardedStore, require
from kms.domain.actors import Actor
from kms.domain.keys import SYMMETRIC_256, KeyRecord
from kms.domain.material import new_material
from kms.domain.permissions import Operation
from kms.domain.references import StoredDocument
from kms.domain.secret import SecretBytes
from kms.keys.admin import KEY_CREATED, add_key, require_key, set_enabled, set_version_enabled
from kms.keys.description import record_members
from kms.keys.vault import Vault
from kms.references.intake import reference_members
from kms.references.reach import reach_of
from kms.references.resolution import find_guard, named_by
from kms.store import ReadTransaction, Store

__all__ = ["keep_key", "key_model", "router"]

router = APIRouter(prefix="/v1/keys", tags=["keys"])
_CHANGE = refusals(400, 401, 403, 404, 409, 413, 415, 422, 500, 503)


@router.get("", operation_id="listKeys", summary="The keys of a tenant", responses=refusals(401, 403, 422, 500, 503))
async def list_keys(tenant: Tenant, caller: WithCaller) -> KeyListModel:
    """List every version of every key of a tenant."""
    at = caller.context.base.services.clock()
    records = await caller.read(Operation.KEYS_READ, lambda reader: reader.keys.all(tenant), tenant=tenant)
    return KeyListModel(keys=[_state(record, at) for record in records])


@router.post(
    "",
    operation_id="createKey",
    summary="Make a key",
    openapi_extra=request_body(KeyRequestModel),
    responses=_CHANGE,
)
async def create_key(request: Request, caller: WithCaller) -> KeyStateModel:
    """Make a new key, which only this service and conforming workloads ever see."""
    wanted = await read_body(request, KeyRequestModel)

    def draw(_: Vault) -> SecretBytes:
        return new_material(SYMMETRIC_256, random=secrets.token_bytes)

    return await keep_key(caller, wanted, draw, kind=KEY_CREATED, algorithm=SYMMETRIC_256)


async def keep_key(
    caller: Caller,
    wanted: KeyRequestModel,
    material: Callable[[Vault], SecretBytes],
    *,
    kind: str,
    algorithm: str,
) -> KeyStateModel:
    """Keep a key for those who may make one in its tenant.

    Args:
        caller: who asks.
        wanted: which key, and what guards it.
        material: makes or opens it; asked once it is known that the caller may.
        kind: ``KEY_CREATED`` or ``KEY_IMPORTED``, for the log.
        algorithm: what the material is.
    """
    vault, at = caller.vault(Operation.KEYS_CREATE, tenant=wanted.tenant), caller.now()

    def make() -> KeyRecord:
        with vault.store.reading():  # whether they may is said first, and what is wrong with what they sent after that
            pass
        policy = wanted.policy.encode()
        named_by(policy)
        documents = stored_documents(wanted.references)
        return add_key(
            GuardedStore(vault.store, demand=partial(_require_reach, caller.identity, documents)),
            vault.kek,
            name=KeyName(tenant=wanted.tenant, key_id=wanted.key_id),
            material=material(vault),
            policy=policy,
            kind=kind,
            actor=caller.identity,
            at=at,
            algorithm=algorithm,
            references=documents,
        )

    return _state(await caller.run(make), at)


def _require_reach(identity: Actor, documents: tuple[StoredDocument, ...], reader: ReadTransaction) -> None:
    """Let a document come in with a key where it counts for that key alone; else it is what policy owners do."""
    if any(reach_of(reader, one) for one in documents):
        require(reader, identity, Operation.REFERENCES_CHANGE, tenant=None)


@router.get(
    "/{tenant}/{key_id}",
    operation_id="readKey",
    summary="A key and what guards it",
    responses=refusals(401, 403, 404, 422, 500, 503),
)
async def read_key(tenant: Tenant, key_id: KeyId, caller: WithCaller) -> KeyModel:
    """Show a key's state, its policy, and the documents of reference values in force for it."""
    name = KeyName(tenant=tenant, key_id=key_id)
    store = caller.vault(Operation.KEYS_READ, key=name).store
    at = caller.context.base.services.clock()

    def look() -> KeyModel:
        with store.reading() as reader:
            return _key(reader, require_key(reader, name), at)

    return await caller.run(look)


@router.post(
    "/{tenant}/{key_id}/disable",
    operation_id="disableKey",
    summary="Release a key to nobody",
    openapi_extra=request_body(VersionModel),
    responses=_CHANGE,
)
async def disable_key(tenant: Tenant, key_id: KeyId, request: Request, caller: WithCaller) -> KeyModel:
    """Stop a key, or one version of it, from being released, at once. Workloads that have it already keep it."""
    wanted = await read_body(request, VersionModel)
    asked = KeyReference(name=KeyName(tenant=tenant, key_id=key_id), version=wanted.version)
    return await _set(caller, asked, enabled=False)


@router.post(
    "/{tenant}/{key_id}/enable",
    operation_id="enableKey",
    summary="Let a disabled key be released again",
    openapi_extra=request_body(VersionModel),
    responses=_CHANGE,
)
async def enable_key(tenant: Tenant, key_id: KeyId, request: Request, caller: WithCaller) -> KeyModel:
    """Let a disabled key, or one version of it, be released again; a version needs its key enabled, too."""
    wanted = await read_body(request, VersionModel)
    asked = KeyReference(name=KeyName(tenant=tenant, key_id=key_id), version=wanted.version)
    return await _set(caller, asked, enabled=True)


async def _set(caller: Caller, asked: KeyReference, *, enabled: bool) -> KeyModel:
    store = caller.vault(Operation.KEYS_ENABLE if enabled else Operation.KEYS_DISABLE, key=asked.name).store
    at = caller.context.base.services.clock()

    def change() -> KeyModel:
        if asked.version is None:
            set_enabled(store, asked.name, enabled=enabled, actor=caller.identity, at=at)
            return key_model(store, asked.name, at)
        set_version_enabled(store, asked, enabled=enabled, actor=caller.identity, at=at)
        with store.reading() as reader:
            return _key(reader, require_key(reader, asked), at)

    return await caller.run(change)


def key_model(store: Store, name: KeyName, at: datetime) -> KeyModel:
    """Return a key as it is now."""
    with store.reading() as reader:
        return _key(reader, require_key(reader, name), at)


def _state(record: KeyRecord, at: datetime) -> KeyStateModel:
    return KeyStateModel.model_validate(_members(record, at))


def _key(reader: ReadTransaction, record: KeyRecord, at: datetime) -> KeyModel:
    guard = find_guard(reader, record.policy_digest)
    policy = reader.policies.document(record.policy_digest) or b""
    return KeyModel.model_validate(
        {
            **_members(record, at),
            "policy": policy.decode("utf-8", errors="replace"),
            "references": [reference_members(one) for one in guard.documents],
            "obstacle": None if guard.problem is None else guard.problem.message,
        }
    )


def _members(record: KeyRecord, at: datetime) -> dict[str, object]:
    """Return what this API says of a version; members that the command line alone knows stay out."""
    return {name: value for name, value in record_members(record, at=at).items() if name in KeyStateModel.model_fields}
