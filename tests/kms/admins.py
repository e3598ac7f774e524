"""People who administer a service in a test, by tokens and certificates, and requests in their name."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from kms.admin_api.app import create_admin_app
from kms.auth.authentication import Authenticator
from kms.auth.grants import give_role
from kms.auth.issuers import read_issuers
from kms.auth.keysets import KeySets, read_key_set
from kms.auth.names import jwt_identity
from kms.domain.actors import Actor, Means
from kms.domain.permissions import Role
from tests.kms.oidc import ISSUER, OidcIssuer
from tests.kms.support import Harness

LOGIN = OidcIssuer()
ROOT = Actor(name="root", means=Means.LOCAL)


@dataclass
class CertificateOf:
    """Stands in for the TLS listener: tells the application which certificate the handshake verified."""

    app: object
    certificate: bytes | None = None
    more: dict[str, object] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["extensions"] = {"tls": {"client_certificate": self.certificate}, **self.more}
        await self.app(scope, receive, send)  # type: ignore[operator]  # an ASGI application


@dataclass
class AdminClient:
    """The administration API of a harness, in this process."""

    harness: Harness
    http: TestClient
    connection: CertificateOf

    def give(self, subject: str, role: Role, tenant: str = "*") -> Actor:
        identity = jwt_identity(ISSUER, subject)
        self.give_to(identity, role, tenant)
        return identity

    def give_to(self, identity: Actor, role: Role, tenant: str = "*") -> None:
        give_role(
            self.harness.services.store,
            identity=identity,
            tenant=tenant,
            role=role,
            actor=ROOT,
            at=self.harness.clock(),
        )

    def bearer(self, subject: str, **changes: object) -> dict[str, str]:
        token = LOGIN.token(subject, at=self.harness.clock(), **changes)  # type: ignore[arg-type]  # claims of any kind
        return {"Authorization": f"Bearer {token}"}


def authenticator_of(harness: Harness, *, names: str | None = "sha256") -> Authenticator:
    path = harness.folder / "issuers.toml"
    path.write_text(LOGIN.table(harness.folder), encoding="utf-8")
    sets = KeySets(read_issuers(path), fetch=read_key_set, clock=harness.clock, report=print)
    sets.refresh(everything=True)
    return Authenticator(store=harness.services.store, key_sets=sets, certificate_names=names, clock=harness.clock)


@contextmanager
def admin_client(harness: Harness) -> Iterator[AdminClient]:
    app = create_admin_app(harness.settings, harness.services, authenticator_of(harness))
    connection = CertificateOf(app)
    with TestClient(connection, raise_server_exceptions=False, base_url="https://kms.test") as http:
        yield AdminClient(harness=harness, http=http, connection=connection)
