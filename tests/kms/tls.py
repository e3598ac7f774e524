"""Certificates for tests: an authority for 127.0.0.1, servers and clients under it, and what is wrong with others."""

import ssl
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kms.clock import system_clock
from kms.config.tls.authority import Order, init_authority, open_authority

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey


@dataclass(frozen=True)
class Files:
    """A certificate and its key."""

    certificate: Path
    key: Path


def authority(folder: Path, *, at: datetime | None = None, dns: tuple[str, ...] = ("kms.test",)) -> Path:
    directory = folder / "ca"
    moment = system_clock() if at is None else at
    init_authority(directory, name="test", dns=dns, ips=("127.0.0.1",), curve="P-256", days=30, at=moment)
    return directory


def issued(ca: Path, name: str = "tls", *, at: datetime | None = None, renew: bool = False, days: int = 25) -> Files:
    """A server's certificate for kms.test and 127.0.0.1."""
    moment = system_clock() if at is None else at
    files = Files(certificate=ca.parent / f"{name}.pem", key=ca.parent / f"{name}.key")
    order = Order(dns=("kms.test",), ips=("127.0.0.1",), days=days)
    open_authority(ca, at=moment).issue(
        order, certificate_file=files.certificate, key_file=files.key, renew=renew, at=moment
    )
    return files


def trusting(ca: Path) -> ssl.SSLContext:
    """What a client connects with."""
    return ssl.create_default_context(cafile=str(ca / "ca.pem"))


def written(folder: Path, key: PrivateKey, certificate: x509.Certificate, name: str = "odd") -> Files:
    files = Files(certificate=folder / f"{name}.pem", key=folder / f"{name}.key")
    files.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
    files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    files.key.chmod(0o600)
    return files


def self_made(
    key: PrivateKey,
    *,
    at: datetime,
    names: bool = True,
    ca: bool = False,
    usage: x509.ObjectIdentifier | None = ExtendedKeyUsageOID.SERVER_AUTH,
    issuer: str = "kms.test",
) -> x509.Certificate:
    """A certificate as nobody should have it, or as somebody well may."""
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kms.test")]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(at)
        .not_valid_after(at + timedelta(days=1))
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("kms.test")]), critical=False)
    if ca:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    if usage is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    return builder.sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
