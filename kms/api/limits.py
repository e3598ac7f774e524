"""Limits that apply before routing: length of URL and headers, rate of a caller, concurrent requests."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Literal

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attest.body_budget import BodyBudget
from attest.concurrency import ConcurrencyLimit
from attest.rate_limits import Rate, RateTable, caller_of
from kms.api.context import Context
from kms.api.problems import problem
from kms.config.settings import Settings

URL_BYTES: Final = 2048
HEADER_BYTES: Final = 16 * 1024
"""Total size of all names and values of a request."""
BODIES_SHARE: Final = 1 / 4
"""Part of ``max_bodies_bytes`` that one address may send per second; the burst is all of it."""
_DIGITS: Final = 20
Limit = Literal["url", "headers", "rate", "concurrency", "bodies"]
_ANSWERS: Final[dict[Limit, tuple[HTTPStatus, str]]] = {
    "url": (HTTPStatus.REQUEST_URI_TOO_LONG, "url-too-long"),
    "headers": (HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "headers-too-large"),
    "rate": (HTTPStatus.TOO_MANY_REQUESTS, "rate-limited"),
    "concurrency": (HTTPStatus.SERVICE_UNAVAILABLE, "too-busy"),
    "bodies": (HTTPStatus.SERVICE_UNAVAILABLE, "too-busy"),
}
LIMITS: Final = (*_ANSWERS, "connections")
"""Every limit that is counted; connections above their rate are reset without a response."""
Group = Literal["releases", "challenges", "log", "health", "other"]
_PROBES: Final = frozenset({"/healthz", "/readyz"})
_SHARES: Final[dict[Group, float]] = {"releases": 8, "challenges": 8, "log": 0.5, "health": 1, "other": 1}
"""Concurrent requests per concurrent release. Further requests are refused and can be repeated; readers of the log must
not take the threads that releases need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignFace:
    """A foreign protocol: its paths, its limits, and the form of its refusals.

    Attributes:
        path: the beginning of its paths.
        files: further paths, each whole.
        open: creates its application.
        groups: the group of each path; others are of the group ``releases``.
        header_bytes: total size of all names and values of a request.
        refuse: returns the response of a refusal with a status, a text and headers.
    """

    path: str
    open: Callable[[Context], ASGIApp]
    groups: Mapping[str, Group]
    header_bytes: int
    refuse: Callable[[HTTPStatus, str, dict[str, str]], ASGIApp]
    files: tuple[str, ...] = ()

    def serves(self, path: str) -> bool:
        """Return True for a path of this protocol."""
        above = self.path.rstrip("/")
        return path == above or path.startswith(f"{above}/") or path in self.files

    @property
    def head_bytes(self) -> int:
        """Size of request line and headers that must be read, so that the refusal of more has this form."""
        return self.header_bytes + HEADER_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    limit: Limit
    detail: str
    retry_seconds: int | None = None


class RequestLimits:
    """Refuse requests that are too long, too many or too frequent, before they are read.

    ``limited`` is called with the member of ``LIMITS`` that refused a request.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: Settings,
        limited: Callable[[str], None],
        faces: tuple[ForeignFace, ...] = (),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Wrap an application, which serves these foreign protocols, too."""
        self._faces = faces
        self._app = BodyBudget(app, total=settings.max_bodies_bytes, refusal=self._refuse_body)
        self._simulated = settings.allow_simulated
        self._limits = {
            group: ConcurrencyLimit(total=max(1, int(share * settings.max_concurrent)))
            for group, share in _SHARES.items()
        }
        self._limited = limited
        self._monotonic = monotonic
        rate = settings.client_requests_per_second
        self._rates = RateTable(Rate(per_second=rate, burst=settings.client_burst)) if rate else None
        total = settings.max_bodies_bytes
        self._bytes = RateTable(Rate(per_second=total * BODIES_SHARE, burst=total)) if rate else None
        self._longest = settings.max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        face = next((one for one in self._faces if one.serves(scope["path"])), None)
        group = group_of(scope["path"]) if face is None else face.groups.get(scope["path"], "releases")
        refusal = self._refusal(scope, group, HEADER_BYTES if face is None else face.header_bytes)
        if refusal is not None:
            self._limited(refusal.limit)
            await self._answer(refusal, face)(scope, receive, send)
            return
        with ExitStack() as turn:
            turn.callback(self._limits[group].release)

            async def answering(message: Message) -> None:
                # The work is done: a client that does not read its response occupies a connection, but no slot.
                turn.close()
                await send(message)

            await self._app(scope, receive, answering)

    def _refusal(self, scope: Scope, group: Group, header_bytes: int) -> _Refusal | None:
        """Return the refusal of a request; one that is not refused has taken a slot of its group."""
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > URL_BYTES:
            return _Refusal(limit="url", detail=f"the URL is longer than {URL_BYTES} bytes")
        if sum(len(name) + len(value) for name, value in scope["headers"]) > header_bytes:
            return _Refusal(limit="headers", detail=f"the headers have more than {header_bytes} bytes")
        wait = math.ceil(self._wait(scope))
        if wait > 0:
            text = f"too many requests or request bytes from this address; wait {wait} s"
            return _Refusal(limit="rate", detail=text, retry_seconds=wait)
        if not self._limits[group].acquire():
            text = f"{self._limits[group].total} requests of this kind are in progress; nothing was decided"
            return _Refusal(limit="concurrency", detail=text, retry_seconds=1)
        return None

    def _wait(self, scope: Scope) -> float:
        """Return the seconds that a caller must wait; probes are exempt."""
        if self._rates is None or scope["path"] in _PROBES:
            return 0.0
        client, now = scope.get("client"), self._monotonic()
        caller = caller_of(client[0] if client else "")
        size = _body_bytes(scope, self._longest)
        wait = self._rates.wait_of(caller, at=now)
        if wait <= 0 and size and self._bytes is not None:
            wait = self._bytes.wait_of(caller, at=now, amount=size)
        return wait

    def _refuse_body(self) -> ASGIApp:
        self._limited("bodies")
        text = "the requests in progress have more bytes than this service accepts at a time; nothing was decided"
        return self._answer(_Refusal(limit="bodies", detail=text, retry_seconds=1))

    def _answer(self, refusal: _Refusal, face: ForeignFace | None = None) -> ASGIApp:
        retry, (status, code) = refusal.retry_seconds, _ANSWERS[refusal.limit]
        headers = {"Retry-After": str(retry)} if retry else {}
        if refusal.limit == "rate":
            headers["Connection"] = "close"  # to send more, the client must reconnect, which has a rate limit
        if face is not None:
            return face.refuse(status, f"{refusal.detail} [{code}]", headers)
        return problem(
            status=status,
            code=code,
            detail=refusal.detail,
            simulated=self._simulated,
            more={"retryable": True} if retry else None,
            headers=headers or None,
        )


def _body_bytes(scope: Scope, longest: int) -> int:
    """Return the stated length of a body, at most ``longest``, which is also the value for a chunked body."""
    headers = dict(scope["headers"])
    stated = headers.get(b"content-length", b"0")
    if b"transfer-encoding" in headers or not stated.isdigit() or len(stated) > _DIGITS:
        return longest
    return min(int(stated), longest)


def group_of(path: str) -> Group:
    """Return the group of requests that share a limit with this path."""
    if path in _PROBES:
        return "health"
    head = "/".join(path.split("/", 3)[:3])
    groups: dict[str, Group] = {"/v1/releases": "releases", "/v1/challenges": "challenges", "/v1/log": "log"}
    return groups.get(head, "other")
