"""What the handlers are given: who asks, and a way to do what they ask within what they may."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, Final, TypeVar

from fastapi import Depends, Request

from attest.release import KeyName
from kms.api.context import Workroom
from kms.auth.authentication import Authenticator
from kms.auth.authorisation import Demand, GuardedStore, require
from kms.domain.actors import Actor
from kms.domain.permissions import Operation
from kms.keys.vault import Vault
from kms.store import ReadTransaction

__all__ = ["MAX_BODY_BYTES", "AdminContext", "Caller", "WithCaller", "certificate_of"]

T = TypeVar("T")
MAX_BODY_BYTES: Final = 2 * 1024 * 1024
"""A policy, or a document of reference values with its signatures; the command line reads no more either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminContext:
    """One running administration listener.

    Attributes:
        base: settings, services, and how work that blocks is run.
        authenticator: tells who somebody is.
    """

    base: Workroom
    authenticator: Authenticator


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Somebody who is known, and what they can have done.

    Attributes:
        identity: who.
        context: the listener's.
    """

    identity: Actor
    context: AdminContext

    def vault(self, operation: Operation, *, tenant: str | None = None, key: KeyName | None = None) -> Vault:
        """Return the service's database and key, as far as this operation is allowed.

        Each transaction on it begins by asking whether the caller may, and raises when not: ``not-permitted``, or
        ``key-unknown`` for a key of a tenant that they may not see.
        """
        return self.vault_for(
            partial(
                require,
                identity=self.identity,
                operation=operation,
                tenant=tenant if key is None else key.tenant,
                key=key,
            )
        )

    def vault_for(self, demand: Demand) -> Vault:
        """Return the same under a demand of its own."""
        services = self.context.base.services
        return Vault(store=GuardedStore(services.store, demand=demand), kek=services.kek)

    async def read(self, operation: Operation, work: Callable[[ReadTransaction], T], *, tenant: str | None = None) -> T:
        """Read in one transaction what concerns a tenant, or the service."""
        store = self.vault(operation, tenant=tenant).store

        def look() -> T:
            with store.reading() as reader:
                return work(reader)

        return await self.run(look)

    def now(self) -> datetime:
        """Return the moment of the request."""
        return self.context.base.services.clock()

    async def run(self, work: Callable[[], T]) -> T:
        """Do blocking work in a thread, within the limits of number and time."""
        return await self.context.base.run(work)


def certificate_of(request: Request) -> bytes | None:
    """Return the client certificate that the TLS listener verified, in DER, and nothing that a header says."""
    found = request.scope.get("extensions", {}).get("tls", {}).get("client_certificate")
    return found if isinstance(found, bytes) else None


async def _caller(request: Request) -> Caller:
    """Find out who asks, before anything else is read of the request."""
    context: AdminContext = request.app.state.context
    identify = partial(
        context.authenticator.identify,
        authorization=tuple(request.headers.getlist("authorization")),
        certificate=certificate_of(request),
    )
    return Caller(identity=await context.base.run(identify), context=context)


WithCaller = Annotated[Caller, Depends(_caller)]
