"""Certificates for tests of the listener: an authority for 127.0.0.1, servers and clients under it, and flawed ones."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from attest.clock import system_clock
from tests.key_usages import key_usage

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
BACKDATE = timedelta(minutes=5)


@dataclass(frozen=True)
class Files:
    """A certificate and its key."""

    certificate: Path
    key: Path


def authority(folder: Path, *, at: datetime | None = None) -> Path:
    """Make an authority in a directory of its own: ca.pem for clients, and ca.key."""
    directory, key = folder / "ca", ec.generate_private_key(ec.SECP256R1())
    directory.mkdir()
    public = key.public_key()
    signing = key_usage("key_cert_sign", "crl_sign")
    extensions = (
        (x509.BasicConstraints(ca=True, path_length=0), True),
        (signing, True),
        (x509.SubjectKeyIdentifier.from_public_key(public), False),
    )
    begin = system_clock() if at is None else at
    certificate = _signed("test", public, by=key, issuer="test", extensions=extensions, begin=begin - BACKDATE, days=31)
    written(directory, key, certificate, "ca")
    return directory


def issued(ca: Path, name: str = "tls", *, at: datetime | None = None, days: int = 25, client: bool = False) -> Files:
    """Make a certificate beside the authority, for the server at kms.test and 127.0.0.1 or for a client."""
    issuer = load_pem_private_key((ca / "ca.key").read_bytes(), password=None)
    assert isinstance(issuer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    hosts = (x509.DNSName("kms.test"), x509.IPAddress(IPv4Address("127.0.0.1")))
    names: Sequence[x509.GeneralName] = (x509.RFC822Name(f"{name}@kms.test"),) if client else hosts
    usage = ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH
    extensions = (
        (x509.ExtendedKeyUsage([usage]), False),
        (x509.SubjectAlternativeName(names), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key()), False),
    )
    begin = system_clock() if at is None else at
    subject = name if client else "kms.test"
    certificate = _signed(
        subject, key.public_key(), by=issuer, issuer="test", extensions=extensions, begin=begin, days=days
    )
    return written(ca.parent, key, certificate, name)


def trusting(ca: Path) -> ssl.SSLContext:
    """Return the context that a client connects with."""
    return ssl.create_default_context(cafile=str(ca / "ca.pem"))


def written(folder: Path, key: PrivateKey, certificate: x509.Certificate, name: str = "odd") -> Files:
    files = Files(certificate=folder / f"{name}.pem", key=folder / f"{name}.key")
    files.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
    files.key.touch(mode=0o600)
    files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return files


def self_made(
    key: PrivateKey,
    *,
    at: datetime,
    names: bool = True,
    ca: bool = False,
    usage: x509.ObjectIdentifier | None = ExtendedKeyUsageOID.SERVER_AUTH,
) -> x509.Certificate:
    """Make a certificate, flawed or not, that its own key signs."""
    extensions: list[tuple[x509.ExtensionType, bool]] = []
    if names:
        extensions.append((x509.SubjectAlternativeName([x509.DNSName("kms.test")]), False))
    if ca:
        extensions.append((x509.BasicConstraints(ca=True, path_length=None), True))
    if usage is not None:
        extensions.append((x509.ExtendedKeyUsage([usage]), False))
    return _signed("kms.test", key.public_key(), by=key, issuer="kms.test", extensions=extensions, begin=at, days=1)


def _signed(
    subject: str,
    public: ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey,
    *,
    by: PrivateKey,
    issuer: str,
    extensions: Sequence[tuple[x509.ExtensionType, bool]],
    begin: datetime,
    days: int,
) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=days))
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(by, None if isinstance(by, ed25519.Ed25519PrivateKey) else hashes.SHA256())
