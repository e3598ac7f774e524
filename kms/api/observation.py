"""Outermost middleware of every application: request id, observers, and the headers and log line of the response."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kms.api.problems import REQUEST_HEADER
from kms.domain.kek import RandomBytes
from kms.running.logs import access, request_id, take_request_id
from kms.telemetry import Observer, observe

if TYPE_CHECKING:
    from kms.running.tracing import RequestTracer  # of the extra 'otel'

_NO_ROUTE: Final = "none"
_BUG: Final = 500
_QUIET: Final = frozenset({"/healthz", "/readyz"})
"""Paths of probes, which are frequent; a successful response is not logged."""
_WELL: Final = 200


def _nobody(*_: object) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """Observers of requests, and the source of request ids, which are not secret.

    ``answered`` is called with the route template, status and seconds of each response; ``limited`` with the limit that
    refused a request.
    """

    observers: tuple[Observer, ...] = ()
    answered: Callable[[str, int, float], None] = _nobody
    limited: Callable[[str], None] = _nobody
    random: RandomBytes = secrets.token_bytes
    tracer: RequestTracer | None = None


class Observing:
    """Give every request an id, report it to observers, and complete and log its response."""

    def __init__(self, app: ASGIApp, *, watching: Watching) -> None:
        """Wrap an application."""
        self._app = app
        self._watching = watching

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        name = request_id(Headers(scope=scope).get(REQUEST_HEADER), random=self._watching.random)
        take_request_id(name)
        observe(self._watching.observers)
        began = time.perf_counter()
        status = _BUG

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers[REQUEST_HEADER] = name
                headers.setdefault("Cache-Control", "no-store")  # a handler may allow more
                headers["X-Content-Type-Options"] = "nosniff"
            await send(message)

        tracer = self._watching.tracer
        with nullcontext() if tracer is None else tracer.request(scope) as trace:
            try:
                await self._app(scope, receive, send_with_id)
            finally:
                self._tell(scope, status, time.perf_counter() - began, trace)

    def _tell(self, scope: Scope, status: int, seconds: float, trace: str | None) -> None:
        route = getattr(scope.get("route"), "path", None) or _NO_ROUTE
        self._watching.answered(route, status, seconds)
        if self._watching.tracer is not None:
            self._watching.tracer.answered(scope, route, status)
        if scope["path"] in _QUIET and status == _WELL:
            return
        client = scope.get("client")
        access(
            method=scope["method"],
            path=(scope.get("raw_path") or b"").decode("ascii", errors="backslashreplace"),
            status=status,
            seconds=seconds,
            client=client[0] if client else "",
            trace_id=trace,
        )
