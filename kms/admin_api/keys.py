"""``/v1/keys``: the keys of a tenant, made here or imported sealed. No message carries one in the clear."""

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
from kms.domain.material import ALGORITHMS, DEFAULT_ALGORITHMS, new_material, require_algorithm
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
Tags = Annotated[list[str], Query(max_length=32, description="Only keys with this tag, NAME=VALUE; with all of them.")]


@router.get("/v1/keys", summary="The keys of a tenant", responses=reads(422))
def list_keys(caller: WithCaller, tenant: Tenant | None = None, tag: Tags = []) -> KeyListModel:  # noqa: B006  FastAPI copies it
    """List every version of every key of a tenant; without one, of all tenants, for those who see all."""
    caller.require(Operation.KEYS_READ, tenant=tenant)
    wanted, at = parse_tags(tag), caller.now()
    with caller.vault.store.reading() as reader:
        records = reader.keys.all(tenant)
        if wanted:
            tagged = reader.tags.keys_with(wanted)
            records = tuple(record for record in records if record.name in tagged)
    return KeyListModel(keys=[key_state(record, at) for record in records])


@router.post("/v1/keys", summary="Make a key", responses=changes(404, 409))
def create_key(caller: WithCaller, wanted: Annotated[KeyRequestModel, body(KeyRequestModel)]) -> KeyStateModel:
    """Make a new key, which only this service and conforming workloads ever see.

    The command line on the service's machine brings the material itself, where its owner made it.
    """
    documents = require_creation(caller, wanted)
    algorithm = algorithm_of(wanted)
    if caller.material is not None:
        return keep_key(caller, wanted, caller.material, documents, kind=KEY_IMPORTED)
    material = new_material(algorithm, random=secrets.token_bytes)
    return keep_key(caller, wanted, material, documents, kind=KEY_CREATED)


@router.get(
    "/v1/import-key", summary="What owners seal their keys to", response_class=NoteResponse, responses=reads(409, 422)
)
def read_import_key(tenant: Tenant, caller: WithCaller) -> Response:
    """Return the import key, signed by the service, to those who may bring a key into the tenant."""
    caller.require(Operation.KEYS_CREATE, tenant=tenant)
    found = find_import_key(caller.vault.store, caller.vault.kek, service=caller.service)
    if found is None:
        raise no_import_key()
    return _note(caller, found)


@router.post(
    "/v1/import-key",
    operation_id="makeImportKey",
    dependencies=[body(ConfirmModel)],
    summary="The same; the first time it is made",
    response_class=NoteResponse,
    responses=changes(),
)
def create_import_key(tenant: Tenant, caller: WithCaller) -> Response:
    """Make the import key, once for the whole service, and return it."""
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


@router.post("/v1/keys/import", summary="Bring a sealed key in", responses=changes(409))
def import_key(caller: WithCaller, wanted: Annotated[KeyImportModel, body(KeyImportModel)]) -> KeyStateModel:
    """Keep a key that was sealed to this service, as this key and under this policy alone."""
    documents = require_creation(caller, wanted)
    name = KeyName(tenant=wanted.tenant, key_id=wanted.key_id)
    terms = first_terms(name, algorithm=algorithm_of(wanted), policy=wanted.policy.encode())
    vault = caller.vault
    material = unwrap_material(vault.store, vault.kek, wanted.wrapped.encode(), service=caller.service, terms=terms)
    return keep_key(caller, wanted, material, documents, kind=KEY_IMPORTED)


def require_creation(caller: Caller, wanted: KeyRequestModel) -> tuple[StoredDocument, ...]:
    """Refuse unless the caller may make a key in its tenant, and bring the documents along that come with it."""
    caller.require(Operation.KEYS_CREATE, tenant=wanted.tenant)
    named_by(wanted.policy.encode())
    documents = stored_documents(wanted.references)
    caller.demand(partial(_require_reach, caller.identity, documents))
    return documents


def algorithm_of(wanted: KeyRequestModel) -> str:
    """Return the algorithm of a key to be made: the one that is named, or that of its purpose.

    Raises:
        ConfigurationError: there is no such algorithm, or it is not for this purpose.
    """
    known = ALGORITHMS.get(wanted.algorithm or "")
    implied = KeyPurpose.MODEL_KEY if known is None else known.purpose
    purpose = implied if wanted.purpose is None else KeyPurpose(wanted.purpose)
    return require_algorithm(wanted.algorithm or DEFAULT_ALGORITHMS[purpose], purpose=purpose)


def keep_key(
    caller: Caller, wanted: KeyRequestModel, material: SecretBytes, documents: tuple[StoredDocument, ...], *, kind: str
) -> KeyStateModel:
    """Keep a key that ``require_creation`` lets the caller make; the log tells of it by its ``kind``."""
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
    """Let a document come in with a key where it counts for that key alone; else it is what policy owners do."""
    if any(reach_of(reader, one) for one in documents):
        require(reader, identity, Operation.REFERENCES_CHANGE, tenant=None)


@router.get(KEY_PATH, summary="A key and what guards it", responses=reads(404, 422))
def read_key(caller: WithCaller, name: WithKey) -> KeyModel:
    """Show a key's versions, its policy, and the documents of reference values in force for it."""
    caller.require(Operation.KEYS_READ, key=name)
    return key_model(caller.vault.store, name, caller.now())


@router.post(f"{KEY_PATH}/disable", summary="Release a key to nobody", responses=changes(404, 409))
def disable_key(caller: WithCaller, name: WithKey, wanted: Annotated[VersionModel, body(VersionModel)]) -> KeyModel:
    """Stop a key, or one version of it, from being released, at once. Workloads that have it already keep it."""
    reference = KeyReference(name=name, version=wanted.version)
    caller.require(Operation.KEYS_DISABLE, key=name)
    return _set(caller, reference, enabled=False)


@router.post(f"{KEY_PATH}/enable", summary="Let a disabled key be released again", responses=changes(404, 409))
def enable_key(caller: WithCaller, name: WithKey, wanted: Annotated[VersionModel, body(VersionModel)]) -> KeyModel:
    """Let a disabled key, or one version of it, be released again; a version needs its key enabled, too."""
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
    """Return a key as it is now."""
    with store.reading() as reader:
        return KeyModel.model_validate(key_members(reader, require_key(reader, name), at))


def key_state(record: KeyRecord, at: datetime) -> KeyStateModel:
    """Return one version of a key as it is now."""
    return KeyStateModel.model_validate(record_members(record, at=at))


def key_members(reader: ReadTransaction, record: KeyRecord, at: datetime) -> dict[str, object]:
    """Return the members of a ``KeyModel``, of one version."""
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
