"""``/v1/log``: the log with its entries, for auditors of the whole service."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from attest.release.tlog.checkpoints import MAX_SIZE
from kms.admin_api.context import WithCaller
from kms.admin_api.models.access import LogEntryModel, LogPageModel
from kms.api.log import NoteResponse
from kms.api.schema import refusals
from kms.domain.log_entries import LogEntry
from kms.domain.permissions import Operation
from kms.store import ReadTransaction

__all__ = ["router"]

MAX_PAGE = 500
router = APIRouter(prefix="/v1/log", tags=["log"])


@router.get(
    "/entries",
    operation_id="listLogEntries",
    summary="Entries, oldest first",
    responses=refusals(401, 403, 422, 500, 503),
)
async def list_entries(
    caller: WithCaller,
    after: Annotated[int, Query(ge=0, le=MAX_SIZE, description="Only entries behind this number.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
) -> LogPageModel:
    """Return entries in their order; ask again with the number of the last one for those behind it."""
    return await caller.read(Operation.LOG_READ, lambda reader: _page(reader, after, limit))


@router.get("/tail", operation_id="tailLog", summary="The newest entries", responses=refusals(401, 403, 422, 500, 503))
async def tail(caller: WithCaller, lines: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 10) -> LogPageModel:
    """Return the newest entries in their order."""
    return await caller.read(Operation.LOG_READ, lambda reader: _page(reader, max(0, reader.log.size() - lines), lines))


@router.get(
    "/checkpoint",
    operation_id="readCheckpoint",
    summary="The state of the log, signed",
    response_class=NoteResponse,
    responses=refusals(401, 403, 500, 503),
)
async def read_checkpoint(caller: WithCaller) -> Response:
    """Return a C2SP checkpoint, with the cosignatures of the witnesses that answered, to be kept elsewhere."""
    await caller.read(Operation.LOG_READ, lambda _: None)
    log = caller.context.base.services.log
    return NoteResponse((await caller.run(log.checkpoint)).note)


def _page(reader: ReadTransaction, after: int, limit: int) -> LogPageModel:
    return LogPageModel(
        entries=[_model(entry) for entry in reader.log.entries(after=after, limit=limit)], size=reader.log.size()
    )


def _model(entry: LogEntry) -> LogEntryModel:
    return LogEntryModel(entry=dict(entry.document()), hash=entry.leaf_hash.hex())
