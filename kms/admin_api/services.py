"""Services behind administration; those that few requests need are opened with the first of these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from attest.clock import Clock
from kms.keys.vault import Vault
from kms.log.publisher import Identity, LogPublisher
from kms.release.services import Services


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminServices:
    """Services of the handlers, open or opened by a call; the caller that opened ``vault`` closes it.

    ``log`` signs checkpoints. Only trials need ``releases``: keys can be frozen while a file of endorsements cannot be
    read.
    """

    vault: Vault
    clock: Clock
    identity: Callable[[], Identity]
    log: Callable[[], LogPublisher]
    releases: Callable[[], Services]


def of_running(services: Services) -> AdminServices:
    """Return what a service that serves has opened already."""
    return AdminServices(
        vault=Vault(store=services.store, kek=services.kek),
        clock=services.clock,
        identity=lambda: services.identity,
        log=lambda: services.log,
        releases=lambda: services,
    )
