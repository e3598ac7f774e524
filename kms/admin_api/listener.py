"""Administration listener, with an address, TLS settings and credentials of its own."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.serialization import Encoding
from starlette.types import ASGIApp, Receive, Scope, Send

from attest.errors import ConfigurationError
from attest.http_protocol import client_certificate
from attest.named_files import read_named
from kms.admin_api.app import create_admin_app
from kms.api.observation import Watching
from kms.auth.authentication import open_authenticator
from kms.auth.keysets import Noted
from kms.config.callers import read_administrators
from kms.config.settings import Settings
from kms.config.tls import ServerTls, parse_certificates
from kms.domain.permissions import Role
from kms.release.services import Services
from kms.running.process import Listener, connection_rate
from kms.running.reload import key_sets_again
from kms.store import Store

CONNECTIONS: Final = 64
"""Maximum number of open connections."""


def with_certificate(app: ASGIApp) -> ASGIApp:
    """Return an application that gets the client certificate, as verified by the handshake, in the scope of a request.

    Its member is ``extensions.tls.client_certificate``, in DER. It belongs to the connection; headers cannot set it.
    """

    async def extended(scope: Scope, receive: Receive, send: Send) -> None:
        scope["extensions"] = {**scope.get("extensions", {}), "tls": {"client_certificate": client_certificate()}}
        await app(scope, receive, send)

    return extended


@contextmanager
def administration(
    settings: Settings,
    services: Services,
    sock: socket.socket | None,
    *,
    watching: Watching,
    report: Callable[[str], None],
    noted: Noted = lambda *_: None,
) -> Iterator[tuple[Listener, ...]]:
    """Open the administration API on a listening socket; do nothing without a socket.

    Raises:
        ConfigurationError: ``no-administrator``, or a file of the settings is missing or invalid.
    """
    if sock is None:
        yield ()
        return
    require_administrator(services.store)
    tls = admin_tls(settings, at=services.clock(), report=report)
    with open_authenticator(
        read_administrators(settings),
        setting="admin_issuers_file",
        store=services.store,
        certificate_names=None if settings.admin_client_ca_file is None else settings.admin_certificate_names,
        clock=services.clock,
        report=report,
        noted=noted,
    ) as authenticator:
        app = with_certificate(create_admin_app(settings, services, authenticator, watching=watching))
        again = key_sets_again("administrators", authenticator.key_sets)
        listener = Listener(
            app=app,
            sock=sock,
            connections=CONNECTIONS,
            tls=tls,
            again=(again,),
            rate=connection_rate(settings),
            refused=partial(watching.limited, "connections"),
        )
        yield (listener,)


def admin_tls(settings: Settings, *, at: datetime, report: Callable[[str], None]) -> ServerTls:
    """Read the certificate, the key, and the CA certificates of clients.

    Raises:
        ConfigurationError: one is unreadable or unusable.
    """
    if settings.admin_certificate_file is None or settings.admin_key_file is None:
        raise ValueError("an administration listener requires a certificate and a key")
    tls = ServerTls(
        settings.admin_certificate_file,
        settings.admin_key_file,
        minimum=settings.tls_minimum,
        client_ca=_client_ca(settings.admin_client_ca_file, at=at),
        at=at,
    )
    for warning in tls.material.warnings(at=at):
        report(warning)
    return tls


def require_administrator(store: Store) -> None:
    """Refuse to serve without an administrator: the first one is added on the machine, never over the network."""
    with store.reading() as reader:
        if any(grant.counts and grant.role is Role.ADMINISTRATOR for grant in reader.grants.all()):
            return
    raise ConfigurationError(
        "the administration listener is configured, but there is no administrator",
        code="no-administrator",
        field="admin_port",
        hint="add one on this machine: 'kms admin grant IDENTITY administrator'",
    )


def _client_ca(path: Path | None, *, at: datetime) -> bytes | None:
    """Read the CA certificates of clients; a file without a valid one would admit no client and is refused."""
    if path is None:
        return None
    certificates = parse_certificates(read_named(path, "admin_client_ca_file"), file=path)
    if all(one.not_valid_after_utc < at for one in certificates):
        raise ConfigurationError(
            f"every certificate in {path} has expired",
            code="tls-certificate-expired",
            field="admin_client_ca_file",
            hint="give the certificate of the CA that issues certificates to administrators",
        )
    return b"".join(one.public_bytes(Encoding.PEM) for one in certificates)
