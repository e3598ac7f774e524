"""A small certificate authority for services and their administrators: one directory, one key, few names.

The authority's key is drawn by itself and from nothing else. It is never derived, so whoever knows a seed or a key of
a tenant knows nothing about it (MC-29). It vouches for the names that it was made for and for no others: its
certificate says so (name constraints), and whoever verifies a chain refuses the rest.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from attest.encoding import rfc3339_text
from attest.errors import ConfigurationError
from kms.keys.secret import EXPORT
from kms.tls.material import parse_certificates, read_certificates, read_key_pem
from kms.tls.writing import create_file, replace_file

__all__ = [
    "CA_CERTIFICATE",
    "CA_KEY",
    "CLIENT_URI",
    "Authority",
    "Curve",
    "IssuedCertificate",
    "Order",
    "init_authority",
    "open_authority",
]

CA_CERTIFICATE: Final = "ca.pem"
CA_KEY: Final = "ca.key"
CLIENT_URI: Final = "tag:attest,2026:kms-client/"
"""A client's certificate carries this and its name as a URI, beside the name as common name."""
MAX_CA_DAYS: Final = 20 * 366
MAX_DAYS: Final = 398
"""CA/Browser Forum Baseline Requirements, 6.3.2: clients may refuse what counts for longer."""
BACKDATE: Final = timedelta(minutes=5)
"""Clocks of clients may lag by so much."""
Curve = Literal["P-256", "P-384"]
_CURVES: dict[Curve, tuple[ec.EllipticCurve, hashes.SHA256 | hashes.SHA384]] = {
    "P-256": (ec.SECP256R1(), hashes.SHA256()),
    "P-384": (ec.SECP384R1(), hashes.SHA384()),
}
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


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedCertificate:
    """What was issued, and where it lies."""

    certificate: x509.Certificate
    certificate_file: Path
    key_file: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """An opened authority. Its repr shows its name alone.

    Attributes:
        certificate: says whom it may vouch for.
        key: signs.
    """

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def __repr__(self) -> str:
        """Show the name."""
        return f"Authority({self.certificate.subject.rfc4514_string()})"

    def issue(
        self, order: Order, *, certificate_file: Path, key_file: Path, renew: bool, at: datetime
    ) -> IssuedCertificate:
        """Make a certificate, with a new key that its owner alone can read.

        Args:
            order: for whom.
            certificate_file: where the certificate goes; not overwritten unless renewed.
            key_file: where the key goes; never overwritten.
            renew: keep the key that lies in ``key_file``, and replace the certificate.
            at: now; it counts from a little before.

        Raises:
            ConfigurationError: ``tls-name-invalid``, ``tls-name-not-permitted``, ``tls-days-invalid``,
                ``tls-file-exists``, ``tls-file-unusable``, or a key to keep that cannot be used.
        """
        names = _names(order)
        _require_permitted(self.certificate, names)
        end = _end(order.days, MAX_DAYS, at)
        if end > self.certificate.not_valid_after_utc:
            raise _days(order.days, f"the authority itself ends at {_moment(self.certificate.not_valid_after_utc)}")
        key = _kept_key(key_file) if renew else ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(order, names, key.public_key(), at=at, end=end)
        if renew:
            replace_file(certificate_file, certificate.public_bytes(Encoding.PEM))
        else:
            create_file(key_file, _key_pem(key), mode=0o600)
            try:
                create_file(certificate_file, certificate.public_bytes(Encoding.PEM), mode=0o644)
            except BaseException:
                key_file.unlink()  # made a moment ago; no certificate speaks of it
                raise
        return IssuedCertificate(certificate=certificate, certificate_file=certificate_file, key_file=key_file)

    def _signed(
        self,
        order: Order,
        names: Sequence[x509.GeneralName],
        public: ec.EllipticCurvePublicKey,
        *,
        at: datetime,
        end: datetime,
    ) -> x509.Certificate:
        common = order.client or (*order.dns, *order.ips)[0]
        usage = ExtendedKeyUsageOID.CLIENT_AUTH if order.client else ExtendedKeyUsageOID.SERVER_AUTH
        issuer = x509.SubjectKeyIdentifier.from_public_key(self.key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(_name(common[:64]))
            .issuer_name(self.certificate.subject)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(max(at - BACKDATE, self.certificate.not_valid_before_utc))
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False)
            .sign(self.key, _hash_of(self.key))
        )


def init_authority(
    directory: Path,
    *,
    name: str,
    dns: Iterable[str],
    ips: Iterable[str],
    curve: Curve,
    days: int,
    at: datetime,
) -> x509.Certificate:
    """Make an authority in a directory of its own. Nothing is ever overwritten.

    Args:
        directory: made, for its owner alone, if it is not there.
        name: what it is called.
        dns: it may vouch for these names and all below them.
        ips: it may vouch for the addresses of these networks (``10.0.0.0/8``, or one address).
        curve: of its key.
        days: how long it counts.
        at: now.

    Raises:
        ConfigurationError: ``tls-name-invalid`` (also when no name is permitted at all), ``tls-days-invalid``,
            ``tls-file-exists`` or ``tls-file-unusable``.
    """
    constraints = _constraints(tuple(map(_dns_name, dns)), tuple(map(_network, ips)))
    end = _end(days, MAX_CA_DAYS, at)
    key = ec.generate_private_key(_CURVES[curve][0])
    public = key.public_key()
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_name(_common_name(name)))
        .issuer_name(_name(name))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(at - BACKDATE)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(constraints, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, _hash_of(key))
    )
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise ConfigurationError(
            f"{directory} cannot be used: {exc.strerror or exc}", code="tls-file-unusable", field="directory"
        ) from exc
    create_file(directory / CA_KEY, _key_pem(key), mode=0o600)
    try:
        create_file(directory / CA_CERTIFICATE, certificate.public_bytes(Encoding.PEM), mode=0o644)
    except BaseException:
        (directory / CA_KEY).unlink()
        raise
    return certificate


def open_authority(directory: Path, *, at: datetime) -> Authority:
    """Open an authority, whose key has to be its owner's alone.

    Raises:
        ConfigurationError: ``tls-certificate-unreadable``, ``tls-certificate-invalid``, ``tls-certificate-expired``,
            ``tls-key-unusable``, ``tls-key-exposed``, ``tls-key-invalid`` or ``tls-key-mismatch``.
    """
    path = directory / CA_CERTIFICATE
    certificate = parse_certificates(read_certificates(path), file=path)[0]
    if at > certificate.not_valid_after_utc:
        raise ConfigurationError(
            f"the authority in {directory} has ended",
            code="tls-certificate-expired",
            field=str(path),
            got=_moment(certificate.not_valid_after_utc),
            hint="make another with 'kms tls init-ca', and give its certificate to the clients",
        )
    key = _kept_key(directory / CA_KEY)
    if key.public_key() != certificate.public_key():
        raise ConfigurationError(
            f"the key and the certificate in {directory} are not those of one authority",
            code="tls-key-mismatch",
            field=str(directory / CA_KEY),
        )
    return Authority(certificate=certificate, key=key)


def _kept_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read a key of ours; the library's words about another content stay out of the error."""
    found: object = None
    with contextlib.suppress(ValueError, TypeError):
        found = read_key_pem(path).lend(EXPORT, partial(load_pem_private_key, password=None))
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise ConfigurationError(
            f"{path} holds no key of this authority's kind",
            code="tls-key-invalid",
            field=str(path),
            expected="an elliptic-curve key in PEM, not encrypted",
        )
    return found


# -- names


def _names(order: Order) -> tuple[x509.GeneralName, ...]:
    if order.client is not None:
        if order.dns or order.ips:
            raise _bad_name(order.client, "a certificate is for a client or for a server, not for both")
        if not _CLIENT.fullmatch(order.client):
            raise _bad_name(order.client, "1 to 64 letters, digits, '.', '_', '@' and '-'")
        return (x509.UniformResourceIdentifier(CLIENT_URI + order.client),)
    if not order.dns and not order.ips:
        raise _bad_name("", "at least one host name or address")
    return (
        *(x509.DNSName(_dns_name(one)) for one in order.dns),
        *(x509.IPAddress(_address(one)) for one in order.ips),
    )


def _dns_name(text: str) -> str:
    if not _DNS.fullmatch(text):
        raise _bad_name(text, "a host name in lower case, without wildcard")
    return text


def _address(text: str) -> IpAddress:
    try:
        return ipaddress.ip_address(text)
    except ValueError as exc:
        raise _bad_name(text, "an IP address") from exc


def _network(text: str) -> IpNetwork:
    try:
        return ipaddress.ip_network(text)
    except ValueError as exc:
        raise _bad_name(text, "a network (10.0.0.0/8) or an IP address") from exc


def _common_name(text: str) -> str:
    if not 0 < len(text) <= 64 or not text.isprintable():
        raise _bad_name(text, "1 to 64 printable characters")
    return text


def _constraints(dns: tuple[str, ...], networks: tuple[IpNetwork, ...]) -> x509.NameConstraints:
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


def _require_permitted(authority: x509.Certificate, names: Iterable[x509.GeneralName]) -> None:
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


# -- small things


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _hash_of(key: ec.EllipticCurvePrivateKey) -> hashes.SHA256 | hashes.SHA384:
    return next(digest for curve, digest in _CURVES.values() if curve.name == key.curve.name)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _end(days: int, most: int, at: datetime) -> datetime:
    if not 1 <= days <= most:
        raise _days(days, f"1 to {most} days")
    return at + timedelta(days=days)


def _moment(at: datetime) -> str:
    return rfc3339_text(at)


def _days(days: int, expected: str) -> ConfigurationError:
    return ConfigurationError(
        f"a certificate cannot count for {days} days: {expected}",
        code="tls-days-invalid",
        field="--days",
        expected=expected,
        got=str(days),
    )


def _bad_name(text: str, expected: str) -> ConfigurationError:
    return ConfigurationError(
        f"{text[:260]!r} is no name for a certificate: expected {expected}" if text else f"expected {expected}",
        code="tls-name-invalid",
        expected=expected,
        got=repr(text[:260]),
    )
