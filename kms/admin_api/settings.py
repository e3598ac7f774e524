"""``GET /v1/settings``: the settings in force, to be read and not to be changed."""

from __future__ import annotations

from fastapi import APIRouter

from kms.admin_api.context import WithCaller
from kms.admin_api.models.access import SettingsModel
from kms.admin_api.routes import AdminRoute, reads
from kms.domain.permissions import Operation

router = APIRouter(route_class=AdminRoute, prefix="/v1/settings", tags=["settings"])


@router.get("", summary="The settings in force", responses=reads())
def read_settings(caller: WithCaller) -> SettingsModel:
    """Return every setting. None of them is a secret: keys and passwords are named by the files that hold them."""
    caller.require(Operation.SETTINGS_READ)
    return SettingsModel(settings=caller.settings.model_dump(mode="json"))
