"""TLS of the listener, from the settings: certificate files, or none with a warning."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from ipaddress import ip_address

from attest.errors import ConfigurationError
from kms.config.settings import Settings
from kms.config.tls.server_context import ServerTls


def open_tls(settings: Settings, *, at: datetime, report: Callable[[str], None]) -> ServerTls | None:
    """Read certificate and key of the listener; None for plain HTTP.

    Raises:
        ConfigurationError: as ``ServerTls``.
    """
    if settings.tls_certificate_file is None or settings.tls_key_file is None:
        return None
    tls = ServerTls(settings.tls_certificate_file, settings.tls_key_file, minimum=settings.tls_minimum, at=at)
    for warning in tls.material.warnings(at=at):
        report(warning)
    return tls


def weigh_channel(settings: Settings, *, report: Callable[[str], None]) -> None:
    """Warn of a listener without TLS, or refuse it. TLS protects the names in requests; keys are sealed in any case.

    Raises:
        ConfigurationError: ``plain-http-refused``.
    """
    if not is_plain_beyond_this_machine(settings):
        return
    if settings.plain_http == "refuse":
        raise ConfigurationError(
            f"{settings.host} is reachable from other machines, and TLS is not configured",
            code="plain-http-refused",
            field="host",
            expected="a loopback address, or tls_certificate_file and tls_key_file",
            got=settings.host,
            hint="configure a certificate and its key; behind a TLS proxy, set 'plain_http = \"warn\"'",
        )
    report(
        f"WARNING: {settings.host} is reachable from other machines without TLS: the network can read who requests "
        "which keys (tls_certificate_file, plain_http)"
    )


def is_plain_beyond_this_machine(settings: Settings) -> bool:
    """Return True if other machines are served without TLS."""
    return settings.tls_certificate_file is None and not _is_loopback(settings.host)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
