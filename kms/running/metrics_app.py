"""``GET /metrics`` on a listener of its own, which answers nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio.to_thread
from anyio import CapacityLimiter
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from kms.running.metrics import CONTENT_TYPE

CONNECTIONS: Final = 16
"""That may be open; a monitoring system keeps one or two."""


class MetricsApp:
    """Answer with metrics, one request at a time.

    Args:
        text: makes them; may read the database.
    """

    def __init__(self, text: Callable[[], bytes]) -> None:
        """Make ready."""
        self._text = text
        self._one = CapacityLimiter(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        await (await self._answer(scope))(scope, receive, send)

    async def _answer(self, scope: Scope) -> Response:
        if scope["path"] != "/metrics":
            return PlainTextResponse("not here\n", status_code=404)
        if scope["method"] not in {"GET", "HEAD"}:
            return PlainTextResponse("read only\n", status_code=405, headers={"Allow": "GET"})
        content = await anyio.to_thread.run_sync(self._text, limiter=self._one)
        return Response(content, media_type=CONTENT_TYPE, headers={"Cache-Control": "no-store"})
