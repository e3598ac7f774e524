"""A small certificate authority for services and their administrators: one directory, one key, few names.

The authority's key is drawn by itself and from nothing else. It is never derived, so whoever knows a seed or a key of
a tenant knows nothing about it (MC-29). It vouches for the names that it was made for and for no others: its
certificate says so (name constraints), and whoever verifies a chain refuses the rest.
"""

from __future__ import annotations

import contextlib
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
from kms.config.tls.material import parse_certificates, read_certificates, read_key_pem
from kms.config.tls.names import (
    CLIENT_URI,
    Order,
    common_name,
    constraints_on,
    dns_name,
    names_of,
    network,
    require_permitted,
)
from kms.config.tls.writing import create_file, replace_file
from kms.domain.secret import EXPORT

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
        names = names_of(order)
        require_permitted(self.certificate, names)
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
    constraints = constraints_on(tuple(map(dns_name, dns)), tuple(map(network, ips)))
    end = _end(days, MAX_CA_DAYS, at)
    key = ec.generate_private_key(_CURVES[curve][0])
    public = key.public_key()
    certificate = (
        x509.CertificateBuilder()
        .subject_name(_name(common_name(name)))
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
