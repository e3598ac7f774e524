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
    from kms.release.services import Services


def in_this_process(read_settings: Callable[[], Settings]) -> AdminClient:
    """Return the client of an application on the database that settings name; it is opened by the first request."""

    def connect() -> httpx.Client:
        settings = read_settings()
        vault = open_vault(settings, random=secrets.token_bytes)
        return connected(settings, vault)

    return AdminClient(connect, is_remote=False)


def connected(settings: Settings, vault: Vault) -> httpx.Client:
    """Return the way to an application on a database that is open; it is closed with it."""
    opening = _Opening(settings, vault)
    transport = InThisProcess(create_local_app(settings, opening.services()), close=opening.close)
    return httpx.Client(transport=transport, base_url="http://kms")


class _Opening:
    """Opens what a command needs of a service, once, and closes it.

    Args:
        settings: say where.
        vault: open; closed with the rest.
    """

    def __init__(self, settings: Settings, vault: Vault) -> None:
        """Open nothing more yet."""
        self._settings = settings
        self._vault = vault
        self._stores = [vault.store]

    def services(self) -> AdminServices:
        """Return what the application works with."""
        return AdminServices(
            vault=self._vault,
            clock=system_clock,
            identity=cache(lambda: open_identity(self._vault, self._settings)),
            log=lambda: open_publisher(self._vault, self._settings, clock=system_clock, report=say)[0],
            releases=cache(self._releases),
        )

    def _releases(self) -> Services:
        services = open_services(self._settings, clock=system_clock, random=secrets.token_bytes, report=say)
        self._stores.append(services.store)
        return services

    def close(self) -> None:
        """Close every database."""
        for store in self._stores:
            store.close()
