"""``GET /v1/log/…``: checkpoint, tiles (C2SP tlog-tiles) and proofs."""

from __future__ import annotations

from base64 import b64encode
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from attest.release import MAX_SIZE
from kms.api.context import WithContext
from kms.api.models import ConsistencyModel, InclusionModel
from kms.api.schema import refusals
from kms.domain.errors import LogTileUnknownError
from kms.domain.log_tiles import parse_tile

router = APIRouter(prefix="/v1/log", tags=["log"])
_FOR_EVER = "public, max-age=31536000, immutable"
Size = Annotated[int, Query(ge=0, le=MAX_SIZE)]


class NoteResponse(Response):
    """Response with a signed note."""

    media_type = "text/plain; charset=utf-8"


class TileResponse(Response):
    """Response with hashes or entries, which never change."""

    media_type = "application/octet-stream"


@router.get(
    "/checkpoint", summary="Get the checkpoint of the log", response_class=NoteResponse, responses=refusals(500, 503)
)
async def read_checkpoint(context: WithContext) -> Response:
    """Return a signed C2SP checkpoint with the cosignatures of the witnesses that responded."""
    checkpoint = await context.run(context.services.log.checkpoint)
    return NoteResponse(checkpoint.note, headers={"Cache-Control": "no-cache"})


@router.get(
    "/tile/{path:path}",
    summary="Get a tile of hashes or a bundle of entries",
    response_class=TileResponse,
    responses=refusals(404, 500, 503),
)
async def read_tile(path: str, context: WithContext) -> Response:
    """Return a tile as named by C2SP tlog-tiles, or a bundle of entries if the operator publishes them."""
    tile = parse_tile(path)
    if tile.level is None and not context.settings.publish_entries:
        raise LogTileUnknownError(
            "this service does not publish the entries of its log",
            code="log-entries-private",
            hint="its operator can set publish_entries, or distribute the output of 'kms log export'",
        )
    content = await context.run(lambda: context.services.log.tile(tile))
    return TileResponse(content, headers={"Cache-Control": _FOR_EVER})


@router.get("/proof/inclusion", summary="Get an inclusion proof", responses=refusals(404, 422, 500, 503))
async def read_inclusion_proof(index: Size, size: Size, context: WithContext) -> InclusionModel:
    """Return a proof that a tree contains a leaf: the hashes from the leaf to the root."""
    proof = await context.run(lambda: context.services.log.inclusion(index, size))
    return InclusionModel(index=index, size=size, proof=[b64encode(one).decode() for one in proof])


@router.get("/proof/consistency", summary="Get a consistency proof", responses=refusals(404, 422, 500, 503))
async def read_consistency_proof(old: Size, new: Size, context: WithContext) -> ConsistencyModel:
    """Return a proof that the tree of one size extends that of the other."""
    proof = await context.run(lambda: context.services.log.consistency(old, new))
    return ConsistencyModel(old=old, new=new, proof=[b64encode(one).decode() for one in proof])
