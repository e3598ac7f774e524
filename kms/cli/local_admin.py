"""The administration API of this machine, without a listener: for the user who can read the key-encryption key."""

from __future__ import annotations

import secrets
from functools import cache
from typing import TYPE_CHECKING

import httpx

from attest.clock import system_clock
from kms.admin_api.app import create_local_app
from kms.admin_api.services import AdminServices
from kms.cli.admin_client import AdminClient, InThisProcess
from kms.cli.options import say
from kms.operations.services import open_identity, open_publisher, open_services, open_vault

if TYPE_CHECKING:
    from collections.abc import Callable

    from kms.config.settings import Settings
    from kms.keys.vault import Vault
    from kms.release.services import Identity, Services

__all__ = ["in_this_process", "local_services"]


def in_this_process(read_settings: Callable[[], Settings]) -> AdminClient:
    """Return the client of an application on the database that settings name; it is opened by the first request."""

    def connect() -> httpx.Client:
        settings = read_settings()
        vault = open_vault(settings, random=secrets.token_bytes)
        return connected(settings, vault)

    return AdminClient(connect, is_remote=False)


def connected(settings: Settings, vault: Vault) -> httpx.Client:
    """Return the way to an application on a database that is open; it is closed with it."""
    services, close = local_services(settings, vault)
    transport = InThisProcess(create_local_app(settings, services), close=close)
    return httpx.Client(transport=transport, base_url="http://kms")


def local_services(settings: Settings, vault: Vault) -> tuple[AdminServices, Callable[[], None]]:
    """Return what the application works with, and what closes it."""
    opened = [vault.store]

    @cache
    def identity() -> Identity:
        return open_identity(vault, settings)

    @cache
    def releases() -> Services:
        services = open_services(settings, clock=system_clock, random=secrets.token_bytes, report=say)
        opened.append(services.store)
        return services

    def close() -> None:
        for store in opened:
            store.close()

    services = AdminServices(
        vault=vault,
        clock=system_clock,
        identity=identity,
        log=lambda: open_publisher(vault, settings, clock=system_clock, report=say)[0],
        releases=releases,
    )
    return services, close
