"""``GET /v1/settings``: the effective settings, read-only."""

from __future__ import annotations

from fastapi import APIRouter

from kms.admin_api.context import WithCaller
from kms.admin_api.models.access import SettingsModel
from kms.admin_api.routes import AdminRoute, reads
from kms.domain.permissions import Operation

router = APIRouter(route_class=AdminRoute, prefix="/v1/settings", tags=["settings"])


@router.get("", summary="Get the effective settings", responses=reads())
def read_settings(caller: WithCaller) -> SettingsModel:
    """Return all settings. No setting is a secret: keys and passwords are in files that the settings name."""
    caller.require(Operation.SETTINGS_READ)
    return SettingsModel(settings=caller.settings.model_dump(mode="json"))
