"""The administration listener: its own address, its own TLS, its own credentials."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.serialization import Encoding
from starlette.types import ASGIApp, Receive, Scope, Send

from attest.errors import ConfigurationError
from attest.http_protocol import client_certificate
from kms.admin_api.app import create_admin_app
from kms.api.observation import Watching
from kms.auth.authentication import Authenticator
from kms.auth.issuers import BearerIssuer, read_issuers
from kms.auth.keysets import KeySets, Noted, read_key_set
from kms.config.settings import Settings
from kms.config.tls import ServerTls, parse_certificates
from kms.domain.permissions import Role
from kms.release.services import Services
from kms.running.process import Listener, listen
from kms.running.reload import key_sets_again
from kms.store import Store

CONNECTIONS: Final = 64
"""Connections of administrators that may be open at once."""
MAX_CA_BYTES: Final = 256 * 1024


def with_certificate(app: ASGIApp) -> ASGIApp:
    """Return an application that finds the client certificate that the handshake verified in the scope of a request.

    It stands there as ``extensions.tls.client_certificate``, in DER, and is of the connection: no header can bring one.
    """

    async def told(scope: Scope, receive: Receive, send: Send) -> None:
        scope["extensions"] = {**scope.get("extensions", {}), "tls": {"client_certificate": client_certificate()}}
        await app(scope, receive, send)

    return told


def listen_for_administrators(settings: Settings) -> AbstractContextManager[socket.socket | None]:
    """Open the socket of the administration listener, where one is configured.

    Raises:
        ConfigurationError: ``address-in-use`` or ``address-unusable``.
    """
    if settings.admin_port is None:
        return nullcontext()
    return listen(settings.admin_host, settings.admin_port, names=("admin_host", "admin_port"))


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
    """Open everything that administrators need; key sets are read for the first time here, and until the end.

    Args:
        settings: validated.
        services: opened.
        sock: listening; None where no administration listener is configured.
        watching: who is told of requests.
        report: takes a line for the operator.
        noted: called with the setting and its issuers when a file of keys says something new, before that counts.

    Raises:
        ConfigurationError: ``no-administrator``; a file that the settings name is missing or wrong.
    """
    if sock is None:
        yield ()
        return
    require_administrator(services.store)
    tls = admin_tls(settings, at=services.clock(), report=report)
    issuers = _issuers(settings)
    key_sets = KeySets(
        issuers,
        fetch=read_key_set,
        clock=services.clock,
        report=report,
        noted=partial(noted, "admin_issuers_file", issuers),
    )
    authenticator = Authenticator(
        store=services.store,
        key_sets=key_sets,
        certificate_names=None if settings.admin_client_ca_file is None else settings.admin_certificate_names,
        clock=services.clock,
    )
    app = create_admin_app(settings, services, authenticator, watching=watching)
    key_sets.start()
    try:
        listener = Listener(
            app=with_certificate(app),
            sock=sock,
            connections=CONNECTIONS,
            tls=tls,
            again=(key_sets_again("administrators", key_sets),),
        )
        yield (listener,)
    finally:
        key_sets.stop()


def admin_tls(settings: Settings, *, at: datetime, report: Callable[[str], None]) -> ServerTls:
    """Read the certificate, the key, and who vouches for clients.

    Raises:
        ConfigurationError: one cannot be read, or could not be served.
    """
    if settings.admin_certificate_file is None or settings.admin_key_file is None:
        msg = "an administration listener has a certificate and a key"
        raise ValueError(msg)
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
    """Refuse to serve nobody: the first administrator comes from whoever has the machine, never over the network."""
    with store.reading() as reader:
        if any(grant.counts and grant.role is Role.ADMINISTRATOR for grant in reader.grants.all()):
            return
    raise ConfigurationError(
        "the administration listener is configured, and there is no administrator",
        code="no-administrator",
        field="admin_port",
        hint="name one on this machine: 'kms admin grant IDENTITY administrator'",
    )


def _client_ca(path: Path | None, *, at: datetime) -> bytes | None:
    """Read who vouches for clients; a file without a certificate would let nobody in, and is refused."""
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            content = file.read(MAX_CA_BYTES)
    except OSError as exc:
        raise ConfigurationError(
            f"admin_client_ca_file: {path} cannot be read: {exc.strerror or exc}",
            code="file-unreadable",
            field="admin_client_ca_file",
        ) from exc
    certificates = parse_certificates(content, file=path)
    if all(one.not_valid_after_utc < at for one in certificates):
        raise ConfigurationError(
            f"every certificate in {path} has ended",
            code="tls-certificate-expired",
            field="admin_client_ca_file",
            hint="name the certificate of the authority that issues certificates to administrators",
        )
    return b"".join(one.public_bytes(Encoding.PEM) for one in certificates)


def _issuers(settings: Settings) -> tuple[BearerIssuer, ...]:
    return () if settings.admin_issuers_file is None else read_issuers(settings.admin_issuers_file)
