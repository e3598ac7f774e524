"""Administration API in this process, without a listener, for a user who can read the key-encryption key."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache, partial

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from attest.clock import system_clock
from kms.admin_api.app import create_local_app
from kms.admin_api.context import MATERIAL, AdminServices
from kms.cli.options import say
from kms.config.settings import Settings
from kms.keys.vault import Vault
from kms.operations.services import open_identity, open_publisher, open_services, open_vault
from kms.release.services import Services


class InThisProcess(httpx.BaseTransport):
    """Client transport that sends requests, one at a time, to an application in this process; refusals are raised."""

    def __init__(self, app: ASGIApp, *, close: Callable[[], None]) -> None:
        """Create the transport; no request is sent."""
        self._app = app
        self._close = close
        self._loop = asyncio.new_event_loop()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request to the application and return its response."""
        return self._loop.run_until_complete(self._answer(request))

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        material = request.extensions.get(MATERIAL)

        async def extended(scope: Scope, receive: Receive, send: Send) -> None:
            scope["extensions"] = {MATERIAL: material}
            await self._app(scope, receive, send)

        answer = await httpx.ASGITransport(app=extended).handle_async_request(request)
        content = await answer.aread()
        return httpx.Response(answer.status_code, headers=answer.headers, content=content)

    def close(self) -> None:
        """Close the resources of the application."""
        self._loop.close()
        self._close()


def in_this_process(settings: Settings) -> httpx.Client:
    """Return the client of an application that uses the database of the settings."""
    return connected(settings, open_vault(settings, random=secrets.token_bytes))


def connected(settings: Settings, vault: Vault) -> httpx.Client:
    """Return the client of an application that uses an open vault; the application opens more vaults when needed.

    Closing the client closes every database.
    """
    opened = ExitStack()
    opened.callback(vault.store.close)

    def releases() -> Services:
        services = open_services(settings, clock=system_clock, random=secrets.token_bytes, report=say)
        opened.callback(services.store.close)
        return services

    services = AdminServices(
        vault=vault,
        clock=system_clock,
        identity=cache(partial(open_identity, vault, settings)),
        log=lambda: open_publisher(vault, settings, clock=system_clock, report=say)[0],
        releases=cache(releases),
    )
    transport = InThisProcess(create_local_app(settings, services), close=opened.close)
    return httpx.Client(transport=transport, base_url="http://kms")
