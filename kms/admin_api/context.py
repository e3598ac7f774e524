"""Context of the handlers: the services, the caller, and the database with the caller's permissions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Annotated, Final, TypeVar

from fastapi import Depends, Request

from attest.clock import Clock
from attest.release import KeyName, VerifierKey
from kms.admin_api.models.common import KeyId, Tenant
from kms.api.context import Workroom
from kms.auth.authentication import Authenticator, LocalAuthenticator
from kms.auth.authorisation import Demand, GuardedStore, opened, require
from kms.config.settings import Settings
from kms.domain.actors import Actor, Means
from kms.domain.permissions import Operation
from kms.domain.secret import SecretBytes
from kms.keys.vault import Vault
from kms.log.publisher import Identity, LogPublisher
from kms.release.services import Services
from kms.store import ReadTransaction

T = TypeVar("T")
MAX_BODY_BYTES: Final = 2 * 1024 * 1024
"""Maximum size of a policy, or of a document of reference values with its signatures; as on the command line."""
MAX_VALUES: Final = 200_000
"""Maximum number of commas and brackets of a body; a policy is a single string in it."""
MATERIAL: Final = "kms.material"
"""Extension of a request made in this process: material of an owner's key. It is never part of a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminServices:
    """Services of the handlers, open or opened on call; the caller that opened ``vault`` closes it.

    ``log`` signs checkpoints. Only trials need ``releases``: keys can be frozen even if an endorsement file is
    unreadable.
    """

    vault: Vault
    clock: Clock
    identity: Callable[[], Identity]
    log: Callable[[], LogPublisher]
    releases: Callable[[], Services]


def of_running(services: Services) -> AdminServices:
    """Return the services that a running service has opened."""
    return AdminServices(
        vault=Vault(store=services.store, kek=services.kek),
        clock=services.clock,
        identity=lambda: services.identity,
        log=lambda: services.log,
        releases=lambda: services,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnThread:
    """Runner of one request at a time, in the thread of the command line."""

    settings: Settings

    async def run(self, work: Callable[[], T]) -> T:
        """Do blocking work in the event loop, which has no other work."""
        return work()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminContext:
    """A running administration application: its runner, services and authentication."""

    room: Workroom | OwnThread
    services: AdminServices
    authenticator: Authenticator | LocalAuthenticator


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An identified caller, in one request.

    ``material`` is key material, from a request made in this process; ``demands`` are the requirements made so far.
    """

    identity: Actor
    context: AdminContext
    material: SecretBytes | None = None
    demands: list[Demand] = field(default_factory=list)

    def require(self, operation: Operation, *, tenant: str | None = None, key: KeyName | None = None) -> None:
        """Refuse unless the caller has a role that permits an operation, now and in each later transaction.

        The scope is the tenant of ``key``, else ``tenant``, else the whole service.

        Raises:
            ForbiddenError: ``not-permitted``.
            KeyUnknownError: ``key-unknown``: the caller may not see this tenant's keys.
        """
        where = tenant if key is None else key.tenant
        self.demand(partial(require, identity=self.identity, operation=operation, tenant=where, key=key))

    def demand(self, demand: Demand) -> None:
        """Refuse unless a demand holds, now and in each later transaction of this request (MC-19)."""
        with opened(self.context.services.vault.store.reading()) as reader:
            demand(reader)
        self.demands.append(demand)

    @property
    def vault(self) -> Vault:
        """The database and the key. Each transaction begins with a check of all requirements made so far."""
        plain = self.context.services.vault
        return Vault(store=GuardedStore(plain.store, demand=self._demand), kek=plain.kek)

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.context.room.settings

    @property
    def service(self) -> VerifierKey:
        """The service's verifier key."""
        return self.context.services.identity().public

    def now(self) -> datetime:
        """Return the moment of the request."""
        return self.context.services.clock()

    def _demand(self, reader: ReadTransaction) -> None:
        if not self.demands:
            raise RuntimeError("a handler must require an operation before it opens a transaction")
        for demand in self.demands:
            demand(reader)


def certificate_of(request: Request) -> bytes | None:
    """Return the client certificate verified by the TLS listener, in DER; headers cannot supply one."""
    found = request.scope.get("extensions", {}).get("tls", {}).get("client_certificate")
    return found if isinstance(found, bytes) else None


async def _caller(request: Request) -> Caller:
    """Identify the caller before the rest of the request is read."""
    context: AdminContext = request.app.state.context
    identify = partial(
        context.authenticator.identify,
        authorization=tuple(request.headers.getlist("authorization")),
        certificate=certificate_of(request),
    )
    identity = await context.room.run(identify)
    return Caller(identity=identity, context=context, material=_material_of(request, identity))


def _material_of(request: Request, identity: Actor) -> SecretBytes | None:
    """Return the key material of a request made in this process; other requests have none."""
    found = request.scope.get("extensions", {}).get(MATERIAL)
    return found if identity.means is Means.LOCAL and isinstance(found, SecretBytes) else None


async def _key(tenant: Tenant, key_id: KeyId) -> KeyName:
    return KeyName(tenant=tenant, key_id=key_id)


WithCaller = Annotated[Caller, Depends(_caller)]
WithKey = Annotated[KeyName, Depends(_key)]
"""Key named in the path of a request."""
