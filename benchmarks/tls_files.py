"""TLS files of a benchmarked service: its certificate, an authority of clients, and a client that it knows."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from attest.clock import system_clock

__all__ = ["TlsFiles", "client_context", "write_tls_files"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Files in one folder.

    Attributes:
        folder: has ``server``, ``authority`` and ``client``, each with the suffixes ``.crt`` and ``.key``.
    """

    folder: Path

    def certificate(self, name: str) -> Path:
        """Return the path of a certificate."""
        return self.folder / f"{name}.crt"

    def key(self, name: str) -> Path:
        """Return the path of a private key."""
        return self.folder / f"{name}.key"


def write_tls_files(folder: Path) -> TlsFiles:
    """Write new keys and certificates, valid for a day."""
    files = TlsFiles(folder=folder)
    authority = ec.generate_private_key(ec.SECP256R1())
    server, client = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    _write(files, "authority", authority, _signed("authority", authority, authority, usage=None))
    _write(files, "server", server, _signed("server", server, server, usage=ExtendedKeyUsageOID.SERVER_AUTH))
    _write(files, "client", client, _signed("client", client, authority, usage=ExtendedKeyUsageOID.CLIENT_AUTH))
    return files


def _signed(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: ec.EllipticCurvePrivateKey,
    *,
    usage: x509.ObjectIdentifier | None,
) -> x509.Certificate:
    at = system_clock()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issued_by = subject if issuer is key else x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
    builder = x509.CertificateBuilder(
        issued_by,
        subject,
        key.public_key(),
        x509.random_serial_number(),
        at - timedelta(minutes=1),
        at + timedelta(days=1),
    ).add_extension(x509.BasicConstraints(ca=usage is None, path_length=None), critical=True)
    if usage is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    return builder.sign(issuer, hashes.SHA256())


def _write(files: TlsFiles, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    files.certificate(name).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files.key(name).touch(mode=0o600)
    files.key(name).write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


@cache
def client_context(files: TlsFiles | None = None) -> ssl.SSLContext:
    """Return one context for each process; with files, it has the certificate of their client.

    An attacker that made a context for each connection would spend its time on that.
    """
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the benchmark measures time, and its server is its own child
    if files is not None:
        context.load_cert_chain(files.certificate("client"), files.key("client"))
    return context
