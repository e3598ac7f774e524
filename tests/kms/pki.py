"""A certificate authority of a test's own, for servers and clients."""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.key_usages import key_usage

NOW = datetime.now(UTC).replace(microsecond=0)  # noqa: TID251  TLS looks at the real clock
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Issued:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    @property
    def pin(self) -> str:
        digest = hashes.Hash(hashes.SHA256())
        digest.update(self.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
        return digest.finalize().hex()

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        certificate.write_bytes(self.certificate.public_bytes(Encoding.PEM))
        key.touch(mode=0o600)
        key.write_bytes(self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return certificate, key


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)] if common_name else [])


@dataclass(frozen=True)
class Authority:
    """Issues certificates."""

    issued: Issued

    @staticmethod
    def make(name: str = "test CA") -> "Authority":
        key = ec.generate_private_key(ec.SECP256R1())
        usage = key_usage("key_cert_sign", "crl_sign")
        builder = (
            _builder(_name(name), _name(name), key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        return Authority(Issued(builder.sign(key, hashes.SHA256()), key))

    def issue(
        self, name: str, *, server: bool = False, uris: tuple[str, ...] = (), until: datetime = NOW + DAY
    ) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        usage = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri) for uri in uris]
        if server:
            names += [x509.DNSName("localhost"), x509.IPAddress(IPv4Address("127.0.0.1"))]
        builder = (
            _builder(_name(name), self.issued.certificate.subject, key, until=until)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.issued.key.public_key()), critical=False
            )
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return Issued(builder.sign(self.issued.key, hashes.SHA256()), key)

    def write(self, folder: Path, name: str = "ca") -> Path:
        path = folder / f"{name}.crt"
        path.write_bytes(self.issued.certificate.public_bytes(Encoding.PEM))
        return path


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, until: datetime = NOW + DAY
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - 2 * DAY)
        .not_valid_after(until)
    )


@cache
def authority(name: str = "test CA") -> Authority:
    return Authority.make(name)


def server_context(folder: Path, issuer: Authority | None = None) -> ssl.SSLContext:
    certificate, key = (issuer or authority()).issue("server", server=True).write(folder, "server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
