"""Bodies of administration: read by the same strict reader as those of releases, within their own limit."""

from __future__ import annotations

from typing import TypeVar

from fastapi import Request
from pydantic import BaseModel

from kms.admin_api.context import MAX_BODY_BYTES, AdminContext
from kms.api.body import read_json

__all__ = ["read_body"]

Model = TypeVar("Model", bound=BaseModel)


async def read_body(request: Request, model: type[Model]) -> Model:
    """Read the body of a request, which is JSON and nothing else.

    Raises:
        RequestError: as ``read_json``.
    """
    context: AdminContext = request.app.state.context
    seconds = context.base.settings.request_seconds
    return (await read_json(request, model, limit=MAX_BODY_BYTES, seconds=seconds))[0]
