"""``/v1/keys/TENANT/KEY/…``: rotate, schedule, destroy, restore, tag, and release settings."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter

from attest.encoding import rfc3339_text
from attest.errors import AttestError, ConfigurationError
from attest.release import KeyReference
from kms.admin_api.context import Caller, WithCaller, WithKey
from kms.admin_api.keys import key_members, key_model, key_state
from kms.admin_api.models.common import KEY_PATH, ConfirmModel
from kms.admin_api.models.keys import (
    DestroyedModel,
    DestroyModel,
    DestructionModel,
    FailureModel,
    KeyModel,
    ReleaseSettingsModel,
    RestoredModel,
    RotatedModel,
    RotateModel,
    ScheduleModel,
    TagListModel,
    TagsModel,
    VersionModel,
)
from kms.admin_api.routes import AdminRoute, body, changes
from kms.domain.keys import Disclosure
from kms.domain.material import owned_material
from kms.domain.permissions import Operation
from kms.domain.wires import parse_wires
from kms.keys.admin import find_key, require_key
from kms.keys.destruction import destroy_due, plan_destruction, restore_key, schedule_destruction
from kms.keys.import_key import next_terms, unwrap_material
from kms.keys.release_settings import ReleaseSettings, set_release_settings
from kms.keys.rotation import DEFAULT_OVERLAP, Rotator, remove_schedule, rotate_due, rotate_key, set_schedule
from kms.keys.tags import change_tags, parse_tags

router = APIRouter(route_class=AdminRoute, tags=["keys"])


class _Failures(list[FailureModel]):
    """Failures of several operations that are made one after another."""

    def __call__(self, what: object, error: AttestError) -> None:
        """Add a failure."""
        self.append(FailureModel(what=str(what), detail=error.message, code=error.code))


@router.post(
    "/v1/keys/rotate-due",
    dependencies=[body(ConfirmModel)],
    summary="Make rotations that are due",
    responses=changes(),
)
def rotate_due_keys(caller: WithCaller) -> RotatedModel:
    """Make the scheduled rotations that are due, as the running service does. For key owners of all tenants."""
    caller.require(Operation.KEYS_CHANGE)
    failed, at = _Failures(), caller.now()
    made = rotate_due(_rotator(caller), at=at, failed=failed)
    return RotatedModel(keys=[key_state(record, at) for record in made], failed=failed)


@router.post(
    "/v1/keys/destroy-due",
    dependencies=[body(ConfirmModel)],
    summary="Destroy what is due",
    responses=changes(),
)
def destroy_due_keys(caller: WithCaller) -> DestroyedModel:
    """Destroy the versions that are due, as the running service does. For key owners of all tenants."""
    caller.require(Operation.KEYS_DESTROY)
    failed = _Failures()
    done = destroy_due(caller.vault.store, at=caller.now(), failed=failed)
    return DestroyedModel(destroyed=list(map(str, done)), failed=failed)


@router.post(f"{KEY_PATH}/rotate", operation_id="rotateKey", summary="Rotate a key", responses=changes(404, 409))
def rotate(caller: WithCaller, name: WithKey, wanted: Annotated[RotateModel, body(RotateModel)]) -> KeyModel:
    """Make a new version of a key current. The previous one is still released by number for the overlap time."""
    caller.require(Operation.KEYS_CHANGE, key=name)
    vault, at = caller.vault, caller.now()
    overlap = DEFAULT_OVERLAP if wanted.overlap_seconds is None else timedelta(seconds=wanted.overlap_seconds)
    material, terms = caller.material, None
    if material is not None:
        material = owned_material(material, algorithm=find_key(vault.store, name)[0].algorithm)
    if wanted.wrapped is not None:
        terms = next_terms(find_key(vault.store, name)[0])
        material = unwrap_material(vault.store, vault.kek, wanted.wrapped.encode(), service=caller.service, terms=terms)
    rotate_key(_rotator(caller), name, overlap=overlap, actor=caller.identity, at=at, material=material, terms=terms)
    return key_model(vault.store, name, at)


@router.post(f"{KEY_PATH}/schedule", summary="Set the rotation schedule", responses=changes(404, 409))
def schedule_key(caller: WithCaller, name: WithKey, wanted: Annotated[ScheduleModel, body(ScheduleModel)]) -> KeyModel:
    """Schedule automatic rotation by the running service, or without a time remove the schedule."""
    caller.require(Operation.KEYS_CHANGE, key=name)
    store, at = caller.vault.store, caller.now()
    if wanted.every_seconds is None:
        remove_schedule(store, name, actor=caller.identity, at=at)
    else:
        every = timedelta(seconds=wanted.every_seconds)
        given = wanted.overlap_seconds
        overlap = min(every, DEFAULT_OVERLAP) if given is None else timedelta(seconds=given)
        set_schedule(store, name, every=every, overlap=overlap, actor=caller.identity, at=at)
    return key_model(store, name, at)


@router.post(f"{KEY_PATH}/destroy", summary="Destroy a key after a delay", responses=changes(404, 409))
def destroy_key(
    caller: WithCaller, name: WithKey, wanted: Annotated[DestroyModel, body(DestroyModel)]
) -> DestructionModel:
    """Stop releasing a key or an old version, and destroy it after a delay; or show what would be done."""
    reference = KeyReference(name=name, version=wanted.version)
    caller.require(Operation.KEYS_DESTROY, key=name)
    store, at = caller.vault.store, caller.now()
    minimum = timedelta(seconds=caller.settings.destroy_delay_seconds)
    after = minimum if wanted.after_seconds is None else timedelta(seconds=wanted.after_seconds)
    if wanted.dry_run:
        with store.reading() as reader:
            planned = plan_destruction(reader, reference, after=after, minimum=minimum, at=at)
    else:
        planned = schedule_destruction(store, reference, after=after, minimum=minimum, actor=caller.identity, at=at)
    numbers = [record.version for record in planned.versions]
    return DestructionModel(versions=numbers, destroy_at=rfc3339_text(planned.at), done=not wanted.dry_run)


@router.post(
    f"{KEY_PATH}/restore", operation_id="restoreKey", summary="Cancel a destruction", responses=changes(404, 409)
)
def restore(caller: WithCaller, name: WithKey, wanted: Annotated[VersionModel, body(VersionModel)]) -> RestoredModel:
    """Cancel a pending destruction."""
    reference = KeyReference(name=name, version=wanted.version)
    caller.require(Operation.KEYS_DESTROY, key=name)
    store, at = caller.vault.store, caller.now()
    saved = restore_key(store, reference, actor=caller.identity, at=at)
    with store.reading() as reader:
        members = key_members(reader, require_key(reader, reference.name), at)
    return RestoredModel.model_validate({**members, "restored": [record.version for record in saved]})


@router.post(f"{KEY_PATH}/tags", summary="Set and remove tags", responses=changes(404, 409))
def tag_key(caller: WithCaller, name: WithKey, wanted: Annotated[TagsModel, body(TagsModel)]) -> TagListModel:
    """Change the tags of a key; the response lists all its tags."""
    caller.require(Operation.KEYS_CHANGE, key=name)
    put = parse_tags(f"{one}={value}" for one, value in wanted.put.items())
    store = caller.vault.store
    tags = change_tags(store, name, put=put, remove=wanted.remove, actor=caller.identity, at=caller.now())
    return TagListModel(tags=dict(tags))


@router.post(
    f"{KEY_PATH}/release-settings",
    operation_id="setReleaseSettings",
    summary="Set the release settings",
    responses=changes(404, 409),
)
def release_settings(
    caller: WithCaller, name: WithKey, wanted: Annotated[ReleaseSettingsModel, body(ReleaseSettingsModel)]
) -> KeyModel:
    """Set the disclosure to refused workloads, the duration of leases and the protocols, for every version of a key."""
    caller.require(Operation.KEYS_CHANGE, key=name)
    store, at = caller.vault.store, caller.now()
    via = find_key(store, name)[0].via if wanted.via is None else parse_wires(wanted.via)
    then = ReleaseSettings(disclosure=_disclosure(wanted.disclosure), lease_seconds=wanted.lease_seconds, via=via)
    set_release_settings(store, name, then, actor=caller.identity, at=at)
    return key_model(store, name, at)


def _rotator(caller: Caller) -> Rotator:
    return Rotator(store=caller.vault.store, kek=caller.vault.kek, random=secrets.token_bytes)


def _disclosure(text: str) -> Disclosure:
    try:
        return Disclosure(text)
    except ValueError as exc:
        raise ConfigurationError(
            f"there is no disclosure level {text!r}",
            code="request-schema",
            field="disclosure",
            expected=", ".join(Disclosure),
        ) from exc
