"""``GET /healthz`` and ``GET /readyz``: alive, and able to work."""

from __future__ import annotations

from fastapi import APIRouter

from kms.api.context import Context, WithContext
from kms.api.models import HealthModel
from kms.api.schema import refusals

__all__ = ["router"]

router = APIRouter(tags=["health"])


@router.get("/healthz", operation_id="readHealth", summary="Whether the process answers")
async def read_health(context: WithContext) -> HealthModel:
    """Answer, without touching the database."""
    return _well(context)


@router.get("/readyz", operation_id="readReadiness", summary="Whether it can work", responses=refusals(500, 503))
async def read_readiness(context: WithContext) -> HealthModel:
    """Take and give back the write lock, and compare the clock with the log; nothing is written."""

    def look() -> None:
        with context.services.store.writing() as writer:
            writer.require_time(context.services.clock())

    await context.run(look)
    return _well(context)


def _well(context: Context) -> HealthModel:
    return HealthModel(status="ok", simulated=context.settings.allow_simulated)
