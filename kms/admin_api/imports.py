"""``/v1/import-key`` and ``/v1/keys/import``: keys that their owner made. They come sealed, or not at all."""

from __future__ import annotations

import secrets
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field

from attest.release import KeyName, WorkloadKey, sign_note
from attest.release.key_import import import_key_text
from kms.admin_api.bodies import read_body
from kms.admin_api.context import Caller, WithCaller
from kms.admin_api.keys import keep_key
from kms.admin_api.models.common import ConfirmModel, Tenant
from kms.admin_api.models.keys import KeyRequestModel, KeyStateModel
from kms.api.log import NoteResponse
from kms.api.schema import refusals, request_body
from kms.domain.keys import SYMMETRIC_256, KeyPurpose
from kms.domain.material import ALGORITHMS, require_algorithm
from kms.domain.permissions import Operation
from kms.domain.secret import SecretBytes
from kms.keys.admin import KEY_IMPORTED
from kms.keys.import_key import find_import_key, first_terms, make_import_key, no_import_key, unwrap_material
from kms.keys.vault import Vault

__all__ = ["KeyImportModel", "router"]

router = APIRouter(tags=["keys"])


class KeyImportModel(KeyRequestModel):
    """A key that its owner made and sealed to the service's import key, as 'kms key wrap' writes it."""

    wrapped: Annotated[str, Field(max_length=16384, description="The file's text. Never the key itself.")]
    algorithm: Annotated[str, Field(max_length=64, description="What it is; the seal is tied to it.")] = SYMMETRIC_256


@router.get(
    "/v1/import-key",
    operation_id="readImportKey",
    summary="What owners seal their keys to",
    response_class=NoteResponse,
    responses=refusals(401, 403, 409, 422, 500, 503),
)
async def read_import_key(tenant: Tenant, caller: WithCaller) -> Response:
    """Return the import key, signed by the service, to those who may bring a key into the tenant."""
    vault = caller.vault(Operation.KEYS_CREATE, tenant=tenant)
    service = caller.context.base.services.identity.public

    def find() -> WorkloadKey:
        found = find_import_key(vault.store, vault.kek, service=service)
        if found is None:
            raise no_import_key()
        return found

    return _note(caller, await caller.run(find))


@router.post(
    "/v1/import-key",
    operation_id="makeImportKey",
    summary="The same; the first time it is made",
    response_class=NoteResponse,
    openapi_extra=request_body(ConfirmModel),
    responses=refusals(400, 401, 403, 413, 415, 422, 500, 503),
)
async def create_import_key(tenant: Tenant, request: Request, caller: WithCaller) -> Response:
    """Make the import key, once for the whole service, and return it."""
    await read_body(request, ConfirmModel)
    vault, at = caller.vault(Operation.KEYS_CREATE, tenant=tenant), caller.now()
    service = caller.context.base.services.identity.public

    def make() -> WorkloadKey:
        return make_import_key(
            vault.store, vault.kek, service=service, random=secrets.token_bytes, actor=caller.identity, at=at
        )

    return _note(caller, await caller.run(make))


@router.post(
    "/v1/keys/import",
    operation_id="importKey",
    summary="Bring a sealed key in",
    openapi_extra=request_body(KeyImportModel),
    responses=refusals(400, 401, 403, 409, 413, 415, 422, 500, 503),
)
async def import_key(request: Request, caller: WithCaller) -> KeyStateModel:
    """Keep a key that was sealed to this service, as this key and under this policy alone."""
    wanted = await read_body(request, KeyImportModel)
    name = KeyName(tenant=wanted.tenant, key_id=wanted.key_id)
    service = caller.context.base.services.identity.public

    def open_it(vault: Vault) -> SecretBytes:
        found = ALGORITHMS.get(wanted.algorithm)
        require_algorithm(wanted.algorithm, purpose=KeyPurpose.MODEL_KEY if found is None else found.purpose)
        terms = first_terms(name, algorithm=wanted.algorithm, policy=wanted.policy.encode())
        return unwrap_material(vault.store, vault.kek, wanted.wrapped.encode(), service=service, terms=terms)

    return await keep_key(caller, wanted, open_it, kind=KEY_IMPORTED, algorithm=wanted.algorithm)


def _note(caller: Caller, key: WorkloadKey) -> Response:
    identity = caller.context.base.services.identity
    return NoteResponse(sign_note(import_key_text(key.public), name=identity.public.name, key=identity.key))
