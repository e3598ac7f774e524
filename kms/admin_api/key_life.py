"""``/v1/keys/TENANT/KEY/…``: rotate, schedule, destroy, restore, tag, and how a key is released."""

from __future__ import annotations

import secrets
from datetime import timedelta

from fastapi import APIRouter, Request

from attest.encoding import rfc3339_text
from attest.errors import ConfigurationError
from attest.release import KeyName, KeyReference
from kms.admin_api.bodies import read_body
from kms.admin_api.context import WithCaller
from kms.admin_api.keys import key_model
from kms.admin_api.models.common import KeyId, Tenant
from kms.admin_api.models.keys import (
    DestroyModel,
    DestructionModel,
    KeyModel,
    ReleaseSettingsModel,
    RotateModel,
    ScheduleModel,
    TagListModel,
    TagsModel,
    VersionModel,
)
from kms.api.schema import refusals, request_body
from kms.domain.keys import Disclosure
from kms.domain.permissions import Operation
from kms.keys.admin import find_key
from kms.keys.destruction import plan_destruction, restore_key, schedule_destruction
from kms.keys.import_key import next_terms, unwrap_material
from kms.keys.release_settings import ReleaseSettings, set_release_settings
from kms.keys.rotation import DEFAULT_OVERLAP, Rotator, remove_schedule, rotate_key, set_schedule
from kms.keys.tags import change_tags, parse_tags

__all__ = ["router"]

router = APIRouter(prefix="/v1/keys/{tenant}/{key_id}", tags=["keys"])
_CHANGE = refusals(400, 401, 403, 404, 409, 413, 415, 422, 500, 503)


@router.post(
    "/rotate",
    operation_id="rotateKey",
    summary="Make a new version current",
    openapi_extra=request_body(RotateModel),
    responses=_CHANGE,
)
async def rotate(tenant: Tenant, key_id: KeyId, request: Request, caller: WithCaller) -> KeyModel:
    """Make a new version of a key the current one; the one before is released by its number for a while."""
    wanted, name = await read_body(request, RotateModel), KeyName(tenant=tenant, key_id=key_id)
    vault, at = caller.vault(Operation.KEYS_CHANGE, key=name), caller.now()
    overlap = DEFAULT_OVERLAP if wanted.overlap_seconds is None else timedelta(seconds=wanted.overlap_seconds)

    service = caller.context.base.services.identity.public

    def change() -> KeyModel:
        rotator = Rotator(store=vault.store, kek=vault.kek, random=secrets.token_bytes)
        material = terms = None
        if wanted.wrapped is not None:
            terms = next_terms(find_key(vault.store, name)[0])
            material = unwrap_material(vault.store, vault.kek, wanted.wrapped.encode(), service=service, terms=terms)
        rotate_key(rotator, name, overlap=overlap, actor=caller.identity, at=at, material=material, terms=terms)
        return key_model(vault.store, name, at)

    return await caller.run(change)


@router.post(
    "/schedule",
    operation_id="scheduleKey",
    summary="Rotate it by itself, or no more",
    openapi_extra=request_body(ScheduleModel),
    responses=_CHANGE,
)
async def schedule(tenant: Tenant, key_id: KeyId, request: Request, caller: WithCaller) -> KeyModel:
    """Let the running service rotate a key by itself; without a time it does not any more."""
    wanted, name = await read_body(request, ScheduleModel), KeyName(tenant=tenant, key_id=key_id)
    store, at = caller.vault(Operation.KEYS_CHANGE, key=name).store, caller.now()

    def change() -> KeyModel:
        if wanted.every_seconds is None:
            remove_schedule(store, name, actor=caller.identity, at=at)
        else:
            every = timedelta(seconds=wanted.every_seconds)
            given = wanted.overlap_seconds
            overlap = min(every, DEFAULT_OVERLAP) if given is None else timedelta(seconds=given)
            set_schedule(store, name, every=every, overlap=overlap, actor=caller.identity, at=at)
        return key_model(store, name, at)

    return await caller.run(change)


@router.post(
    "/destroy",
    operation_id="destroyKey",
    summary="Destroy it after a delay",
    openapi_extra=request_body(DestroyModel),
    responses=_CHANGE,
)
async def destroy(tenant: Tenant, key_id: KeyId, request: Request, caller: WithCaller) -> DestructionModel:
    """Release a key, or an old version, to nobody from now on, and destroy it later; or say what would be done."""
    wanted, name = await read_body(request, DestroyModel), KeyName(tenant=tenant, key_id=key_id)
    store, at = caller.vault(Operation.KEYS_DESTROY, key=name).store, caller.now()
    asked = KeyReference(name=name, version=wanted.version)
    minimum = timedelta(seconds=caller.context.base.settings.destroy_delay_seconds)
    after = minimum if wanted.after_seconds is None else timedelta(seconds=wanted.after_seconds)

    def change() -> DestructionModel:
        if wanted.dry_run:
            with store.reading() as reader:
                planned = plan_destruction(reader, asked, after=after, minimum=minimum, at=at)
        else:
            planned = schedule_destruction(store, asked, after=after, minimum=minimum, actor=caller.identity, at=at)
        numbers = [record.version for record in planned.versions]
        return DestructionModel(versions=numbers, destroy_at=rfc3339_text(planned.at), done=not wanted.dry_run)

    return await caller.run(change)


@router.post(
    "/restore",
    operation_id="restoreKey",
    summary="Cancel a destruction",
    openapi_extra=request_body(VersionModel),
    responses=_CHANGE,
)
async def restore(tenant: Tenant, key_id: KeyId, request: Request, caller: WithCaller) -> KeyModel:
    """Cancel a destruction before its moment."""
    wanted, name = await read_body(request, VersionModel), KeyName(tenant=tenant, key_id=key_id)
    store, at = caller.vault(Operation.KEYS_DESTROY, key=name).store, caller.now()

    def change() -> KeyModel:
        restore_key(store, KeyReference(name=name, version=wanted.version), actor=caller.identity, at=at)
        return key_model(store, name, at)

    return await caller.run(change)


@router.post(
    "/tags",
    operation_id="tagKey",
    summary="Put tags on it and take others away",
    openapi_extra=request_body(TagsModel),
    responses=_CHANGE,
)
async def tag(tenant: Tenant, key_id: KeyId, request: Request, caller: WithCaller) -> TagListModel:
    """Change the tags of a key; the answer lists all that it has now."""
    wanted, name = await read_body(request, TagsModel), KeyName(tenant=tenant, key_id=key_id)
    store, at = caller.vault(Operation.KEYS_CHANGE, key=name).store, caller.now()

    def change() -> TagListModel:
        with store.reading():
            pass
        put = parse_tags(f"{one}={value}" for one, value in wanted.put.items())
        tags = change_tags(store, name, put=put, remove=wanted.remove, actor=caller.identity, at=at)
        return TagListModel(tags=dict(tags))

    return await caller.run(change)


@router.post(
    "/release-settings",
    operation_id="setReleaseSettings",
    summary="How it is released",
    openapi_extra=request_body(ReleaseSettingsModel),
    responses=_CHANGE,
)
async def release_settings(tenant: Tenant, key_id: KeyId, request: Request, caller: WithCaller) -> KeyModel:
    """Say what a refused workload is told, and how long leases last; both, for every version."""
    wanted, name = await read_body(request, ReleaseSettingsModel), KeyName(tenant=tenant, key_id=key_id)
    store, at = caller.vault(Operation.KEYS_CHANGE, key=name).store, caller.now()

    def change() -> KeyModel:
        with store.reading():
            pass
        then = ReleaseSettings(disclosure=_disclosure(wanted.disclosure), lease_seconds=wanted.lease_seconds)
        set_release_settings(store, name, then, actor=caller.identity, at=at)
        return key_model(store, name, at)

    return await caller.run(change)


def _disclosure(text: str) -> Disclosure:
    try:
        return Disclosure(text)
    except ValueError as exc:
        raise ConfigurationError(
            f"there is no level of disclosure {text!r}",
            code="request-schema",
            field="disclosure",
            expected=", ".join(Disclosure),
        ) from exc
