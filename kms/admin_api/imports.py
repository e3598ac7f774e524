"""``/v1/import-key`` and ``/v1/keys/import``: keys that their owner made, sealed by them."""

from __future__ import annotations

import secrets
from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field

from attest.release import KeyName, WorkloadKey, import_key_text, sign_note
from kms.admin_api.context import Caller, WithCaller
from kms.admin_api.keys import algorithm_of, keep_key, require_creation
from kms.admin_api.models.common import ConfirmModel, Tenant
from kms.admin_api.models.keys import KeyRequestModel, KeyStateModel
from kms.admin_api.routes import AdminRoute, body, changes, reads
from kms.api.log import NoteResponse
from kms.domain.permissions import Operation
from kms.keys.admin import KEY_IMPORTED
from kms.keys.import_key import find_import_key, first_terms, make_import_key, no_import_key, unwrap_material

router = APIRouter(route_class=AdminRoute, tags=["keys"])


class KeyImportModel(KeyRequestModel):
    """A key that its owner made and sealed to the service's import key, as 'kms key wrap' writes it."""

    wrapped: Annotated[str, Field(max_length=16384, description="The file's text. Never the key itself.")]


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


def _note(caller: Caller, key: WorkloadKey) -> Response:
    identity = caller.context.services.identity()
    return NoteResponse(sign_note(import_key_text(key.public), name=identity.public.name, key=identity.key))
