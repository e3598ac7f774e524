"""The names that a certificate is for: what may be asked for, and what an authority may vouch for."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cryptography import x509

from attest.errors import ConfigurationError

__all__ = [
    "CLIENT_URI",
    "IpNetwork",
    "Order",
    "common_name",
    "constraints_on",
    "dns_name",
    "names_of",
    "network",
    "require_permitted",
]

CLIENT_URI: Final = "tag:attest,2026:kms-client/"
"""A client's certificate carries this and its name as a URI, beside the name as common name."""
_DNS = re.compile(r"(?=.{1,253}\Z)(?!-)[a-z0-9-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9-]{1,63}(?<!-))*")
_CLIENT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._@-]{0,62}[A-Za-z0-9])?")
_NOBODY = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))
IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a certificate is to say.

    Attributes:
        dns: host names of a server.
        ips: addresses of a server.
        client: name of a client, or None for a server. A certificate is for the one or for the other.
        days: how long it counts, 1 to ``MAX_DAYS``.
    """

    dns: tuple[str, ...] = ()
    ips: tuple[str, ...] = ()
    client: str | None = None
    days: int


def names_of(order: Order) -> tuple[x509.GeneralName, ...]:
    """Return the names that are asked for.

    Raises:
        ConfigurationError: ``tls-name-invalid``.
    """
    if order.client is not None:
        if order.dns or order.ips:
            raise _bad_name(order.client, "a certificate is for a client or for a server, not for both")
        if not _CLIENT.fullmatch(order.client):
            raise _bad_name(order.client, "1 to 64 letters, digits, '.', '_', '@' and '-'")
        return (x509.UniformResourceIdentifier(CLIENT_URI + order.client),)
    if not order.dns and not order.ips:
        raise _bad_name("", "at least one host name or address")
    return (
        *(x509.DNSName(dns_name(one)) for one in order.dns),
        *(x509.IPAddress(_address(one)) for one in order.ips),
    )


def dns_name(text: str) -> str:
    """Refuse what can be no host name.

    Raises:
        ConfigurationError: ``tls-name-invalid``.
    """
    if not _DNS.fullmatch(text):
        raise _bad_name(text, "a host name in lower case, without wildcard")
    return text


def _address(text: str) -> IpAddress:
    try:
        return ipaddress.ip_address(text)
    except ValueError as exc:
        raise _bad_name(text, "an IP address") from exc


def network(text: str) -> IpNetwork:
    """Read a network, or an address as the network of itself.

    Raises:
        ConfigurationError: ``tls-name-invalid``.
    """
    try:
        return ipaddress.ip_network(text)
    except ValueError as exc:
        raise _bad_name(text, "a network (10.0.0.0/8) or an IP address") from exc


def common_name(text: str) -> str:
    """Refuse what can be no common name.

    Raises:
        ConfigurationError: ``tls-name-invalid``.
    """
    if not 0 < len(text) <= 64 or not text.isprintable():
        raise _bad_name(text, "1 to 64 printable characters")
    return text


def constraints_on(dns: tuple[str, ...], networks: tuple[IpNetwork, ...]) -> x509.NameConstraints:
    """Permit what is named, and of a kind of which nothing is named exclude everything."""
    if not dns and not networks:
        raise _bad_name("", "at least one name or network that the authority may vouch for")
    permitted = (*map(x509.DNSName, dns), *map(x509.IPAddress, networks))
    excluded: tuple[x509.GeneralName, ...] = ()
    if not networks:
        excluded = tuple(map(x509.IPAddress, _NOBODY))
    if not dns:
        excluded = (x509.DNSName(""),)
    # An address of the other family than those that are permitted is none of them, and so is refused.
    return x509.NameConstraints(permitted_subtrees=permitted, excluded_subtrees=excluded or None)


def require_permitted(authority: x509.Certificate, names: Iterable[x509.GeneralName]) -> None:
    """Refuse what no client would accept from this authority."""
    constraints = authority.extensions.get_extension_for_class(x509.NameConstraints).value
    permitted = tuple(constraints.permitted_subtrees or ())
    for name in names:
        if isinstance(name, x509.UniformResourceIdentifier):
            continue  # a client's name; it stands for no host
        if not any(_covers(one, name) for one in permitted):
            raise ConfigurationError(
                f"the authority may not vouch for {name.value}",
                code="tls-name-not-permitted",
                field=str(name.value),
                expected=", ".join(str(one.value) for one in permitted),
                got=str(name.value),
                hint="an authority for other names is made with 'kms tls init-ca'",
            )


def _covers(permitted: x509.GeneralName, name: x509.GeneralName) -> bool:
    if isinstance(permitted, x509.DNSName) and isinstance(name, x509.DNSName):
        return name.value == permitted.value or name.value.endswith(f".{permitted.value}")
    if isinstance(permitted, x509.IPAddress) and isinstance(name, x509.IPAddress):
        return name.value in ipaddress.ip_network(permitted.value)
    return False


def _bad_name(text: str, expected: str) -> ConfigurationError:
    return ConfigurationError(
        f"{text[:260]!r} is no name for a certificate: expected {expected}" if text else f"expected {expected}",
        code="tls-name-invalid",
        expected=expected,
        got=repr(text[:260]),
    )
