"""The administration API of this machine, without a listener: for the user who can read the key-encryption key."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache, partial

import httpx

from attest.clock import system_clock
from kms.admin_api.app import create_local_app
from kms.admin_api.context import AdminServices
from kms.cli.admin_client import AdminClient, InThisProcess
from kms.cli.options import say
from kms.config.settings import Settings
from kms.keys.vault import Vault
from kms.operations.services import open_identity, open_publisher, open_services, open_vault
from kms.release.services import Services


def in_this_process(read_settings: Callable[[], Settings]) -> AdminClient:
    """Return the client of an application on the database that settings name; it is opened by the first request."""

    def connect() -> httpx.Client:
        settings = read_settings()
        return connected(settings, open_vault(settings, random=secrets.token_bytes))

    return AdminClient(connect, is_remote=False)


def connected(settings: Settings, vault: Vault) -> httpx.Client:
    """Return the client of an application on an open vault; the application opens more when it needs it.

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
