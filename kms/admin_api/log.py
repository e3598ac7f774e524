"""``/v1/log``: the log and its entries, for auditors of the whole service."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from attest.release import MAX_SIZE
from kms.admin_api.context import WithCaller
from kms.admin_api.models.access import LogEntryModel, LogPageModel
from kms.admin_api.routes import AdminRoute, reads
from kms.api.log import NoteResponse
from kms.domain.permissions import Operation
from kms.log.render import entry_members
from kms.store import ReadTransaction

MAX_PAGE = 500
router = APIRouter(route_class=AdminRoute, prefix="/v1/log", tags=["log"])


@router.get("/entries", summary="List entries of the log", responses=reads(422))
def list_log_entries(
    caller: WithCaller,
    after: Annotated[int, Query(ge=0, le=MAX_SIZE, description="Only entries after this number.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 100,
) -> LogPageModel:
    """Return entries, oldest first. For the next page, pass the number of the last entry as ``after``."""
    caller.require(Operation.LOG_READ)
    with caller.vault.store.reading() as reader:
        return _page(reader, after, limit)


@router.get("/tail", summary="List the newest entries", responses=reads(422))
def tail_log(caller: WithCaller, lines: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 10) -> LogPageModel:
    """Return the newest entries, oldest first."""
    caller.require(Operation.LOG_READ)
    with caller.vault.store.reading() as reader:
        return _page(reader, max(0, reader.log.size() - lines), lines)


@router.get("/checkpoint", summary="Get the checkpoint of the log", response_class=NoteResponse, responses=reads())
def read_checkpoint(caller: WithCaller) -> Response:
    """Return a signed C2SP checkpoint with the cosignatures of the witnesses that responded. Store it elsewhere."""
    caller.require(Operation.LOG_READ)
    return NoteResponse(caller.context.services.log().checkpoint().note)


def _page(reader: ReadTransaction, after: int, limit: int) -> LogPageModel:
    entries = [
        LogEntryModel.model_validate(entry_members(entry)) for entry in reader.log.entries(after=after, limit=limit)
    ]
    return LogPageModel(entries=entries, size=reader.log.size())
