"""``GET /healthz`` and ``GET /readyz``: liveness and readiness."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from fastapi import APIRouter

from attest.errors import AttestError
from kms.api.context import Context, WithContext
from kms.api.models import HealthModel, ReadinessModel
from kms.api.schema import refusals
from kms.domain.errors import IntegrityError, UnavailableError
from kms.keys.vault import Vault
from kms.operations.services import open_identity
from kms.running.fsck_verdict import FsckVerdict

router = APIRouter(tags=["health"])


_DATABASE, _KEK, _ENDORSEMENTS, _STATE = "database", "key-encryption-key", "endorsements", "stored-state"
PARTS = (_DATABASE, _KEK, _ENDORSEMENTS, _STATE)


@router.get("/healthz", summary="Check liveness", responses=refusals())
async def read_health(context: WithContext) -> HealthModel:
    """Respond without access to the database."""
    return HealthModel(status="ok", simulated=context.settings.allow_simulated)


@router.get("/readyz", summary="Check readiness", responses=refusals(500))
async def read_readiness(context: WithContext) -> ReadinessModel:
    """Check everything that a release needs. On failure, ``field`` of the problem names the part."""
    if context.draining():
        raise UnavailableError("the process is shutting down", code="draining", field="process", retryable=True)
    await context.run(partial(_try_everything, context))
    return ReadinessModel(status="ok", simulated=context.settings.allow_simulated, ready=list(PARTS))


def _try_everything(context: Context) -> None:
    services, settings = context.services, context.settings
    with _part(_DATABASE), services.store.writing() as tx:  # acquires and releases the write lock
        tx.log.require_time(services.clock())
    with _part(_KEK):
        open_identity(Vault(store=services.store, kek=services.kek), settings)
    with _part(_ENDORSEMENTS):
        services.endorsements.current(at=services.clock())
    with _part(_STATE):
        _require_sound(context.fsck())


def _require_sound(verdict: FsckVerdict | None) -> None:
    """Refuse a database that differs from its log. Before the first examination this is unknown."""
    if verdict is not None and verdict.findings:
        raise IntegrityError(
            f"the database differs from its log in {verdict.findings} places",
            code="state-differs-from-log",
            hint="'kms fsck' lists them; find out who wrote to the database, and restore a backup",
        )


@contextmanager
def _part(name: str) -> Iterator[None]:
    """Add the part to a refusal."""
    try:
        yield
    except AttestError as exc:
        exc.field = name
        raise
