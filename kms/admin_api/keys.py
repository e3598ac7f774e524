"""``/v1/keys``: keys of a tenant, created here or imported sealed. No message carries a key in plaintext."""

from __future__ import annotations

import secrets
from datetime import datetime
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Response

from attest.release import KeyName, KeyReference, WorkloadKey, import_key_text, sign_note
from kms.admin_api.context import Caller, WithCaller, WithKey
from kms.admin_api.models.common import KEY_PATH, ConfirmModel, Tenant
from kms.admin_api.models.keys import (
    KeyImportModel,
    KeyListModel,
    KeyModel,
    KeyRequestModel,
    KeyStateModel,
    VersionModel,
)
from kms.admin_api.references import stored_documents
from kms.admin_api.routes import AdminRoute, body, changes, reads
from kms.api.log import NoteResponse
from kms.auth.authorisation import require
from kms.controls.floors import counting_floors
from kms.domain.actors import Actor
from kms.domain.keys import KeyPurpose, KeyRecord
from kms.domain.material import ALGORITHMS, DEFAULT_ALGORITHMS, new_material, owned_material, require_algorithm
from kms.domain.permissions import Operation
from kms.domain.references import StoredDocument
from kms.domain.secret import SecretBytes
from kms.keys.admin import KEY_CREATED, KEY_IMPORTED, add_key, require_key, set_enabled, set_version_enabled
from kms.keys.description import record_members
from kms.keys.import_key import find_import_key, first_terms, make_import_key, no_import_key, unwrap_material
from kms.keys.tags import parse_tags
from kms.references.intake import reach_of, reference_members
from kms.references.resolution import find_guard, named_by
from kms.store import ReadTransaction, Store

router = APIRouter(route_class=AdminRoute, tags=["keys"])
Tags = Annotated[list[str], Query(max_length=32, description="Only keys with all of these tags, each NAME=VALUE.")]


@router.get("/v1/keys", summary="List keys", responses=reads(422))
def list_keys(caller: WithCaller, tenant: Tenant | None = None, tag: Tags = []) -> KeyListModel:  # noqa: B006  FastAPI copies it
    """List every version of every key of a tenant, or of all tenants for callers who may see all."""
    caller.require(Operation.KEYS_READ, tenant=tenant)
    wanted, at = parse_tags(tag), caller.now()
    with caller.vault.store.reading() as reader:
        records = reader.keys.all(tenant)
        if wanted:
            tagged = reader.tags.keys_with(wanted)
            records = tuple(record for record in records if record.name in tagged)
    return KeyListModel(keys=[key_state(record, at) for record in records])


@router.post("/v1/keys", summary="Create a key", responses=changes(404, 409))
def create_key(caller: WithCaller, wanted: Annotated[KeyRequestModel, body(KeyRequestModel)]) -> KeyStateModel:
    """Create a key that only this service and conforming workloads can see.

    The command line on the service's machine can supply the key material of an owner. The service generates no secrets.
    """
    documents = require_creation(caller, wanted)
    algorithm = algorithm_of(wanted)
    if caller.material is not None:
        owned = owned_material(caller.material, algorithm=algorithm)
        return keep_key(caller, wanted, owned, documents, kind=KEY_IMPORTED)
    material = new_material(algorithm, random=secrets.token_bytes)
    return keep_key(caller, wanted, material, documents, kind=KEY_CREATED)


@router.get("/v1/import-key", summary="Get the import key", response_class=NoteResponse, responses=reads(409, 422))
def read_import_key(tenant: Tenant, caller: WithCaller) -> Response:
    """Return the import key, to which owners seal their keys, signed by the service.

    The caller needs permission to create keys in the tenant.
    """
    caller.require(Operation.KEYS_CREATE, tenant=tenant)
    found = find_import_key(caller.vault.store, caller.vault.kek, service=caller.service)
    if found is None:
        raise no_import_key()
    return _note(caller, found)


@router.post(
    "/v1/import-key",
    operation_id="makeImportKey",
    dependencies=[body(ConfirmModel)],
    summary="Create or get the import key",
    response_class=NoteResponse,
    responses=changes(),
)
def create_import_key(tenant: Tenant, caller: WithCaller) -> Response:
    """Return the import key; the first call creates it, once for the whole service."""
    caller.require(Operation.KEYS_CREATE, tenant=tenant)
    made = make_import_key(
        caller.vault.store,
        caller.vault.kek,
        service=caller.service,
        random=secrets.token_bytes,
        actor=caller.identity,
        at=caller.now(),
    )
    return _note(caller, made)


@router.post("/v1/keys/import", summary="Import a sealed key", responses=changes(409))
def import_key(caller: WithCaller, wanted: Annotated[KeyImportModel, body(KeyImportModel)]) -> KeyStateModel:
    """Import a key that was sealed to this service, with the name and the policy that it was sealed for."""
    documents = require_creation(caller, wanted)
    name = KeyName(tenant=wanted.tenant, key_id=wanted.key_id)
    terms = first_terms(name, algorithm=algorithm_of(wanted), policy=wanted.policy.encode())
    vault = caller.vault
    material = unwrap_material(vault.store, vault.kek, wanted.wrapped.encode(), service=caller.service, terms=terms)
    return keep_key(caller, wanted, material, documents, kind=KEY_IMPORTED)


def require_creation(caller: Caller, wanted: KeyRequestModel) -> tuple[StoredDocument, ...]:
    """Refuse unless the caller may create a key in its tenant and add the documents that accompany it."""
    caller.require(Operation.KEYS_CREATE, tenant=wanted.tenant)
    named_by(wanted.policy.encode())
    documents = stored_documents(wanted.references)
    caller.demand(partial(_require_reach, caller.identity, documents))
    return documents


def algorithm_of(wanted: KeyRequestModel) -> str:
    """Return the algorithm of a new key: the one that is named, or the default of its purpose.

    Raises:
        ConfigurationError: there is no such algorithm, or it does not fit the purpose.
    """
    known = ALGORITHMS.get(wanted.algorithm or "")
    implied = KeyPurpose.MODEL_KEY if known is None else known.purpose
    purpose = implied if wanted.purpose is None else KeyPurpose(wanted.purpose)
    return require_algorithm(wanted.algorithm or DEFAULT_ALGORITHMS[purpose], purpose=purpose)


def keep_key(
    caller: Caller, wanted: KeyRequestModel, material: SecretBytes, documents: tuple[StoredDocument, ...], *, kind: str
) -> KeyStateModel:
    """Store a key that the caller may create by ``require_creation``; ``kind`` is that of its log entry."""
    at = caller.now()
    record = add_key(
        caller.vault.store,
        caller.vault.kek,
        name=KeyName(tenant=wanted.tenant, key_id=wanted.key_id),
        material=material,
        policy=wanted.policy.encode(),
        kind=kind,
        actor=caller.identity,
        at=at,
        algorithm=algorithm_of(wanted),
        references=documents,
    )
    return key_state(record, at)


def _require_reach(identity: Actor, documents: tuple[StoredDocument, ...], reader: ReadTransaction) -> None:
    """Permit a document that accompanies a key if it affects only that key; otherwise require a policy owner."""
    if any(reach_of(reader, one) for one in documents):
        require(reader, identity, Operation.REFERENCES_CHANGE, tenant=None)


@router.get(KEY_PATH, summary="Get a key", responses=reads(404, 422))
def read_key(caller: WithCaller, name: WithKey) -> KeyModel:
    """Return a key's versions, its policy, and the documents of reference values in force for it."""
    caller.require(Operation.KEYS_READ, key=name)
    return key_model(caller.vault.store, name, caller.now())


@router.post(f"{KEY_PATH}/disable", summary="Disable a key", responses=changes(404, 409))
def disable_key(caller: WithCaller, name: WithKey, wanted: Annotated[VersionModel, body(VersionModel)]) -> KeyModel:
    """Immediately stop the release of a key or one version of it. Workloads that already hold it keep it."""
    reference = KeyReference(name=name, version=wanted.version)
    caller.require(Operation.KEYS_DISABLE, key=name)
    return _set(caller, reference, enabled=False)


@router.post(f"{KEY_PATH}/enable", summary="Enable a disabled key", responses=changes(404, 409))
def enable_key(caller: WithCaller, name: WithKey, wanted: Annotated[VersionModel, body(VersionModel)]) -> KeyModel:
    """Allow the release of a disabled key or version again; to release a version, its key must be enabled, too."""
    reference = KeyReference(name=name, version=wanted.version)
    caller.require(Operation.KEYS_ENABLE, key=name)
    return _set(caller, reference, enabled=True)


def _set(caller: Caller, reference: KeyReference, *, enabled: bool) -> KeyModel:
    store, at = caller.vault.store, caller.now()
    if reference.version is None:
        set_enabled(store, reference.name, enabled=enabled, actor=caller.identity, at=at)
        return key_model(store, reference.name, at)
    set_version_enabled(store, reference, enabled=enabled, actor=caller.identity, at=at)
    with store.reading() as reader:
        return KeyModel.model_validate(key_members(reader, require_key(reader, reference), at))


def key_model(store: Store, name: KeyName, at: datetime) -> KeyModel:
    """Return the present state of a key."""
    with store.reading() as reader:
        return KeyModel.model_validate(key_members(reader, require_key(reader, name), at))


def key_state(record: KeyRecord, at: datetime) -> KeyStateModel:
    """Return the present state of one version of a key."""
    return KeyStateModel.model_validate(record_members(record, at=at))


def key_members(reader: ReadTransaction, record: KeyRecord, at: datetime) -> dict[str, object]:
    """Return one version as members of a ``KeyModel``."""
    guard = find_guard(reader, record.policy_digest)
    policy = reader.policies.document(record.policy_digest) or b""
    schedule = reader.schedules.find(record.name)
    return {
        **record_members(record, at=at),
        "policy": policy.decode("utf-8", errors="replace"),
        "references": [reference_members(one) for one in guard.documents],
        "floors": counting_floors(reader, record.name.tenant, at=at),
        "obstacle": None if guard.problem is None else guard.problem.message,
        "versions": [record_members(one, at=at) for one in reader.keys.versions(record.name)],
        "schedule": None if schedule is None else schedule.members(),
        "tags": dict(reader.tags.of_key(record.name)),
    }


def _note(caller: Caller, key: WorkloadKey) -> Response:
    identity = caller.context.services.identity()
    return NoteResponse(sign_note(import_key_text(key.public), name=identity.public.name, key=identity.key))
